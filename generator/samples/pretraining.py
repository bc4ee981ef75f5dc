"""The pre-training sample: made-up lines in English and Chinese, from a small grammar.

Each word depends on other words, near and far: who bakes, where and what; who she is, three words
later; what a dog eats; which day comes after Monday. A trained model fills most gaps; a model that
only counts words fills few.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from generator.samples.splits import Drawn, draw_splits, write_lines

SEED = 20181011
SIZES = {"train": 3000, "dev": 200, "test": 200}
CHINESE_SHARE = 0.4

WOMEN = ("Mara", "Elif", "Ingrid", "Lena", "Noor", "Petra", "Zora", "Hana")
MEN = ("Joren", "Tobin", "Kofi", "Ravi", "Dario", "Oskar", "Samir", "Milo")
# Who, what they do, with what, and where.
JOBS = (
    ("baker", "bakes", "bread", "bakery"),
    ("farmer", "grows", "wheat", "field"),
    ("fisher", "catches", "salmon", "harbour"),
    ("nurse", "helps", "patients", "hospital"),
    ("teacher", "teaches", "children", "school"),
    ("painter", "paints", "portraits", "studio"),
    ("singer", "sings", "songs", "theatre"),
    ("miller", "grinds", "flour", "mill"),
    ("tailor", "sews", "coats", "workshop"),
    ("gardener", "waters", "roses", "garden"),
    ("librarian", "lends", "books", "library"),
    ("cook", "boils", "soup", "kitchen"),
)
ANIMALS = (
    ("dog", "bones", "barks", "kennel"),
    ("cat", "mice", "purrs", "basket"),
    ("horse", "oats", "neighs", "stable"),
    ("owl", "voles", "hoots", "barn"),
    ("bear", "honey", "growls", "cave"),
    ("bee", "nectar", "hums", "hive"),
    ("frog", "flies", "croaks", "pond"),
    ("wolf", "sheep", "howls", "forest"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SEASONS = (
    ("winter", "snow", "cold", "white"),
    ("spring", "rain", "mild", "green"),
    ("summer", "dust", "hot", "yellow"),
    ("autumn", "fog", "wet", "brown"),
)
OPPOSITES = (
    ("deep", "shallow"), ("long", "short"), ("old", "new"), ("wide", "narrow"),
    ("heavy", "light"), ("loud", "quiet"), ("full", "empty"), ("clean", "dirty"),
)  # fmt: skip
THINGS = ("river", "road", "bridge", "box", "bell", "boat", "house", "tower", "well", "drum")
GOODS = ("apples", "candles", "cheese", "nails", "paper", "salt", "spoons", "wool")

CHINESE_WOMEN = ("玛拉", "林娜", "佩雅", "素心", "若兰", "晓雯")
CHINESE_MEN = ("大伟", "建国", "托宾", "志强", "子轩", "阿明")
CHINESE_JOBS = (
    ("面包师", "烤", "面包", "面包房"),
    ("农民", "种", "小麦", "田里"),
    ("渔夫", "捕", "鲑鱼", "港口"),
    ("护士", "照顾", "病人", "医院"),
    ("教师", "教", "孩子", "学校"),
    ("画家", "画", "肖像", "画室"),
    ("歌手", "唱", "歌曲", "剧院"),
    ("裁缝", "缝", "大衣", "作坊"),
    ("园丁", "浇", "玫瑰", "花园"),
    ("厨师", "煮", "热汤", "厨房"),
)
CHINESE_ANIMALS = (
    ("小狗", "骨头", "木屋"),
    ("小猫", "老鼠", "篮子"),
    ("骏马", "燕麦", "马棚"),
    ("黑熊", "蜂蜜", "山洞"),
    ("青蛙", "苍蝇", "池塘"),
    ("野狼", "绵羊", "森林"),
)
CHINESE_DAYS = ("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期日")
CHINESE_SEASONS = (
    ("冬天", "大雪", "寒冷", "白色"),
    ("春天", "细雨", "温和", "绿色"),
    ("夏天", "尘土", "炎热", "黄色"),
    ("秋天", "浓雾", "潮湿", "褐色"),
)
CHINESE_GOODS = ("苹果", "蜡烛", "奶酪", "钉子", "白纸", "食盐", "勺子", "羊毛")


def draw_person(random: Random) -> tuple[str, str]:
    """Return a name and the pronoun that goes with it."""
    woman = random.random() < 0.5
    return random.choice(WOMEN if woman else MEN), "she" if woman else "he"


def say_job(random: Random) -> str:
    """Somebody's work."""
    (name, pronoun), (job, does, what, where) = draw_person(random), random.choice(JOBS)
    day = random.choice(DAYS)
    return (
        f"{name} is a {job}. On {day} {pronoun} {does} {what} in the {where}, and everybody likes "
        f"the {what} of the {job}."
    )


