"""Chat templates of writers: the prompts of transformers, what ends an answer, what is refused.

The tokens of transformers are in chat_numbers.json, written by tests/chat_peer.py.
"""

import json
import shutil
import signal
from pathlib import Path

import chat_peer
import numpy as np
import pytest
import writer_peer
from chat_peer import CASES, MARKS, SOURCES, TEMPLATES
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from projects import bake_project, flags, run, shorten
from tokenizers import Tokenizer

PROJECT = use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from extras.writers import hooks, naming  # noqa: E402
from extras.writers.chat import carried_by  # noqa: E402
from generation.encoding import encode_sources  # noqa: E402
from generation.tokenizers import find_target_tokens  # noqa: E402
from task.data import NO_TOKEN, PairGenerator  # noqa: E402
from task.loading import load_backbone  # noqa: E402
from task.records import Example  # noqa: E402
from task.settings import Settings  # noqa: E402

HERE = ROOT / "tests/tasks/seq2seq"
NUMBERS = json.loads((HERE / "chat_numbers.json").read_text(encoding="utf-8"))
WRITERS = json.loads((HERE / "writer_numbers.json").read_text(encoding="utf-8"))


def make_settings(folder: Path, **changes) -> Settings:
    values = {"model": "pretrained", "encoder": str(folder), "max_length": 200, "target_length": 8}
    return with_tables(Settings)(**{**values, **changes})


def chatting(**changes) -> dict:
    return {"writers": {"chat": "tokenizer", **changes}}


def write_folder(folder: Path, template: str | list, kind: str = "qwen2") -> Path:
    """Make a folder with the tokenizer of the peer, a chat template, and a small writer."""
    tokenizer = chat_peer.make_tokenizer()
    size = {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": 400}
    writer_peer.write_folder(folder, WRITERS[kind], **size)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    config = {"bos_token": {"content": chat_peer.BOS}, "eos_token": chat_peer.EOS}
    write_config(folder, {**config, "chat_template": template})
    return folder


def write_config(folder: Path, config: dict) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")


def read_tokenizer(folder: Path, settings: Settings) -> Tokenizer:
    """Return the tokenizer of a folder as a run gives it back."""
    tokenizer = hooks.load_tokenizer(str(folder), folder, settings)
    return Tokenizer.from_str(tokenizer.to_str())


def read_prompts(folder: Path, settings: Settings, texts: list[str] = SOURCES) -> list[list[int]]:
    found = encode_sources(read_tokenizer(folder, settings), texts, settings)
    return [ids.tolist() for ids in found]


@pytest.mark.parametrize("name", CASES)
def test_prompts_are_those_of_transformers(name, tmp_path):
    template, system, variables = CASES[name]
    folder = write_folder(tmp_path / "writer", TEMPLATES[template])
    settings = make_settings(folder, **chatting(system=system, chat_variables=variables))
    assert read_prompts(folder, settings) == NUMBERS[name]
    assert all(NUMBERS[name]) and NUMBERS[name][0] != NUMBERS[name][1]


@needs_peer
def test_the_numbers_are_those_of_the_transformers_at_hand(tmp_path):
    run_peer(Path(chat_peer.__file__).read_text(encoding="utf-8"), tmp_path / "numbers.json")
    assert json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8")) == NUMBERS


def test_a_prompt_is_what_the_user_says(tmp_path):
    folder = write_folder(tmp_path / "writer", TEMPLATES["qwen"])
    plain, prompt = make_settings(folder, **chatting()), "Title of {source}:"
    framed = make_settings(folder, **chatting(prompt=prompt))
    asked = [prompt.replace("{source}", source) for source in SOURCES]
    assert read_prompts(folder, framed) == read_prompts(folder, plain, asked)


def test_a_template_of_another_file(tmp_path):
    """A file that is named, then chat_template.jinja, then one of several in the config."""
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "{{ 1 }}"}]
    named[1]["template"] = TEMPLATES["gemma"]
    folder = write_folder(tmp_path / "writer", named)
    settings = make_settings(folder, **chatting())
    assert read_prompts(folder, settings) == NUMBERS["gemma"]
    (folder / "chat_template.jinja").write_text(TEMPLATES["qwen"], "utf-8")
    assert read_prompts(folder, settings) == NUMBERS["qwen"]
    (tmp_path / "own.jinja").write_text(TEMPLATES["llama"], "utf-8")
    settings = make_settings(folder, writers={"chat": str(tmp_path / "own.jinja")})
    assert read_prompts(folder, settings) == NUMBERS["llama"]
    settings = make_settings(folder, writers={"chat": str(tmp_path / "none.jinja")})
    with pytest.raises(InputError, match="none.jinja' can't be read as UTF-8 text"):
        read_tokenizer(folder, settings)


