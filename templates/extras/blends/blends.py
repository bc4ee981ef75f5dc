"""Predict with a blend: each of its runs reads the records by itself, with its own encoder."""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from core.base.errors import InputError
from core.base.files import hash_of_files, read_json
from core.base.settings import CoreSettings, saved_settings
from core.devices.strategy import Strategy, make_strategy
from core.prediction.loading import TrainedRuns
from core.prediction.predictor import Predictor
from core.runs.members import blended_runs, check_members, find_run, members
from extras.blends.stack import Stack
from inspection import blends as task_blends


class Blend:
    """The runs of a blend, loaded when they are first needed, and their weights or their stack.

    Args:
        folder: of the blend.
        strategy: where to build the models of its runs.

    Raises:
        InputError: a run has changed since the weights were fitted.
    """

    def __init__(self, folder: Path, strategy: Strategy) -> None:
        known = read_json(folder / "config.json")["blend"]
        if hash_of_weights(blended_runs(folder)) != known["files_hash"]:
            raise InputError(
                f"a run of {folder.name} was trained anew since the weights of the blend were "
                "fitted: fit it again."
            )
        runs = blended_runs(folder)
        pairs = zip(runs, known.get("weights", [1.0] * len(runs)), strict=True)
        # All runs write the texts that are blended, also those whose scores don't count.
        writes = hasattr(task_blends, "predict_together")
        self.weights = {run: weight for run, weight in pairs if weight or writes}
        self.stack = Stack.of(known["stack"]) if "stack" in known else None
        self.stacking: Any = None
        if self.stack:
            self.stacking = task_blends.Stacking(read_json(members(runs[0])[0] / "labels.json"))
        self.strategy = strategy
        self.parts: list[TrainedRuns] = []

    def predict(
        self,
        examples: Sequence[Any],
        load_runs: Callable[[Sequence[Path], Strategy], TrainedRuns],
        predict: Callable[[TrainedRuns, Sequence[Any]], dict],
    ) -> Any:
        """Return the weighted mean of what the runs predict, or what their stack says of it.

        Args:
            examples: to predict.
            load_runs: of the task; `predict`: also of the task.
        """
        found = predict_parts(self.load(load_runs), examples, predict)
        if self.stack:
            return stack_parts(found, self.stack, self.stacking)
        return blend_parts(found, self.weights.values())

    def load(self, load_runs: Callable[[Sequence[Path], Strategy], TrainedRuns]) -> list:
        """Return the runs that count; they are loaded the first time."""
        load_part = getattr(task_blends, "load_part", load_runs)
        self.parts = self.parts or [load_part([run], self.strategy) for run in self.weights]
        return self.parts

    def refuse_changes(self, changes: dict[str, Any] | None) -> None:
        """Refuse flags that change how texts are written.

        Raises:
            InputError: there are some.
        """
        if changes:
            raise InputError(
                f"--{next(iter(changes))} is for single runs: those of a blend write as they did "
                "when its weights were fitted, so leave it out."
            )


def predict_parts(
    parts: Sequence[TrainedRuns],
    examples: Sequence[Any],
    predict: Callable[[TrainedRuns, Sequence[Any]], dict],
) -> list[dict]:
    """Return record id -> candidates, of each run; texts are scored by all runs together."""
    together = getattr(task_blends, "predict_together", None)
    return together(parts, examples) if together else [predict(part, examples) for part in parts]


class BlendedRuns(TrainedRuns):
    """A blend as what a task predicts with: its runs have models, and it has none of its own."""

    @functools.cached_property
    def predictor(self) -> Predictor:
        """The models of a run, which a blend lacks.

        Raises:
            InputError: names the runs of the blend.
        """
        runs = ", ".join(run.name for run in blended_runs(self.folders[0]))
        raise InputError(f"{self.folders[0].name} is a blend: name one of its runs, {runs}.")


def find_blend(paths: Sequence[str | Path]) -> Path | None:
    """Return the folder of the blend that a path names; None: the paths name runs.

    Raises:
        InputError: it is not the only path.
    """
    blends = [folder for folder in map(find_run, paths) if blended_runs(folder)]
    if blends and len(paths) > 1:
        raise InputError(
            f"{blends[0].name} is a blend, which has its own weights: name it without other runs, "
            "or fit a blend of it and the others."
        )
    return blends[0] if blends else None


def load_blend(
    paths: Sequence[str | Path], task_class: type[CoreSettings], strategy: Strategy | None = None
) -> BlendedRuns:
    """Return the blend that a path names.

    Args:
        paths: one, of a blend.
        task_class: the settings of the task.
        strategy: where to build the models of its runs; None: chosen by its settings.

    Raises:
        InputError: there are other paths, or its runs don't fit together.
    """
    folder: Any = find_blend(paths)
    first = members(folder)[0]
    check_members([first], task_class, ())
    config = folder / "config.json"
    settings = saved_settings(task_class, read_json(config), config)
    strategy = strategy or make_strategy(settings)
    return BlendedRuns(
        folders=[folder],
        every=[settings],
        labels=read_json(first / "labels.json"),
        tokenizer=Tokenizer.from_file(str(first / "tokenizer.json")),
        models=[],
        encoder_inputs=[],
        strategy=strategy,
        weights=[""],
        blend=Blend(folder, strategy),
    )


def hash_of_weights(runs: Sequence[Path]) -> str:
    """Return a hash of the best weights of some runs, and of what blends among them fitted."""
    folders = [folder for run in runs for folder in members(run)]
    fitted = [run / "config.json" for run in runs if blended_runs(run)]
    return hash_of_files([*(folder / "best.weights.h5" for folder in folders), *fitted])


def blend_parts(parts: Sequence[Mapping], weights: Any) -> dict:
    """Return record id -> the weighted mean of what several runs found in the record.

    Args:
        parts: record id -> candidates, of each run.
        weights: of the runs; they sum to 1.
    """
    shares = [*weights]
    return {
        name: task_blends.blend_record([part[name] for part in parts], shares) for name in parts[0]
    }


def stack_parts(parts: Sequence[Mapping], stack: Stack, stacking: Any) -> dict:
    """Return record id -> what a stack says of what several runs found in the record.

    Args:
        parts: record id -> candidates, of each run.
        stack: of these runs.
        stacking: of the task.
    """
    found = {}
    for name in parts[0]:
        own = [part[name] for part in parts]
        scores = stack.blend([stacking.scores_of(part) for part in own])
        found[name] = stacking.from_scores(scores, own)
    return found


def mean_scores(
    parts: Sequence[Mapping[Hashable, float]], weights: Sequence[float]
) -> dict[Any, float]:
    """Return the weighted mean of scores by name; a name that a part lacks has score 0 there.

    >>> mean_scores([{"a": 0.8, "b": 0.4}, {"a": 0.4}], [0.5, 0.5])
    {'a': 0.6000000000000001, 'b': 0.2}
    """
    means: dict[Any, float] = {}
    for part, weight in zip(parts, weights, strict=True):
        for name, score in part.items():
            means[name] = means.get(name, 0.0) + weight * score
    return means
