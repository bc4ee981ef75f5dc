"""The examples in the docstrings of core run, and every layer has one."""

import doctest
import importlib
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT

TEMPLATES = ROOT / "templates"
PATHS = sorted(path.relative_to(TEMPLATES) for path in (TEMPLATES / "core").rglob("*.py"))
MODULES = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in PATHS]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"keras": keras, "np": np, "tf": tf})
    assert found.failed == 0, f"{found.failed} of {found.attempted} lines: see above"


# Shown by the examples of what is made of them.
BASES = {"CompiledModel", "Pointer", "TrainingModel"}


def test_every_layer_has_an_example():
    modules = [importlib.import_module(name) for name in MODULES]
    layers = [
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, keras.layers.Layer)
        if kind.__module__ == module.__name__ and not kind.__name__.startswith("_")
    ]
    assert len(layers) > 10
    without = {kind.__name__ for kind in layers if ">>>" not in (kind.__doc__ or "")}
    assert without <= BASES
