"""The extra `writers`: families against transformers, generation, prompts, what it refuses.

The numbers of transformers are in writer_numbers.json, written by tests/writer_peer.py. Where a
Python has torch and transformers, see tests/peer.py, every number is compared.
"""

import json
import re
import signal
from pathlib import Path
from unittest import mock

import h5py
import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
import writer_peer
from conftest import ROOT, use_template
from peer import needs_peer, run_peer
from projects import bake_project, flags, run, shorten
from safetensors.numpy import load_file, save_file
from scipy import special
from small_models import assert_equal, compile_models
from tokenizers import ByteLevelBPETokenizer, Tokenizer, processors
from writer_peer import BEAMS, LENGTHS, TARGET

PROJECT = use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.step import Models, TrainingModel  # noqa: E402
from extras.doctor.model_checks import as_tensors  # noqa: E402
from extras.export.export import write_encoder  # noqa: E402
from extras.lora import codes  # noqa: E402
from extras.lora.adapters import (  # noqa: E402
    adapt_layers,
    choose_layers,
    merge_when_loaded,
)
from extras.recompute.recompute import recompute_layers  # noqa: E402
from extras.writers import families, files, hooks, naming, packing  # noqa: E402
from generation.encoding import encode_sources  # noqa: E402
from generation.layers import writing_layers  # noqa: E402
from generation.search import Writer  # noqa: E402
from generation.settings import GenerationTable, TargetTokens  # noqa: E402
from task.data import PairGenerator, pack_pairs  # noqa: E402
from task.loading import load_backbone  # noqa: E402
from task.model import build_models  # noqa: E402
from task.records import Example  # noqa: E402
from task.settings import Settings  # noqa: E402

NUMBERS = json.loads((ROOT / "tests/tasks/seq2seq/writer_numbers.json").read_text(encoding="utf-8"))


def make_settings(folder: Path, **changes) -> Settings:
    values = {
        "model": "pretrained",
        "encoder": str(folder),
        "max_length": 12,
        "target_length": TARGET,
        "dropout": 0.0,
        "label_smoothing": 0.0,
    }
    return with_tables(Settings)(**{**values, **changes})


