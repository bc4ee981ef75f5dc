"""Text to shards: every line once, the same bytes whoever prepares them, nothing lost silently."""

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import fsspec
import numpy as np
import pytest
from clusters import DASK_RUNNER, dask_cluster, needs_dask
from conftest import ROOT, use_template
from tokenizers import BertWordPieceTokenizer, Tokenizer

pytestmark = pytest.mark.slow

PROJECT = use_template("pretraining")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import flatten, with_tables  # noqa: E402
from corpus import blocks, shards, tfrecord, vocabulary  # noqa: E402
from corpus.blocks import Block, Reading, TextFile, cut_into_blocks, find_files, read_texts  # noqa: E402
from corpus.encode import Example, Lengths, encode_lines, make_examples  # noqa: E402
from corpus.preparation import (  # noqa: E402
    find_prepared,
    find_texts,
    finish,
    make_plan,
    open_folder,
    prepare_block,
)
from corpus.settings import CorpusSettings, PreparationTable  # noqa: E402
from corpus.shards import read_manifest  # noqa: E402
from corpus.vocabulary import find_tokenizer, train_vocabulary  # noqa: E402

ENGLISH = (
    "the whale swam under a ship captain saw her and cried aloud across unbelievable seas".split()
)
CHINESE = "我们 在 北京大学 学习 自然语言 处理 公司 年 的 大学".split()


def make_text(lines: int, seed: int = 0) -> str:
    """Return lines of both languages, some of them empty."""
    chosen = random.Random(seed)
    text = []
    for number in range(lines):
        words, space = (ENGLISH, " ") if chosen.random() < 0.6 else (CHINESE, "")
        text.append(f"{space.join(chosen.choices(words, k=chosen.randint(0, 30)))} {number}。\n")
    return "".join(text)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """A corpus, and a vocabulary trained on it."""
    path = tmp_path_factory.mktemp("corpus") / "train.txt"
    path.write_text(make_text(900), encoding="utf-8", newline="\n")
    find_tokenizer(settings_for(path))
    return path


def settings_for(text: Path, shards="shards", **changes) -> CorpusSettings:
    values = {
        "train_text": str(text),
        "dev_text": "",
        "tokenizer": str(Path(text).parent / "vocabulary/tokenizer.json"),
        "max_length": 32,
        "shards": str(shards),
    }
    table = {"vocabulary_size": 400, "block_megabytes": 0.02}
    own = {name: changes.pop(name) for name in PreparationTable.model_fields if name in changes}
    settings_class = with_tables(CorpusSettings)
    preparation = PreparationTable(**{**table, **own})
    return settings_class(preparation=preparation, **{**values, **changes})


def prepare(text: Path, folder, **changes) -> shards.Manifest:
    """Do what prepare.py does, in this process."""
    settings = settings_for(text, folder, **changes)
    tokenizer = find_tokenizer(settings)
    for split, files in find_texts(settings).items():
        plan = make_plan(settings, tokenizer, split, files)
        open_folder(plan, tokenizer)
        finish(plan, [prepare_block(plan.recipe, *job) for job in enumerate(plan.blocks)])
    return read_manifest(f"{folder}/train")


# So many that a preparation can be interrupted among them.
MANY_SHARDS = {"block_megabytes": 0.0015}


@pytest.fixture(scope="module")
def whole(text, tmp_path_factory) -> dict[str, bytes]:
    """The shards that one process makes of the corpus, uninterrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert len(prepare(text, folder, **MANY_SHARDS).shards) > 30
    return contents(folder / "train")


def flags(settings: CorpusSettings) -> list[str]:
    """Return the settings that aren't the defaults, as flags."""
    values = flatten(settings.model_dump(exclude_unset=True))
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


def contents(folder) -> dict[str, bytes]:
    """Return all files of a folder of shards."""
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


# --- blocks and lines ---

