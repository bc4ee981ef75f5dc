"""The tables in README.md: scores of every baseline, and what the benchmarks measured."""

import json
import statistics
from pathlib import Path

from generator.ablation_table import ablation_summary
from generator.baselines import Baseline, find_baselines
from generator.encoder_gains import gain_table
from generator.errors import InputError
from generator.files import write_text
from generator.run_project import project_code_hash
from generator.score_names import in_percent, mean_and_deviation, score_name

READMES = ("README.md", "README_zh.md")
SCORE_HEADER = (
    "| baseline | encoder | score | dev | test | seeds | minutes a seed | code |",
    "|---|---|---|---|---|---|---|---|",
)
PUBLISHED_HEADER = (
    "| baseline | score | split | here | published | source |",
    "|---|---|---|---|---|---|",
)
FIGURE_HEADER = ("| measured | figure |", "|---|---|")
# File in benchmarks/results, keys of the figure in it, what it says.
FIGURES = (
    (
        "training_speed.json",
        ("ours_to_stock", "median"),
        "relation extraction: seconds of an epoch, ours / PyTorch peer, batches as its recipe pads",
    ),
    (
        "training_speed.json",
        ("ours_to_grouped", "median"),
        "the same, the peer's batches grouped by length",
    ),
    (
        "peer_relation_extraction.json",
        ("last", "test", "f1"),
        "KnowledgeNet test F1 of that peer after as many epochs, same encoder, one seed",
    ),
    (
        "peer_reading_comprehension.json",
        ("ours_to_stock", "median"),
        "reading comprehension: seconds of an epoch, ours / the peer, padded as its recipe pads",
    ),
    (
        "peer_reading_comprehension.json",
        ("ours_to_grouped", "median"),
        "the same, the peer's batches grouped by length",
    ),
    (
        "peer_reading_comprehension.json",
        ("peer", "epochs", -1, "test", "f1"),
        "SQuAD test F1 of that peer, same encoder, epochs and windows, one seed",
    ),
    (
        "peer_text_classification.json",
        ("best", "test", "map"),
        "SelQA test MAP of a PyTorch peer, same encoder and epochs, one seed",
    ),
    (
        "peer_pretraining.json",
        ("packed", "ours_to_peer_packed", "median"),
        "pre-training: tokens a second without padding, ours / transformers' recipe, both packed",
    ),
    (
        "peer_pretraining.json",
        ("bucketed", "ours_to_peer_padded", "median"),
        "the same, a line each: ours in buckets / the peer padded to the maximum length",
    ),
    (
        "peer_pretraining.json",
        ("bucketed", "ours_to_peer_dynamic", "median"),
        "the same, the peer padded to the longest of a batch",
    ),
    (
        "recompute_memory.json",
        ("memory_percent",),
        "peak memory of a training step with `recompute`, in percent of without, 12 layers",
    ),
    (
        "recompute_memory.json",
        ("times_as_long",),
        "how many times as long that step takes",
    ),
    (
        "generation_speed.json",
        ("cached_to_uncached",),
        "text generation: tokens a second, cached / uncached, 64 tokens",
    ),
    (
        "generation_speed.json",
        ("batched_to_single",),
        "text generation: records a second of beam search, batched and cached / one at a time",
    ),
    *(
        (
            "evaluation_speed.json",
            (task, "batched_to_single"),
            f"{task.replace('_', ' ')}: records a second, batched evaluation / one at a time",
        )
        for task in (
            "relation_extraction",
            "event_extraction",
            "reading_comprehension",
            "seq2seq",
            "text_classification",
        )
    ),
    (
        "pipeline_speed.json",
        ("generator_to_training",),
        "batches a second, generator alone / training",
    ),
    (
        "pipeline_speed.json",
        ("padded_per_real_token_with_buckets",),
        "padded / real tokens, with buckets",
    ),
    (
        "pipeline_speed.json",
        ("padded_per_real_token_with_one_length",),
        "padded / real tokens, with one length",
    ),
)


def update_readmes(root: Path) -> None:
    """Replace the tables between their marks in the READMEs; without marks nothing happens.

    Args:
        root: the repository.

    Raises:
        InputError: there is a first mark without a second.
    """
    for name in READMES:
        if (root / name).is_file():
            update_readme(root, root / name)


