"""extras/cache: texts, passages with questions, and written targets: batches as without it."""

import functools
import importlib
import json
import random
import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import is_of_template, use_template
from projects import bake_project, flags, further, run, shorten
from safetensors.numpy import save_file

from core.base.errors import InputError
from core.base.settings import with_tables
from core.data.tokens import train_tokenizer
from core.encoders.encoder import load_tokenizer
from extras.cache import items, settings, sources, storage
from extras.cache.settings import Table
from extras.cache.sources import Examples
from extras.folds.folds import choose

RECORDS = 60
WORDS = "Ada Zoë Müller 北京 Zenco works founded né(e) e\u0301te\u0301 1998, of the in and".split()
TOKENIZER = train_tokenizer([" ".join(WORDS)] * 3, 300)
INPUTS = ["token_ids", "segment_ids", "padding_mask"]


def draw_text(draw: random.Random, most: int = 70) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.choice((1, 3, 12, most))))


# ------------------------------------------------------------------------------- records


def make_single(number: int) -> dict:
    draw = random.Random(number)
    return {"id": number, "text_a": draw_text(draw), "label": draw.choice("abc")}


def make_pair(number: int) -> dict:
    """Pairs with several labels, some of which the training file lacks, in groups."""
    draw = random.Random(number)
    labels = draw.sample(["a", "b", "c", "d"], draw.randrange(4)) + ["rare"] * (number == 5)
    texts = {"text_a": draw_text(draw, 20), "text_b": draw_text(draw)}
    return {"id": number, **texts, "labels": labels, "group": number // 4}


def make_fit(number: int) -> dict:
    draw = random.Random(number)
    texts = {"text_a": draw_text(draw, 20), "text_b": draw_text(draw)}
    return {"id": number, **texts, "label": draw.choice("01")}


def make_number(number: int) -> dict:
    draw = random.Random(number)
    return {"id": number, "text_a": draw_text(draw), "x": draw.gauss(1, 3), "y": draw.random()}


def make_question(number: int) -> dict:
    """Questions in threes on one passage; the first teach nothing, some have no answer."""
    passage, draw = random.Random(number // 3), random.Random(number)
    context = f"{draw_text(passage)} {draw_text(passage)} end"
    starts = [place for place in range(len(context)) if not place or context[place - 1] == " "]
    chosen = [draw.choice(starts) for _ in range(draw.choice((0, 1, 1, 4)))]
    answers = [[start, (context + " ").index(" ", start)] for start in chosen]
    record = {"id": number, "question": draw_text(draw, 40), "context": context}
    if number < 2 or number % 11 == 0:
        return {**record, "answers": [], "answer_texts": ["elsewhere"]}
    if number % 13 == 0:
        answers = [[0, len(context)]]  # longer than any window
    return {**record, "answers": answers}


def make_written(number: int) -> dict:
    draw = random.Random(number)
    targets = [draw_text(draw, 9) for _ in range(draw.choice((1, 1, 2, 3)))]
    return {"id": number, "source": draw_text(draw), "targets": targets}


# ----------------------------------------------------------------------------- templates


def open_texts(changes: dict, inputs: list[str]) -> tuple[Callable, Callable]:
    """Return what reads a file of text classification, and what makes batches of examples."""
    from task.data import ExampleGenerator
    from task.records import check_kind, collect_targets, read_examples
    from task.settings import Settings

    made = with_tables(Settings).model_construct(**changes)

    def read(path: Path) -> Any:
        examples = read_examples(path, settings=made)
        check_kind(examples, collect_targets(examples, made), path)
        return examples

    def generate(known: Any, examples: Any, learn: bool, **others: Any) -> Any:
        own = made.model_copy(update=others)
        arguments = (TOKENIZER, collect_targets(known, made), inputs, own, 8, learn)
        return ExampleGenerator.of(examples, *arguments)

    return read, generate


def open_passages(changes: dict) -> tuple[Callable, Callable]:
    from task.data import AnswerGenerator
    from task.records import read_examples
    from task.settings import Settings

    made = with_tables(Settings).model_construct(**{"window_overlap": 8, **changes})

    def generate(_: Any, examples: Any, learn: bool, **others: Any) -> Any:
        own = made.model_copy(update=others)
        return AnswerGenerator.of(examples, TOKENIZER, INPUTS, own, 8, learn)

    return read_examples, generate


def open_targets(changes: dict, packed: bool = False) -> tuple[Callable, Callable]:
    from extras.writers.packing import PackedGenerator
    from generation.settings import TargetTokens
    from task.data import PairGenerator, SourceGenerator
    from task.records import read_examples
    from task.settings import Settings

    made = with_tables(Settings).model_construct(**{"target_length": 12, **changes})

    def generate(_: Any, examples: Any, learn: bool, **others: Any) -> Any:
        own = made.model_copy(update=others)
        if not learn:
            return SourceGenerator.of(examples, TOKENIZER, INPUTS, own, 8)
        tokens = TargetTokens(2, 3, (0, 1))
        pairs = PairGenerator.of(examples, tokens, TOKENIZER, INPUTS, own, 8)
        return PackedGenerator(pairs, made.max_length + made.target_length) if packed else pairs

    return functools.partial(read_examples, settings=made), generate


BOTH = [f"{side}{name}" for side in ("text_a_", "text_b_") for name in INPUTS]
BASE = {"max_length": 32, "buckets": 3}
NUMBERS = {"output": "number", "competition": {"target_columns": "x, y"}}
PROMPT = {"model": "pretrained", "writers": {"prompt": "of {source} the"}}
# Name -> template, record, and what opens its reader and generators.
CASES: dict[str, tuple[str, Callable, Callable]] = {
    "single": ("text_classification", make_single, lambda: open_texts(BASE, INPUTS)),
    "pairs": (
        "text_classification",
        make_pair,
        lambda: open_texts(BASE, [*INPUTS, "text_numbers"]),
    ),
    "apart": ("text_classification", make_fit, lambda: open_texts(BASE, [*BOTH, *INPUTS])),
    "numbers": (
        "text_classification",
        make_number,
        lambda: open_texts({**BASE, **tables(NUMBERS)}, INPUTS),
    ),
    "passages": ("reading_comprehension", make_question, lambda: open_passages(BASE)),
    "sampled": (
        "reading_comprehension",
        make_question,
        lambda: open_passages({**BASE, "answers": "sample"}),
    ),
    "targets": ("seq2seq", make_written, lambda: open_targets(BASE)),
    "prompts": ("seq2seq", make_written, lambda: open_targets({**BASE, **tables(PROMPT)})),
    "packed": ("seq2seq", make_written, lambda: open_targets(BASE, packed=True)),
}
# One of each template.
TEMPLATES = ("pairs", "passages", "targets")


def tables(changes: dict) -> dict:
    """Return settings whose dicts are the tables of extras."""
    from extras.competition.settings import Table as Competition
    from extras.writers.settings import Table as Writers

    kinds = {"competition": Competition, "writers": Writers}
    return {k: kinds[k](**v) if isinstance(v, dict) else v for k, v in changes.items()}


class Task:
    """A template, with a file of records."""

    def __init__(self, case: str, folder: Path) -> None:
        self.template, self.make, opener = CASES[case]
        use_template(self.template)
        self.read, self.generate = opener()
        self.file = folder / "train.jsonl"
        self.write()

    def write(self, records: int = RECORDS, first: int = 0) -> None:
        rows = [json.dumps(self.make(first + n), ensure_ascii=False) for n in range(records)]
        self.file.write_text("\n\n".join(rows) + "\n", encoding="utf-8")  # with empty lines

    def read_plainly(self) -> list:
        """Read the file as without the extra."""
        kept, settings._used[:] = list(settings._used), []
        try:
            return self.read(self.file)
        finally:
            settings._used[:] = kept

    def plain(self, learn: bool = True, **changes: Any) -> Any:
        examples = self.read_plainly()
        return self.generate(examples, examples, learn, **changes)

    def kept(self, learn: bool = True, **changes: Any) -> Any:
        examples = self.read(self.file)
        assert isinstance(examples, Examples)
        return self.generate(examples, examples, learn, **changes)


@pytest.fixture
def task(request, tmp_path) -> Task:
    """`import task` is a template's for the time of a test."""
    kept = {name: module for name, module in sys.modules.items() if is_of_template(module)}
    path = list(sys.path)
    yield Task(request.param, tmp_path)
    for name in [name for name, module in sys.modules.items() if is_of_template(module)]:
        del sys.modules[name]
    sys.modules.update(kept)
    sys.path[:] = path


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch) -> Table:
    """The extra is switched on; a file has several blocks."""
    own = Table(enabled=True, folder=str(tmp_path / "kept"), processes=1)
    monkeypatch.setattr(settings, "_used", [own])
    monkeypatch.setattr(sources, "BLOCK", 2000)
    monkeypatch.setattr(sources, "READ_AT_ONCE", 700)
    return own


every_case = pytest.mark.parametrize("task", CASES, indirect=True)
every_template = pytest.mark.parametrize("task", TEMPLATES, indirect=True)


def assert_equal(one: Any, two: Any) -> None:
    """To the last bit: values, types, shapes."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        assert_equal(list(one.values()), list(two.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for part, other in zip(one, two, strict=True):
            assert_equal(part, other)
    elif is_dataclass(one):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(two, field.name))
    else:
        assert one == two


def assert_same(kept: Any, plain: Any) -> None:
    """Batches, their shapes and types, and what is decoded with them."""
    names = [name for name in plain.of_items if len(entries_of(plain, name))]
    assert all(isinstance(getattr(kept, name), items.Entries) for name in names)
    assert not any(isinstance(getattr(plain, name), items.Entries) for name in names)
    for name in names:
        assert_equal(list(getattr(kept, name)), list(getattr(plain, name)))
    for epoch in (0, 1, None):
        made = list(kept.batches(epoch))
        assert made
        assert_equal(made, list(plain.batches(epoch)))
    assert kept.signature(4) == plain.signature(4)
    if hasattr(plain, "record_of"):
        assert list(kept.record_of) == list(plain.record_of)
    assert list(kept.examples) == list(plain.examples)


def entries_of(generator: Any, name: str) -> Any:
    """Return a sequence of items; empty where there is none, as labels are in prediction."""
    found = getattr(generator, name)
    return () if found is None else found


def parts_of(table: Table, what: str) -> list[Path]:
    """Return the files of rows of some kind."""
    return sorted(Path(table.folder).glob(f"*/{what}-*/*.rows"))


# ------------------------------------------------------------------------ the same batches


@every_case
@pytest.mark.parametrize("learn", [True, False], ids=["learn", "predict"])
def test_batches_are_the_same_to_the_last_bit(task, table, monkeypatch, learn):
    plain = task.plain(learn)
    if hasattr(plain, "rows"):  # several examples in a row: its items are those of pairs
        assert_packed_alike(task.kept(), plain)
        return
    assert_same(task.kept(learn), plain)
    assert len(parts_of(table, "items")) > 3
    monkeypatch.setattr(items, "write_part", None)
    monkeypatch.setattr(sources, "write_part", None)
    assert_same(task.kept(learn), plain)


def assert_packed_alike(kept: Any, plain: Any) -> None:
    assert isinstance(kept.sources, items.Entries) and isinstance(plain.sources, list)
    for epoch in (0, 1):
        assert_equal(list(kept.batches(epoch)), list(plain.batches(epoch)))
    assert kept.signature(4) == plain.signature(4)


@every_template
@pytest.mark.parametrize("learn", [True, False], ids=["learn", "predict"])
def test_some_examples_have_the_batches_of_a_list_of_them(task, learn):
    """As folds ask for them, in the order of the file and in another one."""
    plain, kept = task.read_plainly(), task.read(task.file)
    task.generate(kept, kept, learn)
    positions = np.array([n for n in range(RECORDS) if n % 3])
    few = choose(kept, positions)
    assert isinstance(few, Examples)
    assert_same(
        task.generate(kept, few, learn), task.generate(plain, choose(plain, positions), learn)
    )
    two = [4, 2]
    assert_same(
        task.generate(kept, few.choose(two), learn),
        task.generate(plain, [plain[positions[n]] for n in two], learn),
    )


@every_template
def test_several_processes_encode_as_one(task, table, monkeypatch):
    table.processes = 2
    monkeypatch.setattr(sources, "SHARED", 0)
    assert_same(task.kept(), task.plain())


@pytest.mark.parametrize("task", [name for name in CASES if name != "packed"], indirect=True)
def test_a_second_start_reads_a_few_records(task, monkeypatch):
    """Whatever the size of the file: what is known of all of them was kept."""
    task.kept()
    read: dict[str, int] = {}
    bytes_between = storage.Rows.bytes_between

    def count(self: Any, first: int, last: int) -> Any:
        kind = type(self).__name__
        read[kind] = read.get(kind, 0) + last - first
        return bytes_between(self, first, last)

    monkeypatch.setattr(storage.Rows, "bytes_between", count)
    next(task.kept().batches(0))
    assert read["Examples"] < 12 and read["Items"] < 30, read


@pytest.mark.parametrize("task", ["passages"], indirect=True)
def test_passages_are_encoded_once_in_a_block(task, monkeypatch):
    """Many consecutive questions share one passage."""
    tokenizer, given = TOKENIZER, []
    monkeypatch.setattr(sources, "BLOCK", 1 << 22)

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def encode_batch(self, texts: list[str], **options: Any) -> list:
            given.extend(texts)
            return tokenizer.encode_batch(texts, **options)

    monkeypatch.setattr(sys.modules[__name__], "TOKENIZER", Watched())
    monkeypatch.setattr(items, "key_of", lambda *_: "one")
    task.kept()
    passages = {example.context for example in task.read_plainly()}
    counts = [given.count(passage) for passage in passages]
    # The first questions are encoded at each start, up to one that teaches something.
    assert len(passages) > 10 and sorted(counts)[:-1] == [1] * (len(passages) - 1)


# ---------------------------------------------------------------------------------- keys


def keys_of(table: Table) -> set[str]:
    return {path.parent.name for path in parts_of(table, "items")}


@every_template
@pytest.mark.parametrize(
    ("changes", "anew"),
    [({"max_length": 24}, True), ({"buckets": 1}, False), ({"learning_rate": 1e-5}, False)],
)
def test_settings_that_matter_change_the_key(task, table, changes, anew):
    task.kept()
    before = keys_of(table)
    assert_same(task.kept(**changes), task.plain(**changes))
    assert (len(keys_of(table)) > len(before)) == anew


@pytest.mark.parametrize("task", ["prompts"], indirect=True)
def test_the_prompt_of_a_writer_is_in_the_key(task, table):
    from extras.writers.settings import Table as Writers

    task.kept(learn=False)
    other = {"writers": Writers(prompt="{source} in")}
    assert_same(task.kept(learn=False, **other), task.plain(learn=False, **other))
    assert len(keys_of(table)) == 2


@pytest.mark.parametrize("task", ["numbers"], indirect=True)
def test_columns_of_numbers_are_in_the_key_of_records(task, table):
    from extras.competition.settings import Table as Competition
    from task.records import read_examples
    from task.settings import Settings

    for columns in ("x", "y"):
        changes = {"output": "number", "competition": Competition(target_columns=columns)}
        made = with_tables(Settings).model_construct(**changes)
        examples = read_examples(task.file, settings=made)
        assert isinstance(examples, Examples)
        wanted = [record[columns] for record in map(make_number, range(RECORDS))]
        assert [example.numbers[0] for example in examples] == wanted
    assert len({path.parent for path in parts_of(table, "records")}) == 2


@pytest.mark.parametrize("task", ["single"], indirect=True)
def test_a_reading_can_not_read_another_setting(task):
    from core.data.records import read_records
    from task.records import FIELDS, Example
    from task.settings import Settings

    made = with_tables(Settings).model_construct()
    with pytest.raises(InputError, match="reads the setting learning_rate, which extras/cache"):
        read_records(task.file, FIELDS, functools.partial(read_by_rate, kind=Example, own=made))


def read_by_rate(record: dict, line: int, kind: type, own: Any) -> Any:
    """As a participant may write it."""
    return kind(record["id"], record["text_a"] * int(own.learning_rate), None, (), False, None, 1)


def test_code_of_extras_that_is_asked_is_in_the_key(tmp_path, monkeypatch):
    """Whether or not it is imported by then."""
    code = b'ask("load_backbone", 1)\nneed("competition", "targets")\n'
    names = storage.imports_of(code)
    assert {"extras.writers.hooks", "extras.competition.targets"} <= {*names}
    assert "extras.retrieval.hooks" not in names
    assert (
        storage.find_module("extras.writers.files", {storage.PROJECT: {"extras"}}).name
        == "files.py"
    )
    place = tmp_path / "extras/writers"
    place.mkdir(parents=True)
    (place / "hooks.py").write_text("def load_backbone(): ...\n", encoding="utf-8")
    (tmp_path / "asks_of_cache.py").write_bytes(b"def f():\n    " + code[:23])
    monkeypatch.syspath_prepend(tmp_path)
    import asks_of_cache  # noqa: F401

    monkeypatch.setattr(storage, "PROJECT", tmp_path)
    before = storage.code_hash("asks_of_cache")
    (place / "hooks.py").write_text("def load_backbone(): return 1\n", encoding="utf-8")
    assert storage.code_hash("asks_of_cache") != before


# ------------------------------------------------------------------ what is said, as before


@every_template
def test_what_is_wrong_with_a_record_is_said_as_without_the_extra(task, table):
    text = task.file.read_text(encoding="utf-8")
    lacks = {"id": "x", "text_b": "b", "group": "q", "labels": ["a"], "context": "c"}
    bad = [json.dumps(lacks), json.dumps(task.make(3)), "[1]"]
    if task.template == "text_classification":  # each is right alone, and not beside the others
        whole = task.make(99)
        bad += [json.dumps({k: v for k, v in whole.items() if k != "group"})]
        bad += [json.dumps({**{k: v for k, v in whole.items() if k != "labels"}, "label": "a"})]
    for line in bad:
        task.file.write_text(f"{text}{line}\n", encoding="utf-8")
        with pytest.raises(InputError) as plainly:
            task.read_plainly()
        for _ in range(2):  # nothing is kept of what was refused
            with pytest.raises(InputError) as kept:
                task.read(task.file)
            assert str(kept.value) == str(plainly.value), line


@pytest.mark.parametrize("task", ["passages"], indirect=True)
def test_a_file_that_teaches_nothing_is_refused(task):
    from task.data import check_answers

    rows = [{**task.make(n), "answers": [], "answer_texts": ["x"]} for n in range(9)]
    task.file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for make in (task.plain, task.kept):
        with pytest.raises(InputError, match="no training example has an answer"):
            check_answers(make())
    rows = [{**task.make(13), "id": n} for n in range(9)]
    task.file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for make in (task.plain, task.kept):
        with pytest.raises(InputError, match="no answer fits into a window"):
            check_answers(make())


def test_records_that_an_extra_changes_are_not_kept(tmp_path, table, capsys):
    from extras.extraction.records import read_examples

    path, triple = tmp_path / "train.jsonl", {"subject": [0, 3], "predicate": "p", "object": [4, 6]}
    path.write_text(json.dumps({"id": 1, "text": "Ada is", "triples": [triple]}) + "\n")
    assert isinstance(read_examples(path, "triples", True), list)
    assert "extras.extraction.records reads it" in capsys.readouterr().out
    assert not Path(table.folder).exists()


@pytest.mark.parametrize("task", ["pairs"], indirect=True)
def test_records_that_are_scored_beside_dev_are_chosen_by_groups_too(task):
    from extras.regularization.train_scores import choose_examples

    plain, kept = task.read_plainly(), task.read(task.file)
    chosen = choose_examples(kept, 10, 3)
    assert isinstance(chosen, Examples)
    assert list(chosen) == choose_examples(plain, 10, 3)


@pytest.mark.parametrize("task", ["apart"], indirect=True)
def test_a_bi_encoder_looks_at_its_batches_as_before(task, monkeypatch):
    from extras.retrieval import bi_encoder
    from extras.retrieval.settings import Table as Retrieval

    monkeypatch.setattr(bi_encoder, "order_labels", lambda *_: [0, 1])
    own = type("Own", (), {"retrieval": Retrieval(loss="negatives")})
    said = []
    for made in (task.plain(), task.kept()):
        monkeypatch.setattr("builtins.print", lambda *words: said.append(words))
        bi_encoder.refuse_empty_batches(own, made)
    assert said[: len(said) // 2] == said[len(said) // 2 :]


# -------------------------------------------------------------------------- damaged files


def flip(path: Path, place: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)


@every_template
@pytest.mark.parametrize("place", [0, 5, 200, -1, -60])
def test_a_flipped_bit_of_the_items_changes_no_batch(task, table, place, capsys):
    plain = task.plain()
    task.kept()
    path = parts_of(table, "items")[1]
    flip(path, place)
    assert_same(task.kept(), plain)
    assert ("is damaged: it is deleted" in capsys.readouterr().out) == (place >= 0)
    assert_same(task.kept(), plain)
    assert path.is_file()


@every_template
def test_a_flipped_bit_of_the_records_is_one_sentence(task, table):
    plain = task.plain()
    task.kept()
    flip(parts_of(table, "records")[1], 40)
    with pytest.raises(InputError, match="was damaged, and is deleted: run the same command again"):
        list(task.read(task.file))
    assert_same(task.kept(), plain)


@every_template
def test_all_damaged_files_are_found_by_one_start(task, table):
    """Those of another file of records too."""
    plain, first = task.plain(), task.file
    task.kept()
    task.file = first.with_name("dev.jsonl")
    task.write()
    task.read(task.file)
    paths = parts_of(table, "records")
    others = {path.parent for path in paths}
    damaged = [next(path for path in paths if path.parent == folder) for folder in others]
    damaged.append(parts_of(table, "records")[1])
    for path in damaged:
        flip(path, 40)
    with pytest.raises(InputError, match="were damaged; all are deleted: run the same") as told:
        list(task.read(first))
    assert len({*damaged}) == 3 and all(str(path) in str(told.value) for path in damaged)
    task.file = first
    assert_same(task.kept(), plain)
    assert len(list(task.read(first.with_name("dev.jsonl")))) == RECORDS


# ------------------------------------------------------------------------------ vocabulary


def learn(task, examples) -> Any:
    """Return what the encoder `tiny` of a task learns from examples."""
    texts_of = getattr(sys.modules["task.records"], "tokenizer_texts", None)
    own, train = SimpleNamespace(encoder="tiny", tiny_vocabulary=300), train_tokenizer
    if task.template == "seq2seq":
        train = importlib.import_module("generation.tokenizers").train_text_tokenizer
    return load_tokenizer(own, examples, texts_of, train)


@every_template
def test_a_vocabulary_is_learned_once(task, table, monkeypatch, capsys):
    plain = learn(task, task.read_plainly())
    said = capsys.readouterr().out.splitlines()[-1]
    first = learn(task, task.read(task.file))
    monkeypatch.setattr(Examples, "__iter__", None)  # no text is read again
    again = learn(task, task.read(task.file))
    assert plain.to_str() == first.to_str() == again.to_str()
    assert re.fullmatch(r"vocabulary of tiny: learned from \d+ texts", said)
    assert capsys.readouterr().out.splitlines()[-1] == said


@every_template
def test_a_vocabulary_of_other_texts_or_damaged_is_learned_anew(task, table):
    learn(task, task.read(task.file))
    for fact in Path(table.folder).glob("*/*.fact"):
        flip(fact, 20)
    assert learn(task, task.read(task.file)).to_str() == learn(task, task.read_plainly()).to_str()
    task.write(first=7)
    assert learn(task, task.read(task.file)).to_str() == learn(task, task.read_plainly()).to_str()


# ---------------------------------------------------------------------------------- files


@every_template
@pytest.mark.parametrize("size", [0, 10, 700])
def test_a_file_that_is_cut_off_is_made_anew(task, table, size):
    plain = task.plain()
    task.kept()
    for what in ("records", "items"):
        path = parts_of(table, what)[0]
        path.write_bytes(path.read_bytes()[:size])
    assert_same(task.kept(), plain)


@every_template
def test_a_file_that_has_changed_is_encoded_anew(task, table, capsys):
    task.kept()
    task.write(20, first=500)
    assert_same(task.kept(), task.plain())
    assert "is deleted, for train.jsonl has changed" in capsys.readouterr().out
    assert sum(len(storage.open_part(path)) for path in parts_of(table, "records")) == 20
    assert len(keys_of(table)) == 1


@every_template
def test_items_that_are_encoded_otherwise_are_not_kept(task, table, monkeypatch, capsys):
    """What no key knows, such as another build of a library."""
    kind = type(task.kept())
    encode = kind.__init__

    @functools.wraps(encode)
    def other(self: Any, *arguments: Any, **named: Any) -> None:
        encode(self, *arguments, **named)
        for entry in getattr(self, self.of_items[0])[:1]:
            ids = entry[0] if isinstance(entry, tuple) else getattr(entry, "token_ids", entry)
            ids[0] += 1

    monkeypatch.setattr(kind, "__init__", other)
    made = task.kept()
    assert not any(isinstance(getattr(made, name), items.Entries) for name in made.of_items)
    assert "it is not kept" in capsys.readouterr().out and not parts_of(table, "items")


# -------------------------------------------------------------------------- rows of numbers


@pytest.mark.parametrize(
    "value",
    [
        np.array([0, 1, 1], np.float32),
        np.array([0.5, -0.0, 1], np.float32),
        np.array([-0.0], np.float32),
        np.array([np.nan, np.inf, 1e30], np.float32),
        np.array([300], np.float32),
        np.array([40000, -1], np.int32),
        np.array([[7, -7]], np.int32),
        np.zeros((3, 0), np.float32),
        np.array([1, 2], np.int64),
        np.array([True]),
    ],
)
def test_arrays_are_the_same_bits(value):
    [data] = storage.pack([[value]])
    assert_equal(storage.unpack(data, {}), [value])
    [one] = storage.pack([np.ones(1000, np.float32)])
    assert len(one) < 1100  # labels as 0 and 1 take a byte each


# ------------------------------------------------------------------------------ a project

TEXT_FIELDS = ("text", "text_a", "question", "context", "source")


def write_bert(folder: Path, project: Path) -> Path:
    """Write a small BERT, whose tokenizer knows the sample, in the format of Hugging Face."""
    folder.mkdir()
    lines = (project / "sample/train.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [str(json.loads(line).get(name, "")) for line in lines for name in TEXT_FIELDS]
    tokenizer = train_tokenizer(texts, 400)
    tokenizer.save(str(folder / "tokenizer.json"))
    width, draw = 32, np.random.default_rng(1)
    config = {
        "model_type": "bert",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 200,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    layer = "encoder.layer.0"
    dense = {f"{layer}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
    dense |= {f"{layer}.attention.output.dense": (width, width), "pooler.dense": (width, width)}
    dense |= {f"{layer}.intermediate.dense": (48, width), f"{layer}.output.dense": (width, 48)}
    tables = {"word": config["vocab_size"], "position": 200, "token_type": 2}
    shapes = {f"embeddings.{k}_embeddings.weight": (size, width) for k, size in tables.items()}
    shapes |= {f"{name}.weight": shape for name, shape in dense.items()}
    tensors = {k: draw.normal(0, 0.1, shape).astype(np.float32) for k, shape in shapes.items()}
    tensors |= {f"{name}.bias": np.zeros(size, np.float32) for name, (size, _) in dense.items()}
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        tensors[f"{name}.LayerNorm.weight"] = np.ones(width, np.float32)
        tensors[f"{name}.LayerNorm.bias"] = np.zeros(width, np.float32)
    save_file(tensors, folder / "model.safetensors")
    return folder


def damage_all_but_the_first(path: Path) -> None:
    """Whoever reads another row of the file ends with a sentence."""
    part = storage.open_part(path)
    for place in part.places(1, len(part))[:-1]:
        flip(path, place + 5)


def weights_of(run_folder: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(run_folder / "best.weights.h5") as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(
    "template",
    further(
        ["relation_extraction", "text_classification", "reading_comprehension", "seq2seq"],
        "text_classification",
    ),
)
def test_a_project_trains_and_predicts_as_without_the_extra(template, tmp_path):
    """A second start reads no record of the training file but the first."""
    project = bake_project(template, tmp_path, "cache, folds")
    shorten(project, {"train": 24, "dev": 8, "test": 8})
    encoder = write_bert(tmp_path / "bert", project)
    found, weights = [], []
    for name, on in {"plain": False, "first": True, "second": True}.items():
        if name == "second":
            [records] = project.glob("cache/train-*/records-*/*.rows")
            damage_all_but_the_first(records)
        asked = {"run_name": name, "steps": 4, "batch_size": 8, "encoder": encoder}
        said = run("train.py", *flags(project, **asked, **{"cache.enabled": on}), cwd=project)
        folder = project / "runs" / name
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for row in rows:
            row.pop("examples_per_second")
            row.pop("tokens_per_second", None)
        found.append((rows, (folder / "predictions/dev.jsonl").read_bytes()))
        weights.append(weights_of(folder))
        assert ("items of" in said.stdout) == on
        assert ("encoded in" in said.stdout) == (name == "first")
    assert found[0] == found[1] == found[2]
    assert len(weights[0]) > 10
    for other in weights[1:]:
        assert_equal(other, weights[0])
    config = project / "config.toml"
    text, outputs = config.read_text(encoding="utf-8"), []
    for switch in ("false", "true"):
        config.write_text(text.replace("enabled = false", f"enabled = {switch}"), encoding="utf-8")
        said = run("predict.py", "second", "sample/test.jsonl", f"{switch}.jsonl", cwd=project)
        outputs.append((project / f"{switch}.jsonl").read_bytes())
    assert "items of" in said.stdout and outputs[0] == outputs[1]
