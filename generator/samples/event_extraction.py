"""The event-extraction sample: invented business, medical and sports news, English and Chinese.

Every text is built from pieces, and the spans are recorded while the names are added, so no name is
ever searched for. The same seed gives the same bytes.
"""

from dataclasses import dataclass, field
from itertools import product, starmap
from pathlib import Path
from random import Random
from string import Formatter

from generator.samples.splits import Drawn, split_names, two_languages, write_splits

SEED = 20
SIZES = {"train": 900, "dev": 150, "test": 150}
UNSEEN_SHARE = 0.15
TYPES = ("acquisition", "appointment", "match", "merger", "result", "treatment")

Span = tuple[int, int]


@dataclass(frozen=True)
class Clause:
    """A sentence pattern: `{p}` is a person, `{v:bought/acquired}` one of these triggers.

    Events are written `type trigger role=slot role=slot`; - means no trigger.
    """

    pattern: str
    events: tuple[str, ...] = ()


# The first letter of a slot is its kind: p q r persons, c d e companies, a b t teams,
# m n amounts, k a post, x y z goals, f a drug, v w triggers.
BUY, NAME, BEAT = "bought/acquired/took over", "appointed/hired/named", "beat/defeated/thrashed"
TREAT = "treated/cured/operated on"
ENGLISH = (
    Clause("{c} {v:" + BUY + "} {d}", ("acquisition v buyer=c target=d",)),
    Clause("{c} {v:" + BUY + "} {d} for {m}", ("acquisition v buyer=c target=d amount=m",)),
    Clause("{d} was {v:bought/acquired} by {c}", ("acquisition v buyer=c target=d",)),
    Clause("{c} and {d} {v:bought/acquired} {e}", ("acquisition v buyer=c buyer=d target=e",)),
    Clause(
        "{c} {v:" + BUY + "} {d} for {m} and {e} for {n}",
        ("acquisition v buyer=c target=d amount=m", "acquisition v buyer=c target=e amount=n"),
    ),
    Clause(
        "{c} {v:bought/acquired} {d}, and {d} {w:bought/acquired} {e}",
        ("acquisition v buyer=c target=d", "acquisition w buyer=d:2 target=e"),
    ),
    Clause("{c} {v:merged/joined forces} with {d}", ("merger v party=c party=d",)),
    Clause("{c}, {d} and {e} {v:merged}", ("merger v party=c party=d party=e",)),
    Clause("{c} {v:" + NAME + "} {p} as {k}", ("appointment v employer=c person=p post=k",)),
    Clause(
        "{p} was {v:appointed/named} {k} of {c}", ("appointment v employer=c person=p post=k",)
    ),
    Clause(
        "{c} and {d} both {v:" + NAME + "} {p} as {k}",
        (
            "appointment v employer=c person=p post=k",
            "appointment v employer=d person=p post=k",
        ),
    ),
    Clause(
        "{c}, which {v:bought/acquired} {d}, {w:" + NAME + "} {p} as {k}",
        ("acquisition v buyer=c target=d", "appointment w employer=c person=p post=k"),
    ),
    Clause("{a} {v:" + BEAT + "} {b}", ("match v winner=a loser=b",)),
    Clause("{a} {v:lost} to {b}", ("match v winner=b loser=a",)),
    Clause(
        "{a} {v:" + BEAT + "} {b} and {w:lost} to {t}",
        ("match v winner=a loser=b", "match w winner=t loser=a"),
    ),
    Clause(
        "{a} {v:beat} and then {w:thrashed} {b}",
        ("match v winner=a loser=b", "match w winner=a loser=b"),
    ),
    Clause("{a} {x} - {y} {b}", ("result - home=a home_goals=x guest=b guest_goals=y",)),
    Clause(
        "{a} {x} - {y} {b}, after extra time",
        ("result - home=a home_goals=x guest=b guest_goals=y",),
    ),
    Clause("Dr {p} {v:" + TREAT + "} {q}", ("treatment v doctor=p patient=q",)),
    Clause(
        "Dr {p} {v:treated/cured} {q} with {f}", ("treatment v doctor=p patient=q drug=f",)
    ),
    Clause(
        "Dr {p} and Dr {q} {v:" + TREAT + "} {r}", ("treatment v doctor=p doctor=q patient=r",)
    ),
    Clause(
        "Dr {p} {v:treated/cured} herself with {f}", ("treatment v doctor=p patient=p drug=f",)
    ),
)  # fmt: skip
ENGLISH_NOISE = (
    Clause("{c} opened a new canteen"),
    Clause("{p} bought nothing and went home"),
    Clause("nobody from {c} wanted to answer"),
    Clause("{p} wrote a letter to {c}"),
    Clause("{a} will play {b} in spring"),
    Clause("{c} had hired nobody for {m}"),
    Clause("Dr {p} gave a talk about {f}"),
    Clause("the {k} of {c} was not there"),
    Clause("tickets cost {x} at {a}"),
    Clause("more on this story tomorrow"),
)
BUY, NAME, BEAT, TREAT = (
    "收购了/买下了/并购了",
    "任命/聘请",
    "击败/战胜/大胜",
    "治疗了/治好了/救治了",
)
CHINESE = (
    Clause("{c}{v:" + BUY + "}{d}", ("acquisition v buyer=c target=d",)),
    Clause("{c}以{m}{v:" + BUY + "}{d}", ("acquisition v buyer=c target=d amount=m",)),
    Clause("{d}被{c}{v:收购/并购}", ("acquisition v buyer=c target=d",)),
    Clause("{c}和{d}联手{v:" + BUY + "}{e}", ("acquisition v buyer=c buyer=d target=e",)),
    Clause(
        "{c}分别以{m}和{n}{v:收购了/买下了}{d}、{e}",
        ("acquisition v buyer=c target=d amount=m", "acquisition v buyer=c target=e amount=n"),
    ),
    Clause("{c}与{d}{v:合并}", ("merger v party=c party=d",)),
    Clause("{c}、{d}和{e}{v:合并}", ("merger v party=c party=d party=e",)),
    Clause("{c}{v:" + NAME + "}{p}为{k}", ("appointment v employer=c person=p post=k",)),
    Clause("{p}被{c}{v:" + NAME + "}为{k}", ("appointment v employer=c person=p post=k",)),
    Clause(
        "{c}和{d}都{v:" + NAME + "}{p}为{k}",
        (
            "appointment v employer=c person=p post=k",
            "appointment v employer=d person=p post=k",
        ),
    ),
    Clause(
        "{c}{v:收购了/买下了}{d}，并{w:" + NAME + "}{p}为{k}",
        ("acquisition v buyer=c target=d", "appointment w employer=c person=p post=k"),
    ),
    Clause("{a}{v:" + BEAT + "}{b}", ("match v winner=a loser=b",)),
    Clause("{a}{v:负于/不敌}{b}", ("match v winner=b loser=a",)),
    Clause(
        "{a}{v:" + BEAT + "}{b}，又{w:负于/不敌}{t}",
        ("match v winner=a loser=b", "match w winner=t loser=a"),
    ),
    Clause(
        "{a}先{v:击败}后{w:大胜}{b}", ("match v winner=a loser=b", "match w winner=a loser=b")
    ),
    Clause("{a}{x}比{y}{b}", ("result - home=a home_goals=x guest=b guest_goals=y",)),
    Clause("{p}医生{v:" + TREAT + "}{q}", ("treatment v doctor=p patient=q",)),
    Clause(
        "{p}医生用{f}{v:治疗了/治好了}{q}", ("treatment v doctor=p patient=q drug=f",)
    ),
    Clause(
        "{p}医生和{q}医生{v:" + TREAT + "}{r}", ("treatment v doctor=p doctor=q patient=r",)
    ),
    Clause(
        "{p}医生用{f}{v:治疗了/治好了}自己", ("treatment v doctor=p patient=p drug=f",)
    ),
)  # fmt: skip
CHINESE_NOISE = (
    Clause("{c}新开了一间食堂"),
    Clause("{p}什么也没买就回家了"),
    Clause("{c}没有人愿意回答"),
    Clause("{p}给{c}写了一封信"),
    Clause("{a}将在春天对阵{b}"),
    Clause("{c}去年花了{m}"),
    Clause("{p}医生作了关于{f}的报告"),
    Clause("{c}的{k}没有到场"),
    Clause("明天继续报道"),
)
FIRST_NAMES = (
    "Anouk", "Bastian", "Chidi", "Dunja", "Emre", "Fe\u0301lix", "Greta", "Hana", "Ilja", "Jonna",
    "Kaito", "Liv", "Milo", "Nadia", "Ove", "Pilar",
)  # fmt: skip
LAST_NAMES = (
    "Abernell", "Bostrand", "Cavello", "Drummel", "Estrow", "Fennick", "Garrowby", "Holvast",
    "Iverdale", "Jessamin", "Kolbrook", "Lanvery", "Marchwood", "Norrell", "Oakenby", "Pellow",
)  # fmt: skip
COMPANIES = (
    "Aldemar", "Bexley", "Corvanta", "Delphine", "Eltron", "Fairmoor", "Gravion", "Helixa",
    "Ionara", "Juntar", "Kestrel", "Lumenor", "Mirador", "Novapex", "Orbisol", "Primavo",
)  # fmt: skip
COMPANY_KINDS = ("Holdings", "Robotics", "Airlines", "Pharma", "Textiles", "Energy")
TOWNS = (
    "Ambry", "Brackwell", "Crendon", "Dunmarsh", "Elverton", "Farholt", "Grimsley", "Hexborough",
    "Inverlow", "Kelmouth", "Lowdale", "Millrow", "Nethercombe", "Oxhaven", "Penbrook", "Quarley",
)  # fmt: skip
TEAM_KINDS = ("Rovers", "United", "Wanderers", "Athletic")
DRUGS = (
    ("Nor", "Zel", "Pra", "Tri", "Oxa", "Vel"),
    ("va", "do", "mi", "pe"),
    ("xin", "tol", "lan"),
)
POSTS = ("chief executive", "finance director", "chairwoman", "head of sales", "chief engineer")
CHINESE_FAMILY = "林何高梁宋郑谢韩唐冯"
CHINESE_GIVEN = ("安博楚丹芳国海佳", "柏川迪峰歌航瑾凯")
CHINESE_COMPANIES = ("安博晨东飞广宏金", "邦诚达丰冠豪健凯")
CHINESE_KINDS = ("控股", "航空", "制药", "能源", "纺织")
CHINESE_TOWNS = ("碧苍丹枫谷寒锦兰", "湖岭湾屿峡滩津浦")
CHINESE_DRUGS = ("诺泽普曲奥维", "伐多米培", "辛妥兰")
CHINESE_POSTS = ("总经理", "财务总监", "董事长", "销售主管", "总工程师")
EMOJI = ("⚽ ", "🏥 ", "📰 ", "👩\u200d⚕️ ")


