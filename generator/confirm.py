"""Do a baseline's scores hold for its code of today? Train its first steps again and compare.

A training of hours is not repeated for every change of the code that leaves its numbers alone. The
first steps run through all of it: data, batches, model, gradients, optimizer, scoring of dev.
"""

from pathlib import Path

from generator.baselines import find_baselines
from generator.encoders import describe_encoder, own_encoder
from generator.errors import InputError
from generator.files import write_json
from generator.first_steps import compare_steps, train_first_steps
from generator.reproduce import prepare_data
from generator.run_project import PREPARATION, project_code_hash, read_scores, run_script
from generator.scores import update_readmes


def confirm_baseline(
    root: Path, name: str, local: Path | None = None, encoder: Path | None = None
) -> None:
    """Compare the first steps with those of the scored code, or note them if it is unchanged.

    Args:
        root: the repository.
        name: the baseline.
        local: a local copy of the data set.
        encoder: a local folder with the encoder that the baseline names.

    Raises:
        InputError: the baseline has no scores or no first steps, or the steps differ.
    """
    [baseline] = find_baselines(root, [name])
    project = baseline.folder(root)
    scores = read_scores(project)
    if not scores:
        raise InputError(f"baselines/{name} has no scores yet: run `baselines reproduce {name}`.")
    code = project_code_hash(project)
    if code != scores["code_hash"] and "first_steps" not in scores:
        raise InputError(
            f"baselines/{name}/scores.json is for older code and holds no first steps: run "
            f"`baselines reproduce {name}`."
        )
    encoder = encoder or own_encoder(baseline, root)
    weights = describe_encoder(baseline, encoder).get("encoder_weights")
    if weights != scores.get("encoder_weights"):
        raise InputError(
            f"baselines/{name} was scored with other weights of its encoder: check --encoder."
        )
    prepare_data(baseline, project, local)
    if (project / PREPARATION).is_file():
        run_script(project, PREPARATION)
    steps = train_first_steps(project, scores["seed"], scores["monitor"], encoder)
    if code == scores["code_hash"]:
        scores |= {"first_steps": steps, "confirmed_code": []}
    else:
        compare_steps(name, scores["first_steps"], steps, scores["monitor"])
        scores["confirmed_code"] = [code]
    write_json(project / "scores.json", scores)
    update_readmes(root)
    print(f"{name}: {steps}")
