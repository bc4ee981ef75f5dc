"""Texts and names on a terminal: even columns in any language, long texts around what matters."""

import json

import pytest
from projects import CASES, TASKS, bake_project, flags, further, run
from rich.cells import cell_len

from core.base.words import column, excerpt, printable
from core.scores.precision_recall import print_precision_recall_f1

NAMES = (
    "org",
    "总部位于",
    "ｆｕｌｌ",
    "a\tb",
    "x\ny",
    "\x1b[31mred",
    "é\u202e",
    "long " * 20,
    "总部" * 30,
)
LINE = 1_000  # characters at most, of what is printed
LONG = 400  # words of a document, of five characters each


def test_columns_are_even_whatever_the_names(capsys):
    row = {"precision": 1.0, "recall": 0.5, "f1": 0.6667, "gold": 3}
    print_precision_recall_f1("谓词", dict.fromkeys(NAMES, row))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(NAMES) and len({*map(cell_len, lines)}) == 1
    assert all(printable(line) == line for line in lines)
    assert cell_len(column("总部位于", 12, right=True)) == 13


def test_long_texts_are_shown_around_their_spans():
    text = "a" * 13_000 + "Zenco" + "b" * 13_000
    shown = excerpt(text, [(13_000, 13_005)])
    assert "aaZencobb" in shown and len(shown) < 500
    assert shown.startswith(" [...] ") and shown.endswith(" [...] ")
    assert excerpt("b" + text).startswith("baaa") and excerpt("short", [(1, 2)]) == "short"
    many = excerpt(text, [(start, start + 5) for start in range(0, 26_000, 500)])
    assert len(many) < 700 and many.count(" [...] ") > 1
    assert excerpt("one\ntwo\x07") == r"one\ntwo\x07"


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize("template", further(TASKS, "relation_extraction", "seq2seq"))
def test_scores_within_an_epoch_and_long_documents_are_shown(template, tmp_path):
    """Also the epochs are those of the whole training, if `steps` ends it within one."""
    project = bake_project(template, tmp_path)
    for stem, count in (("train", 20), ("dev", 3)):
        path = project / f"sample/{stem}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines()[:count]
        if stem == "dev":
            row = json.loads(lines[0])
            name = {"seq2seq": "source", "text_classification": "text_a"}.get(template, "text")
            name = "question" if template == "reading_comprehension" else name
            lines[0] = json.dumps({**row, name: row[name] + " word" * LONG})
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    own = {"epochs": 5, "steps": 11, "evaluate_steps": 3, "batch_size": 10, "shown_examples": 1}
    done = run(project / "train.py", *flags(project, **own), cwd=project)
    score = CASES[template].DEV_SCORE
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert [line.split(":")[0] for line in steps] == ["step 3", "step 6", "step 9"], done.stdout
    assert all(f": dev_{score} " in line for line in steps)
    epochs = [line for line in done.stdout.splitlines() if line.startswith("Epoch ")]
    assert (
        epochs[0] == f"Epoch 1/{len(epochs)}" and epochs[-1] == f"Epoch {len(epochs)}/{len(epochs)}"
    )
    assert max(map(len, done.stdout.splitlines())) < LINE < 5 * LONG
