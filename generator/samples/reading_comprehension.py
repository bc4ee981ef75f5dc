"""The reading-comprehension sample: questions about invented companies and bridges.

Every passage is built from pieces, and the answers are recorded while they are added, so no answer
is ever searched for. The same seed gives the same bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from string import Formatter
from typing import Any

from generator.samples.splits import Drawn, split_names, two_languages, write_splits

SEED = 20
SIZES = {"train": 1400, "dev": 110, "test": 110}
UNSEEN_SHARE = 0.25
UNANSWERABLE_SHARE = 0.1
# Passages about two companies or two bridges: only the name decides which answer is right.
SAME_KIND_SHARE = 0.03

Span = tuple[int, int]


@dataclass(frozen=True)
class Kind:
    """A kind of subject: its clauses and its questions.

    A slot of a clause names its kind and the relation it answers: `{p:founder}` is a person, the
    founder of the subject `{s}`. Each relation has its questions.
    """

    noun: str
    pronoun: str
    clauses: tuple[str, ...]
    questions: dict[str, tuple[str, ...]]


ENGLISH = {
    "company": Kind(
        "the company",
        "it",
        (
            "{s} was founded by {p:founder}",
            "{s} was founded in {y:founding}",
            "{s} was founded by {p:founder}, and its headquarters are in {t:seat}",
            "{s} has its headquarters in {t:seat}",
            "{s} employs {n:staff} people",
            "{s} sells {g:goods}",
            "{s} was founded in {y:founding} and sells {g:goods}",
        ),
        {
            "founder": ("Who founded {s}?", "By whom was {s} founded?"),
            "founding": ("When was {s} founded?", "In which year was {s} founded?"),
            "seat": ("Where are the headquarters of {s}?", "Where does {s} have its headquarters?"),
            "staff": ("How many people does {s} employ?", "How many people are employed by {s}?"),
            "goods": ("Which goods does {s} sell?", "What goods does {s} sell?"),
        },
    ),
    "bridge": Kind(
        "the bridge",
        "it",
        (
            "{s} crosses the {r:river}",
            "{s} crosses the {r:river} and is built of {m:material}",
            "{s} is built of {m:material}",
            "{s} was opened on {d:opening}",
            "{s} is known for its {a:animals}",
            "{s} is known for its {a:animals} and was opened on {d:opening}",
        ),
        {
            "river": ("Which river does {s} cross?", "What river does {s} cross?"),
            "material": ("Which material is {s} built of?", "Of which material is {s} built?"),
            "opening": ("When was {s} opened?", "On which day was {s} opened?"),
            "animals": ("Which animals is {s} known for?", "For which animals is {s} known?"),
        },
    ),
}
CHINESE = {
    "company": Kind(
        "该公司",
        "它",
        (
            "{s}的创办人是{p:founder}",
            "{s}创办于{y:founding}",
            "{s}的创办人是{p:founder}，总部位于{t:seat}",
            "{s}总部位于{t:seat}",
            "{s}的员工有{n:staff}名",
            "{s}主要销售{g:goods}",
            "{s}创办于{y:founding}，主要销售{g:goods}",
        ),
        {
            "founder": ("{s}的创办人是谁？", "谁创办了{s}？"),
            "founding": ("{s}创办于哪一年？", "{s}是什么时候创办的？"),
            "seat": ("{s}总部位于哪里？", "{s}的总部在哪座城市？"),
            "staff": ("{s}有多少名员工？", "{s}的员工有多少名？"),
            "goods": ("{s}主要销售什么？", "{s}销售什么商品？"),
        },
    ),
    "bridge": Kind(
        "这座桥",
        "它",
        (
            "{s}横跨{r:river}",
            "{s}横跨{r:river}，建筑材料是{m:material}",
            "{s}的建筑材料是{m:material}",
            "{s}通车于{d:opening}",
            "{s}闻名于{a:animals}",
            "{s}闻名于{a:animals}，通车于{d:opening}",
        ),
        {
            "river": ("{s}横跨哪条河？", "{s}横跨什么河？"),
            "material": ("{s}的建筑材料是什么？", "{s}用什么材料建筑？"),
            "opening": ("{s}通车于哪一天？", "{s}是哪一天通车的？"),
            "animals": ("{s}闻名于什么？", "{s}闻名于什么动物？"),
        },
    ),
}
ENGLISH_NOISE = (
    "the road to {t} was closed for a week",
    "a long letter about it was never found",
    "nobody knows why the old mill is green",
    "a newspaper reported on it with a map",
    "this year the harvest was a good one",
    "one day it rained from morning to night",
    "some {n} visitors came in summer",
    "more on this story can be read tomorrow",
    "the old station is a library now",
    "last winter the heating failed again",
    "children like to fly kites here",
    "there is a market every Thursday",
)
CHINESE_NOISE = (
    "通往{t}的公路封了一个星期",
    "有人为此写过一封长信",
    "没有人知道老磨坊为什么是绿色的",
    "一家报纸登了一张地图",
    "今年的收成很好",
    "有一天从早到晚都在下雨",
    "夏天来了大约{n}位游客",
    "明天继续报道",
    "老车站现在改成了图书馆",
    "去年冬天暖气又坏了",
    "孩子们喜欢在这里放风筝",
    "每逢星期四有集市",
)
FIRST_NAMES = (
    "Mara", "Joren", "Elif", "Tobin", "Ame\u0301lie", "Kofi", "Zoe\u0308", "Ravi", "Ingrid",
    "Dario", "Lena", "Rene\u0301", "Oskar", "Noor", "Petra", "Samir",
)  # fmt: skip
LAST_NAMES = (
    "Telvin", "Mordane", "Kaswick", "Brenmere", "Sorsen", "Dungard", "Harlow", "Linman", "Rosvin",
    "Fendane", "Telmere", "Morsen", "Kasgard", "Brenlow", "Sorman", "Dunwick",
)  # fmt: skip
TOWN_PARTS = (
    ("Bel", "Tor", "Gal", "Wes", "Nar", "Cor", "Ash", "Pel", "Hol", "Dra"),
    ("mora", "vik", "ford", "haven", "bury", "stad", "ville", "pool"),
)
COMPANY_PARTS = (
    ("Nor", "Cali", "Aster", "Brin", "Quan", "Zeph", "Orio", "Lumo"),
    ("vex", "dyne", "bex", "lux", "corra", "ium"),
    (" Labs", " Group", " Motors", " Foods"),
)
GOODS = (
    ("fresh", "cheap", "used", "small", "heavy", "painted"),
    (" bicycles", " clocks", " lamps", " boots", " pumps", " toys"),
)
BRIDGE_PARTS = (
    ("Lantern", "Harvest", "Winter", "Moon", "Apple", "Kite", "Storm", "Copper"),
    (" Gate", " Hill", " Lane", " Mill", " Park", " Row"),
)
RIVERS = (("Al", "Ver", "Os", "Ti", "Lo", "Em"), ("der", "na", "sel", "rin", "men"))
MATERIALS = (("red", "grey", "white", "old"), (" bricks", " granite", " oak", " iron", " marble"))
ANIMALS = (("wild", "noisy", "rare", "black"), (" herons", " bats", " otters", " geese", " owls"))
NUMBERS = (
    ("", "two hundred and ", "six hundred and ", "nine hundred and "),
    ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
)
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
CHINESE_PARTS = {
    "p": ("赵钱孙李周吴郑王冯陈", "文子晓志雨嘉思明", "华轩琳远宁涛妍杰"),
    "t": ("沐翎岚樱澄霁砚鸢", "河溪州山港城海原", "市"),
    "g": ("新式", "旧", "轻便", "手工"),
    "r": ("青白玉黑金碧", "龙鹿鹤石柳", ("江", "河")),
    "bridge": ("彩长望飞安永", "虹云月仙平济", ("大桥", "石桥")),
    "company": (
        ("星远", "恒瑞", "蓝天", "鼎Ｑ", "澜禾", "泰通"),
        "创达信业",
        ("科技", "集团", "食品"),
    ),
}
CHINESE_GOODS = ("自行车", "钟表", "台灯", "皮靴", "水泵", "玩具")
CHINESE_MATERIALS = ("砖", "花岗岩", "橡木", "铁", "大理石")
CHINESE_ANIMALS = ("苍鹭", "蝙蝠", "水獭", "大雁", "猫头鹰")
CHINESE_NUMBERS = (("", "二百", "六百", "九百"), ("二十", "三十", "五十", "七十", "八十", "九十"))
EMOJI = ("🌉", "📈", "👩\u200d🔧", "🦉")


class Names:
    """The pools of one language; some names are in training, others only in dev and test."""

    def __init__(self, chinese: bool, random: Random) -> None:
        self.chinese = chinese
        parts: dict[str, Any]
        if chinese:
            parts = {
                **CHINESE_PARTS,
                "g": (CHINESE_PARTS["g"], CHINESE_GOODS),
                "m": ("红灰白老", CHINESE_MATERIALS),
                "a": (("野生", "吵闹的", "稀有的", "黑色"), CHINESE_ANIMALS),
                "n": CHINESE_NUMBERS,
            }
        else:
            parts = {
                "p": (FIRST_NAMES, tuple(f" {name}" for name in LAST_NAMES)),
                "t": (("", "New ", "Port "), *TOWN_PARTS),
                "g": GOODS,
                "r": RIVERS,
                "m": MATERIALS,
                "a": ANIMALS,
                "n": NUMBERS,
                "bridge": (("the ",), *BRIDGE_PARTS, (" Bridge",)),
                "company": COMPANY_PARTS,
            }
        self.pools = {name: split_names(random, product(*part)) for name, part in parts.items()}

    def draw(self, slot: str, unseen: bool, random: Random) -> str:
        """Draw the words for a slot, or the name of a subject."""
        year, day = random.randrange(1840, 2024), random.randrange(1, 29)
        if slot == "y":
            return f"{year}年" if self.chinese else str(year)
        if slot == "d":
            month = random.randrange(12)
            if self.chinese:
                return f"{month + 1}月{day}日"
            return f"{day} {MONTHS[month]}"
        return random.choice(self.pools[slot][unseen])


@dataclass
class Subject:
    """A subject of a passage, and the spans of the answers about it."""

    kind: Kind
    name: str
    answers: dict[str, Span] = field(default_factory=dict)


@dataclass
class Passage:
    """A text that grows sentence by sentence."""

    chinese: bool
    text: str = ""
    used: dict[str, list[str]] = field(default_factory=dict)
    subjects: list[Subject] = field(default_factory=list)

    def add_sentence(
        self,
        pattern: str,
        subject: Subject | None,
        mention: str,
        draw: Callable[[str], str],
        random: Random,
    ) -> None:
        """Add a sentence and record its answers.

        Args:
            pattern: a clause of the subject, or noise.
            subject: the subject `{s}`.
            mention: its words in this sentence.
            draw: fills a slot.
            random: decides whether earlier words are repeated.
        """
        start = len(self.text)
        for words, slot, relation, _ in Formatter().parse(pattern):
            self.text += words
            if slot == "s":
                self.text += mention
            elif slot is not None:
                before = self.used.setdefault(slot, [])
                again = before and random.random() < 0.5
                value = random.choice(before) if again else draw(slot)
                before.append(value)
                place = (len(self.text), len(self.text) + len(value))
                if relation and subject:
                    subject.answers[relation] = place
                self.text += value
        if not self.chinese:
            self.text = self.text[:start] + self.text[start].upper() + self.text[start + 1 :]
        self.text += "。" if self.chinese else ". "


def make_passage(languages: dict[bool, Names], unseen: float, random: Random) -> Passage:
    """Make a passage: two or three subjects in turn, and noise between them."""
    chinese = random.random() < 0.45
    names, kinds = languages[chinese], CHINESE if chinese else ENGLISH
    noise = CHINESE_NOISE if chinese else ENGLISH_NOISE

    def draw(slot: str) -> str:
        return names.draw(slot, random.random() < unseen, random)

    passage = Passage(chinese)
    if random.random() < 0.08:
        passage.text = random.choice(EMOJI) + " "
    chosen = random.sample(sorted(kinds), 2)
    if random.random() < SAME_KIND_SHARE:
        chosen[1] = chosen[0]
    for position, key in enumerate(chosen):
        subject = Subject(kinds[key], draw(key))
        while any(other.name == subject.name for other in passage.subjects):
            subject.name = draw(key)
        passage.subjects.append(subject)
        told: set[str] = set()
        for pattern in random.sample(subject.kind.clauses, len(subject.kind.clauses)):
            relations = {spec for _, slot, spec, _ in Formatter().parse(pattern) if spec}
            if relations & told or len(told) >= 3:
                continue
            mentions = (subject.kind.pronoun, subject.kind.noun, subject.name)
            mention = random.choice(mentions) if told else subject.name
            passage.add_sentence(pattern, subject, mention, draw, random)
            told |= relations
        for _ in range(1 if position == 0 else random.randrange(1, 3)):
            passage.add_sentence(random.choice(noise), None, "", draw, random)
    passage.text = passage.text.rstrip()
    return passage


def ask(passage: Passage, count: int, random: Random) -> list[tuple[str, Span | None]]:
    """Return questions with their answers; None: not answered by the passage."""
    asked: dict[str, Span | None] = {}
    while len(asked) < count:
        subject = random.choice(passage.subjects)
        answerable = random.random() >= UNANSWERABLE_SHARE
        relations = [
            name for name in subject.kind.questions if (name in subject.answers) == answerable
        ]
        if not relations:  # the passage answers everything, so no question is unanswerable
            continue
        relation = random.choice(relations)
        question = random.choice(subject.kind.questions[relation]).format(s=subject.name)
        asked[question] = subject.answers.get(relation)
    return list(asked.items())


def questions(passage: Passage, most: int, random: Random) -> list[dict]:
    """Return one or two questions about a passage as records, at most so many."""
    return [
        {
            "question": question,
            "context": passage.text,
            "answers": [] if answer is None else [list(answer)],
        }
        for question, answer in ask(passage, min(random.choice((1, 2)), most), random)
    ]


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)
    languages = two_languages(Names, random)

    def draw(split: str) -> Drawn:
        passage = make_passage(languages, 0.0 if split == "train" else UNSEEN_SHARE, random)
        return [passage.text], lambda most: questions(passage, most, random)

    write_splits(folder, SIZES, draw)
