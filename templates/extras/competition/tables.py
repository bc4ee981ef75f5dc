"""Read tables of competitions, and JSON Lines with names of their own, by their columns."""

import difflib
import functools
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.base.errors import InputError
from core.base.extras import ask
from core.base.files import project_path
from core.data.records import WEIGHT, read_weighted
from extras.competition.choices import SCORE, choice_records
from extras.competition.number_cells import parse_number
from extras.competition.records import Columns, make_record, read_turns, show, stripped
from extras.competition.rows import Dialect, is_table, read_any_rows, read_rows
from extras.competition.settings import Settings, Table

# Usual names of the column of the text, where the settings name none.
TEXT_NAMES = ("text_a", "text", "full_text", "excerpt", "comment_text", "sentence", "content")
# Usual names of the columns of a pair of texts.
PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
)
# What the fields of JSON Lines are called in a project's own files.
OWN_FIELDS = {"id", "text_a", "text_b", "context", "label", "labels", "group", "fold_group"}
OWN_FIELDS |= {"target", WEIGHT}
# Usual names of the column of a question, and of a single answer to it.
QUESTION_NAMES = ("prompt", "question", "query", "instruction")
RESPONSE_NAMES = ("response", "answer", "completion", "output", "choice")
ANSWER_NAMES = ("answer", "label")
RELEVANCE_NAMES = ("relevance", "label", "target")
LIKE = 0.8  # similarity, from 0 to 1, from which on one name may be a typo of another
FIRST_ROWS = 100  # used to find the text column


def has_own_columns(path: str | Path, settings: Settings) -> bool:
    """Return whether the settings, or usual names, say what the fields of a file are.

    They do for tables, and for JSON Lines that lack `text_a` or `id`, or that have a field which
    the settings name. Other files have the names of a project's own.

    Raises:
        InputError: the settings read the texts of a project's own format in another way.
    """
    if is_table(path):
        return True
    first = next((record for _, record in read_any_rows(path)), {})
    if not first:
        return False
    if "text_a" not in first or "id" not in first:
        return True
    table = settings.competition
    usual = {
        table.label_column: {"label", "labels"},
        table.id_column: {"id"},
        table.group_column: {"group"},
        table.candidate_column: set(),
        table.fold_group_column: {"fold_group"},
        table.weight_column: {WEIGHT},
    }
    named = {name for name, own in usual.items() if name not in own}
    named |= {*table.text_names, *table.choice_columns} - OWN_FIELDS
    if getattr(settings, "output", "labels") != "number":  # numbers have fields of their own names
        named |= {*table.target_names} - OWN_FIELDS
    if named & first.keys():
        return True
    refuse_other_texts(path, first, table)
    return False


def refuse_other_texts(path: str | Path, first: dict[str, Any], table: Table) -> None:
    """Refuse settings that read the texts of a project's own format in another way.

    Pseudo-labels of a host's file have the same fields in the order that the settings gave them.

    Raises:
        InputError: names the fields and the setting.
    """
    own = tuple(name for name in ("text_a", "text_b") if name in first)
    wanted = table.text_names
    if not {*wanted} & {*own} or wanted == own or not table.text_columns and wanted == own[:1]:
        return
    if not table.text_columns and table.pair_column == "text_b" and not table.text_column:
        return
    setting = "text_columns is" if table.text_columns else "text_column and pair_column are"
    raise InputError(
        f"{path} has the fields of the project's own format, whose texts are {' and '.join(own)}, "
        f"but competition.{setting} {', '.join(wanted)}: leave that setting empty, or give the "
        "fields other names."
    )


