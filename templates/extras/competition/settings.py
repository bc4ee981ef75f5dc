"""The table [competition] of config.toml."""

import contextlib
import json
import tomllib
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from core.base.errors import InputError
from core.base.settings import CoreSettings, SettingsTable
from extras.competition.rows import Dialect, Quoting
from extras.competition.text_template import template_parts

FILES = ("competition.sample_submission",)


def read_pairs(given: Any, example: str) -> str:
    """Return pairs of labels, as TOML or a flag gives them, as JSON; empty: none.

    Raises:
        ValueError: they are something else; the message shows an example.
    """
    for read in (json.loads, read_inline_table):
        with contextlib.suppress(ValueError):  # which errors of TOML are too
            given = read(given) if isinstance(given, str) and given else given
    if given in ("", {}):
        return ""
    pairs = given.items() if isinstance(given, dict) else [("", "")]
    if not all(isinstance(part, str) and part for pair in pairs for part in pair):
        raise ValueError(f"write pairs of labels: {example}")
    return json.dumps(given, ensure_ascii=False)


def read_inline_table(text: str) -> Any:
    """Return a value that is written as in config.toml."""
    return tomllib.loads(f"given = {text}")["given"]


class Table(SettingsTable):
    """Columns of tables, losses of numbers, and options of competition scores."""

    text_column: str = Field("", description="column of the text; empty: found by name")
    pair_column: str = Field("", description="column of the second text; empty: one text")
    text_columns: list[str] = Field([], description="columns of several texts, in this order")
    label_column: str = Field("", description="column of the label; empty: found by name")
    label_separator: str = Field("", description="separates labels in a cell; empty: one label")
    target_columns: str = Field("", description="columns of numbers, or of labels with 0 and 1")
    label_aliases: str = Field("", description="other names of labels: { pos = 'positive' }")
    one_label: bool | Literal["auto"] = Field(
        "auto", description="exactly one of the target_columns is 1 in a row; auto: looks"
    )
    id_column: str = Field("", description="column of the ids; empty: found by name")
    group_column: str = Field("", description="records of one group are ranked")
    candidate_column: str = Field("", description="ids of candidates, which cells of groups hold")
    fold_group_column: str = Field("", description="records of one such group share a fold")
    weight_column: str = Field("", description="column of the weight of a record in the loss")
    sample_submission: str = Field("", description="the competition's own sample_submission.csv")
    encoding: str = Field("utf-8", description="encoding of .csv and .tsv")
    delimiter: str = Field("", description="between the cells of a row; empty: comma, or tab")
    quoting: Quoting = Field("auto", description="double quotes: around cells, or of the texts")
    column_names: list[str] = Field([], description="of tables whose first row is no header")
    decimal: Literal[".", ","] = Field(".", description="before the decimals of a number")
    thousands: Literal["", ",", ".", " ", "'"] = Field("", description="between thousands")
    swap_training: bool = Field(False, description="learn two texts in both orders")
    swap_prediction: bool = Field(False, description="average what is predicted of both orders")
    swap_labels: str = Field("", description="labels that change places: { a = 'b' }; or same")
    loss: Literal["mse", "huber", "bce", "ordinal", "listwise"] = Field(
        "mse", description="loss of numbers; listwise: a softmax over the records of a group"
    )
    list_targets: Literal["shares", "softmax"] = Field(
        "shares", description="what listwise learns of the grades of a group"
    )
    list_size: int = Field(0, ge=0, description="records of a group in a step; 0: all of them")
    text_template: str = Field("", description="one text of several columns; empty: none")
    turn_separator: str = Field("", description="joins texts that are lists; empty: none are")
    choice_columns: list[str] = Field([], description="columns of the candidates of one question")
    right_choice: str = Field("", description="the choice column that is right in every row")
    response_column: str = Field("", description="column of the answer in files with one a row")
    huber_delta: float = Field(1.0, gt=0, description="where huber becomes linear, in deviations")
    hierarchy: str = Field("", description="separates the parts of a label path; empty: no paths")
    thresholds: Literal["one", "per_label"] = Field("one", description="of several labels")
    k: int = Field(3, ge=1, description="answers that count in map_at_k, ndcg_at_k and top_k")
    beta: float = Field(0.5, gt=0, description="of f_beta: below 1 precision counts more")

    @field_validator("encoding")
    @classmethod
    def check_encoding(cls, name: str) -> str:
        """Refuse an encoding unknown to Python."""
        try:
            "a".encode(name)
        except LookupError as error:
            raise ValueError(
                "Python has no such encoding: choose one such as utf-8, cp1252 or gb18030"
            ) from error
        return name

    @field_validator("delimiter")
    @classmethod
    def check_delimiter(cls, delimiter: str) -> str:
        """Return one character; the word tab and its escape are a tab."""
        delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
        if len(delimiter) > 1 or delimiter in ('"', "\n", "\r"):
            raise ValueError('give one character, such as ";" or "|", or "tab"')
        return delimiter

    @field_validator("turn_separator")
    @classmethod
    def read_separator(cls, separator: str) -> str:
        """Return the separator; `\\n` and `\\t` of a command line are a line end and a tab."""
        return separator.replace("\\n", "\n").replace("\\t", "\t")

    @field_validator("text_columns", "column_names", "choice_columns")
    @classmethod
    def check_text_columns(cls, names: list[str]) -> list[str]:
        """Return the names without blanks around them; refuse empty and repeated ones."""
        names = [name.strip() for name in names]
        if not all(names) or len({*names}) < len(names):
            raise ValueError("name each column once")
        return names

    @field_validator("text_template")
    @classmethod
    def check_template(cls, template: str) -> str:
        """Refuse a template that names no column, or whose braces have no partner."""
        if template:
            template_parts(template)
        return template

    @field_validator("label_aliases", mode="before")
    @classmethod
    def read_aliases(cls, given: Any) -> str:
        """Return the names as JSON: one value, so that runs can be compared.

        A name that is both another name and a label is refused. What it means would depend on how
        often a record is read: once as a host writes it, again with the labels of a teacher.
        """
        found = read_pairs(given, '{ pos = "positive", neg = "negative" }')
        pairs = json.loads(found or "{}")
        for other, label in pairs.items():
            if pairs.get(label, label) != label:
                raise ValueError(
                    f"{other!r} is another name of {label!r}, which is another name of "
                    f"{pairs[label]!r}: give each other name the label that it ends up as"
                )
        return found

    @field_validator("swap_labels", mode="before")
    @classmethod
    def read_swaps(cls, given: Any) -> str:
        """Return the labels as JSON, or the word; refuse one that has two partners."""
        if given == "same":
            return "same"
        pairs = json.loads(read_pairs(given, '{ a = "b" }') or "{}")
        partners = {name: {other} - {name} for name, other in pairs.items()}
        for name, other in pairs.items():
            partners.setdefault(other, set()).update({name} - {other})
        if two := [name for name, others in partners.items() if len(others) > 1]:
            raise ValueError(f"{two[0]!r} can change places with one label only")
        return json.dumps(pairs, ensure_ascii=False) if pairs else ""

    @model_validator(mode="after")
    def check_together(self) -> "Table":
        """Refuse columns that are named twice, and numbers that could be read in two ways."""
        if self.text_columns and (self.text_column or self.pair_column):
            raise ValueError(
                "text_columns names all texts: leave text_column and pair_column empty"
            )
        if self.text_template and (self.text_columns or self.text_column or self.pair_column):
            raise ValueError(
                "text_template names all texts: leave text_columns, text_column and pair_column "
                "empty"
            )
        if self.text_column and self.text_column == self.pair_column:
            raise ValueError(f"text_column and pair_column are both {self.text_column!r}")
        if (self.swap_training or self.swap_prediction) and not self.swap_labels:
            raise ValueError(
                'say with swap_labels which labels change places with the texts, as { a = "b" }, '
                'or "same" if the order means nothing'
            )
        if len(self.choice_columns) == 1:
            raise ValueError("choice_columns names one column: a question has two at least")
        if self.right_choice and self.right_choice not in self.choice_columns:
            raise ValueError(
                f"right_choice = {self.right_choice!r} is not among the choice_columns: name the "
                "one that is right in every row"
            )
        if self.candidate_column and (self.choice_columns or not self.group_column):
            raise ValueError(
                f"candidate_column = {self.candidate_column!r} names candidates of groups: set "
                "group_column, and leave choice_columns empty, whose names say it already"
            )
        if self.list_size == 1:
            raise ValueError("list_size = 1 leaves nothing to choose from: set 0, or 2 and more")
        if self.decimal == self.thousands:
            raise ValueError(
                f"decimal and thousands are both {self.decimal!r}: a number has different ones"
            )
        return self

    @property
    def dialect(self) -> Dialect:
        """How tables are written."""
        names = tuple(self.column_names)
        return Dialect(self.encoding, self.delimiter, self.quoting, names)

    @property
    def aliases(self) -> dict[str, str]:
        """The name of a label by another one, from `label_aliases`."""
        return json.loads(self.label_aliases) if self.label_aliases else {}

    @property
    def swapped_names(self) -> dict[str, str]:
        """Label -> the one that it becomes if the texts change places; others stay."""
        pairs = json.loads(self.swap_labels) if self.swap_labels not in ("", "same") else {}
        return {**pairs, **{other: name for name, other in pairs.items()}}

    @property
    def is_listwise(self) -> bool:
        """Whether the records of a group are learned together, as choice columns always are."""
        return self.loss == "listwise" or bool(self.choice_columns)

    @property
    def text_names(self) -> tuple[str, ...]:
        """The columns of texts that are named."""
        named = self.text_columns or [self.text_column, self.pair_column]
        if self.text_template:
            named = [*dict.fromkeys(name for _, name in template_parts(self.text_template))]
        return tuple(name for name in named if name)

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names in `target_columns`."""
        names = (name.strip() for name in self.target_columns.split(","))
        return tuple(dict.fromkeys(name for name in names if name))


class Settings(CoreSettings):
    """The settings of a project that has this extra."""

    competition: Table = Field(default_factory=Table)


def complain(settings: Settings) -> str | None:
    """Refuse settings that this task does not read or that don't fit together."""
    if getattr(settings, "task", "") != "Text classification":
        if settings.competition == Table():
            return None
        return "only text classification reads the table competition: leave it as it was"
    retrieval = getattr(settings, "retrieval", None)
    if len(settings.competition.text_columns) > 2 and getattr(retrieval, "loss", "none") != "none":
        return "a bi-encoder of extras/retrieval reads two texts: name two in text_columns"
    if complaint := complain_of_swaps(settings) or complain_of_lists(settings):
        return complaint
    if getattr(settings, "output", "labels") != "number":  # a bi-encoder's settings lack it
        return None
    if settings.competition.one_label is True:
        return 'one_label is of labels: leave it as it was with "number"'
    if settings.competition.hierarchy or settings.competition.thresholds != "one":
        return 'hierarchy and thresholds are of labels: leave them as they were with "number"'
    if settings.class_weights != "none" or settings.label_smoothing:  # type: ignore[attr-defined]
        return 'class_weights and label_smoothing are of labels: leave them out with "number"'
    return None


