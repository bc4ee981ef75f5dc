"""extras/cache: columns of CoNLL are read once; batches and mistakes are as without it."""

import itertools
import random
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import is_of_template, use_template
from traced_memory import peak_memory

use_template("named_entity_recognition")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.cache import settings as tables_in_use  # noqa: E402
from extras.cache import sources, streams  # noqa: E402
from extras.cache.settings import Table  # noqa: E402
from extras.cache.sources import Examples, recall  # noqa: E402
from formats import conll  # noqa: E402
from task.data import EntityGenerator  # noqa: E402
from task.records import collect_schema, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

OWN = {name: module for name, module in sys.modules.items() if is_of_template(module)}
PATH = list(sys.path)
SENTENCES = 120
WORDS = ["Ada", "Zoë", "北京", "Zenco", "works", "founded", "1998", "of", "the", "in"]
TOKENIZER = train_tokenizer([" ".join(WORDS)] * 3, 200)
INPUTS = ["token_ids", "segment_ids", "padding_mask"]


@pytest.fixture(autouse=True)
def own_task(monkeypatch) -> None:
    """`import task` is that of entities, whatever other modules of tests have asked for."""
    for name in [name for name, module in sys.modules.items() if is_of_template(module)]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in OWN.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path", list(PATH))


def make_lines(sentences: int = SENTENCES) -> list[str]:
    """Return tokens and tags with what else a file may have; only the second half has I."""
    draw = random.Random(3)
    lines = ["-DOCSTART- O", ""]
    for number in range(sentences):
        chunks, length = [], draw.choice((1, 3, 30))
        for first in range(0, length, 3):
            last = min(length - 1, first + draw.randrange(2)) if number > sentences // 2 else first
            chunks += [(draw.choice(["PER", "LOC"]), first, last)] * draw.randrange(2)
        tags = conll.write_chunks(chunks, length, "bio2")
        cells = zip(draw.choices(WORDS, k=length), tags, strict=True)
        lines += [
            f"{word} {letter}-{kind}" if kind else f"{word} O" for word, (letter, kind) in cells
        ]
        lines += [""] * draw.choice((1, 2))
    return lines


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def make_settings(**columns):
    kept = list(tables_in_use._used)
    made = with_tables(Settings)(conll=columns, max_length=24, window_overlap=4, buckets=3)
    tables_in_use._used[:] = kept  # which the settings have set to their own table
    return made


@pytest.fixture
def file(tmp_path) -> Path:
    return write_lines(tmp_path / "train.conll", make_lines())


@pytest.fixture
def table(tmp_path, monkeypatch) -> Table:
    own = Table(enabled=True, folder=str(tmp_path / "kept"), processes=1)
    monkeypatch.setattr(tables_in_use, "_used", [own])
    monkeypatch.setattr(streams, "BLOCK", 4000)
    monkeypatch.setattr(sources, "SHARED", 1)
    monkeypatch.setattr(sources, "READ_AT_ONCE", 1 << 16)
    return own


def read_plainly(path: Path, settings, **options):
    kept, tables_in_use._used[:] = list(tables_in_use._used), []
    try:
        return read_examples(path, settings, **options)
    finally:
        tables_in_use._used[:] = kept


def assert_same_batches(kept, plain, path: Path, settings) -> None:
    schema = collect_schema(plain, settings)
    assert isinstance(kept, Examples) and list(kept) == plain
    one, two = (
        EntityGenerator.of(examples, TOKENIZER, schema.types, INPUTS, settings, 8)
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
    collect = partial(collect_schema, settings=settings)
    schema = collect(plain)
    kept = read_examples(file, settings)
    assert len(kept.parts) > 3 and f"cache: {SENTENCES} records" in capsys.readouterr().out
    assert recall(collect, kept) == schema and schema.scheme == "bio2"
    assert_same_batches(kept, plain, file, settings)
    monkeypatch.setattr(conll, "read_conll", None)  # the second start reads no sentence
    again = read_examples(file, settings)
    assert recall(collect, again) == schema and list(again) == plain
    monkeypatch.undo()
    assert "checked" not in capsys.readouterr().out


def test_files_without_tags_are_kept_apart(file, table):
    settings = make_settings()
    write_lines(file, [line.partition(" ")[0] for line in make_lines()])
    kept = read_examples(file, settings, require_entities=False)
    assert isinstance(kept, Examples)
    assert list(kept) == read_plainly(file, settings, require_entities=False)
    with pytest.raises(InputError, match="1 column"):
        read_examples(file, settings)


def test_other_columns_or_content_are_read_anew(file, table):
    lines = make_lines()
    assert read_examples(file, make_settings())[0].text == lines[2].split()[0]
    joined = make_settings(join="none")
    assert list(read_examples(file, joined)) == read_plainly(file, joined)
    bio1 = make_settings(scheme="bio1", broken_tags="begin")
    assert list(read_examples(file, bio1)) == read_plainly(file, bio1)
    write_lines(file, ["changed O", "", *lines])
    assert read_examples(file, make_settings())[0].text == "changed"


@pytest.mark.parametrize("last", [1, SENTENCES - 3])
def test_a_reading_that_was_ended_begins_anew(file, table, last, monkeypatch):
    settings, join_tokens, texts = make_settings(), conll.join_tokens, itertools.count()

    def end(*arguments) -> tuple:
        if next(texts) >= last:
            raise KeyboardInterrupt
        return join_tokens(*arguments)

    monkeypatch.setattr(conll, "join_tokens", end)
    with pytest.raises(KeyboardInterrupt):
        read_examples(file, settings)
    assert bool([*Path(table.folder).rglob("00000.rows")]) == (last > 1)
    monkeypatch.setattr(conll, "join_tokens", join_tokens)
    assert_same_batches(read_examples(file, settings), read_plainly(file, settings), file, settings)


@pytest.mark.parametrize(
    "wrong", ["Oslo VB", "Oslo I-PER", "Oslo S-PER\nOslo L-PER", "Oslo", " O", "\udcff O"]
)
def test_what_is_wrong_is_said_as_without(file, table, wrong):
    text = "\n".join([*make_lines(), "in O", wrong, ""])
    file.write_bytes(text.encode(errors="surrogateescape"))
    settings, said = make_settings(), []
    line = len(make_lines()) + 2 + wrong.count("\n")
    for read in (read_plainly, read_examples):
        with pytest.raises(InputError) as error:
            read(file, settings)
        said.append(str(error.value))
    assert said[0] == said[1] and f"train.conll, line {line}: " in said[0]
    assert not [*Path(table.folder).rglob("*.rows")]


def test_no_more_than_a_few_sentences_are_in_memory(file, table, tmp_path):
    """Neither examples nor columns are, as a file is read, and as its scheme is looked for."""
    settings = make_settings()
    read_examples(file, settings)  # and what has to be imported is
    large = write_lines(tmp_path / "large.conll", make_lines(3000))

    def look_for_scheme() -> None:
        columns = conll.read_conll(large, settings.conll, True)
        assert conll.file_scheme(columns, settings.conll) == "bio2"

    assert peak_memory(look_for_scheme) < 1.5e6
    assert peak_memory(lambda: read_examples(large, settings)) < 1.5e6
    assert peak_memory(lambda: read_plainly(large, settings)) > 1.5e6
    kept = read_examples(large, settings)
    assert len(kept) == 3000 and list(kept) == read_plainly(large, settings)