class Names:
    """The pools of one language; some names are in training, others only in dev and test."""

    def __init__(self, chinese: bool, random: Random) -> None:
        self.chinese = chinese
        self.posts = CHINESE_POSTS if chinese else POSTS
        if chinese:
            parts = {
                "p": (product(CHINESE_FAMILY, *CHINESE_GIVEN), "{}{}{}"),
                "c": (product(*CHINESE_COMPANIES, CHINESE_KINDS), "{}{}{}"),
                "a": (product(*CHINESE_TOWNS), "{}{}队"),
                "f": (product(*CHINESE_DRUGS), "{}{}{}片"),
            }
        else:
            parts = {
                "p": (product(FIRST_NAMES, LAST_NAMES), "{} {}"),
                "c": (product(COMPANIES, COMPANY_KINDS), "{} {}"),
                "a": (product(TOWNS, TEAM_KINDS), "{} {}"),
                "f": (product(*DRUGS), "{}{}{}"),
            }
        self.pools = {
            kind: split_names(random, starmap(pattern.format, combinations))
            for kind, (combinations, pattern) in parts.items()
        }

    def draw(self, kind: str, unseen: bool, random: Random) -> str:
        """Draw the words for a slot of one kind."""
        if kind == "k":
            return random.choice(self.posts)
        if kind == "x":
            return str(random.randrange(10))
        if kind == "m":
            amount = random.randrange(2, 999)
            return f"{amount}万元" if self.chinese else f"{amount} million dollars"
        return random.choice(self.pools[kind][unseen])


