"""Write predictions as a table in the format of a competition.

The metric says what the cells hold: probabilities for log loss, ranked labels for MAP@k, labels for
F1. sample_submission.csv gives the header, the order of the rows, and, where the metric leaves it
open, the kind of the cells. Columns are matched by their names.
"""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.files import write_text
from core.base.words import excerpt
from extras.competition.forms import KINDS, Form, Plan
from extras.competition.list_tables import list_rows, plan_lists
from extras.competition.matching import label_of_column, match_columns, same_name
from extras.competition.number_cells import parse_number
from extras.competition.records import show
from extras.competition.rows import (
    DELIMITERS,
    find_format,
    header_cells,
    raw_header,
    read_rows,
    table_text,
)
from extras.competition.settings import Settings, Table
from extras.competition.tables import is_number

# What a metric scores; "auto" and those of groups leave it open.
KIND_OF = {
    **dict.fromkeys(("log_loss", "brier", "roc_auc", "pr_auc"), "probabilities"),
    **dict.fromkeys(("map_at_k", "top_k_accuracy", "ndcg", "ndcg_at_k"), "ranked"),
    **dict.fromkeys(("accuracy", "macro_f1", "micro_f1", "matthews", "f1", "f_beta"), "labels"),
}
SHOWN_IDS = 3
OPEN = "leaves it open"  # what decides the kind of the cells
MOST_CELLS = 100  # different cells of a sample that are looked at


def decides(settings: Settings, ranked: bool) -> bool:
    """Return whether the settings need another table than one of labels, or of ranked records."""
    kind = KIND_OF.get(settings.metric)  # type: ignore[attr-defined]
    own = settings.competition.label_separator or settings.competition.hierarchy
    return kind == "probabilities" or not ranked and (kind == "ranked" or bool(own))


SEPARATORS = (" ", ",", ";", "|", "/")  # of labels in a cell, as hosts write them


def read_form(sample: Path | None, columns: str, kind: str, table: Table) -> Form:
    """Return the form that a sample, or the command line, asks for.

    Args:
        sample: sample_submission.csv; None: there is none.
        columns: a header with commas that replaces the sample's; empty: the sample's. `a=b` is the
            column `a`, which holds the label or the number `b`.
        kind: one of `KINDS`.
        table: says how the sample is written.

    Raises:
        InputError: the sample is broken, or the header does not fit it.
    """
    if kind not in KINDS:
        raise InputError(f"--values {kind} is unknown: choose one of {', '.join(KINDS)}.")
    if sample and sample.suffix.lower() in (".json", ".jsonl"):
        raise InputError(f"{sample} is no table: name a .csv or .tsv, or leave the sample out.")
    dialect = replace(table.dialect, names=())  # a sample has a header
    rows = list(read_rows(sample, dialect)) if sample else []
    own = tuple(rows[0][1]) if rows else ()
    header, given = read_columns(columns, own)
    if len(header) == 1:
        raise InputError(f"--columns {columns} names one column: name the id's and the answers'.")
    if sample is None:
        return Form(header, None, kind, given=given)
    if len(own) < 2:
        raise InputError(f"{sample} has only the column {own[0]!r}: a sample has ids and answers.")
    ids: dict[str, int] = {}
    cells: set[str] = set()
    for line, row in rows:
        if (first := ids.setdefault(row[own[0]].strip(), line)) != line:
            raise InputError(
                f"{sample}, line {line}: the id {row[own[0]]!r} is on line {first} already."
            )
        if len(cells) < MOST_CELLS:
            cells |= {row[name].strip() for name in own[1:]}
    # The longest cell of all rows says how many ranks a cell has.
    answers = (row[name].strip() for _, row in rows for name in own[1:])
    cells.add(max(answers, key=lambda cell: cell.count(" ")))
    if header and len(header) != len(own):
        raise InputError(
            f"--columns names {len(header)} columns, but {sample} has {len(own)}: {show(own)}."
        )
    delimiter, _ = find_format(sample, dialect)
    written = () if header else raw_header(sample, dialect)
    found = frozenset(cells - {""})
    return Form(header or own, list(ids), kind, found, given, delimiter, written)


