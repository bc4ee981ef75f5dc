"""The relation-extraction sample: invented names in Chinese and English sentences.

Every text is built from pieces, and the spans are recorded while the names are added, so no name is
ever searched for. The same seed gives the same bytes.
"""

from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from string import Formatter

from generator.samples.splits import Drawn, split_names, two_languages, write_splits

SEED = 20
SIZES = {"train": 900, "dev": 150, "test": 150}
UNSEEN_SHARE = 0.15
PREDICATES = (
    "born_in",
    "founded_by",
    "founded_in",
    "headquartered_in",
    "lives_in",
    "parent_of",
    "subsidiary_of",
    "works_for",
)

Span = tuple[int, int]


@dataclass(frozen=True)
class Name:
    """A name, and the span of its seat in it: `University of [Belmora]`."""

    text: str
    seat: Span | None = None


@dataclass(frozen=True)
class Clause:
    """A sentence pattern: `{p}` is a person, `{p:2}` a second mention of the same person.

    Relations are written `subject predicate object`, with the mentions of the pattern.
    """

    pattern: str
    relations: tuple[str, ...] = ()


# The first letter of a slot is its kind: p q r persons, c d companies, s a company or a
# university, t u towns, y a year.
ENGLISH = (
    Clause("{s} was founded by {p}", ("s founded_by p",)),
    Clause("{p} founded {c}", ("c founded_by p",)),
    Clause("{c} was founded by {p} and {q}", ("c founded_by p", "c founded_by q")),
    Clause("{c} was founded by {p} in {y}", ("c founded_by p", "c founded_in y")),
    Clause("{s} was established in {y}", ("s founded_in y",)),
    Clause("{c} is headquartered in {t}", ("c headquartered_in t",)),
    Clause(
        "both {c} and {d} are headquartered in {t}",
        ("c headquartered_in t", "d headquartered_in t"),
    ),
    Clause("{p} works for {s}", ("p works_for s",)),
    Clause("{p} and {q} work for {s}", ("p works_for s", "q works_for s")),
    Clause("{p} was born in {t}", ("p born_in t",)),
    Clause("{t} is the birthplace of {p}", ("p born_in t",)),
    Clause("{p}, born in {t}, works for {s}", ("p born_in t", "p works_for s")),
    Clause("{p} lives in {t}", ("p lives_in t",)),
    Clause("{p} was born in {t} and still lives there", ("p born_in t", "p lives_in t")),
    Clause("{p} was born in {t} and lives in {u}", ("p born_in t", "p lives_in u")),
    Clause("{p} is the mother of {q}", ("p parent_of q",)),
    Clause("{p} is the father of {q} and {r}", ("p parent_of q", "p parent_of r")),
    Clause("{q}, the daughter of {p}, works for {c}", ("p parent_of q", "q works_for c")),
    Clause("{d} is a subsidiary of {c}", ("d subsidiary_of c",)),
    Clause("{c} owns its subsidiary {d}", ("d subsidiary_of c",)),
    Clause(
        "{d}, a subsidiary of {c}, is headquartered in {t}",
        ("d subsidiary_of c", "d headquartered_in t"),
    ),
    Clause(
        "{d} is a subsidiary of {c}, which was founded by {p}",
        ("d subsidiary_of c", "c founded_by p"),
    ),
    Clause("{p} gave a talk, and {p:2} works for {c}", ("p:2 works_for c",)),
    Clause("it rained in {t}, but {p} was born in {t:2}", ("p born_in t:2",)),
    Clause("{c} lost money until {p} joined; {c:2} was founded by {q}", ("c:2 founded_by q",)),
)
ENGLISH_NOISE = (
    Clause("{p} met {q} for lunch"),
    Clause("{p} wrote a letter to {c}"),
    Clause("{c} opened a new canteen"),
    Clause("the road to {t} is closed"),
    Clause("{p} visited {t} in {y}"),
    Clause("a film about {p} was shown in {t}"),
    Clause("{c} and {d} signed a contract"),
    Clause("nobody from {c} wanted to answer"),
    Clause("the harvest of {y} was a good one"),
    Clause("more on this story tomorrow"),
)
CHINESE = (
    Clause("{s}由{p}创办", ("s founded_by p",)),
    Clause("{p}创办了{c}", ("c founded_by p",)),
    Clause("{c}由{p}和{q}创办", ("c founded_by p", "c founded_by q")),
    Clause("{c}由{p}于{y}年创办", ("c founded_by p", "c founded_in y")),
    Clause("{s}成立于{y}年", ("s founded_in y",)),
    Clause("{c}总部位于{t}", ("c headquartered_in t",)),
    Clause("{c}和{d}总部都位于{t}", ("c headquartered_in t", "d headquartered_in t")),
    Clause("{p}就职于{s}", ("p works_for s",)),
    Clause("{p}和{q}都就职于{s}", ("p works_for s", "q works_for s")),
    Clause("{p}出生于{t}", ("p born_in t",)),
    Clause("{t}是{p}的出生地", ("p born_in t",)),
    Clause("{p}现居{t}", ("p lives_in t",)),
    Clause("{p}出生于{t}，至今住在那里", ("p born_in t", "p lives_in t")),
    Clause("{p}出生于{t}，现居{u}", ("p born_in t", "p lives_in u")),
    Clause("{p}是{q}的母亲", ("p parent_of q",)),
    Clause("{p}是{q}和{r}的父亲", ("p parent_of q", "p parent_of r")),
    Clause("{p}的女儿{q}就职于{c}", ("p parent_of q", "q works_for c")),
    Clause("{p}是{q}的母亲，{q:2}创办了{c}", ("p parent_of q", "c founded_by q:2")),
    Clause("{d}是{c}的子公司", ("d subsidiary_of c",)),
    Clause("{c}旗下有子公司{d}", ("d subsidiary_of c",)),
    Clause("{c}的子公司{d}总部位于{t}", ("d subsidiary_of c", "d headquartered_in t")),
    Clause("{p}作了报告，{p:2}就职于{c}", ("p:2 works_for c",)),
    Clause("{t}下了雨，{p}出生于{t:2}", ("p born_in t:2",)),
)
CHINESE_NOISE = (
    Clause("{p}和{q}一起吃了午饭"),
    Clause("{p}给{c}写了一封信"),
    Clause("{c}新开了一间食堂"),
    Clause("通往{t}的路封了"),
    Clause("{p}在{y}年去过{t}"),
    Clause("{t}放映了关于{p}的电影"),
    Clause("{c}与{d}签了合同"),
    Clause("{c}没有人愿意回答"),
    Clause("{y}年收成很好"),
    Clause("明天继续报道"),
)
FIRST_NAMES = (
    "Mara", "Joren", "Elif", "Tobin", "Ame\u0301lie", "Kofi", "Zoe\u0308", "Ravi", "Ingrid",
    "Dario", "Lena", "Rene\u0301", "Oskar", "Noor", "Petra", "Samir",
)  # fmt: skip
LAST_NAMES = (
    "Telvin", "Mordane", "Kaswick", "Brenmere", "Sorsen", "Dungard", "Harlow", "Linman", "Rosvin",
    "Fendane", "Telmere", "Morsen", "Kasgard", "Brenlow", "Sorman", "Dunwick", "Harvin", "Lindane",
)  # fmt: skip
COMPANIES = (
    "Norvex", "Calidyne", "Asterbex", "Brinlux", "Quancorra", "Zephium", "Oriova", "Lumovex",
    "Tridyne", "Vantbex", "Norlux", "Calicorra", "Asterium", "Brinova", "Quanvex", "Zephdyne",
)  # fmt: skip
COMPANY_KINDS = ("Labs", "Group", "Motors", "Foods", "Systems", "Bank")
TOWN_PREFIXES = ("", "New ", "Port ", "Upper ")
TOWNS = (
    "Belmora", "Torvik", "Galford", "Weshaven", "Narbury", "Corstad", "Ashville", "Pelpool",
    "Holmora", "Dravik", "Belford", "Torhaven", "Galbury", "Westad", "Narville", "Corpool",
)  # fmt: skip
CHINESE_FAMILY = "赵钱孙李周吴郑王冯陈"
CHINESE_GIVEN = ("文子晓志雨嘉思明", "华轩琳远宁涛妍杰")
CHINESE_COMPANIES = ("星远恒瑞蓝天鼎Ｑ", "澜禾泰通创达信业")
CHINESE_KINDS = ("科技", "集团", "汽车", "食品", "银行")
CHINESE_TOWNS = ("沐翎岚樱澄霁砚鸢", "河溪州山港城海原")
EMOJI = ("🚀", "📈", "👩\u200d🔬", "🎓")
YEARS = range(1961, 2024, 3)
FULL_WIDTH_DIGITS = str.maketrans("0123456789", "０１２３４５６７８９")


