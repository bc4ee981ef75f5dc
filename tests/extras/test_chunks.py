"""extras/chunks: the answers of one prediction, however it is cut, shared out and interrupted."""

import json
import random
import shutil
import signal
import sys
import weakref
from argparse import ArgumentParser
from pathlib import Path

import pytest
from conftest import is_of_template, use_template
from project_process import ProjectProcess
from projects import CASES, TASKS, bake_project, flags, further, run, shorten, template_of

PROJECT = use_template("relation_extraction")

from core.base.errors import EndedWell, InputError  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.cache import settings as cache_settings  # noqa: E402
from extras.cache.settings import Table  # noqa: E402
from extras.cache.sources import Examples  # noqa: E402
from extras.chunks import answers, hooks, sources  # noqa: E402
from extras.chunks.answers import hold, path_of, predict_part  # noqa: E402
from extras.chunks.memory import emptied  # noqa: E402
from extras.chunks.plan import CHUNK, Plan, describe_run  # noqa: E402
from extras.chunks.sources import Source  # noqa: E402
from task.data import TripleGenerator  # noqa: E402
from task.records import Example, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

OWN = {name: module for name, module in sys.modules.items() if is_of_template(module)}
PATH = list(sys.path)
RECORDS, SOME = 50, 8
WORDS = "Ada Zoë 北京 Zenco works founded né(e) e\u0301te\u0301 \u2028 1998, of the in and".split(
    " "
)


def make_record(number: int, **more) -> dict:
    draw = random.Random(number)
    text = " ".join(draw.choice(WORDS) for _ in range(draw.choice((3, 12, 40))))
    return {"id": number, "text": text, **more}