def write_folder(
    folder: Path, kind: str, leave_out: str = "", tokenizer: Tokenizer | None = None, **fields
) -> Path:
    """Make a folder with config.json and model.safetensors, as transformers did.

    With a tokenizer the folder has it too, with its own vocabulary.
    """
    if tokenizer:
        fields["vocab_size"] = tokenizer.get_vocab_size()
    writer_peer.write_folder(folder, NUMBERS[kind], leave_out, **fields)
    if tokenizer:
        (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    return folder


def load(folder: Path, **changes) -> keras.Model:
    return hooks.load_backbone(make_settings(folder, **changes), folder)


def read_batch(kind: str, padding: str = "right") -> dict:
    """Return sources as a batch, and `target_ids`."""
    read = writer_peer.arrays(kind)
    moved = writer_peer.left if padding == "left" else np.asarray
    target = np.pad(read["target"][:, :-1], ((0, 0), (1, 0)))
    config = NUMBERS[kind]["config"]
    target[:, 0] = config["bos_token_id"] if kind == "bart" else 0
    arrays = {"token_ids": moved(read["ids"]), "padding_mask": moved(read["mask"])}
    return {k: tf.constant(v, "int32") for k, v in {**arrays, "target_ids": target}.items()}


def target_tokens(kind: str, encoder: keras.Model) -> TargetTokens:
    begin, end = encoder.frame
    return TargetTokens(begin, end, (), tuple(encoder.other_ends))


def generate(kind: str, encoder: keras.Model, settings: Settings, **table) -> dict:
    """Return what is written for the sources, padded on the right."""
    model = build_models(encoder, settings).inference
    tokens = target_tokens(kind, encoder)
    writer = Writer([model], writing_layers, tokens, GenerationTable(**table), TARGET)
    batch = read_batch(kind)
    del batch["target_ids"]
    draws = tf.zeros((len(LENGTHS), TARGET))
    return {name: array.numpy() for name, array in writer({**batch, "draws": draws}).items()}


def logits_of(kind: str, model: keras.Model, padding: str) -> np.ndarray:
    return model(read_batch(kind, padding))["logits"].numpy()


def cut_behind_ends(rows, ends: list[int]) -> np.ndarray:
    """Return texts `[batch, TARGET]` with zeros behind their first end."""
    rows = np.pad(rows, ((0, 0), (0, TARGET - np.shape(rows)[1])))
    ended = np.isin(rows, ends)
    return np.where(np.cumsum(ended, axis=1) - ended > 0, 0, rows)


def compare_texts(
    kind, encoder, settings, greedy, scores, caches=(True, False)
) -> tuple[bool, float]:
    """Tell whether greedy texts are the same, and how far the scores of a search are from others.

    With a cache, and without.
    """
    power = 0.0 if kind == "bart" else 1.0  # transformers counts the token that begins a target
    same, worst, wanted = True, 0.0, cut_behind_ends(greedy, encoder.ends)
    for cache in caches:
        written = generate(kind, encoder, settings, beams=1, cache=cache)["tokens"]
        same &= np.array_equal(cut_behind_ends(written, encoder.ends), wanted)
        options = {"beams": BEAMS, "n_best": BEAMS, "length_power": power, "cache": cache}
        found = generate(kind, encoder, settings, **options)["scores"]
        worst = max(worst, float(np.abs(found.ravel() - scores).max()))
    return same, worst


def differences(folder: Path, kind: str, peer: dict) -> tuple[list[float], bool, float]:
    """Return how far logits are from a peer's, padded right and left, and `compare_texts`."""
    settings, encoder = make_settings(folder), load(folder)
    model = build_models(encoder, settings).inference
    logits = [
        float(np.abs(logits_of(kind, model, padding) - peer["logits"]).max())
        for padding in ("right", "left")
    ]
    return logits, *compare_texts(kind, encoder, settings, peer["greedy"], peer["scores"])


@pytest.mark.shown("gemma3", "t5]", "llama]")
@pytest.mark.parametrize("kind", NUMBERS)
def test_logits_and_texts_are_those_of_transformers(kind, tmp_path, capsys):
    folder, expected = write_folder(tmp_path / kind, kind), NUMBERS[kind]
    settings, encoder = make_settings(folder), load(folder)
    assert capsys.readouterr().out == ""  # nothing is unknown, and nothing unused
    assert_written_as_read(kind, encoder, load_file(folder / "model.safetensors"))
    model = build_models(encoder, settings).inference
    for padding in ("right", "left"):
        found = writer_peer.summary(logits_of(kind, model, padding))
        np.testing.assert_allclose(found, expected["logits"], atol=1e-5)
    # The others differ in what the logits tell; see also the next test.
    caches = {"gemma3": (True, False), "gpt2": (True,), "llama": (True,), "t5": (True,)}
    found = (expected["greedy"], expected["scores"], caches.get(kind, ()))
    texts = compare_texts(kind, encoder, settings, *found)
    assert texts[0] and texts[1] < 1e-4


@needs_peer
def test_every_number_is_that_of_transformers(tmp_path):
    run_peer(Path(writer_peer.__file__).read_text(encoding="utf-8"), tmp_path)
    for folder in sorted(tmp_path.glob("*/peer.npz")):
        logits, same, worst = differences(folder.parent, folder.parent.name, np.load(folder))
        assert max(*logits, worst) < 1e-4 and same, folder.parent.name


# --------------------------------------------------------------------- what is written


def assert_written_as_read(kind: str, encoder: keras.Model, read: dict) -> None:
    """Compare what would be written of a writer with what it was read from, to the last bit."""
    config, tensors = naming.describe_encoder(encoder)
    expected = {**NUMBERS[kind]["config"]}
    del expected["transformers_version"]
    if kind == "bart":  # or transformers would choose what begins a text
        expected["forced_bos_token_id"] = expected["bos_token_id"]
    assert config == expected
    assert tensors.keys() == read.keys()
    if kind == "bert_decoder":  # its positions include the segment of all tokens
        places, segments = (
            f"bert.embeddings.{name}_embeddings.weight" for name in ("position", "token_type")
        )
        read = {**read, places: read[places] + read[segments][:1], segments: 0 * read[segments]}
    for name, array in read.items():
        first = 2 if kind == "bart" and "embed_positions" in name else 0  # of no position
        assert tensors[name].shape == array.shape
        np.testing.assert_array_equal(tensors[name][first:], array[first:])


def move(encoder: keras.Model) -> None:
    """Change all weights a little, as a training does."""
    random = np.random.default_rng(5)
    for weight in encoder.weights:
        weight.assign(weight * (1 + 0.1 * random.normal(size=weight.shape)).astype("float32"))


@pytest.mark.parametrize("kind", ["gpt2", "gemma3", "bert_decoder", "bart", "t5_gated"])
def test_a_writer_that_was_trained_is_read_again_to_the_last_bit(kind, tokenizer, tmp_path):
    encoder = load(write_folder(tmp_path / kind, kind))
    move(encoder)
    assert write_encoder(tmp_path, encoder, tokenizer) == "writer"
    again = load(tmp_path / "writer")
    assert_equal(encoder.get_weights(), again.weights)
    assert again.ends == encoder.ends and again.frame == encoder.frame


def test_the_text_part_of_gemma_is_written_by_itself(tokenizer, tmp_path):
    """With several tokens that end a text, named in generation_config.json."""
    text = NUMBERS["gemma3"]["config"]
    fields = {"model_type": "gemma3", "text_config": text, "torch_dtype": "bfloat16"}
    folder = write_folder(tmp_path / "gemma3", "gemma3", **fields)
    (folder / "generation_config.json").write_text('{"eos_token_id": [9, 7]}', "utf-8")
    encoder = load(folder)
    write_encoder(tmp_path, encoder, tokenizer)
    again = load(tmp_path / "writer")
    assert_equal(encoder.get_weights(), again.weights)
    assert encoder.ends == again.ends == [7, 9]
    config = json.loads((tmp_path / "writer/config.json").read_text("utf-8"))
    assert config["model_type"] == "gemma3_text" and "torch_dtype" not in config


def test_a_run_without_its_config_is_not_written(tokenizer, tmp_path):
    encoder = load(write_folder(tmp_path / "gpt2", "gpt2"))
    encoder.options["described"] = None
    with pytest.raises(InputError, match="train it again, or leave the writer out with --no-enc"):
        write_encoder(tmp_path, encoder, tokenizer)


READ_BY_TRANSFORMERS = """
import transformers
kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
two_sided = "ForConditional" in json.loads((folder / "config.json").read_text())["architectures"][0]
reader = transformers.AutoModelForSeq2SeqLM if two_sided else transformers.AutoModelForCausalLM
model, said = reader.from_pretrained(folder, output_loading_info=True)
assert not any(said.values()), said
assert kind != "bart" or model.generation_config.forced_bos_token_id == 3
np.savez(folder / "peer.npz", **compute(model.eval(), kind))
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
texts = json.loads(sys.argv[3])
(folder / "ids.json").write_text(json.dumps(tokenizer(texts)["input_ids"]))
"""


@needs_peer
@pytest.mark.parametrize("kind", NUMBERS)
def test_what_is_written_is_read_by_transformers(kind, tokenizer, tmp_path):
    """Logits and texts of a writer that was trained, and the tokens of its tokenizer."""
    own, folder = frame(tokenizer, "<b> $A <e>"), write_folder(tmp_path / kind, kind)
    encoder = load(folder)
    move(encoder)
    program = Path(writer_peer.__file__).read_text(encoding="utf-8").partition("def main")[0]
    write_encoder(tmp_path, encoder, own)
    written = tmp_path / "writer"
    run_peer(program + READ_BY_TRANSFORMERS, kind, written, json.dumps(ODD[:2]))
    logits, same, worst = differences(written, kind, np.load(written / "peer.npz"))
    print(f"{kind}: logits {max(logits):.1e}, scores {worst:.1e}")
    assert max(*logits, worst) < 1e-4 and same
    ids = json.loads((written / "ids.json").read_text("utf-8"))
    assert ids == [own.encode(text).ids for text in ODD[:2]]


# ------------------------------------------------------------------- what core asks


@pytest.mark.parametrize("kind", ["qwen3", "bert_decoder", "t5"])
def test_a_writer_comes_back_from_its_config(kind, tmp_path):
    """As a run restores it; and as a clone of the whole model."""
    folder = write_folder(tmp_path / kind, kind)
    settings, encoder = make_settings(folder), load(folder)
    again = keras.saving.deserialize_keras_object(
        json.loads(json.dumps(keras.saving.serialize_keras_object(encoder)))
    )
    again.set_weights(encoder.get_weights())
    shapes = NUMBERS[kind]["shapes"].items()
    # The segments of a BERT are part of its positions.
    numbers = sum(np.prod(shape) for name, shape in shapes if "token_type" not in name)
    assert sum(np.prod(variable.shape) for variable in again.trainable_variables) == numbers
    assert len({variable.path for variable in again.weights}) == len(again.weights)
    models = [build_models(one, settings).training for one in (encoder, again)]
    models.append(keras.models.clone_model(models[0]))
    models[2].set_weights(models[0].get_weights())
    batch = {**read_batch(kind), "target_labels": read_batch(kind)["target_ids"] + 1}
    losses = [model(batch, training=False)["token_loss"].numpy() for model in models]
    np.testing.assert_array_equal(losses[0], losses[1])
    np.testing.assert_array_equal(losses[0], losses[2])


def test_weights_in_parts_and_in_files_of_torch(tmp_path):
    whole = write_folder(tmp_path / "whole", "qwen3")
    state = load_file(whole / "model.safetensors")
    parts = tmp_path / "parts"
    parts.mkdir()
    names = sorted(state)
    places = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(names)}
    for part in set(places.values()):
        save_file({n: state[n] for n in names if places[n] == part}, parts / part)
    index = json.dumps({"weight_map": places})
    (parts / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    (parts / "config.json").write_bytes((whole / "config.json").read_bytes())
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "config.json").write_bytes((whole / "config.json").read_bytes())
    (torch / "pytorch_model.bin").write_bytes(b"")
    encoders = [load(whole), load(parts)]
    with mock.patch("extras.encoders.torch_files.read_torch_file", lambda path: state):
        encoders.append(load(torch))
    for other in encoders[1:]:
        for one, two in zip(encoders[0].get_weights(), other.get_weights(), strict=True):
            np.testing.assert_array_equal(one, two)


