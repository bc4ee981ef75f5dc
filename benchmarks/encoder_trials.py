"""Does a new user train each family of the extra `encoders`, from each kind of file?

For each family, the script makes a small folder with random weights of transformers and a tokenizer
of its kind. It changes only the setting `encoder` of a project. Then `train.py` makes two steps, is
killed after the first, starts again, and scores dev. In one template `predict.py` also writes a
submission, and `check.py` checks data and model as for a TPU.

python benchmarks/encoder_trials.py PYTHON ...: each PYTHON has torch, transformers and
sentencepiece; a family that the first one lacks comes from the next. The results are in
benchmarks/results/encoder_trials.json and are not tried again: delete a line to repeat it.
"""

import argparse
import json
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/extras")]

import encoder_peer  # noqa: E402

RESULTS = ROOT / "benchmarks/results/encoder_trials.json"
TEMPLATES = (
    "text_classification",
    "relation_extraction",
    "reading_comprehension",
    "event_extraction",
    "named_entity_recognition",
)
LETTERS = dict(zip(TEMPLATES, "CRQEN", strict=True))
EXTRAS = "comparison, doctor, encoders, tpu"
SAFE = "safetensors"
# Kind -> its vocabulary file and the formats of its weights.
TORCH = (SAFE, "zip", "legacy", "parts")
GOOGLE = (SAFE, "zip", "google")
TRIALS = {
    "bert": ("vocab.txt", (*TORCH, "google")),
    "deberta_v3": ("spm.model", (SAFE, "zip")),
    "roformer_v2": ("vocab.txt", GOOGLE),
    "roformer_words": ("words", (SAFE, "zip")),
    "modernbert": ("tokenizer.json", (SAFE, "zip")),
    "nezha": ("vocab.txt", GOOGLE),
    "electra": ("vocab.txt", GOOGLE),
    "albert": ("spiece.model", GOOGLE),
    "ernie": ("vocab.txt", (SAFE, "zip")),
    "xlm_roberta": ("sentencepiece.bpe.model", (SAFE, "zip")),
    "roberta": ("tokenizer.json", (SAFE, "zip")),
    "deberta_v2": ("spm.model", (SAFE, "zip")),
    "roformer": ("vocab.txt", GOOGLE),
    "distilbert": ("vocab.txt", (SAFE, "zip")),
    "camembert": ("tokenizer.json", (SAFE, "zip")),
    "mpnet": ("mpnet", (SAFE, "zip")),
}
ROWS = 1200  # rows of the embeddings: more than any of these vocabularies has
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OF_MPNET = ("<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>")
WORDS = ("北京", "大学", "北京大学")


