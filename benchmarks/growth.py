"""From ten thousand records to a million: memory, and seconds until the first batch.

The records are synthetic: relation extraction (60 words, 3 triples, 49 predicates), text
classification (60 words, 49 labels), or questions of reading comprehension (8 words each, five per
passage of 120 words). They are measured in lists, as core keeps them, and with the extra `cache`:
at its first start with one process on one core and with two, and at its second start. Each start is
its own process: it reads, checks and encodes the file, and makes batches. Seconds and memory
exclude its imports. Memory is that of the training process; the memory of its largest worker is
listed separately. CPU seconds include the workers. The script also measures the Rust tokenizer's
`encode_batch` on the same texts, each passage once. With `--peer` it also measures the stock recipe
of PyTorch: `datasets.map` and transformers' collators (`peer_encoding.py`).

python benchmarks/growth.py --output benchmarks/results/growth.json
python benchmarks/growth.py --records texts --output benchmarks/results/growth_texts.json
python benchmarks/growth.py --records passages --output benchmarks/results/growth_passages.json
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from project_parts import ROOT, write_results

SIZES = (10_000, 100_000, 1_000_000)
WORDS, TRIPLES, NAMES, LEXICON = 60, 3, 49, 20_000
PASSAGE_WORDS, QUESTION_WORDS, QUESTIONS = 120, 8, 5
# Records -> the template that learns from them, and a description.
RECORDS = {
    "relations": ("relation_extraction", f"{WORDS} words, {TRIPLES} triples, {NAMES} predicates"),
    "texts": ("text_classification", f"{WORDS} words, one of {NAMES} labels"),
    "passages": (
        "reading_comprehension",
        f"questions of {QUESTION_WORDS} words, {QUESTIONS} on each passage of {PASSAGE_WORDS}",
    ),
}
INPUTS = ["token_ids", "segment_ids", "padding_mask"]
BATCHES = 2000  # made after the first one
BATCH_SIZE = 16
# Way to start: name -> whether the cache is on, and the number of encoding processes.
WAYS = {
    "lists": (False, 1),
    "cache_one_process": (True, 1),
    "cache_two_processes": (True, 2),
    "cache_second_start": (True, 2),
}


def main() -> None:
    """Measure all sizes and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", choices=RECORDS, default="relations", help="what they are")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="records of the files")
    parser.add_argument(
        "--most", type=int, default=SIZES[1], help="records in lists: of more they fill the memory"
    )
    parser.add_argument("--peer", help="Python of an environment with torch and transformers")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    parser.add_argument("--trial", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.trial:
        way, folder = arguments.trial
        open_template(arguments.records)
        if way == "tokenizer":
            tried = time_tokenizer(Path(folder))
        else:
            tried = try_way(way, Path(folder), arguments.records)
        print(json.dumps(tried))
        return
    kind = arguments.records
    sizes = {str(s): measure(kind, s, arguments.most, arguments.peer) for s in arguments.sizes}
    results = {
        "question": "memory and seconds from a file of records to its batches, as the file grows",
        "records": f"{RECORDS[kind][1]}, synthetic",
        "batches": BATCHES,
        "sizes": sizes,
    }
    write_results(results, arguments.output)


def measure(kind: str, size: int, most: int, peer: str | None) -> dict:
    """Return the measurements of one size, each trial in its own process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(folder, kind, size)
        found: dict = {"tokenizer": run_trial("tokenizer", folder, kind)}
        for way in WAYS:
            if way == "cache_two_processes":
                remove(folder / "cache")
            if size <= most or way != "lists":
                found[way] = run_trial(way, folder, kind)
        for start in ("peer_first_start", "peer_second_start") if peer else ():
            found[start] = run_peer(peer, folder, kind)
        found["file_mebibytes"] = mebibytes((folder / "records.jsonl").stat().st_size)
        files = (path for path in (folder / "cache").rglob("*") if path.is_file())
        found["cache_mebibytes"] = mebibytes(sum(path.stat().st_size for path in files))
    hashes = {own.pop("batches") for way, own in found.items() if way in WAYS}
    found["same_batches"] = len(hashes) == 1
    alone = found["tokenizer"]["cpu_seconds"]
    for way in ("lists", "cache_one_process"):
        if way in found:
            found[f"{way}_to_tokenizer"] = round(found[way]["cpu_seconds"] / alone, 2)
    one, two = found["cache_one_process"], found["cache_two_processes"]
    found["cache_two_processes_to_tokenizer"] = round(two["cpu_seconds"] / alone, 2)
    found["times_as_fast_by_two"] = round(one["seconds"] / two["seconds"], 2)
    return found


def remove(folder: Path) -> None:
    """Delete a folder with the files in it."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def mebibytes(size: float) -> float:
    """Return bytes as mebibytes."""
    return round(size / 2**20, 1)


def run_trial(way: str, folder: Path, kind: str) -> dict:
    """Return the output of a trial."""
    command = [sys.executable, __file__, "--records", kind, "--trial", way, str(folder)]
    alone = {"TOKENIZERS_PARALLELISM": "false"} if way == "cache_one_process" else {}
    environment = {**os.environ, **alone}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, encoding="utf-8", env=environment
    )
    print(f"{folder.name}, {way}: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_peer(python: str, folder: Path, kind: str) -> dict:
    """Return the output of a start of the peer."""
    script = str(Path(__file__).with_name("peer_encoding.py"))
    done = subprocess.run(
        [python, script, kind, str(folder)], check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    print(f"{folder.name}, peer: {done.stdout.splitlines()[-1]}", file=sys.stderr, flush=True)
    return json.loads(done.stdout.splitlines()[-1])


def write_records(folder: Path, kind: str, size: int) -> None:
    """Write synthetic records."""
    draw = random.Random(size)
    letters = "abcdefghijklmnopqrstuvwxyz"
    lexicon = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(LEXICON)]
    # Word frequencies as in a language.
    frequent = list(itertools.accumulate(1 / (rank + 10) for rank in range(LEXICON)))
    with open(folder / "records.jsonl", "w", encoding="utf-8") as file:
        words: list[str] = []
        for number in range(size):
            if kind != "passages":
                words = draw.choices(lexicon, cum_weights=frequent, k=WORDS)
            elif number % QUESTIONS == 0:
                words = draw.choices(lexicon, cum_weights=frequent, k=PASSAGE_WORDS)
            question = draw.choices(lexicon, cum_weights=frequent, k=QUESTION_WORDS)
            record = make_record(draw, kind, words, question)
            file.write(json.dumps({"id": str(number), **record}) + "\n")


def make_record(draw: random.Random, kind: str, words: list[str], question: list[str]) -> dict:
    """Return a record without its id."""
    text, starts = " ".join(words), [0]
    if kind == "texts":
        return {"text_a": text, "label": f"label_{draw.randrange(NAMES)}"}
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    spans = [[at, at + len(word)] for at, word in zip(starts, words, strict=False)]
    if kind == "passages":
        return {"question": " ".join(question), "context": text, "answers": [draw.choice(spans)]}
    triples = []
    for _ in range(TRIPLES):
        one, two = draw.sample(spans, 2)
        name = f"predicate_{draw.randrange(NAMES)}"
        triples.append({"subject": one, "predicate": name, "object": two})
    return {"text": text, "triples": triples}


def texts_of(folder: Path, most: int | None = None) -> Iterator[str]:
    """Yield the texts of the records; neighbouring equal texts only once."""
    last = None
    with open(folder / "records.jsonl", encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number == most:
                return
            record = json.loads(line)
            if "question" in record:
                yield record["question"]
            text = next(record[name] for name in ("text", "text_a", "context") if name in record)
            if text != last:
                yield text
            last = text


def open_template(kind: str) -> None:
    """Make the modules of a template importable; import `core` first."""
    project = ROOT / f"templates/{RECORDS[kind][0]}/{{{{cookiecutter.project_slug}}}}"
    sys.path[:0] = [str(ROOT / "templates"), str(project)]
    import core.data.tokens  # noqa: F401


def make_tokenizer(folder: Path):
    """Return the tokenizer; it is trained once."""
    from tokenizers import Tokenizer

    from core.data.tokens import train_tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        train_tokenizer(texts_of(folder, 5000), 8000).save(str(path))
    return Tokenizer.from_file(str(path))


def time_tokenizer(folder: Path) -> dict:
    """Time only `encode_batch`, on one core."""
    tokenizer = make_tokenizer(folder)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    seconds, tokens, texts = 0.0, 0, texts_of(folder)
    while batch := [text for text, _ in zip(texts, range(1024), strict=False)]:
        began = time.process_time()
        encodings = tokenizer.encode_batch(batch, add_special_tokens=False)
        seconds += time.process_time() - began
        tokens += sum(map(len, encodings))
    return {"cpu_seconds": round(seconds, 2), "tokens": tokens}


def open_batches(path: Path, kind: str, tokenizer: Any, settings: Any) -> Any:
    """Return the batches of a file of records, made as in a training."""
    from task import data, records

    if kind == "texts":
        examples = records.read_examples(path, settings=settings)
        labels = records.collect_targets(examples, settings)
        encoding = (tokenizer, labels, INPUTS, settings)
        return data.ExampleGenerator.of(examples, *encoding, BATCH_SIZE)
    examples = records.read_examples(path)
    if kind == "passages":
        return data.AnswerGenerator.of(examples, tokenizer, INPUTS, settings, BATCH_SIZE)
    encoding = (tokenizer, records.collect_predicates(examples), INPUTS, settings)
    return data.TripleGenerator.of(examples, *encoding, BATCH_SIZE)


def try_way(way: str, folder: Path, kind: str) -> dict:
    """Start like a training, up to the first batch, and make more batches."""
    from core.base.extras import open_module, present
    from extras.cache import processes as processes_of_cache
    from extras.cache import settings as tables
    from task import data  # noqa: F401
    from task.settings import Settings

    tokenizer = make_tokenizer(folder)
    on, processes = WAYS[way]
    table = {"enabled": on, "folder": str(folder / "cache"), "processes": processes}
    tables.complete(SimpleNamespace(cache=tables.Table(**table)))  # type: ignore[arg-type]
    settings = Settings.model_construct()
    for extra in present():  # imports are not measured
        open_module(extra, "hooks")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    largest = [0]
    threading.Thread(target=watch_workers, args=(largest,), daemon=True).start()
    before, began, cpu = status("VmRSS"), time.perf_counter(), cpu_seconds()

    stream = open_batches(folder / "records.jsonl", kind, tokenizer, settings).stream(0, 0)
    next(stream)
    seconds = time.perf_counter() - began
    processes_of_cache.take_waiting(0)  # their seconds count after they have ended
    found = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds() - cpu, 2)}
    known, began = hashlib.sha256(), time.perf_counter()
    made = [next(stream) for _ in range(BATCHES // 10)]
    for batch in made:
        for name in sorted(batch):
            known.update(batch[name].tobytes())
    began = time.perf_counter()
    for _ in range(BATCHES):
        next(stream)
    return {
        **found,
        "batches_a_second": round(BATCHES / (time.perf_counter() - began), 1),
        "peak_mebibytes": mebibytes(status("VmHWM") - before),
        "worker_mebibytes": mebibytes(largest[0]),
        "batches": known.hexdigest(),
    }


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its ended child processes."""
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in own)


def watch_workers(largest: list[int]) -> None:
    """Record the peak memory of the largest child process."""
    while True:
        for path in Path("/proc/self/task").glob("*/children"):
            for number in path.read_text(encoding="ascii").split():
                with contextlib.suppress(OSError, IndexError):
                    largest[0] = max(largest[0], status("VmHWM", number))
        time.sleep(0.2)


def status(name: str, process: str = "self") -> int:
    """Return a memory size of a process in bytes, from the system."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return 1024 * int(text.partition(f"{name}:")[2].split()[0])


if __name__ == "__main__":
    main()
