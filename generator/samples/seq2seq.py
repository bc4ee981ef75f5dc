"""The seq2seq sample: made-up notices in English and Chinese, written from a few fields.

A source lists fields in any order, and a target expresses them in a sentence. Some fields may be
missing, which changes the sentence. A few can be expressed in two ways, and both are targets. Dev
and test have names that are not in training, made of parts that are, so the model must copy them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

from generator.samples.splits import Drawn, split_names, two_languages, write_splits

SEED = 20240917
SIZES = {"train": 900, "dev": 150, "test": 150}
UNSEEN_SHARE = 0.5

Fields = dict[str, str]

FIRST = (
    "Bel", "Tor", "Gal", "Wes", "Nar", "Cor", "Ash", "Pel", "Hol", "Dra", "Mor", "Lin", "Fer",
    "Sun", "Kel", "Ost", "Var", "Win", "Yar", "Zel",
)  # fmt: skip
LAST = (
    "mora", "vik", "ford", "haven", "bury", "stad", "ville", "pool", "mere", "wick", "dale", "by",
    "ton", "gate", "field", "port", "ness", "holm", "bridge", "well",
)  # fmt: skip
GIVEN = (
    "Mara", "Joren", "Elif", "Tobin", "Ame\u0301lie", "Kofi", "Zoe\u0308", "Ravi", "Ingrid",
    "Dario", "Lena", "Rene\u0301", "Oskar", "Noor", "Petra", "Samir",
)  # fmt: skip
FAMILY = ("Tel", "Kas", "Bren", "Sor", "Dun", "Har", "Ros", "Fen")
FAMILY_END = ("vin", "gard", "low", "man", "dane", "sen", "mond", "ley")
JOBS = ("baker", "nurse", "pilot", "teacher", "painter", "farmer", "lawyer", "singer")
SHOWS = ("concert", "film", "play", "lecture", "market", "match", "fair", "ball")
PLATFORMS = "ABCDEFGH"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SKIES = {
    "sunny": ("the sun will shine", "☀️"),
    "rain": ("it will rain", "🌧️"),
    "snow": ("it will snow", "❄️"),
    "storm": ("there will be storms", "⛈️"),
    "fog": ("there will be fog", "🌫️"),
}

CHINESE_TOWN = ("沐翎岚樱澄霁砚鸢清云金玉", "河溪州山港城海原湖谷桥岭")
CHINESE_FAMILY = "赵钱孙李周吴郑王冯陈"
CHINESE_GIVEN = ("文子晓志雨嘉思明", "华轩琳远宁涛妍杰")
CHINESE_JOBS = ("面包师", "护士", "飞行员", "教师", "画家", "农民", "律师", "歌手")
CHINESE_SHOWS = ("音乐会", "电影", "话剧", "讲座", "集市", "球赛", "展会", "舞会")
CHINESE_DAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")
CHINESE_SKIES = {
    "晴": ("阳光明媚", "☀️"),
    "雨": ("有雨", "🌧️"),
    "雪": ("有雪", "❄️"),
    "雷暴": ("有雷暴", "⛈️"),
    "雾": ("有雾", "🌫️"),
}


@dataclass(frozen=True)
class Kind:
    """A kind of notice: its name, its fields, and its sentences.

    `write` returns all sentences that express the fields.
    """

    name: str
    draw: Callable[["Names", bool, Random], Fields]
    write: Callable[[Fields], list[str]]


class Names:
    """Names of one language; some are in training, others only in dev and test."""

    def __init__(self, chinese: bool, random: Random) -> None:
        if chinese:
            self.towns = split_names(random, product(*CHINESE_TOWN))
            self.persons = split_names(random, product(CHINESE_FAMILY, *CHINESE_GIVEN))
        else:
            self.towns = split_names(random, product(FIRST, LAST))
            families = ["".join(parts) for parts in product(FAMILY, FAMILY_END)]
            self.persons = split_names(random, product(GIVEN, families), " ")

    def town(self, unseen: bool, random: Random) -> str:
        """Draw a town."""
        return random.choice(self.towns[unseen])

    def person(self, unseen: bool, random: Random) -> str:
        """Draw a person."""
        return random.choice(self.persons[unseen])


def draw_time(random: Random) -> str:
    """Draw a time of the day."""
    return f"{random.randint(6, 22)}:{random.randrange(0, 60, 5):02}"


def sometimes(fields: Fields, name: str, value: str, random: Random) -> None:
    """Add a field, or leave it out."""
    if random.random() < 0.6:
        fields[name] = value


def draw_train(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a train."""
    fields = {"to": names.town(unseen, random), "time": draw_time(random)}
    sometimes(fields, "platform", random.choice(PLATFORMS), random)
    sometimes(fields, "days", random.choice(("daily", "weekdays", "weekends")), random)
    return fields