def complain_of_lists(settings: Settings) -> str | None:
    """Refuse what does not go together with a softmax over the records of a group."""
    table = settings.competition
    if not table.is_listwise:
        return None

    def own(name: str, key: str) -> Any:
        return getattr(getattr(settings, name, None), key, None)

    weights = getattr(settings, "class_weights", "none")
    smoothing = getattr(settings, "label_smoothing", 0.0)
    of_labels = table.hierarchy or table.thresholds != "one" or table.one_label is True
    refused = [
        (table.loss not in ("mse", "listwise"), f"loss = {table.loss}, which is of single records"),
        (table.swap_training or table.swap_prediction, "swap_training or swap_prediction"),
        (of_labels, "hierarchy, thresholds or one_label, which are of labels"),
        (weights != "none" or smoothing, "class_weights or label_smoothing, which are of labels"),
        (len(table.target_names) > 1, "several target_columns: name the one with the relevance"),
        (
            table.choice_columns and table.group_column,
            "group_column: with choice_columns each row is a group",
        ),
        (
            own("retrieval", "loss") not in (None, "none"),
            "a bi-encoder, whose losses see no groups: set retrieval.loss = none",
        ),
        (
            own("regularization", "unlabelled_file"),
            "regularization.unlabelled_file, whose records have no groups",
        ),
        (
            own("used_rows", "enabled"),
            "used_rows, which was never tried here: set used_rows.enabled = false",
        ),
    ]
    what = "choice_columns" if table.choice_columns else "competition.loss = listwise"
    return next((f"{what} does not go with {why}" for wrong, why in refused if wrong), None)