def write_file(path: Path, records: list[dict], end: str = "\n\n", mark: bytes = b"") -> Path:
    """Write records with empty lines between them."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_bytes(mark + (end.join(lines) + end).encode())
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
    return write_file(tmp_path / "test.jsonl", [make_record(n) for n in range(RECORDS)])


def make_plan(
    file: Path, part: tuple[int, int] | None = None, changed: tuple[str, ...] = ()
) -> Plan:
    """Return a plan whose runs need not be there."""
    plan = Plan(("default",), file, file.with_name("out.jsonl"), SOME, part, {})
    names = ("file", "runs", "flags", "code")
    plan.__dict__["facts"] = {name: "b" if name in changed else "a" for name in names}
    return plan


TOKENIZER = train_tokenizer([make_record(n)["text"] for n in range(RECORDS)], 300)


def generator(examples) -> TripleGenerator:
    """Return the batches of examples, four in each."""
    settings = Settings.model_construct(max_length=64, window_overlap=8, buckets=3)
    return TripleGenerator.of(examples, TOKENIZER, ["p0"], ["token_ids"], settings, 4, False)


def read_lazily(plan: Plan):
    """Return the examples as predict.py reads them."""
    hooks._plans[:] = [plan]
    return read_examples(plan.file, require_triples=False)


def read_plainly(path: Path) -> list[Example]:
    hooks._plans.clear()
    return read_examples(path, require_triples=False)


def describe(examples) -> list[dict]:
    """Stand in for a model."""
    return [{"id": example.id, "score": 1 / (3 + len(example.text))} for example in examples]


def predict(plan: Plan, function=describe, write: bool = True) -> list[dict]:
    """Return what predict.py would write, and write it."""
    records = predict_part(plan, function, read_lazily(plan))
    found = [record for record in records]
    if write:
        plan.out.write_text("".join(f"{json.dumps(record)}\n" for record in found))
    return found


def chunks_of(plan: Plan) -> list[int]:
    return [number for number in range(20) if path_of(plan, number).is_file()]


# ------------------------------------------------------------------------------- the records


@pytest.mark.parametrize(("end", "mark"), [("\n\n", b""), ("\r\n", b"\xef\xbb\xbf")])
def test_examples_are_those_of_core(tmp_path, end, mark):
    records = [make_record(n, triples=[]) for n in range(RECORDS)]
    file = write_file(tmp_path / "test.jsonl", records, end, mark)
    plain, lazy = read_plainly(file), read_lazily(make_plan(file))
    assert isinstance(lazy, Source) and isinstance(plain, list)
    assert list(lazy) == plain and list(lazy) == plain and len(lazy) == RECORDS
    for part in (slice(0, 8), slice(8, 16), slice(5, 30), slice(48, 99), slice(3, 40, 7)):
        assert lazy[part] == plain[part]
    assert lazy[0] == plain[0] and lazy[-1] == plain[-1] and lazy[17] == plain[17]
    with pytest.raises(IndexError):
        lazy[RECORDS]


def test_only_the_file_to_predict_is_read_so_and_only_if_it_has_several_chunks(file, tmp_path):
    other = write_file(tmp_path / "other.jsonl", [make_record(n) for n in range(RECORDS)])
    few = write_file(tmp_path / "few.jsonl", [make_record(n) for n in range(SOME)])
    hooks._plans[:] = [make_plan(file)]
    assert isinstance(read_examples(other, require_triples=False), list)
    assert isinstance(read_lazily(make_plan(few)), list)
    strange = write_file(tmp_path / "mac.jsonl", [make_record(n) for n in range(RECORDS)], "\r")
    assert read_lazily(make_plan(strange)) == read_plainly(strange)


def test_what_is_wrong_with_a_record_is_said_as_core_says_it(file):
    text = file.read_text(encoding="utf-8")
    bad = {
        "another id": json.dumps(make_record(3)),
        "an id as text": json.dumps(make_record(3) | {"id": "3"}),
        "no object": "[1]",
        "no text": '{"id": 99}',
        "a span": json.dumps(make_record(99, triples=[{"subject": [9, 5]}])),
        "half a character": '{"id": "x", "text": "\\ud800"}',
    }
    for name, line in bad.items():
        file.write_text(f"{text}{line}\n", encoding="utf-8")
        with pytest.raises(InputError) as plainly:
            read_plainly(file)
        with pytest.raises(InputError) as lazily:
            read_lazily(make_plan(file))
        assert str(lazily.value) == str(plainly.value), name
    file.write_bytes(f"{text}".encode() + b'{"id": 99, "text": "\xff"}\n')
    with pytest.raises(InputError, match="not UTF-8"):
        read_lazily(make_plan(file))
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="holds no record"):
        read_lazily(make_plan(file))


def test_two_ids_may_share_a_hash(file, monkeypatch):
    monkeypatch.setattr(sources, "short_hash", lambda text: len(text))
    assert list(read_lazily(make_plan(file))) == read_plainly(file)
    with open(file, "a", encoding="utf-8") as out:
        out.write(json.dumps(make_record(7)) + "\n")
    with pytest.raises(InputError, match="line 101: id 7 is on line 15 already"):
        read_lazily(make_plan(file))


def test_keys_that_nothing_reads_are_warned_of_as_by_core(file, capsys):
    more = [make_record(100 + n, **{f"key_{n}": 1}) for n in range(5)]
    with open(file, "a", encoding="utf-8") as out:
        out.write("".join(f"{json.dumps(record)}\n" for record in more))
        out.write('{"id": 200, "id": 201, "text": "Ada"}\n')
    read_plainly(file)
    said = capsys.readouterr().out
    read_lazily(make_plan(file))
    assert capsys.readouterr().out == said != ""


def test_the_extra_cache_may_read_the_records(file, tmp_path, monkeypatch):
    """What one process noted with it serves another that reads without it."""
    whole = describe(read_plainly(file))
    table = Table(enabled=True, folder=str(tmp_path / "kept"), processes=1)
    monkeypatch.setattr(cache_settings, "_used", [table])
    assert isinstance(read_lazily(make_plan(file)), Examples)
    with pytest.raises(EndedWell):
        predict(make_plan(file, (1, 2)))
    table.enabled = False
    assert isinstance(read_lazily(make_plan(file)), Source)
    assert predict(make_plan(file, (2, 2))) == whole


def test_a_file_that_changes_is_noticed(file):
    lazy = read_lazily(make_plan(file))
    with open(file, "a", encoding="utf-8") as out:
        out.write("\n")
    with pytest.raises(InputError, match="has changed while it was read: run the command again"):
        lazy[:SOME]


# ---------------------------------------------------------------------------------- memory


def predict_batches(examples) -> list[dict]:
    """Read all batches as a model does: TensorFlow keeps what a dataset was made from."""
    for batch in generator(examples).to_prediction_dataset():
        assert len(batch["token_ids"]) == 4
    return describe(examples)


@pytest.mark.parametrize("model", [describe, predict_batches])
def test_one_chunk_of_examples_is_in_memory(file, monkeypatch, model):
    """Neither those before nor the records that were written of them stay."""
    alive, most, calls = weakref.WeakSet(), [], []
    make = Example.__init__

    def note(self, *arguments, **named):
        make(self, *arguments, **named)
        alive.add(self)

    def watch(examples):
        most.append(len(alive))
        calls.append(len(examples))
        return model(examples)

    monkeypatch.setattr(Example, "__init__", note)
    monkeypatch.setattr(Example, "__hash__", object.__hash__)
    monkeypatch.setattr(Example, "__eq__", object.__eq__)
    records = predict_part(plan := make_plan(file), watch, read_lazily(plan))
    assert calls == [SOME] * 6 + [RECORDS % SOME] and max(most) == SOME
    del records
    read, in_memory = answers.read_chunk, []

    class Noted(dict):
        pass

    def watch_records(plan, number):
        found = [Noted(record) for record in read(plan, number)]
        known.update(found)
        in_memory.append(len(known))
        return found

    known = weakref.WeakSet()
    Noted.__hash__ = object.__hash__
    monkeypatch.setattr(answers, "read_chunk", watch_records)
    for record in predict_part(plan, watch, read_lazily(plan)):
        assert record
    del record
    assert len(in_memory) == 7 and max(in_memory) <= 2 * SOME


# ------------------------------------------------------------------------- parts and chunks


@pytest.mark.parametrize("chunks", [1, 2, 7, 16, 100])
@pytest.mark.parametrize("parts", [1, 3, 16])
def test_parts_are_all_chunks_each_once(file, chunks, parts):
    own = [[*make_plan(file, (n, parts)).own(chunks)] for n in range(1, parts + 1)]
    assert sum(own, []) == [*range(chunks)]
    assert max(map(len, own)) - min(map(len, own)) <= 1
    assert [*make_plan(file).own(chunks)] == [*range(chunks)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--part", "4/3"], "--part 4/3 is not a part: write 3/16 for the third of sixteen"),
        (["--part", "0/3"], "--part 0/3 is not a part"),
        (["--part", "3"], "--part 3 is not a part"),
        (["--part", "-1/3"], "--part -1/3 is not a part"),
        (["--chunk", "0"], "--chunk 0 must be a number of records"),
        (["--chunk", "some"], "--chunk some must be a number of records"),
    ],
)
def test_bad_flags_get_one_sentence(words, said, monkeypatch):
    parser = ArgumentParser()
    for name in ("runs", "file", "out"):
        parser.add_argument(name)
    monkeypatch.setattr(sys, "argv", ["predict.py", "a", "b", "c", f"{words[0]}={words[1]}"])
    with pytest.raises(InputError, match=said):
        hooks.read_flags(parser)


def test_whoever_finds_all_chunks_gets_the_answers_of_all_parts(file):
    whole = describe(read_plainly(file))
    for order in ([1, 2, 3], [3, 1, 2]):
        for number in order[:-1]:
            with pytest.raises(EndedWell, match=f"part {number}/3 is predicted, . of 7 chunks are"):
                predict(make_plan(file, (number, 3)))
        plan = make_plan(file, (order[-1], 3))
        assert not plan.out.exists() and predict(plan) == whole
        assert not plan.folder.exists() and plan.out.is_file()
        plan.out.unlink()


def test_more_parts_than_chunks_are_said(file):
    with pytest.raises(EndedWell, match="9 parts share 7 chunks: a lower --chunk makes more"):
        predict(make_plan(file, (1, 9)))


def test_answers_are_a_sequence(file):
    plan = make_plan(file)
    records = predict_part(plan, describe, read_lazily(plan))
    whole = describe(read_plainly(file))
    assert len(records) == RECORDS and list(records) == whole == list(records)
    assert records[0] == whole[0] and records[-1] == whole[-1] and records[9] == whole[9]
    assert records[5:30:3] == whole[5:30:3]
    with pytest.raises(IndexError):
        records[RECORDS]


def test_a_description_may_leave_records_out(file):
    """Of the participant's own code."""
    plan = make_plan(file)
    kept = [record for record in describe(read_plainly(file)) if record["id"] % 3]
    few = predict_part(
        plan, lambda some: [one for one in describe(some) if one["id"] % 3], read_lazily(plan)
    )
    assert list(few) == kept and len(few) == len(kept) and few[20] == kept[20]


