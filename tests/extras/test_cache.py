"""extras/cache: the same batches as without it, whatever happens to its files."""

import ast
import errno
import functools
import hashlib
import importlib.util
import json
import os
import pickle
import random
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from clusters import dask_cluster, needs_dask
from conftest import ROOT, is_of_template, use_template
from projects import TASKS, bake_project, flags, run, shorten

use_template("relation_extraction")

from core.base.errors import InputError, explain_file_error  # noqa: E402
from core.base.settings import read_settings  # noqa: E402
from core.data.records import collect  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.cache import items, processes, settings, sources, storage  # noqa: E402
from extras.cache.beam_workers import (  # noqa: E402
    CarriedError,
    call_pickled,
    error_told_in,
    share_on_beam,
)
from extras.cache.processes import share  # noqa: E402
from extras.cache.settings import Table  # noqa: E402
from extras.cache.sources import Examples  # noqa: E402
from extras.cache.storage import code_hash, describe, key_of  # noqa: E402
from extras.folds.folds import choose  # noqa: E402
from task.data import TripleGenerator  # noqa: E402
from task.records import Example, collect_predicates, find_predicates, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

OWN = {name: module for name, module in sys.modules.items() if is_of_template(module)}
PATH = list(sys.path)
WORDS = "Ada Zoë Müller 北京 Zenco works founded né(e) e\u0301te\u0301 1998, of the in and".split()
RECORDS = 60
needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="Apache Beam is absent: pip install -r requirements.txt of extras/cache",
)


def make_record(number: int) -> dict:
    """Return a record; some are longer than a window, some have no triple, some are partial."""
    draw = random.Random(number)
    words = [draw.choice(WORDS) for _ in range(draw.choice((3, 12, 70)))]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    spans = [[start, start + len(word)] for start, word in zip(starts, words, strict=False)]
    triples = [
        {"subject": draw.choice(spans), "predicate": f"p{draw.randrange(4)}", "object": o}
        for o in draw.sample(spans, min(len(spans), draw.choice((0, 1, 5))))
    ]
    record = {"id": number, "text": " ".join(words), "triples": triples}
    if number % 7 == 0:
        record["annotated_predicates"] = ["p0", "p1", "p2", "p3"]
    if number % 4 == 0:
        record["weight"] = number / 8
    return record


def write_file(path: Path, records: int = RECORDS, first: int = 0) -> Path:
    lines = [json.dumps(make_record(first + n), ensure_ascii=False) for n in range(records)]
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")  # with empty lines
    return path


@pytest.fixture(autouse=True)
def own_task(monkeypatch) -> None:
    """`import task` is that of relations, whatever other modules of tests have asked for."""
    for name in [name for name, module in sys.modules.items() if is_of_template(module)]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in OWN.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", list(PATH))


@pytest.fixture
def file(tmp_path) -> Path:
    return write_file(tmp_path / "train.jsonl")


@pytest.fixture
def table(tmp_path, monkeypatch) -> Table:
    """The extra is switched on; a file has several blocks."""
    own = Table(enabled=True, folder=str(tmp_path / "kept"), processes=1)
    monkeypatch.setattr(settings, "_used", [own])
    monkeypatch.setattr(sources, "BLOCK", 2000)
    monkeypatch.setattr(sources, "READ_AT_ONCE", 700)
    return own


def read_plainly(path: Path, **options) -> list[Example]:
    """Read a file as without the extra."""
    kept, settings._used[:] = list(settings._used), []
    try:
        return read_examples(path, **options)
    finally:
        settings._used[:] = kept


TOKENIZER = train_tokenizer([make_record(n)["text"] for n in range(RECORDS)], 300)
INPUTS = ["token_ids", "segment_ids", "padding_mask"]


def generator(examples, labels: bool = True, batch_size: int = 8, **changes) -> TripleGenerator:
    values = {"max_length": 32, "window_overlap": 8, "buckets": 3, **changes}
    made = Settings.model_construct(**values)
    return TripleGenerator.of(
        examples, TOKENIZER, ["p0", "p1", "p2"], INPUTS, made, batch_size, labels
    )