NASTY = [
    "plain\n",
    "\n",
    "Windows\r\n",
    "\r\n",
    "  \t \n",
    "北京大学𠀀🦀é\u2028after a line separator\n",
    "x" * 45 + "\n",  # exactly the longest
    "y" * 46 + "\n",  # too long by one
    "z" * 45 + "\r\n",
    "ö" * 50 + "\n",  # spans blocks
    b"latin \xe9\n",
    "a\rb\n",
    "\x00\u200b\n",  # nothing that can be seen
]


def expected_of(data: bytes, longest: int) -> tuple[list[str], dict[str, int]]:
    """Return texts and skipped lines of a whole file, as its description says."""
    texts, skipped = [], {"not_utf8": 0, "empty": 0, "too_long": 0}
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in lines[: -1 if data.endswith(b"\n") else None]:
        line = line.removesuffix(b"\r")
        try:
            decoded = line.decode()
            if len(line) > longest:
                skipped["too_long"] += 1
            elif decoded.strip("\x00\u200b\r\t ") == "":
                skipped["empty"] += 1
            else:
                texts.append(decoded)
        except UnicodeDecodeError:
            skipped["not_utf8"] += 1
    return texts, {reason: count for reason, count in skipped.items() if count}


@pytest.mark.parametrize("end", ["\n", "no final newline", "\n\n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeff\n"])
def test_blocks_of_any_size_hold_every_line_once(tmp_path, start, end):
    path = tmp_path / "a.txt"
    middle = [line if isinstance(line, bytes) else line.encode() for line in NASTY]
    random.Random(len(start + end)).shuffle(middle)
    path.write_bytes(start.encode() + b"".join(middle) + end.encode())
    data, longest = path.read_bytes(), 45
    expected_texts, expected_skipped = expected_of(data, longest)
    assert len(expected_texts) >= 5 and len(expected_skipped) == 3
    for size in [*range(1, 80), len(data) - 1, len(data), len(data) + 1]:
        texts, skipped, lines = [], {}, 0
        for block in cut_into_blocks(find_files(str(path), "train_text"), size):
            reading = Reading()
            texts += read_texts(block, "text", longest, reading)
            lines += reading.lines
            for reason, count in reading.skipped.items():
                skipped[reason] = skipped.get(reason, 0) + count
        assert (texts, skipped) == (expected_texts, expected_skipped), size
        assert lines == len(data.split(b"\n")) - data.endswith(b"\n")


