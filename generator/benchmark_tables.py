"""The tables of what the benchmarks measured, and of what several GPUs are expected to do."""

import json
from pathlib import Path
from typing import Any

# File of growth.py -> what its records are called.
GROWTH = {
    "growth.json": "relations",
    "growth_texts.json": "texts",
    "growth_passages.json": "questions",
}
# A column of their table -> keys of ours and of the peer's figure in the results of a size.
GROWTH_COLUMNS: dict[str, list[tuple[str, ...]]] = {
    "seconds to the first batch": [
        (way, "seconds") for way in ("cache_two_processes", "peer_first_start")
    ],
    "at later starts": [(way, "seconds") for way in ("cache_second_start", "peer_second_start")],
    "MiB beyond imports": [
        (way, "peak_mebibytes") for way in ("cache_two_processes", "peer_first_start")
    ],
    "batches a second": [
        (way, "batches_a_second") for way in ("cache_second_start", "peer_second_start")
    ],
    "in lists: seconds, MiB": [("lists", "seconds"), ("lists", "peak_mebibytes")],
    "processors / `encode_batch`": [("cache_one_process_to_tokenizer",)],
    "times as fast by two": [("times_as_fast_by_two",)],
}
# A column of the table of prediction_speed.py -> keys of its figures in the results of a task.
PREDICTION_COLUMNS: dict[str, list[tuple[str, ...]]] = {
    "ours, records a second": [("median", "ours")],
    "the peer, in order": [("median", "peer_stock")],
    "the peer, sorted": [("median", "peer_sorted")],
    "ours / in order": [("ours_to_stock", "median")],
    "ours / sorted": [("ours_to_sorted", "median")],
    "seconds of the first pass": [("first_seconds", side) for side in ("ours", "peer_stock")],
}
FIGURE_HEADER = ("| measured | figure |", "|---|---|")
# File in benchmarks/results, keys of the figure in it, what it says.
FIGURES = (
    *(
        ("training_speed.json", (f"ours_{kind}_to_{peer}", "median"), meaning.format(kind))
        for kind in ("float32", "bfloat16")
        for peer, meaning in (
            ("stock", "relation extraction: seconds of an epoch, ours in {} / the PyTorch peer"),
            ("grouped", "the same, the peer's batches grouped by length"),
        )
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
        "SQuAD test F1 of that peer in percent, same encoder, epochs and windows, one seed",
    ),
    (
        "peer_text_classification.json",
        ("best", "test", "map"),
        "SelQA test MAP of a PyTorch peer, same encoder and epochs, one seed",
    ),
    *(
        (f"peer_named_entities_{name}.json", keys, meaning.format(of))
        for name, of in (
            ("wnut17", "WNUT 2017"),
            ("weibo", "Weibo, on an AMD EPYC:"),
            ("weibo_intel", "Weibo, on an Intel Xeon:"),
        )
        for keys, meaning in (
            (("peer", "test", "f1"), "{} test F1 of a PyTorch peer, mean of its seeds"),
            (("ours", "test", "f1"), "the same of ours, same encoder, seeds, epochs and run"),
            (("ours_to_peer", "median"), "seconds of an epoch there, ours / the peer"),
        )
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
    *(
        ("used_rows.json", (size, key), f"{what}, table of {name}: used rows trained / all rows")
        for size, name in (("minilm", "MiniLM"), ("xlm_roberta", "XLM-R"))
        for key, what in (
            ("wall_ratio", "time of a training step"),
            ("cpu_ratio", "its time of processors"),
            ("memory_ratio", "its peak memory"),
        )
    ),
    (
        "dropout_speed.json",
        ("times_as_long",),
        "time of a training step, masks of dropout by place / those of Keras",
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
        ("writer_speed.json", (key,), f"a decoder-only writer: tokens a second, {meaning}")
        for key, meaning in (
            ("cached_to_uncached_beams", "beam search, cached / uncached, 64 tokens"),
            ("ours_to_transformers_greedy", "greedy, ours / `generate` of transformers"),
            ("ours_to_transformers_beams", "beam search, ours / `generate` of transformers"),
        )
    ),
    *(
        (
            "evaluation_speed.json",
            (task, "batched_to_single"),
            f"{task.replace('_', ' ')}: records a second, batched evaluation / one at a time",
        )
        for task in (
            "relation_extraction",
            "named_entity_recognition",
            "event_extraction",
            "reading_comprehension",
            "seq2seq",
            "text_classification",
        )
    ),
    *(
        (
            "cache_training.json",
            (task, "cache_to_lists", "median"),
            f"{task.replace('_', ' ')}: examples a second of a training, extra `cache` / lists",
        )
        for task in ("text_classification", "relation_extraction", "reading_comprehension")
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


def figure_table(root: Path) -> str:
    """Return the table of what the benchmarks measured last."""
    rows = []
    for file, keys, meaning in FIGURES:
        value = find_figure(root / "benchmarks" / "results" / file, keys)
        if value is not None:
            rows.append(f"| {meaning} | {show_figure(value)} |")
    return "\n".join([*FIGURE_HEADER, *rows])


def growth_table(root: Path) -> str:
    """Return the table of what growth.py measured: ours with the extra `cache`, then the peer's."""
    rows = table_header("records", GROWTH_COLUMNS)
    for file, name in GROWTH.items():
        path = root / "benchmarks" / "results" / file
        for size in find_figure(path, ("sizes",)) or ():
            title = f"{int(size):,} {name}"
            rows.append(table_row(title, path, ("sizes", size), GROWTH_COLUMNS))
    return "\n".join(rows)


def encoded_in_ten_minutes(root: Path) -> str:
    """Return how many records two processes encode in ten minutes, as fast as the largest file."""
    counts = []
    for file, name in GROWTH.items():
        path = root / "benchmarks" / "results" / file
        for size in [*(find_figure(path, ("sizes",)) or ())][-1:]:
            seconds = find_figure(path, ("sizes", size, "cache_two_processes", "seconds"))
            counts.append(f"{600 * int(size) / seconds / 1e6:.0f} million {name}")
    return ", ".join(counts)


def prediction_table(root: Path) -> str:
    """Return the table of what prediction_speed.py measured beside the peers."""
    path = root / "benchmarks" / "results" / "prediction_speed.json"
    if not path.is_file():
        return "Not measured yet."
    results = json.loads(path.read_text(encoding="utf-8"))
    rows = table_header("task", PREDICTION_COLUMNS)
    measured = (name for name, own in results.items() if isinstance(own, dict))
    for task in (name for name in measured if "ours_to_stock" in results[name]):
        rows.append(table_row(task.replace("_", " "), path, (task,), PREDICTION_COLUMNS))
    return "\n".join(rows)


def table_header(title: str, columns: dict[str, list[tuple[str, ...]]]) -> list[str]:
    """Return the first two rows of a table."""
    return [f"| {title} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]


def table_row(
    title: str, path: Path, keys: tuple[str, ...], columns: dict[str, list[tuple[str, ...]]]
) -> str:
    """Return the figures that stand below some keys of a benchmark's results, column by column."""
    cells = [[find_figure(path, (*keys, *own)) for own in column] for column in columns.values()]
    return f"| {title} | {' | '.join(', '.join(map(show_figure, cell)) for cell in cells)} |"


def show_figure(value: float | None) -> str:
    """Return a figure with three digits, or whole."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def find_figure(path: Path, keys: tuple[str | int, ...]) -> Any:
    """Return a figure of a benchmark's results; None: it has not been measured."""
    value: Any = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for key in keys:
        value = value.get(key, {}) if isinstance(value, dict) else value[key]
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
