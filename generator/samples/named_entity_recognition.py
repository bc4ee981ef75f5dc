"""The sample of named entities: invented news of people, places and products, English and Chinese.

Every text is built from pieces, and the spans are recorded while the names are added, so no name is
ever searched for. Names of organisations contain their towns, and a town's name may be a surname.
The same seed gives the same bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from string import Formatter

from generator.samples.splits import Drawn, split_names, two_languages, write_splits

SEED = 20
SIZES = {"train": 900, "dev": 150, "test": 150}
UNSEEN_SHARE = 0.15
LENT = 4
TYPES = ("date", "organization", "person", "place", "product")

Span = tuple[int, int]


@dataclass(frozen=True)
class Name:
    """Words of a type; `town` is the span of a place name in them."""

    text: str
    type: str
    town: Span | None = None


# The first letter of a slot is its kind: p q persons, c d companies, u a university, a
# club or a museum, t v towns, g h products, y a day; s is a person by a surname that towns have.
ENGLISH = (
    "{p} of {c} will open the new {u} on {y}",
    "{c} sells the {g} in {t} and in {v}",
    "{p} left {c} for {d}",
    "{u} hired {p} on {y}",
    "the {g} of {c} was shown in {t}",
    "on {y} {p} and {q} met in {t}",
    "{s} said that {c} would leave {t}",
    "nobody at {u} had heard of {s}",
    "{p}, a chemist at {u}, praised the {g}",
    "{c} and {d} will build the {g} together",
    "the road from {t} to {v} was closed on {y}",
    "{u} beat {c} at chess, and {p} wept",
    "{s} bought the {g} in {t}",
    "the {g} is cheaper than the {h}",
    "{p} was born in {t} on {y}",
    "since {y} {c} has owned {d}",
)
ENGLISH_NOISE = (
    "it rained all night",
    "the council could not agree",
    "no one had asked for a new bridge",
    "prices rose a little in spring",
    "more on this story tomorrow",
    "a spokesman would not say why",
    "the old mill is for sale again",
)
CHINESE = (
    "{p}离开{c}加入了{d}",
    "{c}在{t}和{v}出售{g}",
    "{y}，{p}和{q}在{t}见面",
    "{u}于{y}聘请了{p}",
    "{c}的{g}在{t}展出",
    "{p}称{c}将离开{t}",
    "{u}的化学家{p}称赞了{g}",
    "{c}与{d}将共同研制{g}",
    "从{t}到{v}的公路于{y}封闭",
    "{p}在{t}买了一台{g}",
    "{g}比{h}便宜",
    "{p}于{y}出生在{t}",
    "{y}以来{c}一直持有{d}的股份",
    "{u}没有人认识{p}",
)
CHINESE_NOISE = (
    "昨夜一直在下雨",
    "双方没有达成一致",
    "春天物价略有上涨",
    "明天继续报道",
    "发言人没有说明原因",
    "旧磨坊又要出售了",
)
FIRST_NAMES = (
    "Arvo", "Bettina", "Cosmo", "Delia", "Egon", "Fleur", "Gwil", "Henrike", "Ines", "Jasper",
    "Kerttu", "Lothar", "Mire\u0301ia", "Nils", "Oriel", "Pia",
)  # fmt: skip
LAST_NAMES = (
    "Ashgrove", "Bellamont", "Cranfield", "Dovecote", "Ellsworth", "Farrimond", "Gallowhill",
    "Hawkstone", "Ibbotson", "Jarnley", "Kesterton", "Lockwold", "Merriday", "Nettlebank",
)  # fmt: skip
TOWNS = (
    "Arnwick", "Bramholt", "Coldbrook", "Dalmere", "Eastcombe", "Fenwold", "Gilthorpe", "Harrowden",
    "Ivybridge-on-Sea", "Kirkholm", "Langmoor", "Marwell", "Northolme", "Osterley", "Pinmouth",
    "Quenby", "Rothwell", "Selmarsh",
)  # fmt: skip
BRANDS = (
    "Alvaro", "Bryntec", "Cubrix", "Dovaro", "Enstra", "Fluxen", "Galvio", "Hexora", "Intrel",
    "Jovanta", "Kelpro", "Lunaris", "Mentrix", "Novalis", "Ombria", "Pyrola",
)  # fmt: skip
BRAND_KINDS = ("Foods", "Motors", "Optics", "Shipping", "Software", "Textiles")
INSTITUTIONS = ("{} University", "University of {}", "{} Museum", "{} Chess Club")
GOODS = (("Aero", "Bio", "Cyber", "Duo", "Eco", "Opti"), ("cam", "drive", "phone", "pump", "lens"))
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
CHINESE_FAMILY = "陆孟袁邓曹彭范沈"
CHINESE_GIVEN = ("书文子若思一亦予", "涵宁轩琪晗舟阳溪")
CHINESE_TOWNS = ("青白石云竹柳沙银", "溪桥岭浦洲河塘坪")
CHINESE_BRANDS = ("鼎华天新瑞联中科", "信创和盛鑫源维泰")
CHINESE_KINDS = ("食品", "汽车", "光学", "航运", "软件")
CHINESE_INSTITUTIONS = ("{}大学", "{}博物馆", "{}足球俱乐部")
CHINESE_GOODS = ("飞智云星海", "翼影感航", ("手机", "相机", "水泵"))
EMOJI = ("📰 ", "🎓 ", "👩\u200d🔬 ")


class Names:
    """The pools of one language; some names are in training, others only in dev and test."""

    def __init__(self, chinese: bool, random: Random) -> None:
        self.chinese = chinese
        parts: dict[str, tuple[Iterable[tuple[str, ...]], str]]
        if chinese:
            towns = ["".join(pair) + "市" for pair in product(*CHINESE_TOWNS)]
            self.institutions: tuple[str, ...] = CHINESE_INSTITUTIONS
            parts = {
                "p": (product(CHINESE_FAMILY, *CHINESE_GIVEN), "{}{}{}"),
                "c": (product(*CHINESE_BRANDS, CHINESE_KINDS), "{}{}{}公司"),
                "g": (product(*CHINESE_GOODS), "{}{}{}"),
            }
        else:
            towns, self.institutions = list(TOWNS), INSTITUTIONS
            parts = {
                "p": (product(FIRST_NAMES, LAST_NAMES), "{} {}"),
                "c": (product(BRANDS, BRAND_KINDS), "{} {}"),
                "g": (product(*GOODS, "2345678"), "{}{} {}"),
            }
        names = {kind: [form.format(*c) for c in own] for kind, (own, form) in parts.items()}
        self.pools = {kind: split_names(random, own) for kind, own in {**names, "t": towns}.items()}

    def draw(self, slot: str, unseen: bool, random: Random) -> Name:
        """Draw the words for a slot."""
        if slot == "y":
            day, year = random.randrange(1, 29), random.randrange(1990, 2030)
            month = random.randrange(12)
            if self.chinese:
                return Name(f"{year}年{month + 1}月{day}日", "date")
            return Name(f"{day} {MONTHS[month]} {year}", "date")
        towns = self.pools["t"][unseen]
        # A few towns are also surnames, often enough for the model to learn it.
        town = random.choice(towns[:LENT] if slot == "s" else towns)
        if slot in "tv":
            return Name(town, "place")
        if slot == "s":
            return Name(town, "person")
        if slot == "u":
            before, after = random.choice(self.institutions).split("{}")
            place = len(before), len(before) + len(town)
            return Name(before + town + after, "organization", place)
        kind = {"p": "p", "q": "p", "c": "c", "d": "c", "g": "g", "h": "g"}[slot]
        types = {"p": "person", "c": "organization", "g": "product"}
        return Name(random.choice(self.pools[kind][unseen]), types[kind])


@dataclass
class Record:
    """A text that grows piece by piece, with its entities."""

    text: str = ""
    entities: list[tuple[Span, str]] = field(default_factory=list)

    def add_clause(self, pattern: str, names: Names, unseen: float, random: Random) -> None:
        """Add a clause with different names in its slots."""
        used: set[str] = set()
        for words, slot, _, _ in Formatter().parse(pattern):
            if words and (not any(map(str.isalnum, self.text)) or self.text.endswith(". ")):
                words = words[0].upper() + words[1:]
            self.text += words
            if slot is None:
                continue
            name = names.draw(slot, random.random() < unseen, random)
            while name.text in used:
                name = names.draw(slot, random.random() < unseen, random)
            used.add(name.text)
            start = len(self.text)
            self.text += name.text
            self.entities.append(((start, len(self.text)), name.type))
            if name.town:
                self.entities.append(((start + name.town[0], start + name.town[1]), "place"))


def make_record(languages: dict[bool, Names], unseen: float, random: Random) -> Record:
    """Make one record: clauses with and without names, in any order."""
    chinese = random.random() < 0.5
    telling, noise = (CHINESE, CHINESE_NOISE) if chinese else (ENGLISH, ENGLISH_NOISE)
    told = random.choices((0, 1, 2), weights=(6, 54, 40))[0]
    spoken = 1 if told == 0 else random.choices((0, 1), weights=(70, 30))[0]
    clauses = [random.choice(telling) for _ in range(told)]
    clauses += [random.choice(noise) for _ in range(spoken)]
    random.shuffle(clauses)
    stops = ("。", "；", "！") if chinese else (". ", "; ", " - ")

    record = Record()
    if random.random() < 0.04:
        record.text = random.choice(EMOJI)
    for position, clause in enumerate(clauses):
        if position:
            record.text += random.choices(stops, (75, 18, 7))[0]
        record.add_clause(clause, languages[chinese], unseen, random)
    record.text += random.choices(("。", "！", "") if chinese else (".", "!", ""), (84, 8, 8))[0]
    return record


def as_json(record: Record) -> dict:
    """Give a record its final form."""
    entities = [{"type": kind, "span": list(span)} for span, kind in sorted(record.entities)]
    return {"text": record.text, "entities": entities}


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)
    languages = two_languages(Names, random)

    def draw(split: str) -> Drawn:
        record = make_record(languages, 0.0 if split == "train" else UNSEEN_SHARE, random)
        return [record.text], lambda _: [as_json(record)]

    write_splits(folder, SIZES, draw)