def kind_of(slot: str) -> str:
    """Return the first slot of a kind, because all slots of a kind are filled alike."""
    return next(kinds[0] for kinds in ("pqr", "cde", "abt", "mn", "k", "xyz", "f") if slot in kinds)


@dataclass
class Record:
    """A text that grows piece by piece, with its events."""

    text: str = ""
    events: list[dict] = field(default_factory=list)

    def add_words(self, words: str) -> Span:
        """Add some words and return their span."""
        start = len(self.text)
        self.text += words
        return start, len(self.text)

    def add_clause(self, clause: Clause, cast: dict[str, str], random: Random) -> None:
        """Add a clause; `cast` has the words of each slot."""
        spans: dict[str, Span] = {}
        for words, slot, triggers, _ in Formatter().parse(clause.pattern):
            if words and (not any(map(str.isalnum, self.text)) or self.text.endswith(". ")):
                words = words[0].upper() + words[1:]
            self.text += words
            if slot is not None:
                filled = random.choice(triggers.split("/")) if triggers else cast[slot]
                name = f"{slot}:2" if slot in spans else slot
                spans[name] = self.add_words(filled)
        for event in clause.events:
            kind, trigger, *arguments = event.split()
            pairs = [argument.split("=") for argument in arguments]
            self.events.append(
                {
                    "type": kind,
                    "trigger": None if trigger == "-" else list(spans[trigger]),
                    "arguments": [{"role": r, "span": list(spans[slot])} for r, slot in pairs],
                }
            )


