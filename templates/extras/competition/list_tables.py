"""Tables of lists: the ranked candidates of each group, or the score of each record."""

from collections.abc import Sequence
from dataclasses import replace

from core.base.errors import InputError
from extras.competition.choices import SCORE
from extras.competition.forms import Form, Plan
from extras.competition.matching import match_columns
from extras.competition.records import show
from extras.competition.settings import Table

RANKED, SHARES = "ranked", "probabilities"


def plan_lists(
    form: Form, metric: str, table: Table, groups: set[str], rows_are_groups: bool
) -> Plan:
    """Return what the cells of a table of lists are to hold.

    A row is a group where those of the sample are groups, or, without a sample, where a row of
    the predicted file is a question. Its cell has the best candidates, or each choice has a column
    for its probability. Other rows are records.

    Args:
        form: from `read_form`.
        metric: the setting.
        table: `choice_columns` and `k`.
        groups: of the records; empty: they have none.
        rows_are_groups: those of the sample, from `find_rows`.

    Raises:
        InputError: the sample, its columns or `--values` ask for something else.
    """
    by_group = bool(groups) and (
        rows_are_groups if form.ids is not None else bool(table.choice_columns)
    )
    header = form.header or (("id", "prediction") if by_group else ("id", SCORE))
    answers, kinds = header[1:], (RANKED, SHARES) if by_group else ("numbers", SHARES)
    of_choices = by_group and len(answers) > 1 and bool(table.choice_columns)
    kind = kinds[of_choices] if form.kind == "auto" else form.kind
    if kind not in kinds or kind == SHARES and not groups:
        rows = "groups" if by_group else "records" if groups else "records without a group"
        raise InputError(
            f"--values {form.kind} does not fit rows that are {rows}, whose scores this run "
            f"predicts: choose {' or '.join(kinds[: 1 + bool(groups)])}."
        )
    why = "--values" if form.kind != "auto" else f"metric = {metric!r}, of groups"
    why = why if by_group or form.kind != "auto" else "of single records"
    if kind == SHARES and by_group:
        order = match_columns(answers, table.choice_columns, form.given, header[0])
        return Plan(kind, header, order, None, " ", why, by_group)
    if len(answers) != 1:
        raise InputError(
            f"the header has the columns {show(answers)} after the id, but a list has one cell in "
            "a row: name it with --columns id,NAME."
        )
    order = [] if kind == RANKED else [SCORE]
    names = tuple(table.choice_columns) if by_group else ()
    ranks = count_ranks(form, metric, table)
    plan = Plan(kind, header, order, ranks, " ", why, by_group)
    return replace(plan, names=names, joined=True)


def count_ranks(form: Form, metric: str, table: Table) -> int | None:
    """Return how many candidates a cell has: k, or as many as those of the sample; None: all."""
    if metric.endswith("_at_k"):
        return table.k
    if form.cells:
        return form.longest_cell(" ")
    return 1 if table.choice_columns and metric in ("auto", "accuracy") else None


def list_rows(records: Sequence[dict], plan: Plan) -> dict[str, dict]:
    """Return id -> what is written of a record, or of a group, the best candidates first.

    Args:
        records: of the predictions file.
        plan: from `plan_lists`.

    Raises:
        InputError: an id that a cell is to hold has a blank.
    """
    if not plan.by_group:
        shares = ({SCORE: record.get("probability")} for record in records)
        pairs = zip(records, shares, strict=True)
        return {str(record["id"]): {**record, SHARES: own} for record, own in pairs}
    groups: dict[str, list[dict]] = {}
    for record in records:
        groups.setdefault(str(record["group"]), []).append(record)
    rows = {}
    for group, own in groups.items():
        best = sorted(own, key=lambda record: -record["targets"][SCORE])
        likely = {str(record.get("choice", record["id"])): record["probability"] for record in own}
        ranked = [plan.candidate(record, group) for record in best]
        # A choice that is not offered has none.
        rows[group] = {RANKED: ranked, SHARES: {**dict.fromkeys(plan.order, 0.0), **likely}}
    return rows