def test_over_long_line_is_never_in_memory_as_a_whole(tmp_path):
    """Where the line goes on for blocks, only the start of it is kept, and one block counts it."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\n" + b"x" * 3_000_000 + b"\nlast\n")
    size, found = 1_000_000, []
    for block in cut_into_blocks(find_files(str(path), "train_text"), size):
        with blocks.open_block(block) as stream:
            found += [len(line) for line in blocks.read_lines(stream, block, 100)]
            assert stream.tell() <= block.end + 200
    assert found == [2, 106, 5]


def test_json_records(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [
        {"text": "one\ntwo", "id": 1},
        {"id": 2},
        {"text": ["a"]},
        {"text": ""},
        {"text": "ä 北京"},
        {"text": "half \ud800"},
        [1],
    ]
    encoded = [json.dumps(line).encode() for line in lines]
    encoded += [b"{torn", b"", b'{"text": "\xff"}', '{"text": "ü"}'.encode()]
    path.write_bytes(b"\n".join(encoded))
    reading = Reading()
    block = Block(TextFile(str(path), "a.jsonl", path.stat().st_size), 0, path.stat().st_size)
    assert list(read_texts(block, "text", 1000, reading)) == ["one\ntwo", "ä 北京", "ü"]
    assert reading.skipped == {"no_text": 2, "empty": 2, "not_utf8": 2, "not_json": 2}
    assert reading.first_skipped == {"no_text": 2, "empty": 4, "not_utf8": 6, "not_json": 7}


def test_a_first_record_that_is_too_long_is_skipped_like_any(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "x" * 300}) + '\n{"text": "b"}\n')
    files = find_files(str(path), "train_text")
    blocks.check_first_records(files, "text", 200)
    assert list(read_texts(cut_into_blocks(files, 1000)[0], "text", 200, Reading())) == ["b"]


def test_files_are_found_in_order_and_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.jsonl"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "folder.txt").mkdir()
    patterns = f"{tmp_path}/c.jsonl, {tmp_path}/*.txt,{tmp_path}/a.txt"
    assert [file.name for file in find_files(patterns, "t")] == ["c.jsonl", "a.txt", "b.txt"]


# --- shards ---


def test_a_bucket_holds_the_same_bytes(text, whole):
    system = fsspec.filesystem("memory")
    system.pipe_file("memory://bucket/train.txt", text.read_bytes())
    tokenizer = str(text.parent / "vocabulary/tokenizer.json")
    folder = "memory://bucket/shards"
    manifest = prepare("memory://bucket/*.txt", folder, tokenizer=tokenizer, **MANY_SHARDS)
    paths = system.ls("/bucket/shards/train", detail=False)
    assert {path.rpartition("/")[2]: system.cat_file(path) for path in paths} == whole
    assert manifest.folder == "memory://bucket/shards/train"


def run_script(name: str, settings: CorpusSettings, *more: str, check=True, **kwargs):
    """Run a script of the template as it is now, with an interpreter of its own."""
    result = subprocess.run(
        [sys.executable, copied_project(settings) / name, *flags(settings), *more],
        capture_output=True,
        text=True,
        encoding="utf-8",
        **kwargs,
    )
    assert not check or result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result


def copied_project(settings: CorpusSettings) -> Path:
    """Return a copy of the template with the shared code as it is now, and all settings default."""
    project = Path(settings.tokenizer).parent / "project"
    if not project.exists():
        ignored = shutil.ignore_patterns("core", "extras", "config.toml", "__pycache__", "sample")
        shutil.copytree(PROJECT, project, ignore=ignored)
        shutil.copytree(ROOT / "templates/core", project / "core")
        (project / "config.toml").touch()  # all settings are flags
    return project


@pytest.mark.shown("9-1")
@pytest.mark.trains
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number,processes", [(signal.SIGTERM, 4), (signal.SIGKILL, 1)])
def test_interrupted_preparation_goes_on_to_the_same_bytes(
    text, whole, tmp_path, number, processes
):
    """Two processes begin, one or four go on: the same as from one that was never interrupted."""
    settings = settings_for(text, tmp_path / "cut", processes=2, **MANY_SHARDS)
    process = subprocess.Popen(
        [sys.executable, copied_project(settings) / "prepare.py", *flags(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = tmp_path / "cut/train"
    # Which of two processes ends first is open: four shards, whatever their numbers.
    while len(list(folder.glob("shard-*.json"))) < 4:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert "interrupted: run the same command again to go on." in errors
    assert "Traceback" not in errors
    wait_for_workers(folder)
    with pytest.raises(InputError, match="is not finished: run python prepare.py again"):
        read_manifest(str(folder))
    finished = {path: path.stat().st_mtime_ns for path in folder.glob("shard-*.json")}
    finished |= {path.with_suffix(".tfrecord"): 0 for path in finished}
    finished = {path: path.stat().st_mtime_ns for path in finished}

    run_script(
        "prepare.py", settings_for(text, tmp_path / "cut", processes=processes, **MANY_SHARDS)
    )
    assert 4 <= len(finished) / 2 < len(read_manifest(str(folder)).shards)
    assert finished == {path: path.stat().st_mtime_ns for path in finished}, "not written again"
    assert contents(folder) == whole


def wait_for_workers(folder: Path) -> None:
    """Wait until all have written, because workers end shortly after the main process."""
    known = None
    while known != (known := sorted(path.name for path in folder.iterdir())):
        time.sleep(0.3)


def test_torn_shard_is_made_again_and_no_other(text, tmp_path):
    prepare(text, tmp_path)
    before = contents(tmp_path / "train")
    torn, folder = tmp_path / "train/shard-00001.tfrecord", str(tmp_path / "train")
    torn.write_bytes(torn.read_bytes()[:-1])
    with pytest.raises(InputError, match="shard-00001.tfrecord is missing or torn: run python pre"):
        read_manifest(folder)
    (tmp_path / "train/shard-00003.json").write_text("{")
    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "train").iterdir()}
    prepare(text, tmp_path)
    assert contents(tmp_path / "train") == before
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "train").iterdir()}
    changed = {name for name in times if name.startswith("shard") and times[name] != after[name]}
    assert {name.partition(".")[0] for name in changed} == {"shard-00001", "shard-00003"}


def test_other_settings_or_text_are_refused_and_overwritten_on_demand(text, tmp_path):
    copy = tmp_path / "train.txt"
    shutil.copy(text, copy)
    tokenizer = str(text.parent / "vocabulary/tokenizer.json")
    first = prepare(copy, tmp_path, tokenizer=tokenizer)
    before = contents(tmp_path / "train")
    with pytest.raises(InputError, match="prepared with max_length = 32, not 40: name another"):
        prepare(copy, tmp_path, tokenizer=tokenizer, max_length=40)
    content = copy.read_bytes()
    copy.write_bytes(content + b"one more\n")
    with pytest.raises(InputError, match="holds shards of other text"):
        prepare(copy, tmp_path, tokenizer=tokenizer)
    copy.write_bytes(content.replace(b"whale", b"whare"))
    with pytest.raises(InputError, match="train.txt has changed since shard-00000 was made of it"):
        prepare(copy, tmp_path, tokenizer=tokenizer)
    assert contents(tmp_path / "train") == before, "nothing was lost"

    copy.write_bytes(content[: len(content) // 2])
    again = prepare(copy, tmp_path, tokenizer=tokenizer, max_length=40, overwrite=True)
    fresh = prepare(copy, tmp_path / "fresh", tokenizer=tokenizer, max_length=40)
    assert len(again.shards) == len(fresh.shards) < len(first.shards)
    assert contents(tmp_path / "train") == contents(tmp_path / "fresh/train")
    (tmp_path / "train/manifest.json").unlink()
    with pytest.raises(InputError, match="holds shards and no manifest.json"):
        prepare(copy, tmp_path, tokenizer=tokenizer, max_length=40)


def test_manifest_adds_up_and_names_the_first_bad_line(text, tmp_path):
    lines = text.read_bytes().splitlines(keepends=True)
    lines[700] = b"bad \xff\n"
    lines[800] = b"bad \xff\n"
    lines[300:360] = [b"\n"] * 60
    (tmp_path / "other.txt").write_bytes(b"fine\n\xff\n")
    (tmp_path / "text.txt").write_bytes(b"".join(lines))
    # A block of nothing but empty lines has a shard without examples.
    (tmp_path / "void.txt").write_bytes(b"\n" * 20)
    patterns = ",".join(str(tmp_path / f"{name}.txt") for name in ("other", "text", "void"))
    tokenizer = str(text.parent / "vocabulary/tokenizer.json")
    manifest = prepare(patterns, tmp_path, tokenizer=tokenizer)
    assert manifest.skipped["not_utf8"] == {"lines": 3, "file": "other.txt", "line": 2}
    assert manifest.skipped["empty"]["file"] == "text.txt"
    assert manifest.lines == 2 + 900 + 20
    names = sorted(path.stem for path in (tmp_path / "train").glob("*.tfrecord"))
    assert [shard.name for shard in manifest.shards] == names[:-1]
    assert (tmp_path / f"train/{names[-1]}.tfrecord").read_bytes() == b""
    assert manifest.examples == sum(shard.examples for shard in manifest.shards)
    assert manifest.lengths.sum() == manifest.examples and len(manifest.lengths) == 31
    assert manifest.lengths @ np.arange(31) == manifest.tokens
    used = manifest.lines - sum(about["lines"] for about in manifest.skipped.values())
    alone = prepare(
        patterns, tmp_path / "alone", tokenizer=tokenizer, max_length=512, packing=False
    )
    assert alone.examples == used

    (tmp_path / "text.txt").write_bytes(b"".join([*lines[:700], b"fine\n", *lines[701:]]))
    patterns = str(tmp_path / "text.txt")
    manifest = prepare(patterns, tmp_path / "second", tokenizer=tokenizer)
    assert manifest.skipped["not_utf8"] == {"lines": 1, "file": "text.txt", "line": 801}


def test_shards_are_tfrecords_of_examples(text, tmp_path):
    import tensorflow as tf

    manifest = prepare(text, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "train/tokenizer.json"))
    feature = tf.io.VarLenFeature(tf.int64)
    for shard in manifest.shards[-2:]:
        source = {name: shard.source[name] for name in ("start", "end")}
        block = Block(TextFile(str(text), "train.txt", text.stat().st_size), **source)
        texts = read_texts(block, "text", 1000, Reading())
        lines = encode_lines(texts, tokenizer, "auto")
        expected = list(make_examples(lines, Lengths(32, 8, 0.0), 3))
        path = tmp_path / f"train/{shard.name}.tfrecord"
        found = [
            tf.io.parse_single_example(record, dict.fromkeys(("token_ids", "word_starts"), feature))
            for record in tf.data.TFRecordDataset(str(path))
        ]
        examples = shards.read_shard(manifest.folder, shard)
        assert len(examples) == len(found) == len(expected) == shard.examples
        for one, other, wanted in zip(examples, found, expected, strict=True):
            for array, name in zip(one, ("token_ids", "word_starts"), strict=True):
                assert array.dtype == np.int32
                assert np.array_equal(array, getattr(wanted, name))
                assert np.array_equal(array, other[name].values.numpy())
    assert shards.TOKENIZER in contents(manifest.folder)

    damaged = bytearray(path.read_bytes())
    damaged[40] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(InputError, match=f"{shard.name}.tfrecord is missing or torn"):
        shards.read_shard(manifest.folder, shard)
    empty = Example(np.zeros(0, np.int32), np.zeros(0, np.int32))
    large = Example(np.array([0, 127, 128, 2**14 - 1, 2**14, 2**31 - 1]), np.array([0]))
    for example in (empty, large):
        parsed = tf.train.Example.FromString(tfrecord.serialize(example))
        values = parsed.features.feature["token_ids"].int64_list.value
        assert list(values) == example.token_ids.tolist()


needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="Apache Beam is absent: pip install -r requirements-beam.txt of the template",
)


@needs_beam
def test_beam_gives_the_same_bytes(text, tmp_path):
    prepare(text, tmp_path / "one", dev_text=str(text))
    settings = settings_for(text, tmp_path / "beam", dev_text=str(text))
    result = run_script("prepare_with_beam.py", settings, "--", "--runner=DirectRunner")
    for split in ("train", "dev"):
        assert contents(tmp_path / "beam" / split) == contents(tmp_path / "one" / split)
    assert "examples, " in result.stdout


@needs_beam
def test_workers_of_beam_elsewhere_give_the_same_bytes(text, tmp_path):
    """They are started by a process that knows of no pipeline, in another folder."""
    prepare(text, tmp_path / "one")
    settings = settings_for(text, tmp_path / "beam")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pool = subprocess.Popen(
        [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"]
        + [f"--service_port={port}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(copied_project(settings)), "PATH": programs},
    )
    try:
        runner = ("--runner=PortableRunner", "--job_endpoint=embed")
        worker = ("--environment_type=EXTERNAL", f"--environment_config=localhost:{port}")
        run_script("prepare_with_beam.py", settings, "--", *runner, *worker, timeout=120)
    finally:
        pool.terminate()
        pool.wait()
    assert contents(tmp_path / "beam/train") == contents(tmp_path / "one/train")


@needs_dask
def test_a_cluster_that_loses_a_worker_gives_the_same_bytes(text, tmp_path):
    """Three worker processes of Dask; one is killed when the first shard is there."""
    changes = {**MANY_SHARDS, "dev_text": str(text)}
    prepare(text, tmp_path / "one", **changes)
    settings = settings_for(text, tmp_path / "dask", **changes)
    made = tmp_path / "dask/train"

    def is_in_the_middle() -> bool:
        return (made / "shard-00000.json").is_file() and not is_finished(made)

    with dask_cluster(tmp_path, [copied_project(settings)]) as cluster:
        killing = cluster.kill_when(is_in_the_middle)
        run_script("prepare_with_beam.py", settings, "--", *cluster.options, timeout=300)
        killing.join()
        assert cluster.killed
    for split in ("train", "dev"):
        assert contents(tmp_path / "dask" / split) == contents(tmp_path / "one" / split)
        assert not [*(tmp_path / "dask" / split).glob(".writing-*")]


def is_finished(folder: Path) -> bool:
    """Return whether the manifest of shards says that all of them are there."""
    return json.loads((folder / shards.MANIFEST).read_text(encoding="utf-8"))["finished"]


def test_a_shard_that_a_worker_wrote_elsewhere_is_missed(text, tmp_path):
    settings = settings_for(text, tmp_path / "here")
    tokenizer = find_tokenizer(settings)
    [(split, files)] = find_texts(settings).items()
    plan = make_plan(settings, tokenizer, split, files)
    open_folder(plan, tokenizer)
    made = [prepare_block(plan.recipe, *job) for job in enumerate(plan.blocks)]
    assert find_prepared(plan) == made
    (tmp_path / "here/train/shard-00001.json").unlink()
    with pytest.raises(InputError, match="train lacks shard-00001, which a worker has prepared: "):
        find_prepared(plan)


def test_what_a_killed_process_left_is_deleted(text, tmp_path):
    prepare(text, tmp_path / "one")
    (tmp_path / "one/train/.writing-x").mkdir()
    (tmp_path / "one/train/.writing-x/shard-00000.tfrecord").write_bytes(b"half")
    prepare(text, tmp_path / "one")
    assert not [*(tmp_path / "one/train").glob(".writing-*")]


@needs_beam
@pytest.mark.parametrize("runner", ["DirectRunner", "NoRunner"])
def test_beam_is_refused_with_a_sentence(text, tmp_path, runner):
    text.with_name("void.txt").write_bytes(b"\n\n")
    settings = settings_for(text.with_name("void.txt"), tmp_path / "void")
    result = run_script("prepare_with_beam.py", settings, "--", f"--runner={runner}", check=False)
    last = result.stderr.strip().splitlines()[-1]  # what Beam itself logs stands above
    assert result.returncode == 1
    if runner == "NoRunner":
        assert last.startswith("error: Apache Beam refuses --runner=NoRunner: ")
    else:
        assert last.startswith("error: no text for ") and last.endswith("and at text_field.")


@needs_beam
@pytest.mark.parametrize("readme", ["README.md", "README_zh.md"])
def test_beam_knows_the_options_of_the_readme(readme, caplog):
    from apache_beam.options.pipeline_options import PipelineOptions

    text = (PROJECT / readme).read_text(encoding="utf-8")
    commands = re.findall(r"^python prepare_with_beam\.py.* -- (.+)$", text, re.MULTILINE)
    runners = [PipelineOptions(options.split()).get_all_options()["runner"] for options in commands]
    assert runners == ["DirectRunner", DASK_RUNNER, "FlinkRunner", "SparkRunner", "DataflowRunner"]
    assert "unparseable" not in caplog.text


def test_workers_of_beam_need_no_more_than_their_requirements(text):
    script = "import sys, prepare_with_beam; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=copied_project(settings_for(text)),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    packages = packages_distributions()
    modules = {module.partition(".")[0] for module in done.stdout.split()}
    loaded = {package for module in modules for package in packages.get(module, [])}
    wanted, whole = (
        set(re.findall(r"^[\w-]+", (PROJECT / name).read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("requirements-beam.txt", "requirements.txt")
    )
    assert "pydantic-settings" in loaded & wanted
    assert not loaded & (whole - wanted)


# --- vocabulary ---


def test_vocabulary_is_the_same_every_time_and_that_of_bert(text, tmp_path):
    settings = settings_for(text)
    first, second = (train_vocabulary(settings)[0] for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    # As Transformers reads it: the tokens alone, one a line.
    tokens = sorted(first.get_vocab(), key=first.get_vocab().get)
    assert tokens[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    bert = BertWordPieceTokenizer.from_file(str(tmp_path / "vocab.txt"))
    for line in (*text.read_text(encoding="utf-8").splitlines(), "Ünsêen 12a—北京X\u200b[MASK]"):
        assert bert.encode(line).ids == first.encode(line).ids
    assert "whale" in tokens and "unbelievable" in tokens, "frequent words are whole"


def test_small_vocabulary_keeps_the_most_frequent_characters(tmp_path):
    path = tmp_path / "a.txt"
    ideographs = [chr(0x4E00 + n) for n in range(300)]
    path.write_text("".join(c * (300 - n) for n, c in enumerate(ideographs)) + "\n☃\n")
    tokenizer, coverage = train_vocabulary(settings_for(path, vocabulary_size=105))
    assert set(tokenizer.get_vocab()) >= set(ideographs[:100])
    assert tokenizer.get_vocab_size() == 105 == coverage["tokens"]
    tokenizer, coverage = train_vocabulary(settings_for(path, vocabulary_size=1000))
    assert tokenizer.token_to_id("☃") is None, "occurs once"
    assert coverage["characters_seen"] == 301 and coverage["characters"] == 299


def test_vocabulary_of_a_sample(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{chr(97 + n // 500) * 4} {n}\n" for n in range(9000)))
    monkeypatch.setattr(vocabulary, "SAMPLED_BYTES", 5000)
    settings = settings_for(path, vocabulary_megabytes=0.03, seed=3)
    tokenizer, coverage = train_vocabulary(settings)
    assert 0.02 < coverage["megabytes"] <= 0.03
    assert tokenizer.get_vocab() == train_vocabulary(settings)[0].get_vocab()
    other = train_vocabulary(settings.model_copy(update={"seed": 4}))[0].get_vocab()
    assert set(other) != set(tokenizer.get_vocab()), "other parts of the text"


# --- bad input ---

BAD_INPUT = {
    "absent file": ("", {"train_text": "nowhere.txt"}, "'nowhere.txt' names no file: check the"),
    "absent dev": ("x\n", {"dev_text": "nowhere.txt"}, "dev_text = 'nowhere.txt' names no file"),
    "empty": ("", {}, "holds no text: put one line or more there"),
    "blank lines": (
        "\n\n",
        {},
        "no text for .*: of 2 lines 2 empty .the first: a.txt, line 1",
    ),
    "UTF-16": ("\ufeff一行\n", {"encoding": "utf-16-le"}, "a.txt, line 1: not UTF-8 but UTF-16"),
    "UTF-16 of records": (
        '\ufeff{"text": "x"}\n',
        {"name": "a.jsonl", "encoding": "utf-16-be"},
        "a.jsonl, line 1: not UTF-8 but UTF-16: save it as UTF-8",
    ),
    "compressed": ("x", {"name": "a.txt.gz"}, "is compressed, and can't be read from the middle"),
    "wrong field": (
        '{"body": "x"}\n',
        {"name": "a.jsonl"},
        "a.jsonl, line 1: no text in the field 'text'; the record has 'body': set text_field",
    ),
    "text for records": ("plain\n", {"name": "a.json"}, "a.json, line 1: no JSON object, as the"),
    "file for a folder": (
        "x\n",
        {"shards": "{folder}/a.txt"},
        "a.txt/train/.* can't be read",
    ),
    "unknown storage": (
        "x\n",
        {"shards": "nosuch://b/s"},
        "b/s/train.* can't be reached",
    ),
    "broken tokenizer": ("x\n", {"tokenizer": "{folder}/a.txt"}, "a.txt is not a tokenizer.json"),
    "tokenizer of another kind": (
        "x\n",
        {"tokenizer": "{folder}/b.json"},
        "b.json has no .MASK",
    ),
    "other vocabulary": (
        "x\n",
        {"vocabulary_size": 401},
        "trained with vocabulary_size = 400, n",
    ),
    "other case": ("x\n", {"lowercase": False}, "was trained with lowercase = True, not False"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_sentence(text, tmp_path, case):
    content, changes, sentence = BAD_INPUT[case]
    changes = {
        name: value.replace("{folder}", str(tmp_path)) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    path = tmp_path / changes.pop("name", "a.txt")
    path.write_text(content, changes.pop("encoding", "utf-8"))
    pieces = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    BertWordPieceTokenizer(pieces).save(str(tmp_path / "b.json"))
    usual = {"tokenizer": str(text.parent / "vocabulary/tokenizer.json"), "train_text": str(path)}
    settings = {**usual, "shards": str(tmp_path / "s"), **changes}
    with pytest.raises(SystemExit, match=sentence):
        from core.base.errors import command

        command(lambda: prepare(path, settings.pop("shards"), **settings))()


def test_shards_that_can_not_be_read(tmp_path):
    folder = str(tmp_path)
    with pytest.raises(InputError, match="holds no shards: run python prepare.py first"):
        read_manifest(folder)
    with pytest.raises(InputError, match="holds no shards"):
        read_manifest(f"{folder}/nowhere")
    with pytest.raises(InputError, match="/dev holds no shards: .* first, with a dev_text"):
        read_manifest(f"{folder}/dev")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match="manifest.json is not valid JSON: delete it and prepare"):
        read_manifest(folder)
    (tmp_path / "manifest.json").write_text('{"format": 0}')
    with pytest.raises(InputError, match="prepared by another version of this project"):
        read_manifest(folder)


def test_a_training_has_the_settings_of_its_shards(text, tmp_path):
    """Or evaluate.py would make other examples of a text than those of dev."""
    prepare(text, tmp_path, dev_text=str(text))
    # What cuts no text may differ.
    shards.read_shard_tokenizer(settings_for(text, tmp_path, block_megabytes=1.0, processes=2))
    changes = {
        "packing = True, not False": {"packing": False},
        "words = auto, not spaces": {"words": "spaces"},
        "short_share = 0.0, not 0.5": {"short_share": 0.5},
        "max_length = 32, not 40": {"max_length": 40},
    }
    for said, change in changes.items():
        with pytest.raises(InputError, match=f"train was prepared with {said}: set it as it"):
            shards.read_shard_tokenizer(settings_for(text, tmp_path, **change))


def test_a_tokenizer_is_read_without_its_padding(text, tmp_path):
    tokenizer = Tokenizer.from_file(str(text.parent / "vocabulary/tokenizer.json"))
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(vocabulary.read_tokenizer(str(tmp_path / "tokenizer.json")).encode("").ids) == 2


def test_killed_process_is_one_sentence(text):
    project = copied_project(settings_for(text))
    program = (
        "import os, corpus.processes as p; list(p.run_in_processes(os._exit, [(9,), (9,)], 2))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=project, capture_output=True, text=True
    )
    last = result.stderr.strip().splitlines()[-1]
    assert "InputError: a process was killed, most likely because memory ran out: lower" in last


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "7", "{"])
def test_broken_notes_are_one_sentence(content, tmp_path):
    """Also those with more brackets than a parser goes down."""
    for name in ("manifest.json", "train-00000.json", "tokenizer.json"):
        (tmp_path / name).write_text(content, encoding="utf-8")
    if content != "[]":  # no manifest of anything
        with pytest.raises(InputError, match="manifest.json is not valid JSON"):
            shards.read_manifest_file(str(tmp_path))
    assert shards.find_shard(str(tmp_path), "train-00000") is None
    settings = settings_for(tmp_path / "text.txt", tokenizer=str(tmp_path / "tokenizer.json"))
    Path(vocabulary.record_path(settings.tokenizer)).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="is broken"):
        find_tokenizer(settings)
