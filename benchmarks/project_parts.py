"""Find a project; load the parts of relation extraction as in its train.py."""

import importlib
import json
import os
import platform
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# `baselines bake NAME --to build` and `baselines reproduce NAME` make projects here.
BUILD = ROOT / "build"
KNOWLEDGENET = BUILD / "relation_extraction_knowledgenet"


def make_parser(description: str) -> ArgumentParser:
    """Return a parser with the arguments of all benchmarks."""
    parser = ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--project", type=Path, default=KNOWLEDGENET, help="a generated project")
    parser.add_argument("--data", type=Path, help="folder of train.jsonl and dev.jsonl")
    parser.add_argument("--encoder", help="folder of the encoder, in Hugging Face format")
    parser.add_argument("--precision", default="float32", help="of ours: float32, mixed_bfloat16")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    return parser


def check_project(project: Path) -> None:
    """Exit with a sentence if there is no project."""
    if not (project / "core").is_dir():
        name, folder = project.resolve().name, os.path.relpath(project.resolve().parent)
        sys.exit(
            f"error: {os.path.relpath(project)} is not a project: make it with "
            f"`baselines bake {name} --to {folder}`."
        )


def open_project(project: Path) -> None:
    """Make the modules of a project importable; import `core` first."""
    check_project(project)
    sys.path.insert(0, str(project.resolve()))
    importlib.import_module("core")  # sets TensorFlow up, so it comes first


class Begun(BaseException):
    """Ends train.py where its training would begin."""


def open_training(project: Path, flags: list[str]) -> Any:
    """Return the `Training` of a project of any task, as its train.py makes it.

    Args:
        project: its folder.
        flags: of its train.py; files by absolute paths.
    """
    open_project(project)
    from core.training import Training

    def begin(self: Training, *_: Any) -> None:
        raise Begun(self)

    begun, arguments = Training.begin, sys.argv
    Training.begin, sys.argv = begin, ["train.py", *flags]  # type: ignore[method-assign]
    try:
        importlib.import_module("train").main()
    except Begun as end:
        return end.args[0]
    finally:
        Training.begin, sys.argv = begun, arguments  # type: ignore[method-assign]
    return sys.exit(f"error: train.py of {project.name} began no training.")


def bake_sample(task: str, extras: str, folder: Path) -> Path:
    """Bake the project of a task's sample into a folder, with the measured extras."""
    name = f"{task}_sample"
    words = ["bake", name, f"extras={extras}", "--to", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "generator", *words],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    return folder / name


def load_parts(arguments: Namespace) -> SimpleNamespace:
    """Return examples, batches and compiled models of a project.

    Args:
        arguments: `project`, `data`, `encoder`, `precision`.
    """
    open_project(arguments.project)
    from core.base.errors import InputError

    try:
        return join_parts(arguments)
    except InputError as error:
        sys.exit(f"error: {error}")


def join_parts(arguments: Namespace) -> SimpleNamespace:
    """Do the work of `load_parts` in a project with importable modules."""
    from core.base.files import project_path
    from core.base.settings import read_settings
    from core.devices.precision import set_seed_and_precision
    from core.devices.strategy import global_batch_size, make_strategy
    from core.encoders.encoder import load_encoder, load_tokenizer
    from task.data import TripleGenerator
    from task.model import build_models
    from task.records import Example, collect_predicates, read_examples
    from task.settings import Settings

    flags = ["--encoder", str(Path(arguments.encoder).resolve())] if arguments.encoder else []
    flags += ["--devices.precision", arguments.precision]
    settings = read_settings(Settings, [*flags, "--strategy", "single"])
    strategy = make_strategy(settings)  # one replica needs no scope
    data = arguments.data or project_path(settings.train_file).parent
    train_examples = read_examples(data / "train.jsonl")
    dev_examples = read_examples(data / "dev.jsonl")
    batch_size = global_batch_size(settings, strategy)
    set_seed_and_precision(settings)
    predicates = collect_predicates(train_examples)
    tokenizer = load_tokenizer(settings, train_examples)
    models = build_models(load_encoder(settings, tokenizer), len(predicates), settings)
    encoding = (tokenizer, predicates, models.encoder_inputs, settings)

    def to_predict(examples: Sequence[Example], batch_size: int) -> TripleGenerator:
        return TripleGenerator(examples, *encoding, batch_size, labels=False)

    train_batches = TripleGenerator(train_examples, *encoding, batch_size)
    compile_as_trained(settings, models, train_batches)
    return SimpleNamespace(
        settings=settings,
        strategy=strategy,
        dev_examples=dev_examples,
        train_batches=train_batches,
        to_predict=to_predict,
        models=models,
    )


def compile_as_trained(settings: Any, models: Any, batches: Any) -> None:
    """Compile the training model as train.py does; call this in the scope of the strategy."""
    import tensorflow as tf

    from core.base.files import PROJECT
    from core.optimizer import make_optimizer
    from core.runs.run import Run
    from core.training import Training

    strategy, run = tf.distribute.get_strategy(), Run(PROJECT / "runs" / settings.run_name)
    never_scored: Any = None
    training = Training(settings, strategy, run, models, batches, never_scored, monitor="")
    training.prepare()
    models.training.compile(make_optimizer(training), **training.compile_options)


def write_results(results: dict, output: Path | None) -> None:
    """Print results, and write them with versions and hardware."""
    names = ("tensorflow", "keras", "keras-hub", "numpy")
    words = ["PATH" if "/" in word else word for word in sys.argv[1:]]  # only for this machine
    results |= {
        "command": " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words]),
        "versions": {"python": platform.python_version(), **{n: version(n) for n in names}},
        "hardware": f"{processor()}, {os.cpu_count()} cores",
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    print(text)
    if output:
        output.write_text(text, encoding="utf-8")


def processor() -> str:
    """Return the name of the CPU."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
