"""What README.md shows of the commands is what they print, with the numbers of the reference."""

import json
import math
import re

import pytest
from conftest import ROOT, use_template

from core.base.settings import with_tables
from core.data.tokens import train_tokenizer
from core.scores.precision_recall import print_precision_recall_f1
from extras.comparison import comparison
from extras.doctor import checking

PROJECT = use_template("relation_extraction")
from inspection import checks  # noqa: E402
from task.records import collect_predicates, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

SAMPLE = ROOT / "baselines/relation_extraction_sample"
REFERENCE = json.loads((SAMPLE / "reference/scores.json").read_text(encoding="utf-8"))


def shown(readme: str = "README.md") -> dict[str, list[str]]:
    """Return command -> the lines that a README shows of its output."""
    text = (ROOT / readme).read_text(encoding="utf-8")
    block = text.partition("```\n$ ")[2].partition("\n```")[0]
    parts = (part.splitlines() for part in block.split("\n$ "))
    return {re.split(r"\s+#", lines[0])[0]: lines[1:] for lines in parts}


def assert_shown(command: str, printed: str) -> None:
    """Assert that a README shows lines of an output, in its order."""
    printed = iter(line.rstrip() for line in printed.splitlines())
    missing = [line for line in shown()[command] if line != "..." and line not in printed]
    assert missing == []


def f_string(script: str, text: str) -> re.Pattern:
    """Return what a line of a script prints, with any number in the place of `{...}`."""
    assert text in (PROJECT / script).read_text(encoding="utf-8")
    return re.compile(re.sub(r"\\\{.*?\\\}", "(.+)", re.escape(text)))


# What READMEs say of the bounds of decoding, by the names of constants.
BOUNDS = {
    "relation_extraction": [
        "Each window keeps at most {MOST_SPANS} subjects, {MOST_SPANS} objects (with "
        '`entity_heads = "per_predicate"`, of each predicate) and {MOST_TRIPLES} triples, and '
        "drops those that score below {lowest}",
    ],
    "event_extraction": [
        "Each window keeps its {MOST_SPANS} best spans, and drops those that score below {lowest}",
        "If more than {MOST_LINKED} spans are linked, directly or through others, or would make "
        "more than {MOST_CLIQUES} events",
    ],
    "named_entity_recognition": [
        "Each window keeps its {MOST_SPANS} best spans, and drops those that score below {lowest}",
    ],
    "reading_comprehension": ["Each question keeps its {MOST_SPANS} best spans"],
}


@pytest.mark.parametrize("template", BOUNDS)
def test_the_bounds_of_decoding_stand_in_its_readme(template):
    project = ROOT / "templates" / template / "{{cookiecutter.project_slug}}"
    files = [*project.glob("task/*.py"), *project.glob("library/*.py")]
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    bounds = dict(re.findall(r"^([A-Z_]+) = (-?[\d.]+)$", code, flags=re.M))
    logit = bounds.get("LOWEST_LOGIT", 0)
    lowest = 1 / (1 + math.exp(-float(logit)))
    text = " ".join((project / "README.md").read_text(encoding="utf-8").split())
    chinese = (project / "README_zh.md").read_text(encoding="utf-8")
    for sentence in BOUNDS[template]:
        known = sentence.format(lowest=f"{lowest:.3f}", **bounds)
        assert known in text
        assert all(number in chinese for number in re.findall(r"[\d.]+", known))


def test_both_languages_show_the_same():
    assert shown() == shown("README_zh.md") and len(shown()) == 5


def test_what_check_prints(capsys):
    file = "sample/train.jsonl"
    examples = read_examples(SAMPLE / file)
    settings = with_tables(Settings)()
    tokenizer = train_tokenizer([one.text for one in examples], settings.tiny_vocabulary)
    reach = checks.measure_reach(examples, tokenizer, collect_predicates(examples), settings)
    print(checks.describe_file(file, examples, reach))
    with pytest.raises(SystemExit):
        checking.conclude([])
    assert_shown("python check.py", capsys.readouterr().out)


def test_what_train_prints():
    first, epoch, best = shown()["python train.py"]
    batches = math.ceil(900 / Settings.model_fields["batch_size"].default)
    number = r"[\d.e-]+"
    names = sorted(REFERENCE["first_steps"].keys() - {"step", "dev_f1"})
    losses = " - ".join(f"{name}: {number}" for name in [*names, "dev_f1"])
    assert first == "..."
    assert re.fullmatch(rf"{batches}/{batches} - \d+s - \d+ms/step - {losses}", epoch)
    words = "best dev {MONITOR} {run.best_score():.4f}; see {run.name}/report.html"
    metric, value, _ = f_string("train.py", words).fullmatch(best).groups()
    assert value == f"{REFERENCE['dev'][metric]:.4f}"


def test_what_evaluate_prints(capsys):
    test = REFERENCE["test"]
    print_precision_recall_f1("predicate", {**test["per_predicate"], "all": test})
    assert_shown("python evaluate.py default sample/test.jsonl", capsys.readouterr().out)


def test_what_predict_prints():
    text = "{arguments.out}: {len(records)} records, {triples} triples"
    [line] = shown()["python predict.py default sample/test.jsonl submission.jsonl"]
    found = f_string("predict.py", text).fullmatch(line).groups()
    wanted = ("submission.jsonl", str(REFERENCE["test"]["records"]))
    assert found == (*wanted, str(REFERENCE["test"]["predicted"]))


def test_what_compare_prints(capsys, tmp_path):
    """The numbers are those of two trainings; they must fit each other."""
    command = "python compare.py second default"
    text = "\n".join(shown()[command])
    first, second, difference, low, high = map(float, re.findall(r"[-+]?\d\.\d{4}", text))
    assert low < difference < high
    assert abs(first - second - difference) < 2e-4  # each is rounded
    own, other = (comparison.Scored(name, tmp_path, "", "") for name in ("second", "default"))
    total = comparison.Difference(first, second, difference, low, high, 10_000)
    comparison.print_comparison(own, other, total, {}, "predicate")
    assert_shown(command, capsys.readouterr().out)
