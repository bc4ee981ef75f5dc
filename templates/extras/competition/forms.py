"""The form of a table of predictions, and what its cells are to hold."""

from dataclasses import dataclass, field

from core.base.errors import InputError
from extras.competition.records import show

KINDS = ("auto", "labels", "probabilities", "numbers", "grades", "ranked")


@dataclass(frozen=True)
class Form:
    """The format of a table of predictions.

    Attributes:
        header: the id's column first.
        ids: in the order of the rows; None: in the order of prediction.
        kind: one of `KINDS`.
        cells: different cells of the sample without its ids; empty: there is no sample.
        given: column -> what it holds, where --columns says it.
        delimiter: of the sample; empty: the usual one of the table that is written.
        written: the header as the sample has it, with its blanks; empty: as `header`.
    """

    header: tuple[str, ...]
    ids: list[str] | None
    kind: str
    cells: frozenset[str] = frozenset()
    given: dict[str, str] = field(default_factory=dict)
    delimiter: str = ""
    written: tuple[str, ...] = ()

    def words(self, separator: str) -> set[str]:
        """Return the parts of the cells; an empty separator: the whole cells."""
        if not separator:
            return {*self.cells}
        parts = (part.strip() for cell in self.cells for part in cell.split(separator))
        return {part for part in parts if part}

    def longest_cell(self, separator: str) -> int:
        """Return the most parts that a cell has; 0: there is no sample."""
        return max((len(cell.split(separator)) for cell in self.cells), default=0)


@dataclass(frozen=True)
class Plan:
    """What the cells of a table hold.

    Attributes:
        kind: one of `KINDS`, but not "auto".
        header: the id's column first.
        order: the label or number of each column; empty: a row has one cell.
        ranks: how many ranked labels, or ranked records of a group, a cell has; None: all.
        separator: of several labels in a cell.
        why: what decided the kind.
        by_group: a row is a group, and its cell the ranked ids of its records.
        spelled: label -> how the sample writes it, by `label_aliases`; others keep their names.
        decimal: before the decimals of a number, as the sample has it.
        unclear: labels that keep their names although the sample may write them by one of several
            others.
        names: of the labels, or of the choices of a question, that a cell holds; empty: it holds
            something else.
        joined: a cell holds several of them.
        in_groups: the ids of records begin with their group, which a cell leaves out.
    """

    kind: str
    header: tuple[str, ...]
    order: list[str]
    ranks: int | None
    separator: str
    why: str
    by_group: bool = False
    spelled: dict[str, str] = field(default_factory=dict)
    decimal: str = "."
    unclear: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    joined: bool = False
    in_groups: bool = False

    def candidate(self, record: dict, group: str) -> str:
        """Return how a cell names a record of a group.

        Raises:
            InputError: its name has a blank, which separates the names of a cell.
        """
        name = str(record.get("choice", record["id"]))
        name = self.spelled.get(name, name)
        name = name.removeprefix(f"{group}/") if self.in_groups else name
        if self.kind == "ranked" and " " in name:
            raise InputError(
                f"the name {name!r} holds a blank, which separates the candidates of a cell: "
                "rename it, or write a score for each record with another --values."
            )
        return name

    def describe(self) -> str:
        """Return in one line what the cells hold."""
        columns, few = self.header[1:], "all" if self.ranks is None else f"the first {self.ranks}"
        pairs = zip(columns, self.order, strict=False)
        named = show([c if c == name else f"{c} = {name!r}" for c, name in pairs])
        what = {
            "labels": f"1 where a label is predicted, else 0: {named}"
            if self.order
            else f"{columns[0]} = the predicted label",
            "probabilities": f"probabilities: {named}",
            "numbers": f"numbers: {named}",
            "grades": f"grades, which are numbers after the cuts: {named}",
            "ranked": f"{columns[0]} = the candidates of a group, the likeliest first, {few}"
            if self.by_group
            else f"{columns[0]} = labels, the likeliest first, {few}",
        }[self.kind]
        return f"cells: {what} ({self.why})"
