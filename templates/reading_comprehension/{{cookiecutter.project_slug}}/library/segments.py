"""The words of a text as the script of CMRC2018 finds them."""

import functools
import re

# What CMRC2018 treats as punctuation; other marks count as words.
CMRC_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
# How the Penn Treebank splits Latin text into words, which CMRC2018 leaves to NLTK. The order
# matters.
TREEBANK_STEPS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\w{4})\.(?=\s)", " ."),  # a sentence ends; shorter words are abbreviations
        (r"([«‘„])", r" \1 "),
        (r'^"', " `` "),
        (r"([ (\[{<])(\"|'')", r"\1 `` "),
        (r"(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", "' "),
        (r"([^.])\.([\])}>\"' »]*)\s*$", r"\1 . \2 "),
        (r",(\D)", r" , \1"),
        (r",$", " , "),
        (r"\.{2,}", r" \g<0> "),
        (r"[;@#$%&?!\u2012-\u2015\[\](){}<>»]", r" \g<0> "),
        (r"([^'])'(?= )", r"\1 '"),
        (r"''|\"", " '' "),
        (r"\s+", " "),
        (r"(?<=[^' ])('(?:s|m|d|ll|re|ve|)|n't)(?= |$)", r" \1"),
        (r"\b(can)(not)\b", r"\1 \2"),
        (r"\b(gim|lem)(me)\b", r"\1 \2"),
        (r"\b(gon)(na)\b|\b(got)(ta)\b", r"\1\3 \2\4"),
        (r"\b(d)('ye)\b|\b(more)('n)\b", r"\1\3 \2\4"),
        (r"\b(wan)(na)(?= )", r"\1 \2"),
        (r"(?<= )('t)(is|was)\b", r"\1 \2"),
    )
)


def without_punctuation(text: str) -> str:
    """Return a text as CMRC2018 compares it: lower case, without its punctuation."""
    return "".join(c for c in text.lower().strip() if c not in CMRC_PUNCTUATION)


def segment(text: str) -> list[str]:
    """Return the Chinese characters of a text, and the words between them."""
    parts = re.findall(r"[\u4e00-\u9fa5]|[^\u4e00-\u9fa5]+", without_punctuation(text))
    return [word for part in parts for word in split_words(part)]


@functools.lru_cache(maxsize=100_000)
def split_words(text: str) -> list[str]:
    """Return the words of a lower-cased text without hyphens and colons; clitics are words.

    Most parts between Chinese characters are numbers or names that come again.
    """
    for pattern, replacement in TREEBANK_STEPS:
        text = pattern.sub(replacement, text)
    return text.split()