# ------------------------------------------------------------------------- prompts

ODD = ["Ada  met\tRavi\n", " résumé — 你好，𝔘🚀 ", "<s> </s> [SEP] 1.5 %"]


@pytest.fixture(scope="module")
def tokenizer():
    """Byte-pair encoding of bytes, with BOS before a text."""
    made = ByteLevelBPETokenizer()
    texts = ["Ada met Ravi at 18:30 in Torvik. Title of it: the line\n"] * 3
    made.train_from_iterator(texts, vocab_size=400, min_frequency=1, special_tokens=["<b>", "<e>"])
    return made._tokenizer


def frame(tokenizer: Tokenizer, single: str) -> Tokenizer:
    """Return a tokenizer with tokens around a text."""
    framed = Tokenizer.from_str(tokenizer.to_str())
    numbers = [(token, framed.token_to_id(token)) for token in ("<b>", "<e>") if token in single]
    framed.post_processor = processors.TemplateProcessing(single=single, special_tokens=numbers)
    return framed


def encode(tokenizer, texts, tmp_path, **changes) -> list[np.ndarray]:
    return encode_sources(tokenizer, texts, make_settings(tmp_path, **changes))


@pytest.mark.parametrize(("single", "prompt"), [("<b> $A", "{source}\n"), ("$A <e>", "{source}")])
def test_the_prompt_of_a_family_gives_texts_back(tokenizer, tmp_path, single, prompt):
    """That of decoders ends the line; both keep every character."""
    framed = frame(tokenizer, single)
    found = encode(framed, ODD, tmp_path, max_length=200)
    texts = framed.decode_batch([ids.tolist() for ids in found])
    assert texts == [prompt.replace("{source}", text) for text in ODD]


def test_the_padding_of_a_file_is_no_part_of_a_prompt(tokenizer, tmp_path):
    """A text that ends with a pad does not seem to end with an end token."""
    folder, padded = write_folder(tmp_path / "gpt2", "gpt2"), frame(tokenizer, "$A")
    padded.enable_padding(length=16, pad_id=1, pad_token="<e>")
    (folder / "tokenizer.json").write_text(padded.to_str(), "utf-8")
    [ids] = encode(hooks.load_tokenizer("", folder), ["Ada"], tmp_path)
    assert tokenizer.decode(ids.tolist(), skip_special_tokens=False) == "Ada\n"


def test_a_writer_reads_a_token_of_an_empty_source(tokenizer, tmp_path):
    [ids] = encode(tokenizer, [""], tmp_path, writers={"prompt": "{source}"})
    assert tokenizer.decode(ids.tolist()) == "\n"