def batches_of(made: TripleGenerator) -> list[dict]:
    return [batch for epoch in (0, 1, None) for batch in made.batches(epoch)]


def assert_same(kept: TripleGenerator, plain: TripleGenerator) -> None:
    """To the last bit: batches, their shapes and types, and what is decoded with them."""
    assert isinstance(kept.windows, items.Entries) and isinstance(plain.windows, list)
    pairs = list(zip(batches_of(kept), batches_of(plain), strict=True))
    assert pairs
    for one, two in pairs:
        assert one.keys() == two.keys()
        for name in one:
            assert one[name].dtype == two[name].dtype, name
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    assert kept.signature(4) == plain.signature(4)
    assert list(kept.record_of) == list(plain.record_of)
    for one, two in zip(kept.windows, plain.windows, strict=True):
        assert type(one) is type(two) and one.reach == two.reach
        assert one.starts.tolist() == two.starts.tolist() and one.ends.dtype == two.ends.dtype
    for one, two in zip(kept.examples, plain.examples, strict=True):
        assert one == two


def parts_of(table: Table, what: str) -> list[Path]:
    """Return the files of rows of some kind."""
    return sorted(Path(table.folder).glob(f"*/{what}-*/*.rows"))


# ------------------------------------------------------------------------ the same batches


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("heads", ["shared", "per_predicate"])
def test_batches_are_the_same_to_the_last_bit(file, table, monkeypatch, labels, heads):
    plain = generator(read_plainly(file), labels, entity_heads=heads)
    examples = read_examples(file)
    assert isinstance(examples, Examples) and len(examples) == RECORDS
    assert_same(generator(examples, labels, entity_heads=heads), plain)
    assert len(parts_of(table, "items")) > 3
    monkeypatch.setattr(items, "write_part", None)
    monkeypatch.setattr(sources, "write_part", None)
    assert_same(generator(read_examples(file), labels, entity_heads=heads), plain)


def test_examples_are_those_of_the_file(file, table):
    plain, examples = read_plainly(file), read_examples(file)
    assert list(examples) == plain and examples[-1] == plain[-1] and examples[3:5] == plain[3:5]
    assert [example.line for example in examples] == list(range(1, 2 * RECORDS, 2))
    with pytest.raises(IndexError):
        examples[RECORDS]
    assert read_examples(file, require_triples=False)[0] == plain[0]


def test_some_examples_have_the_batches_of_a_list_of_them(file, table):
    """As folds ask for them, once to learn and once to be predicted."""
    plain, examples = read_plainly(file), read_examples(file)
    generator(examples)
    positions = np.array([n for n in range(RECORDS) if n % 3])
    few = choose(examples, positions)
    assert isinstance(few, Examples)
    assert choose(plain, positions) == list(few)
    assert_same(generator(few), generator(choose(plain, positions)))
    assert_same(
        generator(few.choose([4, 2]), False),
        generator([plain[positions[n]] for n in (4, 2)], False),
    )


def test_several_processes_encode_as_one(file, table, monkeypatch):
    table.processes = 2
    monkeypatch.setattr(sources, "SHARED", 0)
    plain = generator(read_plainly(file))
    assert_same(generator(read_examples(file)), plain)


@needs_beam
def test_workers_of_beam_encode_as_one(file, table, monkeypatch):
    table.beam = "--runner=DirectRunner"
    monkeypatch.setattr(sources, "SHARED", 0)
    plain = generator(read_plainly(file))
    with monkeypatch.context() as others:
        others.setattr(sources, "share", None)  # no process of its own
        assert_same(generator(read_examples(file)), plain)
    with file.open("a", encoding="utf-8") as more:
        more.write("[1]\n")
    with pytest.raises(InputError) as plainly:
        read_plainly(file)
    with pytest.raises(InputError) as kept:
        read_examples(file)
    assert str(kept.value) == str(plainly.value)


