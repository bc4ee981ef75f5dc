"""The one door to extras/: what a project may do without, each a folder that can be deleted.

An extra has up to two modules that this door opens. `extras/NAME/settings.py` has `Table`, the
settings of its table in config.toml, and may declare what is named in `DECLARATIONS`.
`extras/NAME/hooks.py` has functions that are asked before core does the same in its own way; they
are named as in `HOOKS`, and each answers None where its table asks for nothing. A script may need
an extra, and says so where that is absent. No other module of core or task imports an extra.
"""

import functools
import importlib
from types import ModuleType
from typing import Any

from core.base.errors import InputError
from core.base.files import PROJECT

# What each extra is for. Those whose layers or strategies others build on stand first.
EXTRAS = {
    "cluster": "several machines train together",
    "writers": "GPT-2, Llama, Qwen, Mistral, Gemma 3, SmolLM3, BART, T5 write, or decide",
    "encoders": "ALBERT, ELECTRA, ERNIE, NEZHA, RoFormer, DeBERTa, ModernBERT; all usual files",
    "parameter_server": "asynchronous training, experimental",
    "orbit": "Orbit's loop, for long trainings",
    "optimizers": "LAMB, Adafactor, Lion, Muon, lookahead, other schedules, rates by layer",
    "regularization": "FGM, PGD, virtual adversaries, gradient penalty, R-Drop",
    "folds": "cross-validation: each record is scored by a model that never saw it",
    "averaging": "moving averages of weights, and soups",
    "used_rows": "train the embeddings of training tokens alone: less time and memory",
    "lora": "train updates of low rank, and keep the encoder as it is, as int8 too",
    "cache": "records are encoded once, by all cores, and read from files: little memory",
    "chunks": "predict.py on any number of records: in parts, with little memory, resumed",
    "recompute": "layers computed twice instead of kept, to save memory; check.py --memory",
    "export": "a run as SavedModel, ONNX, and in the format of Hugging Face",
    "competition": "CSV in and out, numbers to predict, and the scores of competitions",
    "extraction": "a writer of triples or events, scored as relations and events are",
    "comparison": "compare.py tells whether one run is better than another, or was lucky",
    "doctor": "check.py finds wrong data, and a wrong loss, before hours are spent",
    "retrieval": "pairs by a bi-encoder: vectors of texts, search, and reranking",
    "tpu": "check.py looks for static shapes, and compiles for a TPU; a script for Cloud TPUs",
}