def test_long_sources_lose_their_end_and_prompts_stay(tokenizer, tmp_path):
    framed, prompt = frame(tokenizer, "<b> $A"), "Title of: {source} is:"
    for length in (20, 40, 60):
        changes = {"max_length": length, "writers": {"prompt": prompt}}
        found = encode(framed, [text * 9 for text in ODD], tmp_path, **changes)
        for ids, text in zip(found, ODD, strict=True):
            assert length - 4 <= len(ids) <= length
            read = framed.decode(ids.tolist(), skip_special_tokens=False)
            assert read.startswith("<b>Title of: ") and read.endswith(" is:")
            assert (text * 9).startswith(read[len("<b>Title of: ") : -len(" is:")])
    with pytest.raises(InputError, match="writers.prompt leaves no room for a source"):
        encode(framed, ODD, tmp_path, max_length=8, writers={"prompt": prompt})


def test_a_prompt_says_where_the_source_stands(tmp_path):
    with pytest.raises(ValueError, match="{source} must stand in it once"):
        make_settings(tmp_path, writers={"prompt": "Title:"})


def test_the_tokenizer_of_a_decoder_ends_no_source(tokenizer, tmp_path):
    folder = write_folder(tmp_path / "gpt2", "gpt2")
    (folder / "tokenizer.json").write_text(frame(tokenizer, "<b> $A <e>").to_str(), "utf-8")
    assert hooks.load_tokenizer("", folder).encode("Ada").tokens == ["<b>", "Ada"]
    folder = write_folder(tmp_path / "t5", "t5")
    (folder / "tokenizer.json").write_text(frame(tokenizer, "$A <e>").to_str(), "utf-8")
    assert hooks.load_tokenizer("", folder).encode("Ada").tokens == ["Ada", "<e>"]
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), "utf-8")
    with pytest.raises(InputError, match="puts no end behind a text, and the encoder of this"):
        hooks.load_tokenizer("", folder)
    assert hooks.load_tokenizer("", tmp_path) is None
    assert hooks.load_tokenizer("", None) is None


# ----------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("gpt2", {"model_type": "bloom"}, "needs a writer, and .* is a bloom: choose one of"),
        ("gpt2", {"activation_function": "mish"}, "'mish' is not an activation that is known here"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "computed here with False only"),
        ("gpt2", {"n_embd": 64}, r"wte.weight has the shape \[60, 32\], but config.json asks for"),
        ("gpt2", {"n_layer": 3}, "lacks 16 tensors"),
        ("gpt2", {"eos_token_id": None}, "has no eos_token_id, so nothing tells where a target"),
        ("gpt2", {"eos_token_id": [7, 60]}, "names the token 60, and the writer has 60 tokens"),
        ("llama", {"num_hidden_layers": "2"}, "num_hidden_layers = '2' is not a number of"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}},
            "only whole heads with the rope_type default, linear, llama3 are computed here",
        ),
        ("gemma3", {"final_logit_softcapping": 30.0}, "= 30.0, and gemma3_text is computed here"),
        ("bart", {"tie_word_embeddings": False}, "= False, and bart is computed here with True"),
        ("t5", {"quantization_config": {"load_in_8bit": True}}, "and t5 is computed here with No"),
        (
            "gemma3",
            {
                "model_type": "gemma3",
                "text_config": NUMBERS["gemma3"]["config"],
                "quantization_config": {"load_in_8bit": True},
            },
            "quantization_config = .*, and gemma3 is computed here with None only",
        ),
    ],
)
def test_what_a_config_may_not_say(kind, fields, message, tmp_path):
    folder = write_folder(tmp_path / kind, kind, **fields)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_split_matrix_products_are_the_same(tmp_path, capsys):
    """The published SmolLM3 says that it was trained so."""
    load(write_folder(tmp_path / "smollm3", "smollm3", pretraining_tp=2))
    assert capsys.readouterr().out == ""


def test_ends_beside_the_text_part_of_gemma_are_read(tmp_path):
    text = {**NUMBERS["gemma3"]["config"]}
    del text["eos_token_id"]
    fields = {"model_type": "gemma3", "text_config": text, "eos_token_id": [7, 9]}
    assert load(write_folder(tmp_path, "gemma3", **fields)).ends == [7, 9]


SLIDES = {"use_sliding_window": True}


@pytest.mark.parametrize(
    ("fields", "reaches"),
    [
        ({"model_type": "gemma3_text"}, [4096, 4096, 4096, 4096, 4096, 0]),
        ({"model_type": "gemma3_text", "sliding_window": None}, [4096] * 5 + [0]),
        ({"model_type": "qwen2", **SLIDES, "max_window_layers": 4}, [0, 0, 0, 0, 4096, 4096]),
        (
            {"model_type": "qwen3", "sliding_window": 4, **SLIDES, "max_window_layers": None},
            [0] * 6,
        ),
        ({"model_type": "qwen2"}, [0] * 6),
        ({"model_type": "smollm3", **SLIDES}, [0] * 6),
        ({"model_type": "mistral", "sliding_window": None}, [0] * 6),
    ],
)
def test_windows_that_a_config_leaves_out(fields, reaches):
    """They are those of the classes of transformers."""
    assert families.read_reaches(files.Fields(Path("config.json"), fields), 6) == reaches