def write_train(fields: Fields) -> list[str]:
    """Say when a train leaves."""
    text = f"The train to {fields['to']} leaves at {fields['time']}"
    if "platform" in fields:
        text += f" from platform {fields['platform']}"
    if "days" in fields:
        text += {"daily": " every day", "weekdays": " on weekdays", "weekends": " on weekends"}[
            fields["days"]
        ]
    return [f"{text}."]


def draw_show(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a show."""
    fields = {
        "what": random.choice(SHOWS),
        "town": names.town(unseen, random),
        "day": random.choice(DAYS),
    }
    sometimes(fields, "time", draw_time(random), random)
    sometimes(fields, "host", names.person(unseen, random), random)
    sometimes(fields, "price", str(random.choice((0, random.randint(2, 60)))), random)
    return fields


def write_show(fields: Fields) -> list[str]:
    """Invite to a show; what costs nothing may be said in two ways."""
    text = f"The {fields['what']} in {fields['town']} is on {fields['day']}"
    if "time" in fields:
        text += f" at {fields['time']}"
    if "host" in fields:
        text += f", hosted by {fields['host']}"
    if fields.get("price") == "0":
        return [f"{text}. Entry is free.", f"{text}. Entry costs nothing."]
    return [f"{text}. Entry costs {fields['price']} euros." if "price" in fields else f"{text}."]


def draw_person(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a person."""
    fields = {"name": names.person(unseen, random), "job": random.choice(JOBS)}
    sometimes(fields, "home", names.town(unseen, random), random)
    sometimes(fields, "born", str(random.randint(1950, 2005)), random)
    return fields


def write_person(fields: Fields) -> list[str]:
    """Introduce a person."""
    text = f"{fields['name']} is a {fields['job']}"
    if "home" in fields:
        text += f" from {fields['home']}"
    if "born" in fields:
        text += f" and was born in {fields['born']}"
    return [f"{text}."]


def draw_weather(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a forecast."""
    fields = {
        "town": names.town(unseen, random),
        "sky": random.choice(list(SKIES)),
        "day": random.choice(DAYS),
    }
    sometimes(fields, "degrees", str(random.randint(-9, 35)), random)
    return fields


def write_weather(fields: Fields) -> list[str]:
    """Forecast the weather."""
    words, sign = SKIES[fields["sky"]]
    text = f"On {fields['day']} {words} in {fields['town']}"
    if "degrees" in fields:
        text += f", at {fields['degrees']} degrees"
    return [f"{text}. {sign}"]


def chinese_train(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a train."""
    fields = {"终点": names.town(unseen, random), "时间": draw_time(random)}
    sometimes(fields, "站台", random.choice(PLATFORMS), random)
    sometimes(fields, "班次", random.choice(("每天", "工作日", "周末")), random)
    return fields


def write_chinese_train(fields: Fields) -> list[str]:
    """Say when a train leaves."""
    text = f"开往{fields['终点']}的列车"
    if "班次" in fields:
        text += f"{fields['班次']}运行，"
    text += f"{fields['时间']}发车"
    return [f"{text}，在{fields['站台']}站台。" if "站台" in fields else f"{text}。"]


def chinese_show(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a show."""
    fields = {
        "活动": random.choice(CHINESE_SHOWS),
        "地点": names.town(unseen, random),
        "日期": random.choice(CHINESE_DAYS),
    }
    sometimes(fields, "时间", draw_time(random), random)
    sometimes(fields, "主持", names.person(unseen, random), random)
    sometimes(fields, "票价", str(random.choice((0, random.randint(2, 60)))), random)
    return fields


def write_chinese_show(fields: Fields) -> list[str]:
    """Invite to a show; what costs nothing may be said in two ways."""
    text = f"{fields['日期']}{fields.get('时间', '')}在{fields['地点']}举行{fields['活动']}"
    if "主持" in fields:
        text += f"，由{fields['主持']}主持"
    if fields.get("票价") == "0":
        return [f"{text}，免费入场。", f"{text}，无需门票。"]
    return [f"{text}，票价{fields['票价']}元。" if "票价" in fields else f"{text}。"]


def chinese_person(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a person."""
    fields = {"姓名": names.person(unseen, random), "职业": random.choice(CHINESE_JOBS)}
    sometimes(fields, "家乡", names.town(unseen, random), random)
    sometimes(fields, "出生", str(random.randint(1950, 2005)), random)
    return fields


def write_chinese_person(fields: Fields) -> list[str]:
    """Introduce a person."""
    text = f"{fields['姓名']}是"
    if "家乡" in fields:
        text += f"来自{fields['家乡']}的"
    text += fields["职业"]
    return [f"{text}，出生于{fields['出生']}年。" if "出生" in fields else f"{text}。"]


def chinese_weather(names: Names, unseen: bool, random: Random) -> Fields:
    """Draw the fields of a forecast."""
    fields = {
        "城市": names.town(unseen, random),
        "天气": random.choice(list(CHINESE_SKIES)),
        "日期": random.choice(CHINESE_DAYS),
    }
    sometimes(fields, "气温", str(random.randint(-9, 35)), random)
    return fields


def write_chinese_weather(fields: Fields) -> list[str]:
    """Forecast the weather."""
    words, sign = CHINESE_SKIES[fields["天气"]]
    text = f"{fields['日期']}{fields['城市']}{words}"
    return [f"{text}，气温{fields['气温']}度。{sign}" if "气温" in fields else f"{text}。{sign}"]


KINDS = {
    False: (
        Kind("train", draw_train, write_train),
        Kind("show", draw_show, write_show),
        Kind("person", draw_person, write_person),
        Kind("weather", draw_weather, write_weather),
    ),
    True: (
        Kind("列车", chinese_train, write_chinese_train),
        Kind("活动", chinese_show, write_chinese_show),
        Kind("人物", chinese_person, write_chinese_person),
        Kind("天气", chinese_weather, write_chinese_weather),
    ),
}


def make_record(languages: dict[bool, Names], unseen: bool, random: Random) -> dict:
    """Make one record: fields in any order, and the sentences that express them."""
    chinese = random.random() < 0.5
    kind = random.choice(KINDS[chinese])
    fields = kind.draw(languages[chinese], unseen, random)
    listed = list(fields.items())
    random.shuffle(listed)
    if chinese:
        source = "；".join([kind.name, *(f"{name}：{value}" for name, value in listed)])
    else:
        source = "; ".join([kind.name, *(f"{name}: {value}" for name, value in listed)])
    return {"source": source, "targets": kind.write(fields)}


def write_sample(folder: Path) -> None:
    """Write train.jsonl, dev.jsonl and test.jsonl into a folder; the same bytes each time."""
    random = Random(SEED)
    languages = two_languages(Names, random)

    def draw(split: str) -> Drawn:
        unseen = split != "train" and random.random() < UNSEEN_SHARE
        record = make_record(languages, unseen, random)
        return (record["source"], *record["targets"]), lambda _: [record]

    # The first records have one target each: as many examples as records.
    write_splits(folder, SIZES, draw, lambda record: len(record["targets"]))