def test_chunks_stay_until_the_file_is_written(file):
    plan = make_plan(file)
    plan.out.write_text("what was there before")
    whole = predict(plan, write=False)
    assert chunks_of(plan) == [*range(7)] and plan.out.read_text() == "what was there before"
    assert predict(plan, refuse) == whole and not plan.folder.exists()


def refuse(examples):
    raise AssertionError("predicted anew")


# --------------------------------------------------------------------------- interruptions


class Killed(Exception):
    """Replaces SIGKILL."""


def kill_after(chunks: int):
    """Return a model that is killed when it has predicted so many chunks."""
    calls: list[int] = []

    def model(examples):
        calls.append(len(examples))
        if len(calls) > chunks:
            raise Killed
        return describe(examples)

    return model


def count_calls(calls: list):
    def model(examples):
        calls.append([example.id for example in examples])
        return describe(examples)

    return model


def test_what_was_predicted_is_not_predicted_again(file, capsys):
    whole = describe(read_plainly(file))
    plan = make_plan(file)
    with pytest.raises(Killed):
        predict(plan, kill_after(3))
    assert chunks_of(plan) == [0, 1, 2]
    capsys.readouterr()
    calls: list = []
    assert predict(plan, count_calls(calls)) == whole
    assert [ids[0] for ids in calls] == [24, 32, 40, 48]
    assert "out.jsonl: 3 of 7 chunks are predicted." in capsys.readouterr().out