@pytest.mark.parametrize("kind", ["t5", "mt5"])
@pytest.mark.parametrize("named", [True, False])
def test_a_t5_has_the_head_that_its_folder_names(kind, named, tmp_path):
    """Where there are no weights, config.json decides; a copy of the table is no head."""
    own = {"tie_word_embeddings": named}
    folder = write_folder(tmp_path / kind, kind, **own)
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, files.HEAD: weights["shared.weight"]}, folder / "model.safetensors")
    assert load(folder).options["tied"] == named
    (folder / "model.safetensors").unlink()
    assert load(folder, writers={"weights": "random"}).options["tied"] == named
    save_file({**weights, files.HEAD: -weights["shared.weight"]}, folder / "model.safetensors")
    assert not load(folder).options["tied"]


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("gpt2", {"max_length": 25}, "max_length . target_length = 33, but .* has 32 positions"),
        ("bart", {"target_length": 32}, "target_length . 1 = 33, but .* has 32 positions"),
    ],
)
def test_a_writer_has_room_for_its_targets(kind, changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        load(write_folder(tmp_path / kind, kind), **changes)


def test_what_may_not_be_in_a_folder(tmp_path):
    with pytest.raises(InputError, match=r"lacks 1 tensors \(h.1.mlp.c_fc.bias\)"):
        load(write_folder(tmp_path / "a", "gpt2", "transformer.h.1.mlp.c_fc.bias"))
    folder = write_folder(tmp_path / "b", "gpt2")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="model.safetensors can't be read .* fetch it again"):
        load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has neither model.safetensors nor pytorch_model.bin"):
        load(folder)


def test_another_model_does_not_take_a_writer_for_an_encoder(tmp_path):
    folder = write_folder(tmp_path / "bart", "bart")
    for model in ("unilm", "encoder_decoder"):
        with pytest.raises(InputError, match='is a bart, which writes by itself: set model = "pre'):
            load(folder, model=model)


def test_a_pretrained_writer_is_named(tmp_path):
    with pytest.raises(ValueError, match="model = pretrained needs a writer, and encoder = tiny"):
        make_settings(Path("tiny"), encoder="tiny")
    with pytest.raises(ValueError, match="keep_tokens is for WordPiece"):
        make_settings(tmp_path, keep_tokens="used")


def test_a_writer_of_keras_hub_is_no_encoder(tokenizer):
    """It has other inputs, and other outputs, than encoders have."""
    kind = keras_hub.models.BartBackbone
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 4, "intermediate_dim": 8}
    backbone = kind(vocabulary_size=500, **sizes)
    settings = make_settings(Path("bart_base_en"), model="encoder_decoder", encoder="bart_base_en")
    with mock.patch("core.encoders.encoder.from_preset", lambda *_: backbone):
        with pytest.raises(InputError, match="is a BartBackbone, which reads targets too"):
            load_backbone(settings, tokenizer)
        pretrained = make_settings(Path("bart_base_en"), encoder="bart_base_en")
        with pytest.raises(InputError, match="'bart_base_en' is a preset: name such a folder"):
            load_backbone(pretrained, tokenizer)
        with mock.patch("core.base.extras.present", lambda: []):
            with pytest.raises(InputError, match="this needs extras/writers, which is absent"):
                load_backbone(pretrained, tokenizer)


def test_a_writer_from_nothing_attends_to_something(tmp_path):
    """T5 scales neither scores nor embeddings; nothing reads the weights of its folder."""
    settings = make_settings(tmp_path, writers={"weights": "random"})
    t5 = hooks.load_backbone(settings, write_folder(tmp_path / "t5", "t5"))
    attention, wide = t5.readers[0].attention, 32**-0.5
    assert np.std(attention.key.kernel) == pytest.approx(wide, rel=0.1)
    assert np.std(attention.query.kernel) == pytest.approx(wide * 8**-0.5, rel=0.1)
    assert np.std(t5.token_embedding.embeddings) == pytest.approx(0.02 / wide, rel=0.1)
    gpt2 = hooks.load_backbone(settings, write_folder(tmp_path / "gpt2", "gpt2"))
    table = np.asarray(gpt2.position_embedding.embeddings)
    assert np.abs(table).max() == pytest.approx(0.02 * 2**0.5, rel=1e-3)
    assert np.std(gpt2.token_embedding.embeddings) == pytest.approx(0.02, rel=0.1)


# -------------------------------------------------------------------------- packing


def make_pairs(settings: Settings, count: int = 9, batch_size: int = 12) -> PairGenerator:
    """Return pairs of random tokens, more than records: the first two have targets of their own."""
    random, tokens = np.random.default_rng(7), TargetTokens(0, writer_peer.END, (), ())
    examples = [Example(f"r{n}", "s", ("t", "u") if n < 2 else ("t",), n + 1) for n in range(count)]

    def draw(most: int, count: int) -> list[np.ndarray]:
        lengths = random.integers(1, most + 1, count)
        return [random.integers(10, 60, length).astype(np.int32) for length in lengths]

    found = (draw(12, count), draw(TARGET - 1, count + 2))
    # Other templates have a module of this name too.
    module = PairGenerator.__init__.__globals__
    encoded = {"encode_sources": lambda *_: found[0], "encode": lambda *_: found[1]}
    with mock.patch.dict(module, encoded):
        inputs = ("token_ids", "padding_mask")
        return PairGenerator(examples, tokens, None, inputs, settings, batch_size)


def find_losses(model: TrainingModel, logits: keras.KerasTensor, batch: dict) -> dict:
    """Return the loss of each example, by its target: the rows have several, or one each."""
    inputs = {name: tf.constant(batch[name]) for name in model.input}
    scores = np.asarray(keras.Model(model.input, logits)(inputs), np.float64)
    labels = batch["target_labels"]
    numbers = batch.get("target_examples", np.ones_like(labels))
    losses = -np.take_along_axis(
        special.log_softmax(scores, axis=2), np.maximum(labels, 0)[..., None], axis=2
    )[..., 0]
    found = {}
    for row in np.flatnonzero(batch["loss_weight"]):
        for number in range(1, numbers[row].max() + 1):
            own = (numbers[row] == number) & (labels[row] >= 0)
            found[tuple(labels[row][own].tolist())] = losses[row][own].sum()
    return found


