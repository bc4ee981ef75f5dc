"""Does every template train two steps with lora.rank = 4, go on after a kill, and predict?

Each template is tried with an encoder that is `tiny` and with a small BERT, text generation also
with each family of the extra `writers`; their weights are random numbers. `train.py` makes two
steps. Another run is killed after the first and started again: it must end with the same best
weights, to the last bit. Then `evaluate.py` scores a run, and its encoder is exported: of the
weights that were read, all must come back to the last bit but kernels, each of which may differ by
a matrix of rank 4.

python benchmarks/lora_trials.py: what is tried stands in benchmarks/results/lora_trials.json, and
is not tried again: delete a line to repeat it.
"""

import argparse
import functools
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("", "tests", "tests/extras", "tests/tasks/seq2seq")
sys.path[:0] = [str(ROOT / place) for place in PLACES]

import conftest  # noqa: E402, F401
import numpy as np  # noqa: E402
import test_writers as writers  # noqa: E402
from encoder_peer import seeded  # noqa: E402
from projects import TEMPLATES, bake_project, flags, prepare, run, shorten  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from test_used_rows import best  # noqa: E402
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer, processors  # noqa: E402

RESULTS = ROOT / "benchmarks/results/lora_trials.json"
RANK, POSITIONS, WIDTH = 4, 200, 32
BERT = {
    "model_type": "bert",
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WRITERS = {"model": "pretrained", "target_length": 24, "max_length": 64, "learning_rate": 1e-3}


def main() -> None:
    """Try what has not been tried; each result is written at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="trials whose names hold this text")
    arguments = parser.parse_args()
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    for template, kind in plan():
        name = f"{template}: {kind}"
        if name in found or arguments.only not in name:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            found[name] = try_one(Path(place), template, kind)
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(f"{name}: {json.dumps(found[name])}", flush=True)
        lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
        RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def plan() -> list[tuple[str, str]]:
    """Return template and encoder of each trial."""
    encoders = [(template, kind) for kind in ("tiny", "bert") for template in TEMPLATES]
    others = [("seq2seq", "encoder_decoder with bert")]
    return [*encoders, *others, *(("seq2seq", f"writer {kind}") for kind in writers.NUMBERS)]


def try_one(place: Path, template: str, kind: str) -> dict:
    """Train, kill, resume, score and export; return what was found.

    Args:
        place: an empty folder.
        template: which is baked.
        kind: of the encoder, as in `plan`.
    """
    project = bake_project(template, place, "lora, encoders, export, writers")
    shorten(project, {"train": 32, "dev": 6, "test": 4})
    base, settings = make_base(project, kind)
    small = flags(project, **{"steps": 2, "batch_size": 8, "checkpoint_steps": 1, **settings})
    small += ["--lora.rank", str(RANK)]
    plan_path = project / "plan.json"
    plan_path.write_text('{"kill_at": 1}', encoding="utf-8")
    worker, dev = ROOT / "tests/replica_worker.py", next(project.glob("sample/dev.*"))
    script = project / "extras/export/export.py"
    script = script if script.parent.is_dir() and template != "pretraining" else "export.py"
    steps = {
        "trained": (["train.py", *small, "--run_name", "whole"], 0),
        "killed": ([worker, project, plan_path, *small, "--run_name", "killed"], -9),
        "resumed": (["train.py", *small, "--run_name", "killed"], 0),
        "scored": (["evaluate.py", "whole", dev], 0),
        "exported": ([script, "whole", project / "made"], 0),
    }
    for step, (command, expected) in steps.items():
        done = run(*command, cwd=project, check=False)
        if done.returncode != expected:
            said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            errors = [line for line in said if line.startswith("error")]
            failure = f"{step}: exit {done.returncode}: {' '.join(errors or said[-1:])}"
            return {"works": False, "failure": failure}
    return judge(project, base)


def judge(project: Path, base: Path | None) -> dict:
    """Compare what the runs left, and what was exported with the base.

    Args:
        project: with the runs `whole` and `killed`, and with what is exported in `made`.
        base: the folder of the encoder; None: it began from nothing.
    """
    whole, killed = best(project, "whole"), best(project, "killed")
    same = whole.keys() == killed.keys()
    same &= all(np.array_equal(whole[name], killed[name]) for name in whole)
    frozen = [name for name in whole if "encoder" in name and "lora_" not in name]
    [file] = (project / "made").rglob("model.safetensors")
    exported, ranks = load_file(file), []
    if base:
        before = load_file(base / "model.safetensors")
        for name, array in before.items():
            after = exported.get(name, exported.get(f"bert.{name}"))
            if after is None or after.shape != array.shape:
                continue  # a pooler, or rows of tokens that are not in use
            if array.ndim == 2 and not np.array_equal(array, after):
                ranks.append(rank_of(after.astype(np.float64) - array))
            elif not np.array_equal(array, after):
                ranks.append(array.ndim * 1000)  # this is not a kernel
    right = not base or (len(ranks) > 0 and max(ranks) <= RANK)
    return {
        "works": bool(same and right),
        "resumed_to_the_last_bit": bool(same),
        "updated_kernels": sum(name.endswith("lora_a") for name in whole),
        "others_in_the_file": sum(whole[name].size for name in frozen),
        **(
            {"changed_tensors": len(ranks), "largest_rank": int(max(ranks, default=0))}
            if base
            else {}
        ),
    }


def rank_of(difference: np.ndarray) -> int:
    """Return the rank of a matrix, beside what rounding adds."""
    values = np.linalg.svd(difference, compute_uv=False)
    return int(np.sum(values > 1e-3 * values[0]))


def make_base(project: Path, kind: str) -> tuple[Path | None, dict]:
    """Make the encoder of a trial; return its folder, and the settings that go with it."""
    name = kind.rpartition(" ")[2]
    if name == "tiny":
        return None, {"encoder": "tiny"}
    texts = [text for path in project.glob("sample/*") for text in read_texts(path)]
    folder = project / "base"
    if kind.startswith("writer"):
        write_writer(folder, name, texts)
        return folder, {**WRITERS, "encoder": str(folder)}
    write_bert(folder, texts)
    settings = {"encoder": str(folder)}
    if kind.startswith("encoder_decoder"):
        settings["model"] = "encoder_decoder"
    if project.name.startswith("pretraining"):
        settings["tokenizer"] = str(folder / "tokenizer.json")
        prepare(project, *flags(project, **settings, overwrite=True))
    return folder, settings


def read_texts(path: Path) -> list[str]:
    """Return the lines of a file of a sample, as they are."""
    return path.read_text(encoding="utf-8").splitlines()


def write_bert(folder: Path, texts: list[str]) -> None:
    """Write a BERT with random weights, whose tokens are letters."""
    folder.mkdir()
    letters = sorted({letter for text in texts for letter in text.lower() if letter.strip()})
    tokens = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    tokenizer = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {**BERT, "vocab_size": len(tokens)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    numbers = (ROOT / "tests/extras/encoder_numbers.json").read_text(encoding="utf-8")
    shapes = dict(json.loads(numbers)["bert"]["shapes"])
    for name, rows in {"word": len(tokens), "position": POSITIONS, "token_type": 2}.items():
        shapes[f"embeddings.{name}_embeddings.weight"] = [rows, WIDTH]
    inner = functools.partial(map, lambda size: 2 * WIDTH if size == 48 else size)
    state = {name: seeded(name, tuple(inner(shape))) for name, shape in shapes.items()}
    save_file(state, folder / "model.safetensors")


def write_writer(folder: Path, kind: str, texts: list[str]) -> None:
    """Write a small writer of a family with random weights, and a tokenizer of bytes."""
    made = ByteLevelBPETokenizer()
    special = ["<pad>", "<s>", "</s>"]
    made.train_from_iterator(texts, 600, special_tokens=special, show_progress=False)
    tokenizer = made._tokenizer
    if kind in writers.writer_peer.TWO_SIDED:
        single = "<s> $A </s>" if kind == "bart" else "$A </s>"
        numbers = [("<s>", 1), ("</s>", 2)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, special_tokens=numbers
        )
    rows = tokenizer.get_vocab_size()
    numbers = {"vocab_size": rows, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    room = {"gpt2": "n_positions", "bart": "max_position_embeddings"}.get(kind)
    numbers |= {room: POSITIONS} if room else {}
    writers.write_folder(folder, kind, **numbers)
    state = load_file(folder / "model.safetensors")
    for name, array in state.items():
        if array.shape[0] == 60 or name.endswith("final_logits_bias"):
            shape = (1, rows) if name.endswith("final_logits_bias") else (rows, WIDTH)
            state[name] = writers.writer_peer.seeded(name, shape)
        elif name.endswith(("wpe.weight", "embed_positions.weight")):
            extra = array.shape[0] - 32
            state[name] = writers.writer_peer.seeded(name, (POSITIONS + extra, WIDTH))
    save_file(state, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")


if __name__ == "__main__":
    main()