def read_columns(columns: str, own: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the header in the value of --columns, and what it says that columns hold.

    Args:
        columns: with commas; a name with a comma stands in double quotes.
        own: the header of the sample, whose names may contain "=".

    Raises:
        InputError: a column is named twice.
    """
    header: list[str] = []
    given: dict[str, str] = {}
    line = " ".join(columns.splitlines())
    [parts] = list(csv.reader([line], skipinitialspace=True)) or [[]]
    for part in filter(None, map(str.strip, parts)):
        name, equals, answer = (text.strip() for text in part.partition("="))
        if part in own or not equals or not name:
            name, answer = part, ""
        header.append(name)
        given |= {name: answer} if answer and len(header) > 1 else {}
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"--columns names {twice[0]!r} twice: name each column once.")
    return tuple(header), given


def write_table(
    path: Path,
    records: Sequence[dict],
    form: Form,
    labels: Any,
    settings: Settings,
    groups: Sequence[str | None] = (),
) -> None:
    """Write the records of a predictions file as a table, and print what its cells hold.

    Args:
        path: .csv or .tsv.
        records: in the order of the predicted file.
        form: from `read_form`.
        labels: from `collect_targets`.
        settings: `metric` decides what is written; `competition.k` is the number of ranks.
        groups: of the records; empty: they have none.

    Raises:
        InputError: ids are missing or unknown, or the columns are not those of the predictions.
    """
    plan = make_plan(form, labels, settings, groups, [str(record["id"]) for record in records])
    rows = {str(record["id"]): record for record in records}
    if getattr(labels, "are_lists", False):
        rows = list_rows(records, plan)
    elif plan.by_group:
        rows = rank_groups(records, groups, labels.positive, plan)
    # As the sample has it, but a .tsv is never written with the commas of a .csv.
    usual = DELIMITERS[path.suffix.lower()]
    delimiter = usual if form.delimiter in DELIMITERS.values() else form.delimiter or usual
    written = match_ids(rows, form.ids, plan.header)
    table: list[Sequence[Any]] = [form.written or header_cells(plan.header)]
    table += [[identity, *make_cells(rows[identity], plan, labels)] for identity in written]
    write_text(path, table_text(table, delimiter))
    print(plan.describe())
    if len(written) != len(records):
        print(f"rows: {len(written)}, one for each group of records")
    for sentence in find_oddities(form, plan, labels, records, groups):
        print(f"warning: {sentence}")


def check_form(
    form: Form, ids: Sequence[str], labels: Any, settings: Settings, groups: Sequence[str | None]
) -> None:
    """Refuse what `write_table` would refuse, before there are predictions.

    Raises:
        InputError: as in `write_table`.
    """
    plan = make_plan(form, labels, settings, groups, ids)
    rows: dict[str, dict] = dict.fromkeys(map(str, groups) if plan.by_group else ids, {})
    match_ids(rows, form.ids, plan.header)


def make_plan(
    form: Form,
    labels: Any,
    settings: Settings,
    groups: Sequence[str | None] = (),
    ids: Sequence[str] = (),
) -> Plan:
    """Return what the cells of a table are to hold.

    `ids` are those of the records. The other arguments, and the errors, are as in `write_table`.
    """
    metric: str = settings.metric  # type: ignore[attr-defined]
    table = settings.competition
    known = {str(group) for group in groups if group is not None}
    rows_are_groups = find_rows(form, known, ids)
    names = table.choice_columns if getattr(labels, "are_lists", False) else labels.names
    aliases = {**implied_aliases(names, form.cells), **table.aliases}
    form = replace(form, given={**find_aliases(form, names, aliases), **form.given})
    if getattr(labels, "are_lists", False):
        plan = plan_lists(form, metric, table, known, rows_are_groups)
        spelled = spellings(form.words(plan.separator), names, aliases)
        return replace(plan, spelled=spelled, in_groups=bool(table.candidate_column))
    kind, why = choose_kind(form, labels, metric, bool(known), rows_are_groups, aliases, table)
    of_groups = bool(known) and kind == "ranked" and labels.positive is not None
    if of_groups and form.ids and not rows_are_groups:
        raise InputError(
            "the records have groups, so a ranked cell holds the ids of a group's records and each "
            "row is a group, but the ids of sample_submission are no groups: write the score of "
            "each record with --values probabilities."
        )
    answers, order = form.header[1:], []
    header = form.header or make_header(kind, labels, of_groups)
    every = (*labels.names, *columns_without_label(answers, labels))
    if kind in ("labels", "probabilities") and len(answers) == 1:
        if kind == "probabilities" or columns_are_labels(form, labels):
            order = [label_of_column(answers[0], labels, form.given, header[0])]
    elif kind in ("numbers", "grades", "probabilities") or kind == "labels" and len(header) > 2:
        order = match_columns(header[1:], every, form.given, header[0])
    elif len(header) != 2:
        raise InputError(
            f"the header has the columns {show(answers)} after the id, but a prediction is "
            "one cell: ask for another kind with --values."
        )
    ranks = None if of_groups and not metric.endswith("_at_k") else table.k
    separator = " " if kind == "ranked" else table.label_separator or "|"
    joined = not order and not of_groups and (kind == "ranked" or labels.several)
    words = form.words(separator if joined else "")
    spelled = {} if of_groups else spellings(words, labels.names, aliases)
    others = {*aliases.values()} - {*spelled, *words} if spelled else set()
    unclear = tuple(name for name in labels.names if name in others)
    decimal = decimal_of(form, table)
    plan = Plan(kind, header, order, ranks, separator, why, of_groups, spelled, decimal, unclear)
    own = () if order or of_groups else tuple(labels.names)
    plan = replace(plan, names=own, joined=joined, in_groups=bool(table.candidate_column))
    written = [spelled.get(name, name) for name in plan.names] if joined else []
    if held := [name for name in written if separator in name]:
        raise InputError(
            f"the label {held[0]!r} holds {separator!r}, which separates the labels of a cell: "
            "rename it in the training file, or write --values probabilities."
        )
    return plan


def find_rows(form: Form, groups: set[str], ids: Sequence[str]) -> bool:
    """Return whether the rows of a sample are groups, not records.

    All of its ids are groups, or more of them are groups than records: one may have no prediction.

    Args:
        form: from `read_form`.
        groups: of the records.
        ids: of the records.
    """
    if form.ids is None:
        return False
    asked = {*form.ids}
    return asked <= groups or len(asked & groups) > len(asked & {*ids})


def columns_without_label(answers: Sequence[str], labels: Any) -> list[str]:
    """Return the columns of labels that the run lacks, next to all that it has."""
    if labels.are_numbers or len(labels.names) < 2 or not {*labels.names} < {*answers}:
        return []
    return [name for name in answers if name not in labels.names]


def find_aliases(form: Form, names: Sequence[str], aliases: dict[str, str]) -> dict[str, str]:
    """Return the label or choice of each column that is called by another name of it."""
    answers = form.header[1:]
    found = {column: aliases[column] for column in answers if column in aliases}
    return {column: label for column, label in found.items() if label in names}


def implied_aliases(names: Sequence[str], cells: Collection[str]) -> dict[str, str]:
    """Return how a sample writes numbers and truth values that the training file writes otherwise.

    >>> implied_aliases(["0.0", "1.0"], {"0"})
    {'0': '0.0', '1': '1.0'}
    >>> implied_aliases(["False", "True"], {"0", "1"})
    {'0': 'False', '1': 'True'}
    """
    if not cells or {*cells} & {*names}:
        return {}
    own = {truth_or_number(name): name for name in names}
    if len(own) < len(names) or not {truth_or_number(cell) for cell in cells} <= {*own}:
        return {}
    if all(is_number(cell) for cell in cells):
        end = ".0" if all(cell.endswith(".0") for cell in cells) else ""
        return {f"{key}{end}": name for key, name in own.items()}
    styles = (str.title, str.upper, str.lower)
    style = next((style for style in styles if all(cell == style(cell) for cell in cells)), None)
    if {*own} != {"0", "1"} or not style:
        return {}
    return {style("false"): own["0"], style("true"): own["1"]}


def truth_or_number(text: str) -> str:
    """Return a number without differences in how it is written; false is 0, and true is 1."""
    return {"false": "0", "true": "1"}.get(text.casefold(), same_id(text))


def spellings(words: set[str], names: Sequence[str], aliases: dict[str, str]) -> dict[str, str]:
    """Return how the sample writes labels that it has only under another name of theirs.

    Args:
        words: in the cells of the sample.
        names: of the labels, or of the choices of a question.
        aliases: other name -> name.
    """
    found: dict[str, str] = {}
    for other, label in aliases.items():
        if other in words and label in names and label not in words:
            found.setdefault(label, other)
    if not found:
        return found
    # The sample need not have each label: those with a single other name are written by it too.
    single = [label for label in aliases.values() if [*aliases.values()].count(label) == 1]
    others = {label: other for other, label in aliases.items() if label in single}
    return {**{n: o for n, o in others.items() if n not in words}, **found}


def decimal_of(form: Form, table: Table) -> str:
    """Return a comma if the table has commas and the sample's numbers have no points."""
    points = any(re.fullmatch(r"[-+]?\d*\.\d+", cell) for cell in form.cells)
    return "," if form.cells and not points and table.decimal == "," else "."


def make_header(kind: str, labels: Any, of_groups: bool) -> tuple[str, ...]:
    """Return the header of a table for which neither a sample nor --columns names one."""
    if of_groups:
        return "group", "ids"
    if kind in ("labels", "ranked"):
        return "id", "labels" if kind == "ranked" else "label"
    return "id", *labels.names


def choose_kind(
    form: Form,
    labels: Any,
    metric: str,
    grouped: bool,
    rows_are_groups: bool,
    aliases: Collection[str],
    table: Table,
) -> tuple[str, str]:
    """Return the kind of the cells, and what decided it.

    --values decides, then the metric. Where that leaves it open, labels are written, but scores for
    a ranking, and probabilities where columns are labels or the only column has numbers that are no
    labels.

    Args:
        form: from `read_form`.
        labels: from `collect_targets`.
        metric: the setting.
        grouped: the records have groups.
        rows_are_groups: from `find_rows`.
        aliases: other names of labels.
        table: says how numbers are written.

    Raises:
        InputError: the run predicts nothing of this kind.
    """
    if form.kind != "auto":
        if (form.kind in ("numbers", "grades")) != labels.are_numbers:
            what = "numbers" if labels.are_numbers else "labels"
            raise InputError(
                f"--values {form.kind} does not fit a run that predicts {what}: leave it out."
            )
        return form.kind, f"--values {form.kind}"
    why = f"metric = {metric!r}"
    if labels.are_numbers:
        return ("grades" if metric == "qwk" else "numbers"), why
    named, kind = columns_are_labels(form, labels), KIND_OF.get(metric)
    if grouped and labels.positive is not None and kind in (None, "ranked"):
        return ("ranked" if rows_are_groups else "probabilities"), f"{why}, of groups"
    if kind:
        return ("probabilities" if kind == "ranked" and named else kind), why
    is_open = f"{why} {OPEN}, --values decides: {', '.join(KINDS[1:3])}"
    alone = len(form.header) == 2 and len(labels.names) == 2 and not labels.several
    known = {*labels.names, *aliases}
    numbers = (c for c in form.cells if is_number(c) or parse_number(c, table) is not None)
    likely = alone and any(number not in known for number in numbers)
    return ("probabilities" if named or likely else "labels"), is_open


def columns_are_labels(form: Form, labels: Any) -> bool:
    """Return whether each column after the id is one label, as its name or --columns says."""
    answers = form.header[1:]
    return bool(len(answers) > 1 or form.given or same_name("".join(answers), labels.names))


def match_ids(rows: dict[str, dict], ids: list[str] | None, header: Sequence[str]) -> list[str]:
    """Return the ids in the order of the rows.

    Raises:
        InputError: the sample has unpredicted records, or lacks predicted ones.
    """
    if ids is None:
        return list(rows)
    if differences := compare_ids(list(rows), ids):
        raise InputError(
            f"sample_submission and the predicted file differ: {'; '.join(differences)}: predict "
            "the file that the sample is of; or, if the sample is only an example, leave it out "
            f"with --sample none --columns {','.join(header_cells(header))}."
        )
    return ids


def compare_ids(own: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Return in words which ids of a sample, or of the file to predict, the other lacks.

    Args:
        own: of the file to predict.
        ids: of the sample.
    """
    known, asked = {*own}, {*ids}
    missing = [identity for identity in ids if identity not in known]
    unknown = [identity for identity in own if identity not in asked]
    words = []
    for what, found, every in (
        ("without a row in the predicted file", missing, len(ids)),
        ("not asked for by the sample", unknown, len(own)),
    ):
        if found:
            shown = ", ".join(excerpt(identity, most=60) for identity in found[:SHOWN_IDS])
            words.append(f"{what}: {shown} ({len(found)} of {every} ids)")
    likely = {same_id(identity): identity for identity in unknown}
    alike = [identity for identity in missing if same_id(identity) in likely]
    if alike:
        other = likely[same_id(alike[0])]
        # In escapes, if both look the same: Unicode has several forms of one letter.
        show_id = ascii if alike[0] != other and same_form(alike[0]) == same_form(other) else repr
        words.append(
            f"{show_id(alike[0])} of the sample looks like {show_id(other)}: write both in one way"
        )
    return words


def same_form(identity: str) -> str:
    """Return an id in the usual form of Unicode."""
    return unicodedata.normalize("NFC", identity)


def same_id(identity: str) -> str:
    """Return an id without differences in how a number, or a letter's case, is written."""
    if not is_number(identity):
        return unicodedata.normalize("NFKC", identity).casefold()
    try:
        return f"{float(identity):.17g}"
    except ValueError:  # such as 1.2.3
        return identity


def rank_groups(
    records: Sequence[dict], groups: Sequence[str | None], positive: str, plan: Plan
) -> dict[str, dict]:
    """Return group -> the names of its records, the likeliest first, in the form of a record."""
    found: dict[str, list[dict]] = {}
    for record, group in zip(records, groups, strict=True):
        found.setdefault(str(group), []).append(record)
    rows = {}
    for group, own in found.items():
        best = sorted(own, key=lambda one: -one["probabilities"][positive])
        rows[group] = {"ranked": [plan.candidate(record, group) for record in best]}
    return rows


def make_cells(record: dict, plan: Plan, labels: Any) -> list[Any]:
    """Return the cells of a row without the id."""
    if plan.kind in ("numbers", "grades"):
        values = record.get("grades", {}) if plan.kind == "grades" else {}
        found = [values.get(name, record["targets"][name]) for name in plan.order]
        return [write_number(value, plan) for value in found]
    if plan.kind == "probabilities":  # 0 for a label that no training record has
        return [write_number(record["probabilities"].get(name, 0), plan) for name in plan.order]
    if plan.kind == "ranked":
        likely = record.get("ranked")
        if likely is None:
            pairs = sorted(record["probabilities"].items(), key=lambda item: -item[1])
            likely = [plan.spelled.get(name, name) for name, _ in pairs]
        return [plan.separator.join(likely[: plan.ranks])]
    chosen = record.get("labels", [record.get("label")])
    if plan.order:
        return [int(name in chosen) for name in plan.order]
    if hierarchy := getattr(labels, "hierarchy", ""):  # a path says all of its parents
        inner = {parent for name in chosen for parent in [name.rpartition(hierarchy)[0]]}
        chosen = [name for name in chosen if name not in inner]
    return [plan.separator.join(plan.spelled.get(name, name) for name in chosen)]


def write_number(value: float, plan: Plan) -> Any:
    """Return a number as the sample writes it."""
    return value if plan.decimal == "." else str(value).replace(".", plan.decimal)


def find_other_spelling(form: Form, plan: Plan) -> list[str]:
    """Return how the sample writes labels differently, as sentences `what: if ...`."""
    if plan.order or not plan.names or not form.cells:
        return []
    if plan.joined and plan.kind == "labels" and (other := find_separator(form, plan)):
        return [
            f"the sample joins labels by {other!r}, and this run by {plan.separator!r}: if the "
            f"host wants the former, set competition.label_separator = {other!r}."
        ]
    if plan.unclear:
        return [
            f"the sample writes labels by their other names, but has none of {plan.unclear[0]!r}, "
            "for which competition.label_aliases has several: if the host expects one of them, "
            "leave only that one there."
        ]
    if not plan.spelled and not form.words(plan.separator if plan.joined else "") & {*plan.names}:
        return [
            f"the sample has {show(sorted(form.cells)[:SHOWN_IDS])} where this run writes its "
            f"labels, {show(plan.names)}: if labels are spelled so there, spell them so in the "
            "training file."
        ]
    return []


def find_other_count(form: Form, plan: Plan, groups: Sequence[str | None]) -> list[str]:
    """Return that cells of the sample have more, or fewer, ranked names than those written."""
    most = form.longest_cell(plan.separator) if plan.kind == "ranked" else 0
    if most < 2 or plan.order:
        return []
    what = "ids" if plan.by_group and not plan.names else "labels"
    held = max(Counter(groups).values()) if plan.by_group else len(plan.names)
    wanted, ranks = min(most, held), min(plan.ranks or held, held)
    setting = "competition.k" if plan.ranks else 'metric = "map_at_k" and competition.k'
    return [
        f"cells of the sample have up to {most} {what}, and this run writes {ranks}: if the "
        f"host expects {most}, set {setting} = {most}."
    ][: wanted != ranks]


def find_separator(form: Form, plan: Plan) -> str:
    """Return what joins labels in all cells of a sample that have several; empty: nothing else."""
    known = {*plan.names, *plan.spelled, *plan.spelled.values()}
    for other in SEPARATORS:
        parts = [[one.strip() for one in cell.split(other) if one.strip()] for cell in form.cells]
        several = any(len(own) > 1 for own in parts)
        if other != plan.separator and several and all(known.issuperset(own) for own in parts):
            return other
    return ""


def find_other_candidates(
    form: Form, plan: Plan, records: Sequence[dict], groups: Sequence[str | None]
) -> list[str]:
    """Return that the sample ranks candidates by other names than those of the records."""
    words = form.words(plan.separator)
    if plan.kind != "ranked" or not plan.by_group or plan.names or not words:
        return []
    pairs = zip(records, groups, strict=True)
    names = {plan.candidate(record, str(group)) for record, group in pairs}
    if words & names:
        return []
    return [
        f"the sample has {show(sorted(words)[:SHOWN_IDS])} where this run writes the ids of the "
        f"records, {show(sorted(names)[:SHOWN_IDS])}: if a column has the names of the sample, "
        "name it with competition.candidate_column."
    ]


def find_oddities(
    form: Form,
    plan: Plan,
    labels: Any,
    records: Sequence[dict],
    groups: Sequence[str | None],
) -> list[str]:
    """Return how the sample differs from the written table, as sentences `what: if ...`.

    Args:
        form: from `read_form`.
        plan: from `make_plan`.
        labels: from `collect_targets`.
        records: with `id`, of the predictions or of the file to predict.
        groups: of the records; empty: they have none.
    """
    unknown = columns_without_label(form.header[1:], labels) if plan.order else []
    return [
        *(find_other_spelling(form, plan) or find_other_count(form, plan, groups)),
        *find_other_candidates(form, plan, records, groups),
        *(
            f"no training record has the label {name!r}, so its column is 0 in each row: if it is "
            "none, leave the column out with --columns."
            for name in unknown
        ),
        *find_doubtful_cells(form, plan, records),
    ]


def find_doubtful_cells(form: Form, plan: Plan, records: Sequence[dict]) -> list[str]:
    """Return why the host may expect other cells, as sentences `what: if ...`."""
    found = []
    if plan.kind == "probabilities" and {*form.cells} == {"0", "1"} and OPEN in plan.why:
        found.append(
            "the sample has 0 and 1, and this run writes probabilities, because nothing says which "
            "are asked for: if the host wants labels, write --values labels."
        )
    if plan.kind == "labels" and not plan.order:
        empty = sum(record.get("labels") == [] for record in records if "probabilities" in record)
        if empty:
            found.append(
                f"{empty} rows have no label, so their cells are empty: if the host refuses that, "
                "write the likeliest label there."
            )
    return found