def changed_by_others(models: Models, batch: dict, before: dict) -> float:
    """Return how much losses move when the tokens of the first example of a row are others."""
    row = int(batch["target_examples"].max(axis=1).argmax())
    changed = {name: array.copy() for name, array in batch.items()}
    for name, numbers in (("token_ids", "source_examples"), ("target_ids", "target_examples")):
        changed[name][row][batch[numbers][row] == 1] ^= 1
    after = find_losses(models.training, models.compared[0].logits, changed)
    first = tuple(batch["target_labels"][row][batch["target_examples"][row] == 1].tolist())
    moved = {ids: abs(after[ids] - before[ids]) for ids in before}
    assert moved.pop(first) > 1e-2
    return max(moved.values())


@pytest.mark.shown("gemma3", "gpt2")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2", "mistral", "gemma3"])
def test_a_packed_example_is_computed_as_one_alone(kind, tmp_path):
    """Windows of Qwen2, Mistral and Gemma 3 are shorter than the examples."""
    folder = write_folder(tmp_path / kind, kind)
    changes = {"max_length": 24, "buckets": 1, "label_smoothing": 0.1}
    settings = make_settings(folder, **changes, writers={"packing": True})
    pairs, plain = make_pairs(settings), make_settings(folder, **changes)
    batches = [pairs, pack_pairs(pairs, settings)]
    results, gradients = [], []
    for own, generator in zip((plain, settings), batches, strict=True):
        models = build_models(load(folder), own)
        generator.check_keys(models.training)
        [batch] = generator.batches(3)
        found, losses = models.training.gradients(as_tensors(batch))
        mean = float(np.sum(batch["loss_weight"] * losses["loss"]))
        each = find_losses(models.training, models.compared[0].logits, batch)
        results.append({"mean": mean, **each})
        gradients.append([np.asarray(gradient) for gradient in found])
    assert batch["target_examples"].max() >= 3 and 0 in batch["loss_weight"]
    assert len(each) == 11 and results[1] == pytest.approx(results[0], abs=1e-5)
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-5)
    assert changed_by_others(models, batch, each) < 1e-6

    def all_alike(numbers: tf.Tensor) -> tf.Tensor:
        return tf.equal(numbers[:, :, None], numbers[:, :, None])

    with mock.patch("extras.writers.layers.share_example", all_alike):
        mixed = find_losses(models.training, models.compared[0].logits, batch)
        assert changed_by_others(models, batch, mixed) > 1e-3


def test_rows_have_each_example_once_and_as_many_in_every_epoch(tmp_path, capsys):
    changes = {"max_length": 24, "buckets": 1, "seed": 4}
    settings = make_settings(tmp_path, **changes, writers={"packing": True})
    pairs = make_pairs(settings, count=60, batch_size=6)
    with mock.patch("extras.writers.packing.FITTED", 25):
        one, two = (pack_pairs(pairs, settings) for _ in range(2))
    said = capsys.readouterr().out.splitlines()[0]
    epochs = [list(one.batches(epoch)) for epoch in range(3)]
    assert_equal(
        [array for batch in two.batches(2, skip=1) for array in batch.values()],
        [array for batch in epochs[2][1:] for array in batch.values()],
    )
    wanted = sorted(target.tolist() for target in pairs.targets)
    orders = []
    for batches in epochs:
        assert len(batches) == len(one) == -(-one.size // 6)
        targets = []
        for batch in batches:
            shapes = {name: array.shape for name, array in batch.items()}
            assert shapes["token_ids"] == shapes["padding_mask"] == shapes["source_examples"]
            assert shapes["token_ids"][1] + shapes["target_ids"][1] == 24 + TARGET
            labels, used = batch["target_labels"], batch["loss_weight"] > 0
            assert batch["loss_weight"].sum() * (labels[used] >= 0).sum() / used.sum() == (
                pytest.approx(1, abs=1e-6)
            )
            for row in np.flatnonzero(used):
                numbers = batch["target_examples"][row]
                ends = [labels[row][numbers == n].tolist() for n in range(1, numbers.max() + 1)]
                targets.append(ends)
        orders.append(targets)
        assert sorted(target for row in targets for target in row) == wanted
    together = [{frozenset(map(tuple, row)) for row in targets} for targets in orders]
    assert together[0] != together[1] and orders[1] != orders[2]
    tokens = sum(len(ids) - 1 for ids in pairs.sources)
    tokens += sum(map(len, pairs.targets))
    padding = 1 - tokens / (32 * one.size)
    assert said == (
        f"packing: 62 examples in {one.size} rows of 32 tokens; {padding:.1%} of them are padding, "
        f"one example in a row would have {1 - tokens / (62 * sum(pairs.padded_lengths[0])):.1%}"
    )
    assert padding < 0.15
    spec = one.to_dataset().element_spec
    assert all(None not in part.shape for part in spec.values())


def test_a_row_has_room_for_the_longest_of_both():
    sizes = np.array([[11, 1], [0, 8], [1, 1], [1, 1]])
    room = packing.split_row(sizes, 20)
    assert room.tolist() == [11, 9]
    assert [row.tolist() for row in packing.fill_rows(sizes, room)] == [[0, 1], [2, 3]]


def test_what_reads_no_rows_refuses_them(tmp_path):
    with pytest.raises(ValueError, match=r"writers.packing = true puts .* set packing = false, or"):
        make_settings(Path("tiny"), model="unilm", encoder="tiny", writers={"packing": True})
    for table in ({"prompt": "Title of: {source}"}, {"weights": "random"}):
        with pytest.raises(ValueError, match="writers.weights are for a pretrained writer"):
            make_settings(Path("tiny"), model="unilm", encoder="tiny", writers=table)
    folder = write_folder(tmp_path / "bart", "bart")
    with pytest.raises(InputError, match="is for decoder-only writers, and .* is a bart"):
        load(folder, writers={"packing": True})


# ------------------------------------------------------------------------- training


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("kind", ["t5"])
def test_a_gradient_is_the_same_in_pieces_and_recomputed(kind, tmp_path):
    """With dropout, whose masks are those of the rows."""
    folder, random = write_folder(tmp_path / kind, kind), np.random.default_rng(0)
    settings = make_settings(folder, dropout=0.2, attention_dropout=0.2, seed=3)
    batch = {name: tf.tile(array[:2], (2, 1)) for name, array in read_batch(kind).items()}
    batch["target_labels"] = tf.constant(random.integers(0, 60, (4, TARGET)), tf.int32)
    batch |= {"loss_weight": tf.fill([4], 0.25), "row": tf.range(4)}
    found = []
    for pieces, again in ((1, False), (2, False), (1, True)):
        own = settings.model_copy(update={"accumulation": pieces})
        models = build_models(load(folder, dropout=0.2, attention_dropout=0.2), own)
        if again:
            recompute_layers(models.training)
        compile_models(own, models, steps=10)
        gradients, losses = models.training.batch_gradients(batch)
        found.append([losses["loss"], *gradients])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=2e-5)
    # The rows of one text differ by their masks.
    assert float(found[0][0][0]) != float(found[0][0][2])
    assert all(np.abs(gradient).max() > 0 for gradient in found[0][1:] if len(gradient.shape) > 1)