class Names:
    """The pools of one language; some names are in training, others only in dev and test."""

    def __init__(self, chinese: bool, random: Random) -> None:
        self.chinese = chinese
        if chinese:
            self.persons = split_names(random, product(CHINESE_FAMILY, *CHINESE_GIVEN))
            self.companies = split_names(random, product(*CHINESE_COMPANIES, CHINESE_KINDS))
            self.towns = split_names(random, product(*CHINESE_TOWNS))
        else:
            self.persons = split_names(random, product(FIRST_NAMES, LAST_NAMES), " ")
            self.companies = split_names(random, product(COMPANIES, COMPANY_KINDS), " ")
            self.towns = split_names(random, product(TOWN_PREFIXES, TOWNS))

    def draw(self, slot: str, unseen: bool, random: Random) -> Name:
        """Draw a name for a slot; its first letter is the kind."""
        if slot in "pqr":
            return Name(random.choice(self.persons[unseen]))
        if slot in "tu":
            return Name(random.choice(self.towns[unseen]))
        if slot == "y":
            year = str(random.choice(YEARS))
            full_width = self.chinese and random.random() < 0.2
            return Name(year.translate(FULL_WIDTH_DIGITS) if full_width else year)
        if slot == "s" and random.random() < 0.6:
            town = random.choice(self.towns[unseen])
            if self.chinese:
                return Name(f"{town}大学", (0, len(town)))
            start = len("University of ")
            return Name(f"University of {town}", (start, start + len(town)))
        return self.draw_company(unseen, random)

    def draw_company(self, unseen: bool, random: Random) -> Name:
        """Draw a company; one in ten is a bank named after a town that may not be its seat."""
        if random.random() < 0.1:
            town = random.choice(self.towns[unseen])
            return Name(f"{town}银行" if self.chinese else f"{town} Bank")
        return Name(random.choice(self.companies[unseen]))