def read_table(
    path: str | Path,
    settings: Settings,
    require_labels: bool,
    read_one: Callable[[dict, int], Any],
) -> Sequence[Any]:
    """Read the examples of a table, or of JSON Lines; with extras/cache from its files.

    Args:
        path: of the file; the first row of a table is the header.
        settings: the table `competition` names the columns.
        require_labels: False for files to predict, whose labels may be absent or empty.
        read_one: makes an example from a record in the format of JSON Lines and its line. Targets
            are in `targets`, name -> number.

    Raises:
        InputError: names file, line and what is wrong.
    """
    rows = [*itertools.islice(read_any_rows(path, settings.competition.dialect), FIRST_ROWS)]
    columns = find_columns(path, rows, settings, require_labels)
    header = dict.fromkeys(name for _, row in rows for name in row)
    counted = "counted from 0" if is_table(path) else "the number of the line, for it has none"
    print(f"{Path(path).name}: {columns.describe(counted, settings.competition, [*header])}")
    if found := find_lists(rows, columns, settings.competition):
        print(
            f"warning: {Path(path).name}: texts of {found!r} are lists in JSON, with brackets and "
            'escapes: set competition.turn_separator, such as "\\n", to read the texts in them.'
        )
    stream = functools.partial(
        stream_examples,
        path=Path(path),
        columns=columns,
        settings=settings,
        require_labels=require_labels,
        read_one=read_one,
    )
    examples = ask("open_stream", path, stream) or [*stream()]
    lines: dict[str, int] = {}
    for example in examples if isinstance(examples, list) else ():  # kept ones were checked
        if (first := lines.setdefault(str(example.id), example.line)) != example.line:
            raise InputError(
                f"{path}, line {example.line}: id {example.id!r} is on line {first} already: "
                "give each row an id of its own, or name the column of the ids with "
                "competition.id_column."
            )
    return examples


def find_lists(
    rows: Sequence[tuple[int, dict[str, Any]]], columns: Columns, table: Table
) -> str | None:
    """Return the column whose texts all are lists in JSON, which no setting joins."""
    for name in () if table.turn_separator else (*columns.texts, *columns.choices):
        if all(isinstance(row.get(name), str) and read_turns(row[name]) for _, row in rows):
            return name
    return None


def stream_examples(
    path: Path,
    columns: Columns,
    settings: Settings,
    require_labels: bool,
    read_one: Callable[[dict, int], Any],
) -> Iterator[Any]:
    """Yield the examples of a file in order; arguments and errors as in `read_table`."""
    counts_rows = is_table(path)
    for position, (line, row) in enumerate(read_any_rows(path, settings.competition.dialect)):
        try:
            if not counts_rows:
                refuse_late_field(row, columns, settings.competition)
            number, own = position if counts_rows else line, (columns, settings, require_labels)
            records = choice_records(row, *own, number) if columns.choices else []
            for record in records or [make_record(row, *own)]:
                yield read_weighted({"id": number, **record}, line, read_one)
        except InputError as error:
            what = textwrap.shorten(str(error), 400, placeholder=" [...].")
            raise InputError(f"{path}, line {line}: {what}") from error


def refuse_late_field(row: dict[str, Any], columns: Columns, table: Table) -> None:
    """Refuse a record of JSON Lines with a usual field that the first records lack.

    The fields to read are chosen by the first records, so it would not be read.

    Raises:
        InputError: names the field.
    """
    chosen: dict[str, Any] = {
        **dict.fromkeys(("id", "Id", "ID"), columns.id),
        "text_b": columns.texts[1:] or table.text_columns,
        "group": columns.group,
        "fold_group": columns.fold_group,
        WEIGHT: columns.weight,
    }
    if late := [name for name, own in chosen.items() if name in row and not own]:
        raise InputError(
            f'the record has "{late[0]}", but the first {FIRST_ROWS} records have none: give it to '
            "all records, or to none."
        )


