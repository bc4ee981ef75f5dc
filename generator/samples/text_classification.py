"""The text-classification sample: what a customer wants, in Chinese and English sentences.

Most requests name two actions, but want only one. Most opinions are negated. So the same words in
another order, or with "not" in another place, have another label. The same seed gives the same
bytes.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from generator.samples.splits import Drawn, write_splits

SEED = 7
SIZES = {"train": 900, "dev": 150, "test": 150}
UNSEEN_SHARE = 0.3
ACTIONS = ("book", "cancel", "invoice", "move", "price", "upgrade")
OPINIONS = ("complaint", "praise")
LABELS = tuple(sorted(ACTIONS + OPINIONS))
OPINION_SHARE = 0.25
TWO_ACTIONS_SHARE = 0.6


@dataclass(frozen=True)
class Language:
    """The pieces of one language.

    Verbs of an action contain `{o}`, the object. Patterns contain `{y}`, the wanted action, `{x}`,
    an unwanted action, `{n}`, a person, `{s}`, how soon, and `{t}`, `{p}`, `{g}`: a thing, a place
    and a quality.
    """

    verbs: dict[str, str]
    objects: tuple[str, ...]
    soon: tuple[str, ...]
    one: tuple[str, ...]
    two: tuple[str, ...]
    things: tuple[str, ...]
    good: tuple[str, ...]
    bad: tuple[str, ...]
    plain: tuple[str, ...]
    negated: tuple[str, ...]
    endings: tuple[str, ...]


ENGLISH = Language(
    verbs={
        "book": "book {o}",
        "cancel": "cancel {o}",
        "invoice": "invoice {o}",
        "move": "postpone {o}",
        "price": "ask for the price of {o}",
        "upgrade": "upgrade {o}",
    },
    objects=("the room", "the table", "the boat trip"),
    soon=("", "quickly ", "just "),
    one=("please {s}{y} at {p}", "{n} and I want to {s}{y}", "could you {s}{y} at {p}?"),
    two=("please {s}{y}, do not {s}{x}", "do not {s}{x}, please {s}{y}"),
    things=("room", "food", "guide"),
    good=("good", "pleasant"),
    bad=("bad", "awful"),
    plain=("the {t} at {p} was {g}", "{n} found the {t} {g}"),
    negated=("the {t} at {p} was not {g}", "nobody found the {t} {g}"),
    endings=(".", "", "!"),
)
CHINESE = Language(
    verbs={
        "book": "预订{o}",
        "cancel": "取消{o}",
        "invoice": "给{o}开发票",
        "move": "推迟{o}",
        "price": "打听{o}的价格",
        "upgrade": "升级{o}",
    },
    objects=("房间", "桌位", "游船票"),
    soon=("", "马上", "直接"),
    one=("请{s}{y}，在{p}", "{n}和我想{s}{y}", "{p}能不能{s}{y}？"),
    two=("请{s}{y}，不要{s}{x}", "不要{s}{x}，请{s}{y}"),
    things=("房间", "饭菜", "导游"),
    good=("好", "舒服"),
    bad=("差", "糟糕"),
    plain=("{p}的{t}很{g}", "{n}觉得{t}很{g}"),
    negated=("{p}的{t}一点也不{g}", "没有人觉得{t}很{g}"),
    endings=("。", "", "！"),
)
PERSONS = (
    "Mara Telvin", "Joren Kaswick", "Ame\u0301lie Sorsen", "Zoe\u0308 Harlow", "Tobin Morsen",
    "Petra Lindane", "Kofi Rosvin", "Ravi Dungard", "Noor Telmere", "Oskar Fendane",
)  # fmt: skip
PLACES = tuple(
    f"{first}{last}"
    for first, last in product(("Bel", "Tor", "Gal", "Kel", "Wes"), ("mora", "vik", "haven"))
)
CHINESE_PERSONS = tuple("".join(parts) for parts in product("赵钱周吴冯", "文晓嘉", "轩琳涛"))
CHINESE_PLACES = tuple(
    "".join(parts) for parts in product("沐岚澄霁鸢", ("溪山庄", "港酒店", "城"))
)
EMOJI = ("🙏", "🏨", "👩\u200d🍳", "🛶")


def make_text(chinese: bool, label: str, unseen: bool, random: Random) -> str:
    """Make one text of a label; `unseen` allows the names of dev and test."""
    language = CHINESE if chinese else ENGLISH
    persons, places = (CHINESE_PERSONS, CHINESE_PLACES) if chinese else (PERSONS, PLACES)
    slots = {
        "n": random.choice(persons if unseen else persons[: len(persons) * 3 // 4]),
        "p": random.choice(places if unseen else places[: len(places) * 3 // 4]),
        "t": random.choice(language.things),
    }
    if label in OPINIONS:
        negated = random.random() < 0.5
        slots["g"] = random.choice(
            language.good if negated != (label == "praise") else language.bad
        )
        pattern = random.choice(language.negated if negated else language.plain)
    else:
        pattern = random.choice(
            language.two if random.random() < TWO_ACTIONS_SHARE else language.one
        )
        other = random.choice([action for action in ACTIONS if action != label])
        for slot, action in (("y", label), ("x", other)):
            slots[slot] = language.verbs[action].format(o=random.choice(language.objects))
    # How soon is drawn separately for each place.
    pieces = pattern.split("{s}")
    text = pieces[0] + "".join(random.choice(language.soon) + piece for piece in pieces[1:])
    text = text.format(**slots)
    if text[-1] not in "?？":
        text += random.choice(language.endings)
    text = text[0].upper() + text[1:]
    return f"{text} {random.choice(EMOJI)}" if random.random() < 0.05 else text


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)

    def draw(split: str) -> Drawn:
        opinion = random.random() < OPINION_SHARE
        label = random.choice(OPINIONS if opinion else ACTIONS)
        unseen = split != "train" and random.random() < UNSEEN_SHARE
        text = make_text(random.random() < 0.5, label, unseen, random)
        return [text], lambda _: [{"text_a": text, "label": label}]

    write_splits(folder, SIZES, draw)