def test_records_are_checked_once_for_all_processes(file, monkeypatch):
    with pytest.raises(EndedWell):
        predict(make_plan(file, (1, 2)))
    monkeypatch.setattr(sources, "check", refuse)
    assert predict(make_plan(file, (2, 2))) == describe(read_plainly(file))


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("file", "another content of the file"),
        ("runs", "other runs"),
        ("flags", "other flags"),
        ("code", "other code"),
    ],
)
def test_what_answers_depend_on_begins_anew(file, fact, said, capsys):
    with pytest.raises(Killed):
        predict(make_plan(file), kill_after(3))
    calls: list = []
    changed = make_plan(file, changed=(fact,))
    assert predict(changed, count_calls(calls)) == describe(read_plainly(file))
    assert len(calls) == 7
    told = f"out.jsonl.chunks is of {said}: it is deleted, and the prediction starts again."
    assert told in capsys.readouterr().out and not changed.folder.exists()


def test_the_texts_that_may_be_written_decide_answers(file, tmp_path, monkeypatch):
    """Those of a flag, and those of a run."""
    monkeypatch.setattr("extras.chunks.plan.PROJECT", PROJECT)
    texts, flags, found = tmp_path / "texts.txt", {}, []
    config = {"generation": {"allowed": str(texts)}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for text in ("a", "a", "b"):
        texts.write_text(text)
        flags["allowed"] = str(texts)
        facts = Plan((), file, file.with_name("out.jsonl"), SOME, None, flags).facts
        found.append([facts["flags"], describe_run(tmp_path)])
    assert found[0] == found[1]
    assert all(one != other for one, other in zip(found[1], found[2], strict=True))


@pytest.mark.parametrize("place", [0, 3, 40, -2])
def test_a_damaged_chunk_is_predicted_again(file, place):
    plan = make_plan(file)
    whole = predict(plan, write=False)
    path = path_of(plan, 2)
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    with pytest.raises(InputError, match="000002.jsonl was damaged, and is deleted: run the same"):
        predict(plan, refuse)
    calls: list = []
    assert predict(plan, count_calls(calls)) == whole and [ids[0] for ids in calls] == [16]


def test_all_damaged_chunks_are_found_by_one_start(file):
    plan = make_plan(file)
    whole = predict(plan, write=False)
    for number in (1, 3):
        path = path_of(plan, number)
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="000001.jsonl.*000003.jsonl were damaged, and are"):
        predict(plan, refuse)
    calls: list = []
    assert predict(plan, count_calls(calls)) == whole and len(calls) == 2