def find_columns(
    path: str | Path,
    rows: Sequence[tuple[int, dict[str, Any]]],
    settings: Settings,
    require_labels: bool,
) -> Columns:
    """Return the columns to read, from the settings, sample_submission or usual names.

    Args:
        path: of the file.
        rows: the first ones; their keys are the columns.
        settings: the table `competition`.
        require_labels: whether the columns of labels or numbers have to be there.

    Raises:
        InputError: a column of the settings is absent, or the text column is ambiguous.
    """
    table = settings.competition
    header = [*dict.fromkeys(name for _, row in rows for name in row)]
    column = functools.partial(find_column, path, header)
    sample_id, _ = read_sample_header(table)
    identity = column(table.id_column, "id_column")
    for name in (sample_id, "id", "Id", "ID"):  # rows of a sample may be groups
        free = name in header and name != table.group_column
        identity = identity or (name if free else None)
    candidate = column(table.candidate_column, "candidate_column")
    targets, label = find_gold(path, header, settings, require_labels)
    group = column(table.group_column, "group_column")
    fold_group = column(table.fold_group_column, "fold_group_column", require_labels)
    # Only files to learn from need weights.
    added = getattr(getattr(settings, "distillation", None), "files", []) if is_table(path) else []
    learned = [project_path(file) for file in (getattr(settings, "train_file", ""), *added)]
    weighted = require_labels and Path(path) in learned
    weight = column(table.weight_column, "weight_column", weighted)
    if not is_table(path):
        group, fold_group, weight = (
            found or (name if name in header else None)
            for found, name in ((group, "group"), (fold_group, "fold_group"), (weight, WEIGHT))
        )
    choices = find_choices(path, header, table, require_labels)
    setting = "text_template" if table.text_template else "text_columns"
    named = table.text_names if table.text_template else table.text_columns
    texts = [column(name, setting) for name in named]
    if table.choice_columns:
        taken = {identity, label, *targets, group, fold_group, weight, *choices, *texts}
        texts += find_question(path, rows, taken, table, not choices)
    elif not texts:
        pair = column(table.pair_column, "pair_column") or ("text_b" if "text_b" in header else "")
        taken = {identity, label, *targets, group, fold_group, pair, weight, candidate}
        text = column(table.text_column, "text_column")
        both = [] if text or pair else find_pair([name for name in header if name not in taken])
        text = text or (both or [find_text(path, header, rows, taken, table)])[0]
        texts = [*both] or ([text, pair] if pair else [text])
    if answers := [name for name in texts if name in {label, *targets}]:
        raise InputError(
            f"{path}: the column {answers[0]!r} is both a text and what is to be predicted: name "
            "another one in competition.text_columns, text_column, pair_column or text_template."
        )
    read = tuple(map(str, texts))
    return Columns(identity, read, label, targets, group, fold_group, weight, choices, candidate)


def find_column(
    path: str | Path,
    header: Sequence[str],
    name: str,
    setting: str,
    required: bool = True,
    given: bool = True,
) -> str | None:
    """Return the name of a column that a setting names; None: it names none, or none is required.

    A name that is not `given` is the usual one, or that of the sample, since the setting is empty.

    Raises:
        InputError: the column is required and absent.
    """
    if name and name not in header and required:
        what = "columns" if is_table(path) else "fields"
        where = f"its {what} are {show(header)}"
        if not given:
            fix = f"name the right one with competition.{setting}"
            if is_table(path):
                fix += ", or if its first line is a record, write the names of its columns above"
            raise InputError(f"{path} has no {what[:-1]} {name!r}: {where}: {fix}.")
        raise InputError(
            f"{path} has no {what[:-1]} {name!r}, which competition.{setting} names: {where}."
        )
    return name if name in header else None


