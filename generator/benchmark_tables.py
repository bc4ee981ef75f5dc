"""The tables of docs/benchmarks.md and docs/scaling.md."""

from pathlib import Path
from typing import Any

from generator.files import read_json

# Results file of growth.py -> what its records are called.
GROWTH = {
    "growth.json": "relations",
    "growth_texts.json": "texts",
    "growth_passages.json": "questions",
}
# Column of their table -> keys of our figure and of the peer's, in the results of a size.
GROWTH_COLUMNS: dict[str, list[tuple[str, ...]]] = {
    "seconds to the first batch": [
        (way, "seconds") for way in ("cache_two_processes", "peer_first_start")
    ],
    "at later starts": [(way, "seconds") for way in ("cache_second_start", "peer_second_start")],
    "MiB on top of imports": [
        (way, "peak_mebibytes") for way in ("cache_two_processes", "peer_first_start")
    ],
    "batches per second": [
        (way, "batches_a_second") for way in ("cache_second_start", "peer_second_start")
    ],
    "without `cache`: seconds, MiB": [("lists", "seconds"), ("lists", "peak_mebibytes")],
    "CPU seconds / those of `encode_batch`": [("cache_one_process_to_tokenizer",)],
    "speed-up by two processes": [("times_as_fast_by_two",)],
}
# Column of the table of prediction_speed.py -> keys of its figures in the results of a task.
PREDICTION_COLUMNS: dict[str, list[tuple[str, ...]]] = {
    "ours, records per second": [("median", "ours")],
    "peer, file order": [("median", "peer_stock")],
    "peer, sorted by length": [("median", "peer_sorted")],
    "ours / file order": [("ours_to_stock", "median")],
    "ours / sorted": [("ours_to_sorted", "median")],
    "first pass, seconds: ours, peer": [("first_seconds", side) for side in ("ours", "peer_stock")],
}
# End of the name of a file of results -> the processor that it was measured on.
PROCESSORS = {"": "on an Intel Xeon", "_amd": "on an AMD EPYC"}
FIGURE_HEADER = ("| measured | figure |", "|---|---|")
# A figure: file in benchmarks/results, keys of the figure in it, what it says.
Figure = tuple[str, tuple[str | int, ...], str]
# Name of a table in docs/benchmarks.md -> its figures, in their order.
FIGURE_TABLES: dict[str, tuple[Figure, ...]] = {
    "training": (
        *(
            (f"training_speed{end}.json", (f"ours_{kind}_to_{peer}", "median"), meaning)
            for end, of in PROCESSORS.items()
            for kind in ("float32", "bfloat16")
            for peer, meaning in (
                ("stock", f"relation extraction, {of}, epoch time: ours in {kind} / PyTorch peer"),
                ("grouped", "the same, the peer's batches grouped by length"),
            )
        ),
        (
            "peer_reading_comprehension.json",
            ("ours_to_stock", "median"),
            "reading comprehension, epoch time: ours / peer, padded as its recipe pads",
        ),
        (
            "peer_reading_comprehension.json",
            ("ours_to_grouped", "median"),
            "the same, the peer's batches grouped by length",
        ),
        *(
            (
                f"peer_named_entities_{name}.json",
                ("ours_to_peer", "median"),
                f"named entities of {of}, epoch time: ours / PyTorch peer",
            )
            for name, of in (
                ("wnut17", "WNUT 2017"),
                ("weibo", "Weibo, on an AMD EPYC"),
                ("weibo_intel", "Weibo, on an Intel Xeon"),
            )
        ),
        (
            "peer_pretraining.json",
            ("packed", "ours_to_peer_packed", "median"),
            "pre-training, tokens per second without padding: ours / transformers' recipe,"
            " both packed",
        ),
        (
            "peer_pretraining.json",
            ("bucketed", "ours_to_peer_padded", "median"),
            "pre-training, one line per row: ours in buckets / peer padded to the maximum length",
        ),
        (
            "peer_pretraining.json",
            ("bucketed", "ours_to_peer_dynamic", "median"),
            "the same, the peer padded to the longest of a batch",
        ),
    ),
    "peer_scores": (
        (
            "peer_relation_extraction.json",
            ("last", "test", "f1"),
            "KnowledgeNet, test F1 of the PyTorch peer, same encoder and epochs, one seed",
        ),
        (
            "peer_reading_comprehension.json",
            ("peer", "epochs", -1, "test", "f1"),
            "SQuAD, test F1 of the peer in percent, same encoder, epochs and windows, one seed",
        ),
        (
            "peer_text_classification.json",
            ("best", "test", "map"),
            "SelQA, test MAP of the PyTorch peer, same encoder and epochs, one seed",
        ),
        (
            "peer_relations_redocred.json",
            ("best", "test", "f1"),
            "Re-DocRED, test F1 of the PyTorch peer, same encoder and epochs, one seed",
        ),
        (
            "peer_preferences_ukpconvarg.json",
            ("last", "test", "accuracy"),
            "UKPConvArg1, test accuracy of the PyTorch peer, same encoder and loss, one seed",
        ),
        *(
            (f"peer_named_entities_{name}.json", (side, "test", "f1"), meaning.format(of))
            for name, of in (
                ("wnut17", "WNUT 2017"),
                ("weibo", "Weibo, on an AMD EPYC"),
                ("weibo_intel", "Weibo, on an Intel Xeon"),
            )
            for side, meaning in (
                ("peer", "{}, test F1 of the PyTorch peer, mean over seeds"),
                ("ours", "the same of ours, with the same encoder and seeds, in the same run"),
            )
        ),
    ),
    "batching": (
        *(
            (
                "evaluation_speed.json",
                (task, "batched_to_single"),
                f"{task.replace('_', ' ')}, records per second: batched / one at a time",
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
    ),
    "generation": (
        (
            "generation_speed.json",
            ("cached_to_uncached",),
            "text generation, tokens per second, 64 tokens: cached / uncached",
        ),
        (
            "generation_speed.json",
            ("batched_to_single",),
            "text generation, records per second of beam search: batched and cached / one at a"
            " time",
        ),
        *(
            ("writer_speed.json", (key,), f"decoder-only writer, tokens per second, {meaning}")
            for key, meaning in (
                ("cached_to_uncached_beams", "beam search, 64 tokens: cached / uncached"),
                ("ours_to_transformers_greedy", "greedy: ours / `generate` of transformers"),
                ("ours_to_transformers_beams", "beam search: ours / `generate` of transformers"),
            )
        ),
    ),
    "memory": (
        (
            "recompute_memory.json",
            ("memory_percent",),
            "`recompute`, 12 layers: peak memory of a training step, in percent of without",
        ),
        (
            "recompute_memory.json",
            ("times_as_long",),
            "`recompute`, 12 layers: time of that step, with / without",
        ),
        *(
            (
                "used_rows.json",
                (size, key),
                f"`used_rows`, table of {name}: {what}, used rows trained / all rows",
            )
            for size, name in (("minilm", "MiniLM"), ("xlm_roberta", "XLM-R"))
            for key, what in (
                ("wall_ratio", "time of a training step"),
                ("cpu_ratio", "CPU time of a training step"),
                ("memory_ratio", "peak memory"),
            )
        ),
    ),
    "dropout": (
        (
            "dropout_speed.json",
            ("times_as_long",),
            "time of a training step: dropout seeded per example / Keras's dropout",
        ),
    ),
    "input": (
        (
            "pipeline_speed.json",
            ("generator_to_training",),
            "batches per second: generator only / training",
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
    ),
    "cache_training": tuple(
        (
            "cache_training.json",
            (task, "cache_to_lists", "median"),
            f"{task.replace('_', ' ')}, examples per second of a training: extra `cache` / lists",
        )
        for task in ("text_classification", "relation_extraction", "reading_comprehension")
    ),
}
FIGURES = tuple(figure for figures in FIGURE_TABLES.values() for figure in figures)


def figure_table(root: Path, name: str) -> str:
    """Return one of the `FIGURE_TABLES`, without the figures that are not measured yet."""
    rows = []
    for file, keys, meaning in FIGURE_TABLES[name]:
        value = find_figure(root / "benchmarks" / "results" / file, keys)
        if value is not None:
            rows.append(f"| {meaning} | {show_figure(value)} |")
    return "\n".join([*FIGURE_HEADER, *rows]) if rows else "Not measured yet."


def growth_table(root: Path) -> str:
    """Return the table of growth.py: in each cell ours with the extra `cache`, then the peer."""
    rows = table_header("records", GROWTH_COLUMNS)
    for file, name in GROWTH.items():
        path = root / "benchmarks" / "results" / file
        for size in find_figure(path, ("sizes",)) or ():
            title = f"{int(size):,} {name}"
            rows.append(table_row(title, path, ("sizes", size), GROWTH_COLUMNS))
    return "\n".join(rows)


def encoded_in_ten_minutes(root: Path) -> str:
    """Return how many records two processes encode in ten minutes, at the largest file's speed."""
    counts = []
    for file, name in GROWTH.items():
        path = root / "benchmarks" / "results" / file
        for size in [*(find_figure(path, ("sizes",)) or ())][-1:]:
            seconds = find_figure(path, ("sizes", size, "cache_two_processes", "seconds"))
            counts.append(f"{600 * int(size) / seconds / 1e6:.0f} million {name}")
    return ", ".join(counts)


def prediction_table(root: Path) -> str:
    """Return the table of prediction_speed.py: our speed and the peers', on each processor."""
    rows = table_header("task", PREDICTION_COLUMNS)
    for end, processor in PROCESSORS.items():
        path = root / "benchmarks" / "results" / f"prediction_speed{end}.json"
        results = read_json(path) if path.is_file() else {}
        for task, own in results.items():
            if isinstance(own, dict) and "ours_to_stock" in own:
                title = f"{task.replace('_', ' ')}, {processor}"
                rows.append(table_row(title, path, (task,), PREDICTION_COLUMNS))
    return "\n".join(rows) if rows[2:] else "Not measured yet."


def table_header(title: str, columns: dict[str, list[tuple[str, ...]]]) -> list[str]:
    """Return the first two rows of a table."""
    return [f"| {title} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]


def table_row(
    title: str, path: Path, keys: tuple[str, ...], columns: dict[str, list[tuple[str, ...]]]
) -> str:
    """Return one row: the figures below some keys of a benchmark's results, column by column."""
    cells = [[find_figure(path, (*keys, *own)) for own in column] for column in columns.values()]
    return f"| {title} | {' | '.join(', '.join(map(show_figure, cell)) for cell in cells)} |"


def show_figure(value: float | None) -> str:
    """Return a figure with three digits; from 100 on, without decimals."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def find_figure(path: Path, keys: tuple[str | int, ...]) -> Any:
    """Return a figure of a benchmark's results; None: it has not been measured."""
    value: Any = read_json(path) if path.is_file() else {}
    for key in keys:
        value = value.get(key, {}) if isinstance(value, dict) else value[key]
    return value if value != {} else None


def scaling_table(root: Path) -> str:
    """Return the expected efficiency of several GPUs, for each kind of link between them."""
    path = root / "benchmarks" / "results" / "scaling.json"
    if not path.is_file():
        return "Not computed yet."
    results = read_json(path)
    forecast = results["forecast_percent"]
    links = list(results["assumed"]["bytes_per_second"])
    rows = [
        f"| {batch} tokens | {' | '.join(f'{speeds[link]:.0f} %' for link in links)} |"
        for batch, speeds in forecast.items()
    ]
    header = f"| a step of each of {results['gpus']} GPUs | {' | '.join(links)} |"
    summed = results["processes"]["2"]["bytes_summed"]
    megabytes = summed / 1e6
    gpus, rates = results["gpus"], results["assumed"]["bytes_per_second"]
    for case, seconds in measured_steps(root):
        shares = (
            seconds / (seconds + 2 * (gpus - 1) / gpus * summed / rates[link]) for link in links
        )
        rows.append(f"| {case}, measured | {' | '.join(f'{s:.0%}'[:-1] + ' %' for s in shares)} |")
    size = (
        f"\n{results['encoder']}: {results['parameters']:,} parameters, {megabytes:.1f} MB of "
        f"gradients a step, {results['bytes_per_parameter']:.2f} bytes a parameter."
    )
    return "\n".join([header, "|" + "---|" * (1 + len(links)), *rows, size])


def measured_steps(root: Path) -> list[tuple[str, float]]:
    """Return batch and seconds of our fastest measured step of MiniLM on a GPU, if there is one."""
    path = root / "benchmarks/results/gpu.json"
    rows = read_json(path)["rows"] if path.is_file() else []
    found = [row for row in rows if row["side"] == "ours" and "minilm" in row["case"]]
    fastest = min(found, key=lambda row: row["milliseconds"], default=None)
    if fastest is None:
        return []
    return [(f"{fastest['case'].split(', ')[-1]} tokens", fastest["milliseconds"] / 1e3)]


def gpu_table(root: Path) -> str:
    """Return the training steps that gpu.py has measured on a card, ours and the peer's."""
    path = root / "benchmarks/results/gpu.json"
    if not path.is_file():
        return "Not measured yet."
    found = read_json(path)
    rows = [
        "| a training step | side | precision | milliseconds | first step, seconds | peak MiB |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        cells = (row["case"], {"ours": "ours", "peer": "PyTorch"}[row["side"]], row["mode"])
        measured = (row["milliseconds"], row["first_step_seconds"], row["peak_MiB"])
        rows.append("| " + " | ".join(map(str, (*cells, *measured))) + " |")
    where = f"One {found['card']}, {found['hardware']}, {found['steps']} steps each."
    return "\n".join([*rows, "", where])
