"""Texts of WordPiece tokens, which have lost their spaces: put where writing has them."""

import re

# Characters of scripts without spaces.
SPACELESS = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
CLOSING, OPENING = ",.;:!?%)]}\u2019", "([{£$€#"  # no space before these, none after those
JOINING, DECIMAL_POINTS = "-'/", ".,:"  # no space around these in a word, none in a number

# A pattern, and what is left of what it finds. a - b, it ' s and 1 . 5 are single words far more
# often than not.
GAPS = (
    (re.compile(rf"\s+([{re.escape(CLOSING)}])"), r"\1"),
    (re.compile(rf"([{re.escape(OPENING)}])\s+"), r"\1"),
    (re.compile(rf"(?<=\w)\s*([{re.escape(JOINING)}])\s*(?=\w)"), r"\1"),
    (re.compile(rf"(?<=\d)([{re.escape(DECIMAL_POINTS)}])\s+(?=\d)"), r"\1"),
    (re.compile(rf"(?<={SPACELESS.pattern})\s+|\s+(?={SPACELESS.pattern})"), ""),
)


def close_gaps(text: str) -> str:
    """Remove the spaces between tokens where English and Chinese are written without.

    Example:

    >>> close_gaps("it ' s ( a ) 1 . 5 , or 你 好")
    "it's (a) 1.5, or你好"
    """
    for pattern, kept in GAPS:
        text = pattern.sub(kept, text)
    return text.strip()