def say_animal(random: Random) -> str:
    """Somebody's animal."""
    (name, pronoun), (animal, food, sound, home) = draw_person(random), random.choice(ANIMALS)
    goods = random.choice(GOODS)
    return (
        f"The {animal} of {name} eats {food} and {sound} in the {home}. When {name} buys {goods}, "
        f"{pronoun} brings {food} for the {animal}."
    )


def say_days(random: Random) -> str:
    """Two days, one after the other."""
    first = random.randrange(len(DAYS))
    after, (name, pronoun) = DAYS[(first + 1) % len(DAYS)], draw_person(random)
    goods, others = random.sample(GOODS, 2)
    return (
        f"{name} sells {goods} on {DAYS[first]}. The next day is {after}, and on {after} {pronoun} "
        f"sells {others}, but no {goods}."
    )


def say_season(random: Random) -> str:
    """A season and its weather."""
    season, weather, feeling, colour = random.choice(SEASONS)
    thing, (name, _) = random.choice(THINGS), draw_person(random)
    return (
        f"In {season} there is {weather} on the {thing}. It is {feeling}, says {name}, and all the "
        f"land is {colour} in {season}."
    )


def say_opposites(random: Random) -> str:
    """Two opposite things."""
    one, other = random.sample(THINGS, 2)
    pair = list(random.choice(OPPOSITES))
    random.shuffle(pair)
    name, pronoun = draw_person(random)
    return (
        f"The {one} is {pair[0]} and the {other} is {pair[1]}. So {name} takes the {one}, for "
        f"{pronoun} wants nothing that is {pair[1]}."
    )


def draw_chinese_person(random: Random) -> tuple[str, str]:
    """Return a name and the pronoun that goes with it."""
    woman = random.random() < 0.5
    return random.choice(CHINESE_WOMEN if woman else CHINESE_MEN), "她" if woman else "他"


def say_chinese_job(random: Random) -> str:
    """Somebody's work, in Chinese."""
    (name, pronoun), (job, does, what, where) = (
        draw_chinese_person(random),
        random.choice(CHINESE_JOBS),
    )
    day = random.choice(CHINESE_DAYS)
    return f"{name}是{job}。{day}{pronoun}在{where}{does}{what}，大家都喜欢这位{job}的{what}。"


def say_chinese_animal(random: Random) -> str:
    """Somebody's animal, in Chinese."""
    (name, pronoun), (animal, food, home) = (
        draw_chinese_person(random),
        random.choice(CHINESE_ANIMALS),
    )
    goods = random.choice(CHINESE_GOODS)
    return (
        f"{name}的{animal}住在{home}，爱吃{food}。"
        f"{name}买{goods}的时候，{pronoun}给{animal}带{food}。"
    )


def say_chinese_days(random: Random) -> str:
    """Two days, one after the other, in Chinese."""
    first = random.randrange(len(CHINESE_DAYS))
    after, (name, pronoun) = (
        CHINESE_DAYS[(first + 1) % len(CHINESE_DAYS)],
        draw_chinese_person(random),
    )
    goods, others = random.sample(CHINESE_GOODS, 2)
    return (
        f"{name}{CHINESE_DAYS[first]}卖{goods}。"
        f"第二天是{after}，{after}{pronoun}卖{others}，不卖{goods}。"
    )


def say_chinese_season(random: Random) -> str:
    """A season and its weather, in Chinese."""
    season, weather, feeling, colour = random.choice(CHINESE_SEASONS)
    (name, _), (_, _, _, where) = draw_chinese_person(random), random.choice(CHINESE_JOBS)
    return f"{season}{where}有{weather}。{name}说天气{feeling}，{season}的大地是{colour}的。"


ENGLISH: tuple[Callable[[Random], str], ...] = (
    say_job, say_animal, say_days, say_season, say_opposites,
)  # fmt: skip
CHINESE: tuple[Callable[[Random], str], ...] = (
    say_chinese_job, say_chinese_animal, say_chinese_days, say_chinese_season,
)  # fmt: skip


def write_sample(folder: Path) -> None:
    """Write train.txt, dev.txt and test.txt; the same bytes each time, and no line twice.

    Args:
        folder: is created.
    """
    random = Random(SEED)

    def draw(_: str) -> Drawn:
        kinds = CHINESE if random.random() < CHINESE_SHARE else ENGLISH
        line = random.choice(kinds)(random)
        return [line], lambda _: [{"line": line}]

    for split, records in draw_splits(SIZES, draw):
        write_lines(folder / f"{split}.txt", (f"{record['line']}\n" for record in records))