# Name of a hook -> who asks it, and what it may answer.
HOOKS = {
    "open_records": "core/data/records.py: the examples of a file, each read when it is asked for",
    "open_stream": "extras/competition: examples in an order that only their reader can find",
    "recall_fact": "task/: what a function says of all examples of a file",
    "recall_joined": "task/: what a function finds: a set, a Counter, or the first for each key",
    "open_batches": "core/data/data_generator.py: batches encoded before, or emptied later",
    "make_strategy": "core/train/devices.py: a tf.distribute.Strategy",
    "find_config": "core/model/encoder.py: the file that describes the encoder of a folder",
    "find_precision": "core/train/devices.py: the precision that is fastest here, and why",
    "compute_in_one_pass": "core/model/transformer.py: an activation and its gradient",
    "load_backbone": "core/model/encoder.py: the encoder of a folder",
    "read_torch_file": "extras/writers: the tensors of a pytorch_model.bin by name",
    "load_tokenizer": "core/model/encoder.py: the tokenizer of a folder, a run or a preset",
    "choose_loop": "core/train/project.py: what trains in the place of fit",
    "optimizer_options": "core/train/optimizer.py: further arguments of any optimizer",
    "make_optimizer": "core/train/optimizer.py: an optimizer in the place of AdamW",
    "keep_used_rows": "core/train/project.py: nothing; it lets fewer rows of embeddings be trained",
    "change_layers": "core/train/project.py: nothing; it changes layers, or looks at them",
    "note_base": "core/train/project.py: nothing; it keeps what the frozen weights of a run are",
    "restore_base": "core/train/project.py: nothing; it reads the frozen weights of a run again",
    "make_gradients": "core/train/project.py: a gradient in the place of the plain one",
    "extend_batches": "core/train/project.py: the training batches with something beside them",
    "make_averages": "core/train/project.py: the weights that are scored and kept",
    "score_beside": "core/train/project.py: what scores dev, and other records beside it",
    "read_flags": "predict.py: its arguments, and those of an extra",
    "predict_in_chunks": "predict.py: what is written of all examples, chunk by chunk",
    "cross_validate": "train.py: True, when it has trained and scored once for each fold",
    "assign_folds": "floor.py: which fold holds each example out",
    "name_lock": "core/runs/run_folder.py: the lock of a process beside the one that trains",
    "find_folds": "core/runs/run_folder.py: the folders that a cross-validation stands for",
    "name_negatives": "task/data.py: the label that no training pair has, with its count",
    "encode_texts": "task/data.py: the inputs of a model that reads both texts of a pair apart",
    "encode_prompts": "task/data.py: the tokens of prompts with their sources",
    "open_extraction": "task/settings.py: what reads and scores triples, or events, as texts",
    "build_models": "task/model.py: other models than a classifier; or what it does not fit",
    "pack_pairs": "task/data.py: training batches with several examples in a row",
    "write_rows": "task/model.py: inputs and logits of a model that reads these",
    "find_record_faults": "core/data/data_checks.py: findings about texts and labels",
    "draw_histogram": "core/data/data_checks.py: lengths, or labels, as bars of text",
    "try_batch_sizes": "extras/doctor: True, when it has tried them",
    "measure_step": "extras/doctor: True, when it has printed memory and speed",
    "find_dynamic_shapes": "extras/doctor: findings about shapes that depend on values",
    "check_compilation": "extras/doctor: findings about the training step, lowered by XLA",
}

# What a settings module may declare besides its table.
DECLARATIONS = {
    "STRATEGIES": "names that `strategy` may have with this extra",
    "FREE": "settings that may change while a training is interrupted: none changes a weight",
    "FILES": "settings that name a file which a training learns from",
    "complain": "a function of the settings: why they don't fit together, or None",
    "complete": "a function of the settings that sets what follows from its table",
}


@functools.cache
def present() -> list[str]:
    """Return the names of the extras that this project has."""
    return [name for name in EXTRAS if (PROJECT / "extras" / name).is_dir()]


def ask(hook: str, *arguments: Any) -> Any:
    """Return the first answer of an extra to one of `HOOKS`; None: core's own way holds."""
    own = [open_module(name, "hooks") for name in present() if has_hook(name, hook)]
    return next((a for one in own if (a := getattr(one, hook)(*arguments)) is not None), None)


@functools.cache
def has_hook(extra: str, hook: str) -> bool:
    """Tell whether an extra has a hook; its module is read, not imported, which may take long."""
    path = PROJECT / "extras" / extra / "hooks.py"
    return path.is_file() and f"\ndef {hook}(" in path.read_text(encoding="utf-8")


def need(extra: str, module: str = "") -> Any:
    """Return the module of an extra that a script is made of; it has the name of the extra.

    Raises:
        InputError: this project does not have the extra.
    """
    if extra not in present():
        raise InputError(f"this needs extras/{extra}, which is absent: {how_to_get(extra)}.")
    return open_module(extra, module or extra)


def settings_modules() -> dict[str, ModuleType]:
    """Return extra -> its settings module, for the extras that have one."""
    return {name: module for name in present() if (module := open_module(name, "settings"))}


def declared(name: str) -> list:
    """Return what the extras declare under a key of `DECLARATIONS`; tuples are joined."""
    values = [getattr(module, name, ()) for module in settings_modules().values()]
    return [one for value in values for one in (value if isinstance(value, tuple) else (value,))]


@functools.cache
def open_module(extra: str, module: str) -> ModuleType | None:
    """Import a module of an extra; None: it has no such module."""
    if not (PROJECT / "extras" / extra / f"{module}.py").is_file():
        return None
    return importlib.import_module(f"extras.{extra}.{module}")


def how_to_get(extra: str) -> str:
    """Return how an extra joins this project."""
    return f"add it with `baselines add {extra} --to {PROJECT.name}`"