def find_gold(
    path: str | Path, header: Sequence[str], settings: Settings, require_labels: bool
) -> tuple[tuple[str, ...], str | None]:
    """Return the columns of numbers, or of labels with 0 and 1, and the column of the label.

    Raises:
        InputError: one is required and absent.
    """
    table = settings.competition
    if table.is_listwise:
        return find_relevance(path, header, table, require_labels)
    _, sample_rest = read_sample_header(table)
    number = getattr(settings, "output", "labels") == "number"
    targets = table.target_names
    if not targets and not table.label_column and (number or len(sample_rest) > 1):
        known = all(name in header for name in sample_rest)
        if require_labels and not known:
            check_columns_of_sample(path, header, sample_rest, number)
        targets = sample_rest if sample_rest and (known or not require_labels) else ("target",)
        targets = targets if number or known else ()
    if number or targets:
        given = bool(table.target_names)
        names = [
            find_column(path, header, name, "target_columns", require_labels, given)
            for name in targets
        ]
        return (tuple(targets) if all(names) else ()), None
    wanted = table.label_column or "".join(sample_rest[:1]) or "label"
    if wanted not in header and not table.label_column:
        usual = ("label", "target") if is_table(path) else ("label", "labels", "target")
        wanted = next((name for name in usual if name in header), wanted)
    given = bool(table.label_column)
    return (), find_column(path, header, wanted, "label_column", require_labels, given)


def check_columns_of_sample(
    path: str | Path, header: Sequence[str], names: Sequence[str], number: bool
) -> None:
    """Check that a file lacks columns of the sample for a reason, and not by a slip.

    A sample may have a column for each label of one column of the file, or a confidence beside it.

    Args:
        path: of the file.
        header: its columns.
        names: the columns of the sample without the id; the file does not have all of them.
        number: they are numbers, so that they are what the file should have.

    Raises:
        InputError: two of the columns are there and another one is not; or one is there, and a name
            that looks like another one; or they are numbers, and the file has no `target` either.
    """
    missing = [name for name in names if name not in header]
    others = [name for name in header if name not in names]
    alike = [difflib.get_close_matches(name, others, 1, LIKE) for name in missing]
    present = len(names) - len(missing)
    if "target" in header if number else present == 0 or present == 1 and not any(alike):
        return
    like = next((f", but {found[0]!r}" for found in alike if found), "")
    raise InputError(
        f"{path} has no column {show(missing)}, which sample_submission has{like}: write it in one "
        f"way in both, or name what is to be predicted with competition.target_columns or "
        f"label_column. The columns of {path} are {show(header)}."
    )


def find_relevance(
    path: str | Path, header: Sequence[str], table: Table, require_labels: bool
) -> tuple[tuple[str, ...], str | None]:
    """Return the column of the relevance of a candidate, or of the answer to a question.

    Raises:
        InputError: it is required and absent.
    """
    given = "".join(table.target_names[:1]) or table.label_column
    setting = "target_columns" if table.target_names else "label_column"
    if table.choice_columns:
        if table.right_choice or not any(name in header for name in table.choice_columns):
            return (), None
        found = given or next((name for name in ANSWER_NAMES if name in header), ANSWER_NAMES[0])
        return (), find_column(path, header, found, setting, require_labels, bool(given))
    found = given or next((name for name in RELEVANCE_NAMES if name in header), RELEVANCE_NAMES[0])
    own = find_column(path, header, found, setting, require_labels, bool(given))
    return ((own,) if own else ()), None


def find_choices(
    path: str | Path, header: Sequence[str], table: Table, require_labels: bool
) -> tuple[str, ...]:
    """Return the columns of the choices; none, where a file to predict has none of them.

    Raises:
        InputError: the file lacks one.
    """
    if not require_labels and not any(name in header for name in table.choice_columns):
        return ()
    for name in table.choice_columns:
        find_column(path, header, name, "choice_columns")
    return tuple(table.choice_columns)