@pytest.mark.further
@pytest.mark.trains
def test_recomputed_layers_of_gemma_give_the_same_gradient_to_the_last_bit(tmp_path):
    """But for what TensorFlow rearranges, of either graph in its own way."""
    folder, drop = write_folder(tmp_path / "gemma3", "gemma3"), {"attention_dropout": 0.2}
    batch, settings = read_batch("gemma3"), make_settings(folder, seed=3, **drop)
    batch |= {"target_labels": batch["target_ids"] + 1, "row": tf.range(len(LENGTHS))}
    batch["loss_weight"] = tf.fill([len(LENGTHS)], 0.25)
    found, before = [], tf.config.optimizer.get_experimental_options()
    try:
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        for again in (False, True):
            models = build_models(load(folder, **drop), settings)
            if again:
                recompute_layers(models.training)
            compile_models(settings, models, steps=10)
            gradients, _ = models.training.batch_gradients(batch)
            found.append([np.array(gradient) for gradient in gradients])
    finally:
        on = before.get("arithmetic_optimization", True)
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": on})
    assert_equal(*found)


RANK = 2


@pytest.mark.shown("t5_gated", "int4")
@pytest.mark.parametrize(
    ("kind", "base"),
    [("gemma3", "int8"), ("gemma3", "int4"), ("bart", "float"), ("t5_gated", "float")],
)
def test_updates_of_low_rank_are_merged(kind, base, tmp_path):
    """A file has only updates; with them a plain writer computes what the adapted one does."""
    folder = write_folder(tmp_path / kind, kind)
    settings = make_settings(folder, lora={"rank": RANK, "base": base})
    adapted, plain = (build_models(load(folder), settings) for _ in range(2))
    before = logits_of(kind, adapted.inference, "right")
    kept = [np.array(weight) for weight in plain.encoder.weights]
    adapt_layers(settings, adapted.encoder)
    kernels = adapted.encoder.lora_base.kernels
    sides = {"gemma3": 7 * 2, "bart": 6 * 2 + 10 * 2, "t5_gated": 7 * 2 + 11 * 2}
    assert len(kernels) == sides[kind]
    trained, random = adapted.encoder.trainable_weights, np.random.default_rng(1)
    assert {weight.name for weight in trained} == {"lora_a", "lora_b"}
    if base == "float":
        np.testing.assert_allclose(logits_of(kind, adapted.inference, "right"), before, atol=1e-5)
    for weight in trained:
        weight.assign(weight + random.normal(size=weight.shape, scale=0.1).astype("float32"))
    after = logits_of(kind, adapted.inference, "left")
    assert np.abs(after - before).max() > 0.1
    if base == "float":
        frozen = [weight for weight in adapted.encoder.weights if hasattr(weight, "frozen")]
        assert_equal(kept, frozen)
    adapted.inference.save_weights(tmp_path / "updates.weights.h5")
    names = list(best_arrays(tmp_path / "updates.weights.h5"))
    assert len(names) == 2 * len(kernels) and all("lora_" in name for name in names)
    merge_when_loaded(settings, plain.encoder, kernels)
    plain.inference.load_weights(tmp_path / "updates.weights.h5")
    np.testing.assert_allclose(logits_of(kind, plain.inference, "left"), after, atol=1e-4)


def test_parts_of_a_writer_by_name(tmp_path):
    encoder = load(write_folder(tmp_path / "t5_gated", "t5_gated"))
    counts = {"query,value": 12, "key": 6, "output": 6, "feedforward": 12, "all": 36}
    assert {name: len(choose_layers(encoder, name)) for name in counts} == counts