@needs_dask
def test_a_cluster_that_loses_a_worker_encodes_as_one(tmp_path, table, monkeypatch):
    """Three worker processes of Dask; one is killed when the first file of items is there."""
    monkeypatch.setattr(sources, "SHARED", 0)
    monkeypatch.setattr(sources, "BLOCK", 20_000)
    file = write_file(tmp_path / "many.jsonl", records=4000)
    generator(read_examples(file))
    kept, table.folder = Path(table.folder), str(tmp_path / "by_workers")
    made = Path(table.folder)
    project = ROOT / "templates/relation_extraction/{{cookiecutter.project_slug}}"

    def is_in_the_middle() -> bool:
        return 0 < len([*made.glob("*/items-*/0*.rows")]) < len([*made.glob("*/records-*/0*.rows")])

    with dask_cluster(tmp_path, [ROOT / "templates", project]) as cluster:
        table.beam = shlex.join(cluster.options)
        killing = cluster.kill_when(is_in_the_middle)
        with monkeypatch.context() as others:
            others.setattr(sources, "share", None)  # no process of its own
            generator(read_examples(file))
        killing.join()
        assert cluster.killed
    assert rows_in(made) == rows_in(kept) and len(rows_in(kept)) > 60
    assert not [*made.rglob(".writing-*")]


PICKLED = """
import pickle, sys
from extras.cache.processes import load_later
load_later()
from task.records import read_example
print(pickle.dumps(read_example({"id": 1, "text": "x", "triples": [], FIELD: NAMES}, 1, True)))
"""
PICKLED = PICKLED.replace("FIELD", "'annotated_predicates'").replace(
    "NAMES", "['b', 'a', 'c', 'b']"
)