def find_question(
    path: str | Path,
    rows: Sequence[tuple[int, dict[str, Any]]],
    taken: set[str | None],
    table: Table,
    is_single: bool,
) -> list[str]:
    """Return the column of the question, if there is one, and that of a single answer to it.

    Args:
        path: of the file.
        rows: the first ones.
        taken: columns that are read as something else.
        table: may name both.
        is_single: each row has one answer, in place of the choices.

    Raises:
        InputError: a column that the settings name is absent, several may be the answer, or one
            may be the question.
    """
    header = [*dict.fromkeys(name for _, row in rows for name in row)]
    free = [name for name in header if name not in taken]
    question = find_column(path, header, table.text_column, "text_column")
    if not question and not (table.text_columns or table.text_template):
        question = next((name for name in QUESTION_NAMES if name in free), None)
        worded = [n for n in free if any(has_words(row.get(n), table) for _, row in rows)]
        if worded and not question and not is_single:
            doubt = (
                f"{path}: which column is the question? Name it with competition.text_column, or "
                f"leave out columns that are none: those with words are {show(worded)}."
            )
            if not table.right_choice:
                raise InputError(doubt)
            print(f"warning: {doubt}")  # the texts of a pair often begin with it
    texts = [question] if question else []
    if is_single:
        usual = (name for name in RESPONSE_NAMES if name in free and name not in texts)
        answer = find_column(path, header, table.response_column, "response_column")
        answer = answer or next(usual, None)
        texts += [answer or find_text(path, header, rows, {*taken, *texts}, table)]
    return texts


def find_pair(free: Sequence[str]) -> list[str]:
    """Return the columns of a pair of texts with usual names; empty: there are none of them."""
    for both in PAIR_NAMES:
        others = [name for name in free if name not in both]
        if {*both} <= {*free} and not any(name in others for name in TEXT_NAMES):
            return [*both]
    return []


def find_text(
    path: str | Path,
    header: Sequence[str],
    rows: Sequence[tuple[int, dict[str, Any]]],
    taken: set[str | None],
    table: Table,
) -> str:
    """Return the text column: the one with a usual name, or the only one with words.

    Raises:
        InputError: several have words, or none.
    """
    free = [name for name in header if name not in taken]
    named = [name for name in TEXT_NAMES if name in free]
    if named:
        return named[0]
    worded = [name for name in free if any(has_words(row.get(name), table) for _, row in rows)]
    if len(worded) != 1 and table.choice_columns:
        raise InputError(
            f"{path} has none of the columns {show(table.choice_columns)}, which "
            "competition.choice_columns names, and which column is a single answer is unclear: "
            "correct the names, or set competition.response_column: the columns are "
            f"{show(header)}."
        )
    if len(worded) != 1:
        raise InputError(
            f"{path}: which column is the text? Set competition.text_column, text_columns if there "
            "are several, or choice_columns if they are the choices of a question: the columns are "
            f"{show(header)}."
        )
    return worded[0]


def read_sample_header(table: Table) -> tuple[str, tuple[str, ...]]:
    """Return the first column of sample_submission, and the others; empty: no sample."""
    if not table.sample_submission:
        return "", ()
    path = project_path(table.sample_submission)
    changed = path.stat().st_mtime_ns if path.is_file() else 0
    first, *others = read_header(path, replace(table.dialect, names=()), changed)
    return first, tuple(others)


@functools.cache
def read_header(path: Path, dialect: Dialect, changed: int) -> tuple[str, ...]:
    """Return the columns of a table; `changed` tells a file from what it was before."""
    _, row = next(read_rows(path, dialect))
    return tuple(row)


def number_fields(table: Table) -> tuple[str, ...]:
    """Return the fields that hold the numbers of a project's own JSON Lines, if they are named.

    Those of pseudo-labels have the names of the columns that a teacher learned.
    """
    if table.is_listwise:
        return (*table.target_names, SCORE)
    return table.target_names or read_sample_header(table)[1]


def has_words(value: Any, table: Table) -> bool:
    """Return whether a cell is a text: neither empty nor a number, however it is written."""
    own = stripped(value)
    return isinstance(own, str) and not is_number(own) and parse_number(own, table) is None


def is_number(cell: str) -> bool:
    """Return whether a cell is empty or a number."""
    return not cell.strip() or bool(re.fullmatch(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", cell, re.I))