def best_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file of weights by name."""
    arrays: dict = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return arrays


WORKER = ROOT / "tests" / "replica_worker.py"


def make_project(tokenizer: Tokenizer, place: Path, kind: str) -> tuple[Path, Path, dict]:
    """Return a project, the folder of a writer, and the settings of two steps with it."""
    project = bake_project("seq2seq", place, "writers, lora, export")
    shorten(project, {"train": 32, "dev": 4, "test": 4})
    folder = write_folder(place / kind, kind, tokenizer=tokenizer)
    names = {"model": "pretrained", "encoder": str(folder), "steps": 2, "buckets": 1}
    rates = {"learning_rate": 1e-3, "dropout": 0.1, "attention_dropout": 0.1}
    return project, folder, {"max_length": 20, "target_length": 12, **names, **rates}


def train_killed(project: Path, place: Path, settings: dict) -> None:
    """Train two steps with a process that is killed after the first, and another that goes on."""
    asked = flags(project, **settings, run_name="killed", checkpoint_steps=1)
    (place / "plan.json").write_text('{"kill_at": 1}', encoding="utf-8")
    done = run(WORKER, project, place / "plan.json", *asked, cwd=place, check=False)
    assert done.returncode == -signal.SIGKILL, f"{done.stdout}\n{done.stderr}"
    run("train.py", *asked, cwd=project)


def assert_same_updates(project: Path, kernels: int) -> None:
    """Compare the run that was killed with `low`, to the last bit; both hold only updates."""
    low, killed = (
        best_arrays(project / "runs" / name / "best.weights.h5") for name in ("low", "killed")
    )
    assert low.keys() == killed.keys() and len(low) == 2 * kernels
    assert all("lora_" in name for name in low)
    assert_equal(low.values(), killed.values())


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_updates_beside_an_int4_bart_go_on_and_are_written_merged(tokenizer, tmp_path):
    """Two steps at once, and with a death between; what is written is its codes and updates."""
    framed = frame(tokenizer, "<b> $A <e>")
    project, folder, settings = make_project(framed, tmp_path, "bart")
    settings |= {"lora.rank": RANK, "lora.base": "int4", "lora.layers": "value, feedforward"}
    run("train.py", *flags(project, **settings, run_name="low"), cwd=project)
    train_killed(project, tmp_path, settings)
    assert_same_updates(project, 3 * 2 + 4 * 2)
    run("extras/export/export.py", "low", tmp_path / "made", cwd=project)
    made, read = (
        load_file(place / "model.safetensors") for place in (tmp_path / "made/writer", folder)
    )
    assert made.keys() == read.keys()
    kernels = [name for name in read if re.search(r"\.(v_proj|fc1|fc2)\.weight$", name)]
    assert len(kernels) == 3 * 2 + 4 * 2
    for name, array in read.items():
        if name in kernels:
            base = codes.decode(codes.encode(array.T, "int4"), len(array.T))
            values = np.linalg.svd(made[name].T - base, compute_uv=False)
            assert values[0] > 0 and values[RANK] < 1e-2 * values[0], name
        else:
            first = 2 if "embed_positions" in name else 0  # of no position
            np.testing.assert_array_equal(made[name][first:], array[first:])


@pytest.mark.trains
def test_a_project_trains_a_writer_and_writes(tokenizer, tmp_path):
    project, folder, changes = make_project(tokenizer, tmp_path, "gpt2")
    state = load_file(folder / "model.safetensors")
    run("train.py", *flags(project, **changes), cwd=project)
    out = tmp_path / "out.jsonl"
    more = ("--beams", "3", "--n_best", "2", "--stop", "x")
    run("predict.py", "default", "sample/test.jsonl", out, *more, cwd=project)
    for line in out.read_text("utf-8").splitlines():
        record = json.loads(line)
        assert "x" not in record["prediction"]
        assert [other["score"] <= record["score"] for other in record["others"]] == [True]
    # Of updates beside it, merged: what was read comes back, but for kernels.
    low = {**changes, "run_name": "low", "lora.rank": RANK}
    run("train.py", *flags(project, **low), cwd=project)
    run("extras/export/export.py", "low", tmp_path / "made", cwd=project)
    made = load_file(tmp_path / "made/writer/model.safetensors")
    assert made.keys() == state.keys()
    moved = {n: made[n] - array for n, array in state.items() if not (made[n] == array).all()}
    kernels = [name for name in state if ".h." in name and state[name].ndim == 2]
    assert sorted(moved) == sorted(kernels)
    for name, difference in moved.items():
        parts = np.split(difference, 3, axis=1) if "c_attn" in name else [difference]
        for part in parts:
            values = np.linalg.svd(part, compute_uv=False)
            assert values[RANK] < 1e-2 * values[0]
    served = tf.saved_model.load(str(tmp_path / "made/saved_model"))
    assert "writer/" in (tmp_path / "made/README.md").read_text("utf-8") and served


WORKER = ROOT / "tests/replica_worker.py"


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_packed_trainings_are_the_same_on_replicas_and_interrupted(tmp_path):
    """With dropout: one replica, and two with micro-batches that were killed in mid-epoch."""
    project = bake_project("seq2seq", tmp_path, "writers")
    shorten(project, {"train": 40, "dev": 4})
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train(str(project / "sample/train.jsonl"), vocab_size=500, special_tokens=["<b>"])
    room = {"tokenizer": tokenizer._tokenizer, "max_position_embeddings": 160}
    folder = write_folder(tmp_path / "qwen2", "qwen2", **room)
    changes = {"model": "pretrained", "encoder": str(folder), "writers.packing": True}
    changes |= {"max_length": 96, "target_length": 64, "learning_rate": 1e-3, "epochs": 2}
    changes |= {"batch_size": 4, "dropout": 0.1, "attention_dropout": 0.1, "checkpoint_steps": 1}
    two = {"strategy": "mirrored", "devices.logical_devices": 2, "accumulation": 2}
    plans = {"one": {}, "killed": {"kill_at": 5}, "again": {}}
    found = {}
    for name, plan in plans.items():
        plan = plan or {"record": str(tmp_path / f"{name}.npz")}
        (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        own = {"run_name": "one"} if name == "one" else {"run_name": "two", **two}
        arguments = flags(project, **changes, **own)
        done = run(WORKER, project, tmp_path / "plan.json", *arguments, cwd=tmp_path, check=False)
        assert done.returncode == (-signal.SIGKILL if name == "killed" else 0), done.stderr
        if name != "killed":
            with np.load(tmp_path / f"{name}.npz") as record:
                found[name] = dict(record)
    one, again = found["one"], found["again"]
    assert one["steps"] == again["steps"] == 2 * -(-one["examples"] // 4) > 5
    assert 0 < one["examples"] % 4 and one["each_once"].all() and again["replicas"] == 2
    weights = [name for name in one if name.startswith("weights/")]
    assert len(weights) > 10 and one["examples"] < 30
    for name in weights:
        np.testing.assert_allclose(again[name], one[name], rtol=0, atol=1e-5)
