"""Teachers of a baseline: trained on gold alone, they label its training file for its seeds."""

from pathlib import Path

from generator import InputError
from generator.baselines import Baseline
from generator.files import sha256
from generator.run_scripts import read_scores, run_folder, run_script

LABEL = "extras/distillation/label.py"


def teacher_name(seed: int) -> str:
    """Return the name of the run of a teacher."""
    return f"teacher_{seed}"


def pseudo_file(baseline: Baseline) -> str:
    """Return the file that the teachers write, as the settings name it.

    Raises:
        InputError: the settings do not name exactly one.
    """
    files = baseline.settings.get("distillation.files")
    if not isinstance(files, list) or len(files) != 1:
        raise InputError(
            f"{baseline.name} has teachers, and distillation.files = {files!r}: name the one file "
            "that they write, in its recipe in baselines.toml."
        )
    return str(files[0])


def teaching_commands(baseline: Baseline, train_file: str) -> list[list[str]]:
    """Return the commands that come before the training of a baseline that has teachers.

    Args:
        baseline: the recipe.
        train_file: the training file, as the project's settings name it.
    """
    if baseline.teachers is None:
        return []
    names = [teacher_name(seed) for seed in baseline.seeds]
    trained = [
        ["train.py", "--seed", str(seed), "--run_name", name, *baseline.gold_alone]
        for seed, name in zip(baseline.seeds, names, strict=True)
    ]
    return [*trained, [LABEL, *names, train_file, pseudo_file(baseline), *baseline.teachers]]


def teach(
    project: Path, baseline: Baseline, train_file: str, flags: list[str], code: str
) -> dict[str, str]:
    """Train the teachers and let them label the training file, except the finished parts.

    Args:
        project: of the baseline, in build/.
        baseline: the recipe.
        train_file: the training file, as the project's settings name it.
        flags: further ones of each training.
        code: hash of the project's code.

    Returns:
        The hash of what they wrote; empty without teachers.

    Raises:
        InputError: a teacher was trained by other code, or a script failed.
    """
    if baseline.teachers is None:
        return {}
    *trainings, labelling = teaching_commands(baseline, train_file)
    written = project / pseudo_file(baseline)
    for seed, command in zip(baseline.seeds, trainings, strict=True):
        scores = read_scores(run_folder(project, teacher_name(seed)))
        if "finished" not in scores:
            written.unlink(missing_ok=True)
            run_script(project, *command, *flags)
        elif scores["code_hash"] != code:
            raise InputError(
                f"build/{project.name}/runs/{teacher_name(seed)} was trained by older code: delete "
                "that folder to train it again."
            )
    if not written.is_file():
        run_script(project, *labelling)
    return {"pseudo_labels": sha256(written.read_bytes())}