@dataclass
class Record:
    """A text that grows piece by piece, with its triples."""

    text: str = ""
    triples: list[dict] = field(default_factory=list)

    def add_name(self, name: Name) -> Span:
        """Add a name and return its span; a name that contains its seat adds a triple."""
        start = len(self.text)
        self.text += name.text
        span = (start, len(self.text))
        if name.seat is not None:
            seat = (start + name.seat[0], start + name.seat[1])
            self.add_triple(span, "headquartered_in", seat)
        return span

    def add_triple(self, subject: Span, predicate: str, object_: Span) -> None:
        """Record a triple."""
        self.triples.append(
            {"subject": list(subject), "predicate": predicate, "object": list(object_)}
        )

    def add_clause(self, clause: Clause, cast: dict[str, Name], plain_comma: bool) -> None:
        """Add a clause; `cast` has the name of each slot."""
        spans: dict[str, Span] = {}
        for words, slot, mention, _ in Formatter().parse(clause.pattern):
            if not any(map(str.isalnum, self.text)) or self.text.endswith(". "):
                words = words[:1].upper() + words[1:]
            self.text += words.replace("，", ",") if plain_comma else words
            if slot is not None:
                spans[f"{slot}:{mention}" if mention else slot] = self.add_name(cast[slot])
        for relation in clause.relations:
            subject, predicate, object_ = relation.split()
            self.add_triple(spans[subject], predicate, spans[object_])


def cast_of(
    clause: Clause, names: Names, known: list[tuple[str, Name]], unseen: float, random: Random
) -> dict[str, Name]:
    """Fill the slots of a clause with different names, sometimes with an earlier one."""
    cast: dict[str, Name] = {}
    for _, slot, _, _ in Formatter().parse(clause.pattern):
        if slot is None or slot in cast:
            continue
        kind = "p" if slot in "pqr" else "t" if slot in "tu" else "y" if slot == "y" else "c"
        before = [name for old, name in known if old == kind and name not in cast.values()]
        while slot not in cast:
            if before and random.random() < 0.25:
                name = random.choice(before)
            else:
                name = names.draw(slot, random.random() < unseen, random)
            if name not in cast.values():
                cast[slot] = name
        known.append((kind, cast[slot]))
    return cast


def make_record(languages: dict[bool, Names], unseen: float, random: Random) -> Record:
    """Make one record: relational clauses and noise, in any order."""
    chinese = random.random() < 0.5
    names = languages[chinese]
    relational, noise = (CHINESE, CHINESE_NOISE) if chinese else (ENGLISH, ENGLISH_NOISE)
    told = random.choices((0, 1, 2), weights=(10, 72, 18))[0]
    spoken = 1 if told == 0 else random.choices((0, 1), weights=(65, 35))[0]
    clauses = [random.choice(relational) for _ in range(told)]
    clauses += [random.choice(noise) for _ in range(spoken)]
    random.shuffle(clauses)
    stops = ("。", "；", "！", "，") if chinese else (". ", "; ", " - ", ", ")
    weights = (70, 15, 5, 10)

    record = Record()
    if random.random() < 0.04:
        record.text = random.choice(EMOJI) + " "
    known: list[tuple[str, Name]] = []
    plain_comma = random.random() < 0.2
    for position, clause in enumerate(clauses):
        if position:
            record.text += random.choices(stops, weights)[0]
        record.add_clause(clause, cast_of(clause, names, known, unseen, random), plain_comma)
    ending = "。" if chinese else "."
    record.text += random.choices((ending, "!" if not chinese else "！", "", "…"), (80, 8, 8, 4))[0]
    return record


def as_json(record: Record, random: Random) -> dict:
    """Give a record its final form; some say which predicates were looked for at all."""
    triples = sorted(record.triples, key=lambda t: (t["subject"], t["object"], t["predicate"]))
    value = {"text": record.text, "triples": triples}
    if random.random() < 0.04:
        looked_for = sorted(random.sample(PREDICATES, 4))
        value["triples"] = [t for t in triples if t["predicate"] in looked_for]
        value["annotated_predicates"] = looked_for
    return value


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)
    languages = two_languages(Names, random)

    def draw(split: str) -> Drawn:
        record = make_record(languages, 0.0 if split == "train" else UNSEEN_SHARE, random)
        return [record.text], lambda _: [as_json(record, random)]

    write_splits(folder, SIZES, draw)