def test_a_full_disk_leaves_whole_chunks(file, monkeypatch):
    plan, write = make_plan(file), answers.write_whole

    def fail(path, *arguments):
        if path == path_of(plan, 2):
            raise OSError(28, "No space left on device")
        write(path, *arguments)

    monkeypatch.setattr(answers, "write_whole", fail)
    with pytest.raises(OSError, match="No space left"):
        predict(plan)
    monkeypatch.setattr(answers, "write_whole", write)
    assert chunks_of(plan) == [0, 1]
    assert predict(plan) == describe(read_plainly(file))


def test_a_part_is_predicted_by_one_process(file):
    plan = make_plan(file, (1, 2))
    lock = hold(plan, plan.title)
    with pytest.raises(InputError, match="another process predicts part 1/2 of .*: let it end"):
        predict(make_plan(file, (1, 2)))
    with pytest.raises(InputError, match="another process, of other answers, writes"):
        predict(make_plan(file, changed=("runs",)))
    lock.release()
    with pytest.raises(EndedWell):
        predict(make_plan(file, (1, 2)))
    join = hold(plan, "join")
    with pytest.raises(EndedWell, match="part 2/2 is predicted, and another process writes"):
        predict(make_plan(file, (2, 2)))
    join.release()
    assert predict(make_plan(file, (2, 2)), refuse) == describe(read_plainly(file))


# ------------------------------------------------------------------------------------ memory


def test_the_batches_of_a_chunk_are_emptied_with_it(file):
    """TensorFlow never lets go of what a dataset was made from."""
    examples = read_plainly(file)
    with emptied():
        made = generator(examples[:10])
        assert len(list(made.to_prediction_dataset())) == len(made)
    assert not vars(made)
    assert vars(generator(examples[:10]))


def test_a_tpu_pads_all_chunks_to_the_same_lengths(file):
    """It compiles each; whoever doesn't pads nothing in vain."""
    examples, shapes = read_plainly(file), {False: set(), True: set()}
    for exact in shapes:
        for start in range(0, RECORDS, 10):
            with emptied():
                made = generator(examples[start : start + 10])
                made.fits_batch = exact
                batches = [*made.to_prediction_dataset()]
            shapes[exact] |= {batch["token_ids"].shape[1] for batch in batches}
    assert shapes[False] <= {22, 43, 64} and len(shapes[True]) > 3


# -------------------------------------------------------------------------- whole projects

TEST_RECORDS, CHUNKED = 30, 8
# A script that predicts, tells of each chunk, and is killed after so many of them.
KILLED = """
import os, runpy, signal, sys
from extras.chunks import answers
most, keep, kept = int(sys.argv.pop(1)), answers.keep_chunk, []
def count(plan, number, records):
    keep(plan, number, records)
    kept.append(number)
    print(f"kept {number}", flush=True)
    if len(kept) == most:
        os.kill(os.getpid(), signal.SIGKILL)
answers.keep_chunk = count
sys.argv[0] = "predict.py"
runpy.run_path("predict.py", run_name="__main__")
"""
# What else is written of the records, and by which flags.
FORMATS = {
    "event_extraction": [("out.jsonl", ["--format", "duee"])],
    "named_entity_recognition": [("out.jsonl", ["--format", "records"])],
    "reading_comprehension": [("out.json", [])],
    "relation_extraction": [],
    "seq2seq": [("out.txt", []), ("out.jsonl", ["--beams", "3", "--n_best", "2"])],
    "text_classification": [("out.csv", [])],
}