def update_readme(root: Path, path: Path) -> None:
    """Replace the tables of one README."""
    text = updated = path.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, found, rest = updated.partition(begin)
        _, closed, after = rest.partition(end)
        if found and not closed:
            raise InputError(f"{path}: {begin} is not followed by {end}: add that line.")
        if found:
            updated = f"{before}{begin}\n{table(root)}\n{end}{after}"
    if updated != text:
        write_text(path, updated)


def figure_table(root: Path) -> str:
    """Return the table of what the benchmarks measured last."""
    rows = []
    for file, keys, meaning in FIGURES:
        value = find_figure(root / "benchmarks" / "results" / file, keys)
        if value is not None:
            rows.append(
                f"| {meaning} | {value:,.0f} |" if value >= 100 else f"| {meaning} | {value:.3g} |"
            )
    return "\n".join([*FIGURE_HEADER, *rows])


def find_figure(path: Path, keys: tuple[str | int, ...]) -> float | None:
    """Return a figure of a benchmark's results; None: it has not been measured."""
    value = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for key in keys:
        value = value[key] if isinstance(value, list) else value.get(key, {})
    return value if value != {} else None


def scaling_table(root: Path) -> str:
    """Return the table of what several GPUs are expected to do, for each link between them."""
    path = root / "benchmarks" / "results" / "scaling.json"
    if not path.is_file():
        return "Not computed yet."
    results = json.loads(path.read_text(encoding="utf-8"))
    forecast = results["forecast_percent"]
    links = list(results["assumed"]["bytes_per_second"])
    rows = [
        f"| {batch} tokens | {' | '.join(f'{speeds[link]:.0f} %' for link in links)} |"
        for batch, speeds in forecast.items()
    ]
    header = f"| a step of each of {results['gpus']} GPUs | {' | '.join(links)} |"
    megabytes = results["processes"]["2"]["bytes_summed"] / 1e6
    size = (
        f"\n{results['encoder']}: {results['parameters']:,} parameters, {megabytes:.1f} MB of "
        f"gradients a step, {results['bytes_per_parameter']:.2f} bytes a parameter."
    )
    return "\n".join([header, "|" + "---|" * (1 + len(links)), *rows, size])


def score_table(root: Path) -> str:
    """Return the table of every baseline that has scores."""
    return "\n".join([*SCORE_HEADER, *(score_row(root, entry) for entry in find_baselines(root))])


def score_row(root: Path, baseline: Baseline) -> str:
    """Return one baseline's line of the table."""
    folder = baseline.folder(root)
    if not (folder / "scores.json").is_file():
        return f"| {baseline.name} | | | | | | | not scored yet |"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    seeds, monitor = scores["seeds"], scores["monitor"]
    cells = (
        baseline.name,
        scores["encoder"],
        score_name(monitor),
        *(
            mean_and_deviation([in_percent(seed[split][monitor], monitor) for seed in seeds])
            if split in seeds[0]
            else ""
            for split in ("dev", "test")
        ),
        str(len(seeds)),
        f"{statistics.fmean(seed['minutes'] for seed in seeds):.1f}",
        describe_code(scores, project_code_hash(folder)),
    )
    return f"| {' | '.join(cells)} |"


def published_table(root: Path) -> str:
    """Return the table of what others report on the data sets of the baselines."""
    rows = [
        published_row(root, baseline, entry)
        for baseline in find_baselines(root)
        for entry in baseline.published
    ]
    return "\n".join([*PUBLISHED_HEADER, *rows])


def published_row(root: Path, baseline: Baseline, entry: dict) -> str:
    """Return the line of one published score, with ours if there is one."""
    path = baseline.folder(root) / "scores.json"
    seeds = json.loads(path.read_text(encoding="utf-8"))["seeds"] if path.is_file() else []
    score, split = entry["score"], entry["split"]
    here = mean_and_deviation([in_percent(seed[split][score], score) for seed in seeds])
    cells = (
        baseline.name,
        score_name(score),
        split,
        here,
        f"{entry['value']:.1f}",
        entry["source"],
    )
    return f"| {' | '.join(cells)} |"


def describe_code(scores: dict, code: str) -> str:
    """Say how the code of today stands to the code that was scored."""
    if code == scores["code_hash"]:
        return "current"
    if code in scores.get("confirmed_code", []):
        return f"first {scores['first_steps']['step']} steps equal"
    return "scores are for older code"


# What stands between the marks `name: begin` and `name: end` of a README.
TABLES = {
    "scores": score_table,
    "published": published_table,
    "gains": gain_table,
    "benchmarks": figure_table,
    "scaling": scaling_table,
    "ablation": ablation_summary,
}
