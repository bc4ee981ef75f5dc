"""Items as a text, and back: `subject | predicate | object ;`, `type = trigger | role = words ;`.

The marks are plain characters that every tokenizer has. README.md describes the whole language.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extras.extraction.places import fold
from extras.extraction.records import Example, Item

PART, PAIR, END, NOTHING = "|", "=", ";", "none"
# Within words each of these becomes `*` and its index here. Tokenizers with NFKC normalization
# turn the wide ones into marks.
ESCAPE = "*"
ESCAPED = f"{ESCAPE}{PART}{END}{PAIR}\uff0a\uff5c\uff1b\uff1d"
NARROW = str.maketrans(ESCAPED[4:], ESCAPED[:4])
# Reasons why a written part is not read.
REASONS = {
    "nothing_written": "nothing was written",
    "missing_part": "a part is missing",
    "unknown_name": "a name is unknown",
    "left_over": "parts are left over",
    "not_in_text": "words are not in the text",
}


@dataclass(frozen=True)
class Draft:
    """An item whose words are not located in the text yet; the role of a trigger is None."""

    name: str
    nodes: tuple[tuple[str | None, str], ...]


class Names:
    """The known names, exact or ignoring space, case and accents.

    Args:
        names: predicates, or types and `type = role`, as they are written.
    """

    def __init__(self, names: Sequence[str]) -> None:
        pairs = [[unescape(part) for part in name.split(PAIR)] for name in names]
        self.every = index_names([pair[0] for pair in pairs])
        self.roles = {
            name: index_names([pair[1] for pair in pairs if pair[0] == name and len(pair) > 1])
            for name in {pair[0] for pair in pairs}
        }

    def keep(self, item: Item, kind: str) -> Item | None:
        """Return the part of an item with known names; None: nothing."""
        if item.name not in self.roles:
            return None
        if kind == "triples":
            return item
        known = {None, *self.roles[item.name].values()}
        nodes = tuple(node for node in item.nodes if node[0] in known)
        return Item(item.name, nodes) if nodes else None


def index_names(names: Sequence[str]) -> dict[str, str]:
    """Return an index from names, and from their folded forms, to names; the first wins."""
    return {fold(name)[0]: name for name in sorted(names, reverse=True)} | {n: n for n in names}


def look_up(words: str, known: Mapping[str, str]) -> str | None:
    """Return the name for words; None: unknown."""
    return known.get(words, known.get(fold(words)[0]))


def name_items(examples: Sequence[Example], kind: str) -> list[str]:
    """Return the names that items use, as they are written, sorted."""
    items = [item for example in examples for item in example.items]
    names = {escape(item.name) for item in items}
    names.update(*(map(escape, example.annotated or ()) for example in examples))
    if kind == "events":
        names |= {
            f"{escape(item.name)} {PAIR} {escape(role)}"
            for item in items
            for role, _ in item.nodes
            if role is not None
        }
    return sorted(names)


def escape(words: str) -> str:
    """Return words without the marks of the language, and with single spaces."""
    found = [f"{ESCAPE}{ESCAPED.index(c)}" if c in ESCAPED else c for c in words]
    return " ".join("".join(found).split())


def unescape(words: str) -> str:
    """Invert `escape`; a tokenizer may have added spaces."""
    digits = f"0-{len(ESCAPED) - 1}"
    pattern = rf"{re.escape(ESCAPE)}\s*([{digits}])"
    return re.sub(pattern, lambda found: ESCAPED[int(found[1])], words).strip()


# ----------------------------------------------------------------------------- writing


def write_items(items: Sequence[Item], text: str, kind: str) -> str:
    """Return the text of items, in the order of their places; never empty.

    Args:
        items: of a record.
        text: of the record.
        kind: "triples" or "events".
    """
    write = write_triple if kind == "triples" else write_event
    ordered = sorted(items, key=lambda item: item.place)
    return " ".join(f"{write(item, text)} {END}" for item in ordered) or NOTHING


def write_triple(item: Item, text: str) -> str:
    """Return a triple: subject, predicate, object."""
    subject, object_ = (escape(text[slice(*span)]) for _, span in item.nodes)
    return f" {PART} ".join([subject, escape(item.name), object_])


def write_event(item: Item, text: str) -> str:
    """Return an event: type and trigger, then each role with its words, in order."""
    head = escape(item.name)
    parts = []
    for role, span in sorted(item.nodes, key=lambda node: (node[1], node[0] or "")):
        words = escape(text[slice(*span)])
        if role is None:
            head = f"{head} {PAIR} {words}"
        else:
            parts.append(f"{escape(role)} {PAIR} {words}")
    return f" {PART} ".join([head, *parts])


# ----------------------------------------------------------------------------- reading


def read_drafts(written: str, names: Names, kind: str) -> tuple[list[Draft], Counter]:
    """Return the items of a text, and reason -> number of unreadable parts.

    No text raises an error. A missing end, wide marks, another order of the parts and other
    spellings of names are forgiven.

    Args:
        written: by a model.
        names: the known names.
        kind: "triples" or "events".
    """
    unread: Counter = Counter()
    read = read_triples if kind == "triples" else read_event
    drafts: list[Draft] = []
    for segment in written.translate(NARROW).split(END):
        parts = [part.strip() for part in segment.split(PART)]
        if parts != [""] and fold(segment)[0] != NOTHING:
            drafts += read(parts, names, unread)
    unread["nothing_written"] += not written.strip()
    return drafts, +unread


def read_triples(parts: Sequence[str], names: Names, unread: Counter) -> Iterator[Draft]:
    """Yield the triple of some parts, or several if ends are missing; count unread parts.

    A predicate is recognised by its name: in the middle, or in any place of three parts.
    """
    found = []
    at = 1
    while at < len(parts) - 1:
        known = look_up(unescape(parts[at]), names.every)
        if known is not None:
            found.append((parts[at - 1], known, parts[at + 1]))
        at += 1 if known is None else 3
    for place in (0, 2) if len(parts) == 3 and not found else ():
        known = look_up(unescape(parts[place]), names.every)
        if known is not None and not found:
            subject, object_ = (part for other, part in enumerate(parts) if other != place)
            found.append((subject, known, object_))
    if not found:
        unread["missing_part" if len(parts) < 3 else "unknown_name"] += 1
    elif len(parts) > 3 * len(found):
        unread["left_over"] += 1
    for subject, known, object_ in found:
        if subject and object_:
            yield Draft(known, (("subject", unescape(subject)), ("object", unescape(object_))))
        else:
            unread["missing_part"] += 1


def read_event(parts: Sequence[str], names: Names, unread: Counter) -> Iterator[Draft]:
    """Yield the event of some parts, if its type is known; count unread parts.

    The type is recognised by its name, in any part.
    """
    heads = [read_pair(part, names.every) for part in parts]
    place = next((n for n, (name, _) in enumerate(heads) if name is not None), None)
    if place is None:
        unread["unknown_name" if any(parts) else "missing_part"] += 1
        return
    kind, trigger = heads[place]
    nodes: list[tuple[str | None, str]] = [(None, trigger)] if trigger else []
    unread["missing_part"] += not trigger and PAIR in parts[place]
    for part in (part for other, part in enumerate(parts) if other != place):
        role, words = read_pair(part, names.roles[kind or ""])
        if role is not None and words:
            nodes.append((role, words))
        elif PAIR in part and role is None:
            unread["unknown_name"] += 1
        else:
            unread["missing_part"] += 1
    if nodes:
        yield Draft(kind or "", tuple(nodes))


def read_pair(part: str, known: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the known name in `name = words`, or in `words = name`, and the words.

    None: no known name; no words: the part is only a name.
    """
    left, _, right = part.partition(PAIR)
    for name, words in ((left, right), (right, left)):
        found = look_up(unescape(name), known)
        if found is not None:
            return found, unescape(words)
    return None, ""
