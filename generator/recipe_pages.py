"""README.md of each baseline without a committed project: description, scores, commands."""

from pathlib import Path

from generator.baselines import REFERENCE, Baseline, encoder_name, read_baselines
from generator.data_sets.registry import find_data_set
from generator.files import write_text
from generator.recipes import describe_settings
from generator.run_scripts import read_scores
from generator.score_names import (
    in_percent,
    mean_and_deviation,
    mean_minutes,
    score_name,
    task_name,
)

PAGE = "README.md"


def write_pages(root: Path) -> None:
    """Write the pages of all recipes."""
    for baseline in read_baselines(root).values():
        if not baseline.baked:
            path, text = baseline.folder(root) / PAGE, page(root, baseline)
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                write_text(path, text)


def page(root: Path, baseline: Baseline) -> str:
    """Return the page of one recipe."""
    scores = read_scores(baseline.results(root))
    task = task_name(baseline.template)
    prepare = "python prepare.py\n" if has_preparation(root, baseline) else ""
    # A sample's project has the same reference.
    results = f"{REFERENCE}/" if baseline.is_sample else ""
    where = f"`{results}`" if results else "this folder"
    other = "" if baseline.is_sample else f" REPOSITORY/baselines/{baseline.name}"
    compare = [f"python compare.py default{other}"]
    explained = [f"The last command compares the run with the predictions in {where}."]
    if not scores:
        compare = explained = []
    parts = [
        f"# {baseline.name}\n",
        f"{task[0].upper()}{task[1:]}. {describe_data(baseline)} {describe_encoder(baseline)}\n",
        describe_scores(scores, baseline.shown_score(scores)) if scores else "Not scored yet.",
        "\nAll baselines: [docs/results.md](../../docs/results.md).\n",
        *settings_part(baseline),
        "## The project\n",
        "```",
        'pip install -e ".[train]"  # in a clone (REPOSITORY): installs the command baselines',
        f"baselines bake {baseline.name} --to DIR",
        f"cd DIR/{baseline.name}",
        *get_data(baseline),
        f"pip install -r requirements.txt\n{prepare}python train.py",
        *compare,
        "```\n",
        *explained,
        f"{where_to_read(root, baseline)}\n",
        "## The scores\n",
        "```",
        f"baselines reproduce {baseline.name}{' --from TEXTS' if baseline.local_files else ''}",
        "```\n",
        f"trains and scores every seed{' again' if scores else ''}. `{results}scores.json` has the"
        f" scores of each seed, versions, hardware and hashes. `{results}predictions/` has the"
        " predictions behind the scores, without any text of the data.",
    ]
    if (baseline.folder(root) / "encoder").is_dir():
        parts.append("`encoder/` is the trained model in Hugging Face format.")
    return "\n".join(parts) + "\n"


def where_to_read(root: Path, baseline: Baseline) -> str:
    """Say where to read the code without baking."""
    sample = f"{baseline.template}_sample"
    if any(other.name == sample and other.baked for other in read_baselines(root).values()):
        return f"To read the code without baking it: [{sample}](../{sample})."
    task = f"templates/{baseline.template}"
    return (
        f"To read the code without baking it: [{task}](../../{task}), and"
        " [templates/core](../../templates/core)."
    )


def has_preparation(root: Path, baseline: Baseline) -> bool:
    """Return whether the template has a preparation step."""
    return any((root / "templates" / baseline.template).glob("*/prepare.py"))


def describe_data(baseline: Baseline) -> str:
    """Describe the data of a baseline."""
    if baseline.is_sample:
        return "Data: [sample/](sample), made-up records."
    if not baseline.data_set:
        return f"Data: {baseline.data or 'the sample of the template'}."
    data_set = find_data_set(baseline.data_set)
    return (
        f"Data: [{data_set.name}](https://github.com/{data_set.repository}), {data_set.summary} "
        f"({data_set.language}; {data_set.licence})."
    )


def describe_encoder(baseline: Baseline) -> str:
    """Describe the encoder of a baseline."""
    name = encoder_name(baseline)
    if name == "tiny":
        return "Encoder: a small one, from scratch."
    if name.startswith("../"):
        maker = name.split("/")[1]
        return f"Encoder: that of [{maker}](../{maker}); baking copies it into the project."
    return f"Encoder: `{name}`."


def describe_scores(scores: dict, name: str) -> str:
    """Return the table of a baseline's runs, with the named score."""
    seeds = scores["seeds"]
    splits = [split for split in ("dev", "test") if split in seeds[0]]
    cells = [
        score_name(name),
        *(
            mean_and_deviation([in_percent(seed[split][name], name) for seed in seeds])
            for split in splits
        ),
        ", ".join(str(seed["seed"]) for seed in seeds),
        mean_minutes(scores),
        scores.get("hardware", "unknown"),
    ]
    header = ["score", *splits, "seeds", "minutes a seed", "measured on"]
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), cells)]
    return "\n".join(lines)


def settings_part(baseline: Baseline) -> list[str]:
    """Return the settings that differ from a default project, besides data and encoder."""
    if not baseline.settings:
        return []
    return [
        "Settings that differ from the template:\n",
        f"```toml\n{describe_settings(baseline)}\n```\n",
    ]


def get_data(baseline: Baseline) -> list[str]:
    """Return the commands that bring a baseline's data into its project."""
    if baseline.data_set:
        return [f"baselines data get {baseline.data_set} --to data/{baseline.data_set}"]
    if baseline.local_files:
        files = " ".join(f"TEXTS/{name}" for name in baseline.local_files)
        names = " and ".join(baseline.local_files)
        return [f"mkdir data && cp {files} data/  # TEXTS: a folder of yours that has {names}"]
    return []
