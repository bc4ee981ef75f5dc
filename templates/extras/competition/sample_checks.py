"""Checks of sample_submission.csv: can predict.py fill it, and has it the ids of the test file?"""

from collections.abc import Sequence
from typing import Any

from core.base.errors import InputError
from core.base.files import project_path
from core.data.checks import Finding
from extras.competition.forms import Form
from extras.competition.settings import Settings
from extras.competition.submission import (
    compare_ids,
    find_oddities,
    make_plan,
    read_form,
)


def find_sample_faults(
    files: dict[str, Sequence[Any]], labels: Any, settings: Settings
) -> list[Finding]:
    """Return what would keep predict.py from filling the sample, and print what it would write.

    Args:
        files: name -> examples, the training file first.
        labels: from `collect_targets`.
        settings: `competition.sample_submission`; empty: nothing is found.

    Raises:
        InputError: the sample is broken.
    """
    name = settings.competition.sample_submission
    if not name:
        return []
    form = read_form(project_path(name), "", "auto", settings.competition)
    test: str = settings.test_file  # type: ignore[attr-defined]
    examples = files.get(test, ())
    grouped = len(examples) > 0 and examples[0].group is not None
    groups = [example.group for example in examples] if grouped else []
    findings, by_group = [], False
    try:
        plan = make_plan(form, labels, settings, groups, [str(example.id) for example in examples])
        print(f"{name}: {plan.describe()}")
        by_group = plan.by_group
        records = [{"id": example.id} for example in examples]
        for sentence in find_oddities(form, plan, labels, records, groups):
            what, _, fix = sentence.partition(": if ")
            findings.append(Finding("warning", what, name, f"if {fix}"))
    except InputError as error:
        what = f"predict.py can't fill it as it is, because {error}".rstrip(".")
        findings.append(Finding("warning", what, name, "decide what it is to hold."))
    if not examples:
        return findings
    own = list(dict.fromkeys(map(str, groups))) if by_group else [str(e.id) for e in examples]
    return findings + find_different_ids(form, own, f"{name} and {test}")


def find_different_ids(form: Form, own: Sequence[str], where: str) -> list[Finding]:
    """Return an error if a sample and the file to predict have different ids."""
    differences = compare_ids(own, form.ids or [])
    fix = "name the file that the sample is of as test_file, or its ids with competition.id_column."
    return [Finding("error", f"ids differ: {'; '.join(differences)}", where, fix)][
        : len(differences)
    ]
