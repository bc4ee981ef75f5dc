"""Runs that come back: what predicts with them is made, and compiled, once."""

import ast
import dataclasses

import pytest
import tensorflow as tf
from conftest import ROOT
from projects import TEMPLATES

from core.train.project import TrainedRuns


def test_a_predictor_is_made_once():
    strategy = tf.distribute.get_strategy()
    runs = TrainedRuns([], [], None, None, [], [], strategy, select=lambda outputs: outputs[0])
    assert runs.predictor is runs.predictor and runs.predictor.select is runs.select
    # Other models have another one.
    other = dataclasses.replace(runs, models=["one"])
    assert other.predictor.models == ["one"] and not runs.predictor.models


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_task_predicts_with_it(template):
    """Only a training makes a predictor of its own."""
    project = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    made = set()
    for path in (project / "task/training.py", project / "evaluate.py", project / "predict.py"):
        tree = ast.parse(path.read_text(encoding="utf-8") if path.is_file() else "")
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        calls = ((f.name, node) for f in functions for node in ast.walk(f))
        made |= {
            name
            for name, node in calls
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Predictor"
        }
    assert made == {"train"}