def main() -> None:
    """Make the folders, then try them one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python", nargs="+", help="with torch, transformers and sentencepiece")
    parser.add_argument("--jobs", type=int, default=1, help="trials at the same time")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)  # this is one of them
    arguments = parser.parse_args()
    if arguments.make:
        make_folders(arguments.make)
        return
    with tempfile.TemporaryDirectory() as place:
        folders = Path(place) / "models"
        folders.mkdir()
        (folders / "texts.txt").write_text("\n".join(sample_texts()), encoding="utf-8")
        for python in arguments.python:
            subprocess.run([python, __file__, "-", "--make", folders], check=True)
        make_rest(folders)
        try_all(folders, Path(place), arguments.jobs)


def sample_texts() -> list[str]:
    """Return the texts of the samples, with some Chinese for vocabularies that have it."""
    texts = ["北京大学在北京。"]
    for template in TEMPLATES:
        path = ROOT / f"baselines/{template}_sample/sample/train.jsonl"
        for line in path.read_text(encoding="utf-8").splitlines()[:200]:
            record = json.loads(line)
            names = ("text", "text_a", "text_b", "question", "context")
            texts += [record[name] for name in names if record.get(name)]
    return [" ".join(text.split()) for text in texts]


def trained_in(kind: str, file: str) -> str:
    """Return the letters of the templates in which a kind trained; `-`: not tried.

    Args:
        kind: of tests/encoder_peer.py.
        file: as docs/encoders.md names it.
    """
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    form = file.rpartition(", ")[2] if ", " in file else SAFE
    names = {template: found.get(f"{kind}, {form}: {template}") for template in LETTERS}
    trained = [LETTERS[template] for template, one in names.items() if one and one["trained"]]
    return " ".join(trained) or "-"


# ------------------------------------------------------------------ run by a Python with torch


def make_folders(folder: Path) -> None:
    """Write a folder for each kind and format that this transformers has."""
    import transformers

    texts = (folder / "texts.txt").read_text(encoding="utf-8").splitlines()
    for kind, (vocabulary, formats) in TRIALS.items():
        known = encoder_peer.KINDS.get(kind.removesuffix("_words"))
        target = folder / f"{kind}_{SAFE}"
        if known is None or target.is_dir() or not hasattr(transformers, known["model"]):
            continue
        model = encoder_peer.make({**known, "config": {**known["config"], "vocab_size": ROWS}})
        others = [name for name in formats if name in TORCH and name != SAFE]
        # `save` names the other folders after the first.
        encoder_peer.save(model, folder / kind, others)
        (folder / kind).rename(target)
        for name in (SAFE, *others):
            write_vocabulary(folder / f"{kind}_{name}", vocabulary, texts)


def write_vocabulary(folder: Path, file: str, texts: list[str]) -> None:
    """Write a tokenizer of a kind, learned from texts, in the files of published folders."""
    if file in ("vocab.txt", "words", "mpnet"):
        letters = sorted({letter for text in texts for letter in text.lower() if letter.strip()})
        words = WORDS if file == "words" else ()
        special = OF_MPNET if file == "mpnet" else SPECIAL
        tokens = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
        (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    elif file == "tokenizer.json":
        from tokenizers import ByteLevelBPETokenizer, processors

        tokenizer = ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        tokenizer.train_from_iterator(texts, ROWS - 600, special_tokens=special)
        tokenizer._tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
        tokenizer.save(str(folder / file))
    else:
        import sentencepiece

        names = ("[PAD]", "[CLS]", "[SEP]", "[UNK]")
        if file == "sentencepiece.bpe.model":
            options = {}  # XLM-R's has unk, bos and eos first, and no padding
        else:
            parts = dict(zip(("pad", "bos", "eos", "unk"), names, strict=True))
            options = {f"{name}_piece": piece for name, piece in parts.items()}
            options |= {f"{name}_id": number for number, name in enumerate(parts)}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_prefix=str(folder / "made"),
            vocab_size=600,
            hard_vocab_limit=False,
            minloglevel=2,
            **options,
        )
        (folder / "made.model").rename(folder / file)
        (folder / "made.vocab").unlink()


# --------------------------------------------------------------------------- run by this Python


def make_rest(folders: Path) -> None:
    """Write what transformers can't make: RoFormerV2, and checkpoints of Google's code."""
    import test_encoders as ours
    from safetensors.numpy import load_file, save_file

    entry = encoder_peer.OTHERS["roformer_v2"]
    shapes = {**entry["shapes"], "embeddings.word_embeddings.weight": [ROWS, 16]}
    state = {name: encoder_peer.seeded(name, tuple(shape)) for name, shape in shapes.items()}
    for name in (SAFE, "zip"):
        target = folders / f"roformer_v2_{name}"
        target.mkdir()
        config = {**entry["config"], "vocab_size": ROWS}
        (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
        shutil.copy(folders / f"bert_{SAFE}/vocab.txt", target)
    save_file(state, folders / f"roformer_v2_{SAFE}/model.safetensors")
    with ours.torch_modules():
        path = folders / "roformer_v2_zip/pytorch_model.bin"
        ours.write_zip(path, *ours.views_of(state))
    for kind, (_, formats) in TRIALS.items():
        source, target = folders / f"{kind}_{SAFE}", folders / f"{kind}_google"
        if "google" not in formats or not source.is_dir():
            continue
        shutil.copytree(source, target)
        state = load_file(source / "model.safetensors")
        root = "electra" if kind == "electra" else "bert"
        state = {name: value for name, value in state.items() if value.ndim and value.size}
        prefix = min((n for n in state if n.endswith(ours.LANDMARK)), key=len)
        prefix = prefix.removesuffix(ours.LANDMARK)
        state = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
        file = {"albert": "albert", "electra": "base_discriminator"}.get(kind, "bert")
        ours.write_google(target, state, root, file, named=kind in ("roformer", "nezha"))


def try_all(folders: Path, place: Path, jobs: int) -> None:
    """Try what was not tried yet; write each result at once."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    left = [
        (f"{kind}, {file}: {template}", kind, file, template)
        for kind, file, template in plan()
        if (folders / f"{kind}_{file}").is_dir()
    ]
    projects = {template: bake_small(template, place) for template in TEMPLATES}
    free: queue.Queue[Path] = queue.Queue()  # outside of a trial
    for number in range(jobs):
        free.put(place / f"job_{number}")

    def try_next(name: str, kind: str, file: str, template: str) -> None:
        job = free.get()
        project = shutil.copytree(projects[template], job / projects[template].name)
        began = time.monotonic()
        is_whole = file == SAFE and template == TEMPLATES[0]
        try:
            failure = try_one(project, folders / f"{kind}_{file}", is_whole)
        finally:
            shutil.rmtree(job)
            free.put(job)
        seconds = round(time.monotonic() - began, 1)
        print(f"{name}: {failure or 'trained'} ({seconds} s)", flush=True)
        found[name] = {"trained": failure is None, "seconds": seconds}
        if failure:
            found[name]["failure"] = failure

    with ThreadPoolExecutor(jobs) as executor:
        trials = [executor.submit(try_next, *one) for one in left if one[0] not in found]
        for trial in as_completed(trials):
            trial.result()
            lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
            RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def bake_small(template: str, place: Path) -> Path:
    """Bake a project with the first records of its sample."""
    from generator.bake import bake

    project = bake(ROOT / "templates" / template, place / template, {"extras": EXTRAS})
    keep_few_records(project)
    return project