# The one with most tests of its own.
@pytest.fixture(
    scope="module",
    params=further(TASKS, "named_entity_recognition"),
)
def project(request, tmp_path_factory) -> Path:
    """A project with the extra, and with two runs that give answers."""
    project = bake_project(request.param, tmp_path_factory.mktemp("chunks"), "chunks")
    shorten(project, {"train": 40, "dev": 10, "test": TEST_RECORDS})
    (project / "killed.py").write_text(KILLED, encoding="utf-8")
    return project


@pytest.fixture(scope="module")
def process(project):
    """Runs the project's scripts, two trainings first."""
    process = ProjectProcess(project)
    for seed, name in ((1, "default"), (2, "other")):
        settings = {"epochs": 2, "batch_size": 8, "run_name": name, "seed": seed}
        done = process.run("train.py", *flags(project, **settings))
        assert done.code == 0, done.out + done.err
        lower_thresholds(project / "runs" / name / "scores.json")
    yield process
    process.stop()


def lower_thresholds(path: Path) -> None:
    """Let a model that was hardly trained give answers."""
    scores = json.loads(path.read_text(encoding="utf-8"))
    dev = scores["dev"]
    dev["threshold"] = 0.02
    if isinstance(dev.get("thresholds"), dict):
        dev["thresholds"] = dict.fromkeys(dev["thresholds"], 0.02)
    path.write_text(json.dumps(scores), encoding="utf-8")


def predict_file(process: ProjectProcess, out: str, *words, runs=("default",)) -> bytes:
    """Return what predict.py writes."""
    path = process.project / out
    done = process.run("predict.py", *runs, "sample/test.jsonl", path, *words)
    assert done.code == 0, done.out + done.err
    return path.read_bytes()


def numbers_apart(one, two) -> float:
    """Return how far numbers of two answers differ, that are the same in all else."""
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two)
    if isinstance(one, dict) and isinstance(two, dict):
        assert [*one] == [*two]
        one, two = [*one.values()], [*two.values()]
    if isinstance(one, list) and isinstance(two, list):
        pairs = zip(one, two, strict=True)
        return max((numbers_apart(*pair) for pair in pairs), default=0.0)
    assert type(one) is type(two) and one == two
    return 0.0


def lines_of(data: bytes) -> list:
    return [json.loads(line) for line in data.decode().splitlines()]


@pytest.mark.trains
def test_one_chunk_is_predicted_as_without_the_extra(project, process, tmp_path):
    assert TEST_RECORDS <= CHUNK
    kept = predict_file(process, "one.jsonl")
    shutil.move(project / "extras/chunks", tmp_path / "chunks")
    try:
        words = ["default", "sample/test.jsonl", project / "without.jsonl"]
        run(project / "predict.py", *words, cwd=project)
        refused = run(project / "predict.py", *words, "--part", "1/2", cwd=project, check=False)
    finally:
        shutil.move(tmp_path / "chunks", project / "extras/chunks")
    assert (project / "without.jsonl").read_bytes() == kept
    assert refused.returncode == 2 and "--part" in refused.stderr