@pytest.mark.parametrize("name", ["qwen", "llama"])
def test_long_sources_lose_their_end_and_the_chat_stays(name, tmp_path):
    folder = write_folder(tmp_path / "writer", TEMPLATES[name])
    tokenizer = chat_peer.make_tokenizer()
    whole = tokenizer.decode(NUMBERS[name][0], skip_special_tokens=False)
    before, after = whole.split(SOURCES[0])
    texts = [("  " + text) * 30 for text in (SOURCES[0], "naïve ")]
    for length in (len(NUMBERS[name][0]) + 5, 180):
        settings = make_settings(folder, max_length=length, **chatting())
        for text, ids in zip(texts, read_prompts(folder, settings, texts), strict=True):
            assert length - 4 <= len(ids) <= length
            read = tokenizer.decode(ids, skip_special_tokens=False)
            assert read.startswith(before) and read.endswith(after)
            kept = read[len(before) : -len(after)]
            assert kept and text.strip().startswith(kept.strip())
    settings = make_settings(folder, max_length=20, **chatting())
    with pytest.raises(InputError, match="leaves no room for a source in max_length = 20"):
        read_prompts(folder, settings)


@pytest.mark.parametrize(
    ("name", "end"),
    [("qwen", "<|im_end|>"), ("llama", "<|eot_id|>"), ("gemma", "<end_of_turn>")],
)
def test_the_end_of_an_answer_is_learned_and_nothing_else_of_a_chat(name, end, tmp_path):
    folder = write_folder(tmp_path / "writer", TEMPLATES[name])
    settings = make_settings(folder, **chatting())
    tokenizer = read_tokenizer(folder, settings)
    tokens = find_target_tokens(tokenizer, load_backbone(settings, tokenizer))
    assert tokens.end == MARKS.index(end) and tokens.other_ends == (writer_peer.END,)
    assert {*tokens.never} >= {*range(len(MARKS))} - {tokens.end, writer_peer.END}
    example = Example("a", SOURCES[0], ("Yes",), 1)
    names = ("token_ids", "padding_mask")
    pairs = PairGenerator([example], tokens, tokenizer, names, settings, 1)
    [(places, length)] = pairs.plan(0)
    batch = pairs.make_batch(places, length)
    answer = tokenizer.encode("Yes", add_special_tokens=False).ids
    labels = batch["target_labels"][0]
    assert labels[labels != NO_TOKEN].tolist() == [*answer, tokens.end]
    assert batch["token_ids"][0].tolist() == NUMBERS[name][0]


BAD = {
    "{% if %}": "line 1 of the template: .*: fetch the file again",
    "{{ messages[0].author.name }}": "can't be rendered .*has no attribute 'author'",
    "{{ nothing() }}": "can't be rendered .*'nothing' is undefined",
    "{{ messages.__class__.__mro__ }}": "can't be rendered .*'__class__'.* is unsafe",
    "{% set _ = messages.append(1) %}": "can't be rendered .*is not safely callable|unsafe",
    "{% for _ in range(10 ** 9) %}{% endfor %}": "can't be rendered .*[Rr]ange too big",
    "{{ raise_exception('only Latin') }}": "can't be rendered .*only Latin",
    "{{ 1 / 0 }}": "can't be rendered .*division by zero",
    "Hello": "does not put what the user says into the chat once",
    "{{ messages[0].content * 2 }}": "does not put what the user says into the chat once",
    "": "has no chat template, neither in chat_template.jinja nor as",
}


@pytest.mark.parametrize("template", BAD)
def test_a_bad_template_ends_in_a_sentence(template, tmp_path):
    folder = write_folder(tmp_path / "writer", template)
    settings = make_settings(folder, **chatting())
    with pytest.raises(InputError, match=BAD[template]) as caught:
        read_prompts(folder, settings)
    assert "\n" not in str(caught.value)