def cast_of(
    clause: Clause, names: Names, known: list[tuple[str, str]], unseen: float, random: Random
) -> dict[str, str]:
    """Fill the slots of a clause with different names, sometimes with an earlier one."""
    cast: dict[str, str] = {}
    for _, slot, triggers, _ in Formatter().parse(clause.pattern):
        if slot is None or triggers or slot in cast:
            continue
        kind = kind_of(slot)
        before = [name for old, name in known if old == kind and name not in cast.values()]
        while slot not in cast:
            if before and kind in "pca" and random.random() < 0.25:
                name = random.choice(before)
            else:
                name = names.draw(kind, random.random() < unseen, random)
            if name not in cast.values() or kind == "x":
                cast[slot] = name
        known.append((kind, cast[slot]))
    return cast


def make_record(languages: dict[bool, Names], unseen: float, random: Random) -> Record:
    """Make one record: clauses with and without events, in any order."""
    chinese = random.random() < 0.5
    names = languages[chinese]
    telling, noise = (CHINESE, CHINESE_NOISE) if chinese else (ENGLISH, ENGLISH_NOISE)
    told = random.choices((0, 1, 2), weights=(8, 62, 30))[0]
    spoken = 1 if told == 0 else random.choices((0, 1), weights=(70, 30))[0]
    clauses = [random.choice(telling) for _ in range(told)]
    clauses += [random.choice(noise) for _ in range(spoken)]
    random.shuffle(clauses)
    stops = ("。", "；", "！") if chinese else (". ", "; ", " - ")

    record = Record()
    if random.random() < 0.04:
        record.text = random.choice(EMOJI)
    known: list[tuple[str, str]] = []
    for position, clause in enumerate(clauses):
        if position:
            record.text += random.choices(stops, (75, 18, 7))[0]
        record.add_clause(clause, cast_of(clause, names, known, unseen, random), random)
    record.text += random.choices(("。", "！", "") if chinese else (".", "!", ""), (84, 8, 8))[0]
    return record


def as_json(record: Record) -> dict:
    """Give a record its final form."""
    for event in record.events:
        event["arguments"].sort(key=lambda argument: (argument["span"], argument["role"]))
    return {"text": record.text, "events": record.events}


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)
    languages = two_languages(Names, random)

    def draw(split: str) -> Drawn:
        record = make_record(languages, 0.0 if split == "train" else UNSEEN_SHARE, random)
        return [record.text], lambda _: [as_json(record)]

    write_splits(folder, SIZES, draw)