@pytest.mark.further
@pytest.mark.trains
def test_parts_and_chunks_make_one_file(project, process):
    case = CASES[template_of(project)]
    # How a task merges the answers of several runs is its own; that of one run, one task shows.
    one_run = [("default",)] if template_of(project) == TASKS[-1] else []
    for runs in (*one_run, ("default", "other")):
        whole = predict_file(process, "whole.jsonl", "--chunk", CHUNKED, runs=runs)
        case.check_submission(project / "whole.jsonl", project / "sample/test.jsonl")
        one = predict_file(process, "one.jsonl", runs=runs)
        # The scores of other batches differ in their last bits: they are written with four digits.
        assert numbers_apart(lines_of(one), lines_of(whole)) < 1.01e-4
        out = project / "parts.jsonl"
        out.unlink(missing_ok=True)
        for number in (3, 1, 2):
            assert not out.exists()
            words = ["--chunk", CHUNKED, "--part", f"{number}/3"]
            done = process.run("predict.py", *runs, "sample/test.jsonl", out, *words)
            assert done.code == 0, done.out + done.err
        assert out.read_bytes() == whole
        assert not list(project.glob("*.chunks"))


@pytest.mark.trains
def test_other_forms_of_the_file_are_the_same_too(project, process):
    for out, words in FORMATS[template_of(project)]:
        whole = predict_file(process, out, *words)
        chunked = predict_file(process, f"chunked_{out}", *words, "--chunk", CHUNKED)
        if out.endswith(".jsonl"):
            assert numbers_apart(lines_of(whole), lines_of(chunked)) < 1.01e-4
        else:
            assert whole == chunked


@pytest.mark.trains
def test_a_prediction_that_is_killed_goes_on(project, process):
    if template_of(project) not in ("named_entity_recognition", "seq2seq"):
        pytest.skip("what is kept of a killed prediction is the same in all tasks")
    whole = predict_file(process, "whole.jsonl", "--chunk", CHUNKED)
    out = project / "killed.jsonl"
    out.write_text("what was there before", encoding="utf-8")
    words = ["default", "sample/test.jsonl", out, "--chunk", CHUNKED]
    killed = run(project / "killed.py", 2, *words, cwd=project, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [*map(int, kept_in(killed.stdout))] == [0, 1]
    assert out.read_text(encoding="utf-8") == "what was there before"
    again = run(project / "killed.py", 99, *words, cwd=project)
    assert kept_in(again.stdout) == ["2", "3"] and "2 of 4 chunks are predicted" in again.stdout
    assert out.read_bytes() == whole and not list(project.glob("*.chunks"))


def kept_in(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if line.startswith("kept ")]


@pytest.mark.trains
def test_another_run_and_another_file_begin_anew(project, process):
    """Once for each thing that answers depend on, with the hashes that a project has."""
    if template_of(project) != "named_entity_recognition":
        pytest.skip("what is hashed is the same in all templates")
    source, out = project / "sample/test.jsonl", project / "anew.jsonl"
    text = source.read_text(encoding="utf-8")
    words = [source, out, "--chunk", CHUNKED]
    run(project / "killed.py", 1, "default", *words, cwd=project, check=False)
    other = run(project / "killed.py", 1, "other", *words, cwd=project, check=False)
    assert "anew.jsonl.chunks is of other runs: it is deleted" in other.stdout
    source.write_text("".join(text.splitlines(keepends=True)[1:]), encoding="utf-8")
    try:
        changed = run(project / "killed.py", 99, "other", *words, cwd=project)
    finally:
        source.write_text(text, encoding="utf-8")
    assert "is of another content of the file: it is deleted" in changed.stdout
    assert kept_in(changed.stdout) == ["0", "1", "2", "3"]
    assert len(lines_of(out.read_bytes())) == TEST_RECORDS - 1


@pytest.mark.further
@pytest.mark.trains
def test_columns_of_entities_come_back_whole(project, process):
    """Their file is held in memory, and its tokens are not in the records that are kept."""
    if template_of(project) != "named_entity_recognition":
        pytest.skip("CoNLL files are of named entities")
    records = lines_of((project / "sample/test.jsonl").read_bytes())
    text = "\n".join("\n".join(record["text"].split()) + "\n" for record in records)
    (project / "test.conll").write_text(text, encoding="utf-8")
    found = []
    for words in ([], ["--chunk", CHUNKED]):
        done = process.run("predict.py", "default", "test.conll", project / "out.conll", *words)
        assert done.code == 0, done.out + done.err
        found.append((project / "out.conll").read_bytes())
    assert found[0] == found[1] and b"B-" in found[0]
