"""Run a project's train.py under observation: python replica_worker.py PROJECT PLAN [FLAGS]

PLAN is a JSON file: "record": a .npz file that receives what was observed; "kill_at": the update
after which the process kills itself, or "end_at": tells itself to end; "copy_at": the update after
which its folder is copied to "copy", as a kill would leave it; "kill_worker": the worker of
a cluster that does; "kill_in_scoring": the update whose scoring it does not survive;
"kill_in_report": it does not survive its report; "many_heads": pointers of so many learn one head
after another.
"""

import collections
import functools
import itertools
import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

project, plan = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
sys.path.insert(0, str(project))
sys.argv = ["train.py", *sys.argv[3:]]

import train  # noqa: E402
from core.base import workers  # noqa: E402
from core.fast import one_pass  # noqa: E402
from core.prediction.predictor import Predictor  # noqa: E402
from core.training import Training  # noqa: E402

one_pass.MANY = plan.get("many_heads", one_pass.MANY)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class KillAt(keras.callbacks.Callback):
    """Kill the process after an update, or do what else the plan says."""

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_train_batch_end(self, batch, logs=None):
        mine = plan.get("kill_worker", 0) == workers.all_workers().number
        if mine and self.run.position.updates == plan.get("kill_at"):
            die()
        if mine and self.run.position.updates == plan.get("end_at"):
            os.kill(os.getpid(), signal.SIGTERM)
        if mine and self.run.position.updates == plan.get("copy_at"):
            shutil.copytree(self.run.folder, plan["copy"])


def row_key(token_ids: np.ndarray, mask: np.ndarray) -> tuple:
    return tuple(token_ids[mask.astype(bool)].tolist())


def count_rows(batches) -> collections.Counter:
    """Count the examples of some batches that weigh something, by their tokens."""
    return collections.Counter(
        row_key(token_ids, mask)
        for batch in batches
        for token_ids, mask, weight in zip(
            batch["token_ids"], batch["padding_mask"], batch["loss_weight"], strict=True
        )
        if weight > 0
    )


class Probe:
    """What happens in each replica's step, and to the arrays that were fed."""

    def __init__(self, model, generator):
        self.consumed = collections.defaultdict(list)
        self.fed = []
        self.epoch = 0
        self.norms = []
        train_step, make_batch = model.train_step, generator.make_batch

        def note(token_ids, mask, weight):
            batch = {"token_ids": token_ids, "padding_mask": mask, "loss_weight": weight}
            self.consumed[self.epoch].append(batch)
            return np.int32(0)

        def observed_step(batch):
            watched = [batch[name] for name in ("token_ids", "padding_mask", "loss_weight")]
            with tf.control_dependencies([tf.numpy_function(note, watched, tf.int32)]):
                return train_step(batch)

        def observed_batch(*arguments):
            arrays = make_batch(*arguments)
            self.fed += [(array, array.copy()) for array in arrays.values()]
            return arrays

        model.train_step, generator.make_batch = observed_step, observed_batch


class EpochCounter(keras.callbacks.Callback):
    """Tell the probe which epoch it sees."""

    def __init__(self, probe: Probe):
        super().__init__()
        self.probe = probe

    def on_epoch_begin(self, epoch, logs=None):
        self.probe.epoch = epoch


def predict(training: Training) -> dict[str, np.ndarray]:
    """Return what was predicted of the dev examples: positions and outputs, and the records."""
    own, batches = [], Predictor.batches

    def noted(self, *args, **kwargs):
        for positions, outputs in batches(self, *args, **kwargs):
            own.append((positions, outputs))
            yield positions, outputs

    Predictor.batches = noted
    records = training.scorer.score_dev().predictions
    Predictor.batches = batches
    arrays = {"records": json.dumps(records)}
    turns = itertools.chain.from_iterable(itertools.zip_longest(*workers.all_workers().gather(own)))
    for number, (positions, outputs) in enumerate(filter(None, turns)):
        arrays[f"positions/{number}"] = positions
        for name, value in outputs.items():
            # Places of what was selected are no numbers that are nearly the same.
            places = name in ("predicates", "places", "labels", "firsts", "lasts")
            kind = "places" if places else "predicted"
            arrays[f"{kind}/{number}/{name}"] = value
    return arrays


def call_from_orbit(own: list[keras.callbacks.Callback]) -> None:
    """Let Orbit's loop call what Keras's would: before some steps, and after them."""
    from extras.orbit import orbit_loop

    begin, after = orbit_loop.Trainer.train_loop_begin, orbit_loop.OrbitTraining.after_steps

    def observed_begin(trainer):
        for callback in own:
            callback.on_epoch_begin(trainer.position.epoch)
        begin(trainer)

    def observed_after(training, losses):
        after(training, losses)
        for callback in own:
            callback.on_train_batch_end(training.position.step)

    orbit_loop.Trainer.train_loop_begin = observed_begin
    orbit_loop.OrbitTraining.after_steps = observed_after


def observe(training: Training, fit, callbacks) -> None:
    """Train as usual, and write down what happened."""
    settings, model, train_batches = training.settings, training.models.training, training.batches
    own, position = [], training.run.position
    if plan.keys() & {"kill_at", "end_at", "copy_at"}:
        own.append(KillAt(training.run))
    if "kill_in_scoring" in plan:
        score_dev = training.scorer.score_dev

        def score_or_die():
            if position.updates == plan["kill_in_scoring"]:
                die()
            return score_dev()

        training.scorer.score_dev = score_or_die
    arrays = probe = None
    if "record" in plan:
        arrays, probe, epochs = predict(training), Probe(model, train_batches), settings.epochs
        own.append(EpochCounter(probe))
    if hasattr(settings, "orbit") and settings.orbit.enabled:
        call_from_orbit(own)
    fit(training, [*callbacks, *own])
    if probe is None:
        return
    untouched = all(np.array_equal(fed, copy) for fed, copy in probe.fed)
    wanted = {epoch: count_rows(train_batches.batches(epoch)) for epoch in range(epochs)}
    own = {epoch: count_rows(probe.consumed[epoch]) for epoch in wanted}
    everywhere = workers.all_workers().gather(own)
    consumed = {epoch: sum((one[epoch] for one in everywhere), Counter()) for epoch in wanted}
    once = {epoch: consumed[epoch] == wanted[epoch] for epoch in wanted}
    if not workers.is_chief():
        return
    arrays |= {f"weights/{index:03}": w for index, w in enumerate(model.get_weights())}
    np.savez(
        plan["record"],
        **arrays,
        untouched=untouched,
        fed=len(probe.fed),
        workers=workers.all_workers().count,
        each_once=[once[epoch] for epoch in range(epochs)],
        examples=train_batches.size,
        steps=position.updates,
        replicas=tf.distribute.get_strategy().num_replicas_in_sync
        if not model.distribute_strategy
        else model.distribute_strategy.num_replicas_in_sync,
    )


Training.fit = functools.partialmethod(observe, Training.fit)
if plan.get("kill_in_report"):
    train.write_report = lambda *arguments: die()
train.main()
