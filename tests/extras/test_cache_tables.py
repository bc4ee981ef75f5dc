"""extras/cache: a table is read once, row after row; batches and mistakes are as without it."""

import csv
import random
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from conftest import is_of_template, use_template
from traced_memory import peak_memory

PROJECT = use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.cache import settings as tables_in_use  # noqa: E402
from extras.cache import sources, streams  # noqa: E402
from extras.cache.settings import Table  # noqa: E402
from extras.cache.sources import Examples  # noqa: E402
from extras.cache.storage import open_part  # noqa: E402
from extras.competition import tables  # noqa: E402
from task.data import ExampleGenerator  # noqa: E402
from task.records import collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

OWN = {name: module for name, module in sys.modules.items() if is_of_template(module)}
PATH = list(sys.path)
ROWS = 90
WORDS = 'Ada, Zoë, 北京 "Zenco" works\nfounded 1998; of the in and'.split(" ")
TOKENIZER = train_tokenizer([" ".join(WORDS)] * 3, 200)
INPUTS = ["token_ids", "segment_ids", "padding_mask"]


@pytest.fixture(autouse=True)
def own_task(monkeypatch) -> None:
    """`import task` is that of texts, whatever other modules of tests have asked for."""
    for name in [name for name, module in sys.modules.items() if is_of_template(module)]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in OWN.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", list(PATH))


def make_rows(rows: int = ROWS) -> list[dict]:
    draw = random.Random(3)
    texts = (" ".join(draw.choices(WORDS, k=draw.choice((1, 4, 20)))) for _ in range(rows))
    return [{"id": n, "text": text, "kind": "abc"[n % 3]} for n, text in enumerate(texts)]


def write_table(path: Path, rows: list[dict]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "kind"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def make_settings(**competition):
    kept = list(tables_in_use._used)
    own = {"label_column": "kind", **competition}
    made = with_tables(Settings)(competition=own, max_length=24, buckets=3)
    tables_in_use._used[:] = kept  # which the settings have set to their own table
    return made


@pytest.fixture
def file(tmp_path) -> Path:
    return write_table(tmp_path / "train.csv", make_rows())


@pytest.fixture
def table(tmp_path, monkeypatch) -> Table:
    own = Table(enabled=True, folder=str(tmp_path / "kept"), processes=1)
    monkeypatch.setattr(tables_in_use, "_used", [own])
    monkeypatch.setattr(streams, "BLOCK", 2000)
    monkeypatch.setattr(sources, "SHARED", 1)
    monkeypatch.setattr(sources, "READ_AT_ONCE", 1 << 16)
    return own


def read_plainly(path: Path, settings):
    kept, tables_in_use._used[:] = list(tables_in_use._used), []
    try:
        return read_examples(path, settings=settings)
    finally:
        tables_in_use._used[:] = kept


def assert_same_batches(kept, plain, settings) -> None:
    labels = collect_targets(plain, settings)
    assert isinstance(kept, Examples) and collect_targets(kept, settings) == labels
    assert list(kept) == plain
    one, two = (
        ExampleGenerator.of(examples, TOKENIZER, labels, INPUTS, settings, 8)
        for examples in (kept, plain)
    )
    for epoch in (0, 1, None):
        for batch, expected in zip(one.batches(epoch), two.batches(epoch), strict=True):
            assert batch.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(batch[name], array, strict=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_batches_are_those_without(file, table, processes, monkeypatch, capsys):
    table.processes = processes
    settings = make_settings()
    plain = read_plainly(file, settings)
    kept = read_examples(file, settings=settings)
    assert len(kept.parts) > 3 and f"cache: {ROWS} records" in capsys.readouterr().out
    assert_same_batches(kept, plain, settings)
    monkeypatch.setattr(streams, "write_stream", None)  # the second start reads no row
    assert_same_batches(read_examples(file, settings=settings), plain, settings)
    assert "checked" not in capsys.readouterr().out


def test_another_column_or_content_is_read_anew(file, table):
    rows = make_rows()
    assert read_examples(file, settings=make_settings())[4].text_a == rows[4]["text"]
    other = make_settings(text_column="kind", label_column="text")
    assert read_examples(file, settings=other)[4].text_a == rows[4]["kind"]
    rows[4]["text"] = "changed"
    write_table(file, rows)
    assert read_examples(file, settings=make_settings())[4].text_a == "changed"


@pytest.mark.parametrize("lost", ["all.rows", "00001.rows"])
def test_what_was_interrupted_or_damaged_is_read_anew(file, table, lost):
    settings = make_settings()
    plain = read_plainly(file, settings)
    folder = read_examples(file, settings=settings).source.records
    for damage in (Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-3])):
        damage(folder / lost)
        assert_same_batches(read_examples(file, settings=settings), plain, settings)
        assert open_part(folder / "all.rows").facts["parts"] == len([*folder.glob("0*.rows")])


@pytest.mark.parametrize("last", [1, ROWS - 3])
def test_a_reading_that_was_ended_begins_anew(file, table, last, monkeypatch):
    settings, make_record = make_settings(), tables.make_record

    def end(row: dict, *arguments) -> dict:
        if int(row["id"]) >= last:
            raise KeyboardInterrupt
        return make_record(row, *arguments)

    monkeypatch.setattr(tables, "make_record", end)
    with pytest.raises(KeyboardInterrupt):
        read_examples(file, settings=settings)
    assert bool([*Path(table.folder).rglob("00000.rows")]) == (last > 1)
    monkeypatch.setattr(tables, "make_record", make_record)
    plain = read_plainly(file, settings)
    assert_same_batches(read_examples(file, settings=settings), plain, settings)


@pytest.mark.parametrize("change", [{"kind": ""}, {"id": 3}, {"text": "\ud800"}])
def test_what_is_wrong_is_said_as_without(file, table, change):
    rows = make_rows()
    if change == {"text": "\ud800"}:
        file.write_bytes(file.read_bytes().replace(b"founded", b"f\xffunded", 1))
    else:
        rows[60] |= change
        write_table(file, rows)
    settings, said = make_settings(), []
    for read in (read_plainly, lambda path, own: read_examples(path, settings=own)):
        with pytest.raises(InputError) as error:
            read(file, settings)
        said.append(str(error.value))
    assert said[0] == said[1] and "line " in said[0]
    assert not [*Path(table.folder).rglob("*.rows")]


class Row:
    """An example that tells how many of its kind there are."""

    alive: "weakref.WeakSet[Row]" = weakref.WeakSet()
    most = 0

    def __init__(self, number: int) -> None:
        self.id = number
        Row.alive.add(self)
        Row.most = max(Row.most, len(Row.alive))


def test_no_more_than_a_few_rows_are_in_memory(tmp_path):
    streams.write_stream(tmp_path, (Row(number) for number in range(500)), 0)
    assert len(open_part(tmp_path / "00000.rows")) == 500 and Row.most < 5


def test_no_table_is_in_memory(file, table, tmp_path):
    """Neither its rows nor its examples are, as it is read and checked."""
    settings = make_settings()
    read_examples(file, settings=settings)  # and what has to be imported is
    large = write_table(tmp_path / "large.csv", make_rows(8000))
    assert peak_memory(lambda: read_examples(large, settings=settings)) < 1.5e6
    assert peak_memory(lambda: read_plainly(large, settings)) > 1.5e6
    assert list(read_examples(large, settings=settings)) == read_plainly(large, settings)