def test_a_system_that_a_template_refuses(tmp_path):
    folder = write_folder(tmp_path / "writer", TEMPLATES["gemma"])
    settings = make_settings(folder, **chatting(system="Answer."))
    with pytest.raises(InputError, match="System role not supported.*: set writers.system"):
        read_prompts(folder, settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "unilm", **chatting()}, "writers.chat = 'tokenizer' is for a pretrained"),
        ({"writers": {"system": "Answer."}}, "belong to a chat template"),
        (chatting(chat_variables="{"), "not a table"),
        (chatting(chat_variables=[1]), "not a table"),
        (chatting(chat_date="today"), "not a day: write it as 2024-07-26"),
        ({"writers": {"answers": {"a": "b"}}}, "writers.answers classifies, and this task"),
    ],
)
def test_settings_that_belong_to_no_chat(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_settings(tmp_path, **changes)


def test_a_writer_of_two_halves_has_no_chat(tmp_path):
    folder = write_folder(tmp_path / "bart", TEMPLATES["qwen"], "bart")
    settings = make_settings(folder, **chatting())
    with pytest.raises(InputError, match="writers.chat needs a decoder-only model"):
        hooks.load_tokenizer(str(folder), folder, settings)


def test_an_exported_writer_has_its_template(tmp_path):
    folder = write_folder(tmp_path / "writer", TEMPLATES["llama"])
    settings = make_settings(folder, **chatting())
    tokenizer = read_tokenizer(folder, settings)
    _, config, _ = naming.describe_tokenizer(tokenizer, load_backbone(settings, tokenizer))
    assert config["chat_template"] == TEMPLATES["llama"] == carried_by(tokenizer).text
    write_config(folder, config)
    assert read_prompts(folder, settings) == NUMBERS["llama"]
    assert carried_by(chat_peer.make_tokenizer()) is None


WORKER = ROOT / "tests/replica_worker.py"


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_chat_is_learned_on_replicas_and_written_without_the_folder(tmp_path):
    """One replica and two give the same weights; a run needs nothing but its own folder."""
    project = bake_project("seq2seq", tmp_path, "writers, chunks")
    shorten(project, {"train": 24, "dev": 4, "test": 6})
    folder = write_folder(tmp_path / "writer", TEMPLATES["qwen"])
    changes = {"model": "pretrained", "encoder": str(folder), "max_length": 120}
    changes |= {"target_length": 16, "learning_rate": 1e-3, "batch_size": 4, "steps": 4}
    changes |= {"writers.chat": "tokenizer", "writers.system": "Answer.", "dropout": 0.1}
    changes |= {"generation.perplexity": True, "generation.evaluate_beams": 1}
    two = {"strategy": "mirrored", "devices.logical_devices": 2}
    found = {}
    for name, own in {"one": {}, "two": two}.items():
        plan = json.dumps({"record": str(tmp_path / f"{name}.npz")})
        (tmp_path / "plan.json").write_text(plan, encoding="utf-8")
        arguments = flags(project, **changes, **own, run_name=name)
        done = run(WORKER, project, tmp_path / "plan.json", *arguments, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / f"{name}.npz") as record:
            found[name] = {key: record[key] for key in record if key.startswith("weights/")}
    assert len(found["one"]) > 10
    for key, weights in found["one"].items():
        np.testing.assert_allclose(found["two"][key], weights, rtol=0, atol=1e-5)

    rows = (project / "runs/one/metrics.jsonl").read_text("utf-8").splitlines()
    kept = json.loads((project / "runs/one/scores.json").read_text("utf-8"))["dev"]
    assert 1 < kept["perplexity"] in [json.loads(row)["dev_perplexity"] for row in rows]
    assert all(json.loads(row)["tokens_per_second"] > 0 for row in rows)
    shutil.rmtree(folder)
    run("evaluate.py", "one", "sample/dev.jsonl", cwd=project)
    again = json.loads((project / "runs/one/scores.json").read_text("utf-8"))["dev"]
    assert again["perplexity"] == pytest.approx(kept["perplexity"], rel=1e-5)
    options = {
        "beams": ("--beams", "3", "--repetition_penalty", "1.3", "--min_length", "2"),
        "uncached": ("--beams", "3", "--repetition_penalty", "1.3", "--min_length", "2"),
        "samples": ("--decoding", "sample", "--n_best", "3"),
        "chunks": ("--decoding", "sample", "--n_best", "3", "--chunk", "2"),
    }
    options["uncached"] += ("--cache", "false")
    written = {}
    for name, more in options.items():
        out = tmp_path / f"{name}.jsonl"
        run("predict.py", "one", "sample/test.jsonl", out, *more, cwd=project)
        written[name] = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [len(records) for records in written.values()] == [6] * 4
    texts = {name: [one["prediction"] for one in own] for name, own in written.items()}
    assert texts["beams"] == texts["uncached"] and written["samples"] == written["chunks"]
    assert all(len(record["others"]) == 2 for record in written["samples"])