def plan() -> list[tuple[str, str, str]]:
    """Return kind, format and template: each family in each template, other files in one."""
    first = [(kind, SAFE, TEMPLATES[0]) for kind in TRIALS]
    files = [
        (kind, file, TEMPLATES[0]) for kind, (_, formats) in TRIALS.items() for file in formats
    ]
    others = [(kind, SAFE, template) for template in TEMPLATES[1:] for kind in TRIALS]
    return list(dict.fromkeys([*first, *files, *others]))


def keep_few_records(project: Path) -> None:
    """Keep the first records of the sample."""
    for name, count in {"train": 32, "dev": 4, "test": 4}.items():
        path = project / f"sample/{name}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:count]), encoding="utf-8")


def try_one(project: Path, folder: Path, is_whole: bool) -> str | None:
    """Do what a new user does; return what failed, and why.

    Args:
        project: its setting `encoder` is changed.
        folder: of the encoder.
        is_whole: also predict and check.
    """
    from projects import flags, run

    config = project / "config.toml"
    text = config.read_text(encoding="utf-8")
    line = f'encoder = "{folder.as_posix()}"'
    config.write_text(re.sub(r'^encoder = "[^"]*"', line, text, flags=re.M), encoding="utf-8")
    sizes = {"max_length": 32, "buckets": 1, "batch_size": 8, "prediction_batch_size": 8}
    small = flags(project, steps=2, checkpoint_steps=1, **sizes)
    plan_path = project / "plan.json"
    plan_path.write_text('{"kill_at": 1}', encoding="utf-8")
    worker = ROOT / "tests/replica_worker.py"
    steps = [
        ("killed", [worker, project, plan_path, *small]),
        ("resumed", [project / "train.py", *small]),
    ]
    if is_whole:
        steps += [
            ("predict.py", [project / "predict.py", "default", "sample/test.jsonl", "out.jsonl"]),
            ("check.py", [project / "check.py", *small, "--strategy", "tpu"]),
        ]
    for what, command in steps:
        done = run(*command, cwd=project, check=False)
        expected = -9 if what == "killed" else 0
        if done.returncode != expected:
            said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
            errors = [line for line in said if line.startswith("error")]
            return f"{what}: exit {done.returncode}: {' '.join(errors or said[-1:])}"
    return None


if __name__ == "__main__":
    main()