def complain_of_swaps(settings: Settings) -> str | None:
    """Refuse what the order of two texts does not go together with."""
    table = settings.competition
    if not (table.swap_training or table.swap_prediction):
        return None
    others: dict[str, Any] = {
        name: getattr(settings, name, None) for name in ("retrieval", "used_rows", "regularization")
    }
    if getattr(others["retrieval"], "loss", "none") != "none":
        return "a bi-encoder of extras/retrieval has no order of texts: leave swap_training out"
    if table.swapped_names and getattr(settings, "output", "labels") == "number":
        return 'swap_labels is of labels: with output = "number" set it to "same"'
    if table.swap_training and getattr(others["used_rows"], "enabled", False):
        return (
            "swap_training may cut a text elsewhere in the other order, and used_rows trains only "
            "the tokens of the first epoch: set used_rows.enabled = false"
        )
    if table.swap_training and getattr(others["regularization"], "unlabelled_file", None):
        return "swap_training needs labels: leave regularization.unlabelled_file empty"
    return None


def complete(settings: Settings) -> None:
    """Decide whether columns of 0 and 1 are one label, where that is left open.

    The run keeps the decision, which its other files have to follow. What a list learns for each
    record is a number, its score.
    """
    table = settings.competition
    if table.is_listwise and hasattr(settings, "output"):
        table.loss, settings.output = "listwise", "number"
    if table.one_label != "auto" or getattr(settings, "output", "number") != "labels":
        return
    if not (table.target_names or table.sample_submission):
        return
    from extras.competition.one_hot import find_one_label

    with contextlib.suppress(InputError):  # whoever reads the file says what is wrong with it
        found = find_one_label(settings)
        table.one_label = "auto" if found is None else found
