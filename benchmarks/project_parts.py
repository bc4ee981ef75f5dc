"""Load a relation extraction project's parts, as its train.py puts them together."""

import functools
import importlib
import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
KNOWLEDGENET = ROOT / "baselines" / "relation_extraction_knowledgenet"


def make_parser(description: str) -> ArgumentParser:
    """Return a parser with the arguments that all benchmarks share."""
    parser = ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--project", type=Path, default=KNOWLEDGENET, help="a generated project")
    parser.add_argument("--data", type=Path, help="folder of train.jsonl and dev.jsonl")
    parser.add_argument("--encoder", help="folder of the encoder, in Hugging Face format")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    return parser


def load_parts(arguments: Namespace) -> SimpleNamespace:
    """Return examples, generators and compiled models of a project.

    Args:
        arguments: `project`, `data`, `encoder`.
    """
    sys.path.insert(0, str(arguments.project.resolve()))
    importlib.import_module("common")  # it sets TensorFlow up, which must come after it
    import keras
    from task.data import collect_predicates, make_generator, read_examples
    from task.model import build_models
    from task.settings import Settings

    from common.encoder import load_encoder, load_tokenizer
    from common.optimizers import make_optimizer
    from common.settings import project_path, read_settings
    from common.strategy import make_strategy

    flags = ["--encoder", str(Path(arguments.encoder).resolve())] if arguments.encoder else []
    settings = read_settings(Settings, flags)
    make_strategy(settings)  # one replica: it has no scope of its own
    data = arguments.data or project_path(settings.train_file).parent
    train_examples = read_examples(data / "train.jsonl")
    dev_examples = read_examples(data / "dev.jsonl")
    predicates = collect_predicates(train_examples)
    keras.utils.set_random_seed(settings.seed)
    tokenizer = load_tokenizer(settings, [example.text for example in train_examples])
    encoder = load_encoder(settings, tokenizer)
    training_model, inference_model = build_models(encoder, len(predicates), settings)
    make = functools.partial(
        make_generator,
        settings=settings,
        tokenizer=tokenizer,
        predicates=predicates,
        encoder_inputs=[tensor.name for tensor in encoder.inputs],
    )
    train = make(train_examples, batch_size=settings.batch_size, seed=settings.seed)
    optimizer = make_optimizer(settings, training_model, encoder, settings.epochs * len(train))
    training_model.compile(optimizer)
    return SimpleNamespace(
        settings=settings,
        train_examples=train_examples,
        dev_examples=dev_examples,
        make_generator=make,
        train=train,
        training_model=training_model,
        inference_model=inference_model,
    )


def write_results(results: dict, output: Path | None) -> None:
    """Print results, and write them with the circumstances of their measurement."""
    names = ("tensorflow", "keras", "keras-hub", "numpy")
    results |= {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}"]),
        "versions": {"python": platform.python_version(), **{n: version(n) for n in names}},
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    print(text)
    if output:
        output.write_text(text, encoding="utf-8")


def processor() -> str:
    """Return the name of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