def test_a_record_has_the_same_bytes_in_each_process():
    """Python orders sets of strings by hashes that each process draws."""
    project = ROOT / "templates/relation_extraction/{{cookiecutter.project_slug}}"
    path = os.pathsep.join(map(str, (ROOT / "templates", project)))
    seen = {
        subprocess.run(
            [sys.executable, "-c", PICKLED],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


@pytest.mark.parametrize("template", TASKS)
def test_examples_hold_no_sets(template):
    folder = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    tree = ast.parse((folder / "task/records.py").read_text(encoding="utf-8"))
    records = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.decorator_list]
    fields = [line for node in records for line in node.body if isinstance(line, ast.AnnAssign)]
    assert fields
    assert not [line for line in map(ast.unparse, fields) if re.search(r"\b(frozen)?set\b", line)]


def rows_in(folder: Path) -> dict[Path, bytes]:
    """Return the files of rows in a folder."""
    paths = folder.rglob("0*.rows")
    return {path.relative_to(folder): path.read_bytes() for path in paths}


@needs_beam
def test_what_beam_refuses_is_one_sentence():
    with pytest.raises(InputError, match="Apache Beam refuses '--runner=NoRunner'"):
        share_on_beam(print, [1], "--runner=NoRunner")


def test_the_readme_gives_options_of_beam_as_the_command_line_takes_them(tmp_path, monkeypatch):
    monkeypatch.setattr("core.base.settings.CONFIG", tmp_path / "config.toml")
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    text = (ROOT / "templates/extras/cache/README.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if "--cache.beam" in line]
    for command in commands:
        words = shlex.split(command, comments=True)
        made = read_settings(Settings, words[words.index("train.py") + 1 :])
        assert made.cache.beam.startswith("--runner=") and made.cache.enabled
    assert len(commands) == 3


def test_without_beam_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="Apache Beam is absent: pip install -r extras/cache/req"):
        share_on_beam(print, [1], "--runner=DirectRunner")


def test_an_error_of_a_worker_comes_back_as_it_was():
    """Runners forward only text, with their own words around it."""
    with pytest.raises(CarriedError) as carried:
        call_pickled("x", pickle.dumps(int))
    told = f"Traceback ...\n{CarriedError.__name__}: {carried.value} [while running 'Map']"
    error = error_told_in(told)
    assert isinstance(error, ValueError) and "invalid literal" in str(error)
    assert error_told_in("RuntimeError: no worker") is None


def test_a_fact_is_asked_for_once(file, table):
    def count(examples) -> list:
        asked.append(len(examples))
        return [len(examples)]

    asked: list[int] = []
    count.__module__ = TripleGenerator.__module__
    for _ in range(2):
        assert collect(count, read_examples(file)) == [RECORDS]
    assert asked == [RECORDS]
    assert collect(count, read_plainly(file)) == [RECORDS]
    asked.pop()
    for place in (8, -30):
        for path in Path(table.folder).glob("*/*.fact"):
            flip(path, place)
        assert collect(count, read_examples(file)) == [RECORDS]
    assert asked == [RECORDS] * 3


@pytest.mark.parametrize("processes", [1, 2])
def test_a_set_is_put_together_from_all_parts(file, table, processes, monkeypatch):
    monkeypatch.setattr(sources, "SHARED", 1)
    table.processes = processes
    examples = read_examples(file)
    assert len(examples.parts) > 3
    assert collect(find_predicates, examples, joined=True) == {"p0", "p1", "p2", "p3"}
    assert collect_predicates(examples) == collect_predicates(read_plainly(file))
    monkeypatch.setattr(sources, "ask_block", None)  # it is not asked again
    assert collect(find_predicates, examples, joined=True) == {"p0", "p1", "p2", "p3"}
    some = examples.choose([3])
    few = find_predicates(read_plainly(file)[3:4])
    assert collect(find_predicates, some, joined=True) == few != {"p0", "p1", "p2", "p3"}


# ------------------------------------------------------------------------------- the key


def keys_of(table: Table) -> set[str]:
    return {path.parent.name for path in parts_of(table, "items")}


@pytest.mark.parametrize(
    ("changes", "anew"),
    [
        ({"max_length": 24}, True),
        ({"window_overlap": 4}, True),
        ({"entity_heads": "per_predicate"}, True),
        ({"labels": False}, True),
        ({"buckets": 1}, False),
        ({"seed": 7}, False),
        ({"batch_size": 4}, False),
        ({"learning_rate": 1e-5}, False),
    ],
)
def test_settings_that_matter_change_the_key(file, table, changes, anew):
    generator(read_examples(file))
    before = keys_of(table)
    assert_same(generator(read_examples(file), **changes), generator(read_plainly(file), **changes))
    assert (len(keys_of(table)) > len(before)) == anew


def test_another_tokenizer_and_other_predicates_change_the_key(file, table):
    examples = read_examples(file)
    other = train_tokenizer(["something else"] * 3, 150)
    made = Settings.model_construct(max_length=32, window_overlap=8, buckets=3)
    for tokenizer, predicates in ((TOKENIZER, ["p0"]), (TOKENIZER, ["p1"]), (other, ["p1"])):
        TripleGenerator.of(examples, tokenizer, predicates, INPUTS, made, 8)
    assert len(keys_of(table)) == 3


def test_a_setting_that_nobody_looks_at_can_not_be_read(file, table, monkeypatch):
    """The participant's own encoding may read any: then it is not kept."""

    class Own(TripleGenerator):
        def __init__(self, examples, tokenizer, predicates, inputs, settings, batch_size):
            self.rate = settings.learning_rate
            super().__init__(examples, tokenizer, predicates, inputs, settings, batch_size)

    with pytest.raises(InputError, match="reads the setting learning_rate"):
        Own.of(read_examples(file), TOKENIZER, ["p0"], INPUTS, Settings.model_construct(), 8)


def test_the_code_that_encodes_is_in_the_key(tmp_path, monkeypatch):
    for name, text in {"one": "import two_of_cache\n", "two": "A = 1\n"}.items():
        (tmp_path / f"{name}_of_cache.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import one_of_cache  # noqa: F401

    before = code_hash("one_of_cache")
    (tmp_path / "one_of_cache.py").write_text("import two_of_cache\nB = 1\n", encoding="utf-8")
    assert code_hash("one_of_cache") != before
    assert {code_hash("task.data"), code_hash("task.data")} == {code_hash("task.data")}
    assert code_hash("task.data") != code_hash("core.data.tokens")


def test_values_without_a_description_are_refused():
    assert describe({"a": (1, frozenset("ba")), "b": None}) == describe(
        {"a": (1, frozenset("ab")), "b": None}
    )
    with pytest.raises(TypeError, match="has no description"):
        key_of(len, object())


# ------------------------------------------------------------------------------- bad input


def test_what_is_wrong_with_a_record_is_said_as_without_the_extra(file, table, capsys):
    text = file.read_text(encoding="utf-8")
    bad = {
        "another id": json.dumps(make_record(3)),
        "no object": "[1]",
        "a span": json.dumps({**make_record(99), "triples": [{"subject": [9, 5]}]}),
        "half a character": '{"id": "x", "text": "\\ud800", "triples": []}',
    }
    for name, line in bad.items():
        file.write_text(f"{text}{line}\n", encoding="utf-8")
        with pytest.raises(InputError) as plainly:
            read_plainly(file)
        with pytest.raises(InputError) as kept:
            read_examples(file)
        assert str(kept.value) == str(plainly.value), name
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds no record"):
        read_examples(file)
    assert not parts_of(table, "*")


def test_keys_that_nothing_reads_are_warned_of_each_time(file, table, capsys):
    more = [{**make_record(100 + n), f"key_{n}": 1} for n in range(5)]
    lines = [json.dumps(record) for record in more]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    read_plainly(file)
    said = capsys.readouterr().out
    for _ in range(2):
        assert isinstance(read_examples(file), Examples)
        assert said == "".join(
            line for line in capsys.readouterr().out.splitlines(True) if "cache:" not in line
        )


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_lines_of_other_systems(file, table, end):
    text = file.read_text(encoding="utf-8").replace("\n", end)
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(read_examples(file)) == read_plainly(file)
    assert isinstance(read_examples(file), Examples) == (end == "\r\n")


def test_a_file_that_has_changed_is_encoded_anew(file, table, capsys):
    generator(read_examples(file))
    write_file(file, 20, first=500)
    assert_same(generator(read_examples(file)), generator(read_plainly(file)))
    assert "is deleted, for train.jsonl has changed" in capsys.readouterr().out
    assert sum(len(storage.open_part(path)) for path in parts_of(table, "records")) == 20
    assert len(keys_of(table)) == 1


def test_a_file_that_changes_while_it_is_read(file, table, monkeypatch):
    check = sources.check_block

    def change(block, **others):
        check(block, **others)
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    monkeypatch.setattr(sources, "check_block", change)
    with pytest.raises(InputError, match="has changed while it was read: run the same command"):
        read_examples(file)
    monkeypatch.setattr(sources, "check_block", check)
    assert_same(generator(read_examples(file)), generator(read_plainly(file)))


def test_a_file_that_has_not_changed_is_not_read_again(file, table, monkeypatch):
    """A later start asks for its size and its time stamps, if these are not of just now."""
    cut, files = sources.cut, []
    monkeypatch.setattr(sources, "cut", lambda path: files.append(path.name) or cut(path))
    for _ in range(2):
        read_examples(file)
    assert files == [file.name] * 2  # another change may leave the same time stamps
    monkeypatch.setattr(sources, "SETTLED", -1.0)
    for _ in range(3):
        assert list(read_examples(file)) == read_plainly(file)
    assert files == [file.name] * 3
    [survey] = Path(table.folder).glob("*/survey.rows")
    for place in range(-1, -survey.stat().st_size, -9):
        flip(survey, place)
        assert list(read_examples(file)) == read_plainly(file)
    assert len(files) > 10


def test_a_change_that_keeps_size_and_time_is_noticed(file, table, monkeypatch):
    monkeypatch.setattr(sources, "SETTLED", -1.0)
    read_examples(file)
    before, data = file.stat(), file.read_bytes()
    file.write_bytes(data.replace(b'"p0"', b'"p1"'))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size and file.read_bytes() != data
    assert list(read_examples(file)) == read_plainly(file)


def test_that_ids_are_distinct_is_found_once(file, table, monkeypatch):
    read_examples(file)
    monkeypatch.setattr(storage.Part, "numbers", None)
    assert len(read_examples(file)) == RECORDS


# -------------------------------------------------------------------------- damaged files


def flip(path: Path, place: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("place", [0, 5, 200, -1, -60])
def test_a_flipped_bit_of_the_items_changes_no_batch(file, table, place, capsys):
    plain = generator(read_plainly(file))
    generator(read_examples(file))
    path = parts_of(table, "items")[1]
    flip(path, place)
    assert_same(generator(read_examples(file)), plain)
    assert ("is damaged: it is deleted" in capsys.readouterr().out) == (place >= 0)
    assert_same(generator(read_examples(file)), plain)
    assert path.is_file()


def test_a_flipped_bit_of_the_records_is_one_sentence(file, table):
    examples = read_examples(file)
    path = parts_of(table, "records")[1]
    flip(path, 40)
    examples = read_examples(file)
    with pytest.raises(InputError, match="was damaged, and is deleted: run the same command again"):
        list(examples)
    assert_same(generator(read_examples(file)), generator(read_plainly(file)))


@pytest.mark.parametrize("size", [0, 10, 700])
def test_a_file_that_is_cut_off_is_made_anew(file, table, size):
    plain = generator(read_plainly(file))
    generator(read_examples(file))
    for what in ("records", "items"):
        path = parts_of(table, what)[0]
        path.write_bytes(path.read_bytes()[:size])
    assert_same(generator(read_examples(file)), plain)


def test_items_that_are_encoded_otherwise_are_not_kept(file, table, monkeypatch, capsys):
    """What no key knows, such as another build of a library."""
    generator(read_examples(file))
    encode = TripleGenerator.__init__

    @functools.wraps(encode)
    def other(self, *arguments, **named):
        encode(self, *arguments, **named)
        self.windows[0].starts[1] += 1

    monkeypatch.setattr(TripleGenerator, "__init__", other)
    assert isinstance(generator(read_examples(file)).windows, list)
    assert "it is not kept" in capsys.readouterr().out and not parts_of(table, "items")


# --------------------------------------------------------------------------- interruptions


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(file, table, monkeypatch):
    written, write = [], storage.write

    def fail(target, data):
        written.append(data)
        if len(written) > 40:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(target, data)

    examples = read_examples(file)
    monkeypatch.setattr(storage, "write", fail)
    with pytest.raises(OSError) as full:
        generator(examples)
    assert "the disk is full while writing" in explain_file_error(full.value)
    made = parts_of(table, "items")
    assert made and not list(Path(table.folder).rglob(".writing-*"))
    monkeypatch.setattr(storage, "write", write)
    ages = [path.stat().st_mtime_ns for path in made]
    assert_same(generator(read_examples(file)), generator(read_plainly(file)))
    assert [path.stat().st_mtime_ns for path in made] == ages


def test_a_worker_that_is_ended_is_one_sentence():
    with pytest.raises(InputError, match="has ended with 9, maybe for want of memory"):
        list(share(os._exit, [9, 9, 9], 2))


def test_processes_wait_for_the_next_share(monkeypatch, tmp_path):
    """Each is the leader of a group of its own, whose number tells them apart."""
    monkeypatch.setattr(processes, "SECONDS_WAITING", 1.0)
    one, two = ({found for _, found in share(os.getpgid, [0] * 40, 2)} for _ in range(2))
    assert one | two == two | one and len(one | two) == 2
    kept = [worker.process for worker in processes._waiting]
    monkeypatch.syspath_prepend(tmp_path)  # of other code
    assert not {found for _, found in share(os.getpgid, [0] * 4, 2)} & one
    assert all(process.poll() is not None for process in kept)
    monkeypatch.setitem(sys.modules, "changed_since", changed := ModuleType("changed_since"))
    changed.__file__ = str(tmp_path / "changed_since.py")
    before = {worker.process.pid for worker in processes._waiting}
    Path(changed.__file__).write_text("")
    assert not {found for _, found in share(os.getpgid, [0] * 4, 2)} & before
    deadline = time.monotonic() + 30
    while processes._waiting and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not processes._waiting


def test_parts_are_joined_as_the_whole():
    assert sources.join([{1, 2}, {2, 3}]) == {1, 2, 3}
    assert sources.join([Counter("ab"), Counter("bc")]) == Counter("abbc")
    assert sources.join([{"a": 1}, {"a": 2, "b": 3}]) == {"a": 1, "b": 3}


# Encodes a file and prints the hash of its batches; TensorFlow is not loaded, which takes longer.
SCRIPT = """
import hashlib, sys, time
root, project, tests, folder, path, slow = sys.argv[1:]
sys.path[:0] = [root + "/templates", project, tests, root]
from extras.cache.processes import load_later
load_later()
import core.base.extras
core.base.extras.EXTRA_NAMES = {"cache": "the only one"}
from extras.cache import settings, sources
settings._used[:] = [settings.Table(enabled=True, folder=folder, processes=1)]
sources.BLOCK, sources.READ_AT_ONCE = 2000, 700
from task.data import TripleGenerator
from task.records import read_examples
from task.settings import Settings
from tokenizers import Tokenizer
write = sources.Source.make_parts
from extras.cache import items
encode = items.encode_block
def slowly(block, **others):
    encode(block, **others)
    print("made", block.number, flush=True)
    time.sleep(float(slow))
items.encode_block = slowly
made = Settings.model_construct(max_length=32, window_overlap=8, buckets=3)
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
names = ["token_ids", "segment_ids", "padding_mask"]
generator = TripleGenerator.of(read_examples(path), tokenizer, ["p0", "p1", "p2"], names, made, 8)
known = hashlib.sha256()
for batch in generator.batches(3):
    for name in sorted(batch):
        known.update(name.encode() + batch[name].tobytes())
print("loaded", "tensorflow.python" in sys.modules)
print(known.hexdigest(), flush=True)
"""


# Imports what encodes, with all extras that it asks.
IMPORTS = """
import re, sys
from pathlib import Path
root, project = sys.argv[1:]
sys.path[:0] = [root + "/templates", project]
from extras.cache.processes import load_later
load_later()
import extras.cache.items, task.data, task.records
from core.base.extras import open_module
files = [Path(module.__file__) for module in (task.data, task.records)]
code = "".join(file.read_text(encoding="utf-8") for file in files)
needed = re.findall(r'need\\("(\\w+)", "(\\w+)"', code)
needed = [pair for pair in needed if pair[0] != "writers"]  # whose models need it anyway
opened = [pair for pair in needed if open_module(*pair)]
assert "tensorflow.python" not in sys.modules, opened
"""


@pytest.mark.parametrize("template", TASKS)
def test_no_process_that_encodes_loads_tensorflow(template):
    """With it each would take 800 MB, and seconds. Whoever uses Keras there gets it."""
    project = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    uses = "import keras; assert keras.ops.add(1, 2) == 3" if template == TASKS[0] else ""
    code = IMPORTS + uses
    subprocess.run([sys.executable, "-c", code, str(ROOT), str(project)], check=True)


def start(tmp_path: Path, table: Table, file: Path, slow: float = 0.0) -> subprocess.Popen:
    Path(table.folder).mkdir(exist_ok=True)
    TOKENIZER.save(f"{table.folder}/tokenizer.json")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    project = ROOT / "templates/relation_extraction/{{cookiecutter.project_slug}}"
    words = [script, ROOT, project, ROOT / "tests", table.folder, file, slow]
    return subprocess.Popen(
        [sys.executable, *map(str, words)], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


def hash_of_batches(file: Path) -> str:
    known = hashlib.sha256()
    for batch in generator(read_plainly(file)).batches(3):
        for name in sorted(batch):
            known.update(name.encode() + batch[name].tobytes())
    return known.hexdigest()


def test_killed_while_it_writes_it_goes_on(file, table, tmp_path):
    process = start(tmp_path, table, file, slow=30)
    for line in process.stdout:
        if line == "made 0\n":
            break
    process.kill()
    process.wait()
    [made] = parts_of(table, "items")
    age = made.stat().st_mtime_ns
    (made.parent / ".writing-left_over").write_bytes(b"half")
    said, _ = start(tmp_path, table, file).communicate()
    assert said.split()[-1] == hash_of_batches(file) and "made 1" in said and "made 0" not in said
    assert made.stat().st_mtime_ns == age
    assert not list(made.parent.glob(".writing-*"))


def test_two_processes_at_once_encode_once(file, table, tmp_path):
    both = [start(tmp_path, table, file, slow=0.1) for _ in range(2)]
    said = [process.communicate()[0] for process in both]
    assert {text.split()[-1] for text in said} == {hash_of_batches(file)}
    assert all("loaded False" in text for text in said)
    made = [line for text in said for line in text.splitlines() if line.startswith("made ")]
    assert len(made) == len({*made}) == len(parts_of(table, "items"))


# -------------------------------------------------------------------------- other tasks


@pytest.fixture
def other_task(request) -> str:
    """`import task` is another template's for the time of a test."""
    kept = {name: module for name, module in sys.modules.items() if is_of_template(module)}
    path = list(sys.path)
    use_template(request.param)
    yield request.param
    for name in [name for name, module in sys.modules.items() if is_of_template(module)]:
        del sys.modules[name]
    sys.modules.update(kept)
    sys.path[:] = path


@pytest.mark.parametrize("other_task", ["event_extraction"], indirect=True)
@pytest.mark.parametrize("model", ["gplinker", "crf"])
def test_batches_of_events(other_task, table, tmp_path, model):
    from task.data import EventGenerator
    from task.records import collect_schema, read_examples
    from task.settings import Settings

    def read() -> list:
        return read_examples(sample_of(other_task, tmp_path))

    made = Settings.model_construct(max_length=32, window_overlap=8, buckets=3, model=model)
    check_task(EventGenerator, read, collect_schema, lambda schema: schema, made)


@pytest.mark.parametrize("other_task", ["named_entity_recognition"], indirect=True)
@pytest.mark.parametrize("tagger", ["pointer", "crf"])
def test_batches_of_entities(other_task, table, tmp_path, tagger):
    from task.data import EntityGenerator
    from task.records import collect_schema, read_examples
    from task.settings import Settings

    path = sample_of(other_task, tmp_path)
    made = Settings.model_construct(max_length=32, window_overlap=8, buckets=3, tagger=tagger)
    collect = functools.partial(collect_schema, settings=made)
    check_task(
        EntityGenerator,
        lambda: read_examples(path, made),
        collect,
        lambda schema: schema.types,
        made,
    )


def sample_of(template: str, folder: Path) -> Path:
    """Return a file with the first records of a sample."""
    lines = (ROOT / f"baselines/{template}_sample/sample/train.jsonl").read_text(encoding="utf-8")
    path = folder / "train.jsonl"
    path.write_text("".join(lines.splitlines(keepends=True)[:RECORDS]), encoding="utf-8")
    return path


def check_task(kind, read, collect, labels_of, made) -> None:
    """The batches of a task are the same, with labels and without, encoded now and before."""
    own, settings._used[:] = list(settings._used), []
    examples = read()
    settings._used[:] = own
    schema = collect(examples)
    for _ in range(2):
        kept = read()
        assert isinstance(kept, Examples) and kept.recall(collect) == schema
        for labels in (True, False):
            arguments = (TOKENIZER, labels_of(schema), INPUTS, made, 8, labels)
            assert_same(kind.of(kept, *arguments), kind.of(examples, *arguments))


# ------------------------------------------------------------------------------ a project


@pytest.mark.further
@pytest.mark.trains
def test_a_project_trains_and_predicts_as_without_the_extra(tmp_path):
    project = bake_project("relation_extraction", tmp_path, "cache, folds")
    shorten(project, {"train": 24, "dev": 8, "test": 8})
    found = {}
    for name, on in {"plain": False, "first": True, "second": True}.items():
        asked = {"run_name": name, "steps": 3, "batch_size": 8, "cache.enabled": on}
        said = run("train.py", *flags(project, **asked), cwd=project).stdout
        folder = project / "runs" / name
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for row in rows:
            row.pop("examples_per_second")
        found[name] = rows, (folder / "predictions/dev.jsonl").read_bytes()
        assert ("items of" in said) == on and ("encoded in" in said) == (name == "first")
    assert found["plain"] == found["first"] == found["second"]
    config = project / "config.toml"
    text = config.read_text(encoding="utf-8")
    outputs = []
    for switch in ("false", "true"):
        config.write_text(text.replace("enabled = false", f"enabled = {switch}"), encoding="utf-8")
        said = run("predict.py", "second", "sample/test.jsonl", f"{switch}.jsonl", cwd=project)
        outputs.append((project / f"{switch}.jsonl").read_bytes())
    assert "items of" in said.stdout and outputs[0] == outputs[1]
