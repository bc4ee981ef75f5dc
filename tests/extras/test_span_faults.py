"""The doctor says why spans don't begin and end with a token, and what would mend them."""

import json
import unicodedata
from pathlib import Path

import pytest
from projects import bake_project, check_records, flags, run

from core.data.tokens import split_into_windows, train_tokenizer
from extras.doctor.span_faults import find_cut_span, find_span_faults

TOKENIZER = train_tokenizer(
    4 * ["in 2190 ada quill founded nimbus, zenco and zencos in bern. caf\u00e9"], 200
)
WORD = "Nimbus"


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# Cause -> a text with the word Nimbus, and how an offset is counted wrongly: from the text before
# the word and the text up to its end.
CASES = {
    "begin or end with a blank": ("Ada founded  Nimbus in Bern.", len, (-1, 1)),
    "end with a blank: no-break space": ("Ada founded Nimbus\u00a0in Bern.", len, (0, 1)),
    "count UTF-16 units": ("\U0001f600\U0001f600\U0001f600 founded Nimbus in Bern.", utf16, (0, 0)),
    "UTF-16, one emoji": ("\U0001f600 Ada founded Nimbus in Bern.", utf16, (0, 0)),
    "count bytes of UTF-8": (
        "caf\u00e9 caf\u00e9 Nimbus in Bern.",
        lambda t: len(t.encode()),
        (0, 0),
    ),
    "a line break as two": (
        "Ada\nfounded\nNimbus in Bern.",
        lambda t: len(t) + t.count("\n"),
        (0, 0),
    ),
    "a line break as one": (
        "Ada\r\nfounded\r\nNimbus\r\nin",
        lambda t: len(t.replace("\r", "")),
        (0, 0),
    ),
    "combining marks": (
        unicodedata.normalize("NFD", "caf\u00e9 caf\u00e9 Nimbus in Bern."),
        lambda t: len(unicodedata.normalize("NFC", t)),
        (0, 0),
    ),
    "blanks that the text begins with": (
        "   Ada founded Nimbus in Bern.",
        lambda t: len(t.lstrip()),
        (0, 0),
    ),
    "end one character too early": ("Ada founded Nimbus in Bern.", len, (0, -1)),
    "off by one: they begin and end too late": ("Ada founded Nimbus in Bern.", len, (1, 1)),
    "off by one: they begin and end too early": ("Ada founded Nimbus in Bern.", len, (-1, -1)),
    "begin one character too late": ("Ada founded Nimbus in Bern.", len, (1, 0)),
    "off by 4 characters": ("Ada founded Nimbus in Bern.", len, (4, 4)),
}
SENTENCES = {
    "end with a blank: no-break space": "begin or end with a blank",
    "UTF-16, one emoji": "count UTF-16 units",
}


def spans_of(case: str) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """Return a text, the span that a file gives, and the right one."""
    text, count, (more, most) = CASES[case]
    start = text.index(WORD)
    end = start + len(WORD)
    return text, (count(text[:start]) + more, count(text[:end]) + most), (start, end)


@pytest.mark.parametrize("case", sorted(CASES))
def test_causes_are_told_apart(case: str):
    text, given, right = spans_of(case)
    [windows] = split_into_windows(TOKENIZER, [text], 64, 8)
    cut = [find_cut_span(text, given, line, windows) for line in (7, 8, 9)]
    assert all(cut) and find_cut_span(text, right, 7, windows) is None
    [finding] = find_span_faults("dev.jsonl", cut)
    assert SENTENCES.get(case, case) in finding.what and finding.what.endswith(": 3")
    quoted = f"line 7, {[*given]} {text[slice(*given)]!r} for one"
    assert quoted in finding.where and f"meant is {[*right]} 'Nimbus'" in finding.where


def test_spans_of_blanks_are_left_out():
    """No shift of one character that fits, by chance, is meant."""
    text = "Ada  founded \u200b\u3000 Nimbus."
    [windows] = split_into_windows(TOKENIZER, [text], 64, 8)
    cut = [find_cut_span(text, span, 3, windows) for span in ((3, 5), (3, 4), (12, 16))]
    [finding] = find_span_faults("dev.jsonl", cut)
    assert finding.what == "spans of blanks only: 3" and "leave them out" in finding.fix
    assert finding.where == "dev.jsonl, line 3, [3, 5] '  ' for one"


def test_what_the_tokenizer_cuts_has_no_other_cause():
    text = "in zenconimbusbern."
    [windows] = split_into_windows(TOKENIZER, [text], 64, 8)
    span = (4, 5)
    [finding] = find_span_faults("dev.jsonl", [find_cut_span(text, span, 3, windows)])
    assert "within a token: 1" in finding.what and "shorter tokens" in finding.fix
    assert "[4, 5] 'e' for one: its tokens are" in finding.where


def test_a_span_longer_than_a_window_is_not_cut():
    text = " ".join(40 * ["nimbus"])
    [windows] = split_into_windows(TOKENIZER, [text], 16, 4)
    assert len(windows) > 1 and find_cut_span(text, (0, len(text)), 1, windows) is None


def test_each_cause_of_a_file_has_its_own_finding():
    cut = []
    for case in ("begin or end with a blank", "count UTF-16 units", "a line break as two"):
        text, given, _ = spans_of(case)
        [windows] = split_into_windows(TOKENIZER, [text], 64, 8)
        cut.append(find_cut_span(text, given, len(cut) + 1, windows))
    findings = find_span_faults("dev.jsonl", cut)
    assert sorted(finding.where.split(", ")[1] for finding in findings) == [
        "line 1",
        "line 2",
        "line 3",
    ]


def record(template: str, text: str, span: list[int], number: int) -> dict:
    """Return a record of a task with one wrong span."""
    if template == "reading_comprehension":
        return {"id": number, "question": f"who {number}?", "context": text, "answers": [span]}
    text = f"{text} {number}"
    items = {
        "named_entity_recognition": ("entities", {"type": "person", "span": span}),
        "event_extraction": ("events", {"type": "a", "trigger": span, "arguments": []}),
        "relation_extraction": ("triples", {"subject": span, "predicate": "p", "object": [0, 1]}),
    }
    name, item = items[template]
    return {"id": number, "text": text, name: [item]}


@pytest.mark.parametrize(
    "template",
    [
        "event_extraction",
        "named_entity_recognition",
        "reading_comprehension",
        "relation_extraction",
    ],
)
def test_check_names_the_cause(template: str, tmp_path: Path):
    project = bake_project(template, tmp_path, "doctor")
    case = "A founded  Nimbus in Bern."
    rows = [record(template, case, [10, 18], number) for number in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "dev.jsonl").write_text(lines)
    done = run(
        project / check_records(project),
        *flags(project, dev_file=tmp_path / "dev.jsonl"),
        cwd=project,
        check=False,
    )
    [line] = [row for row in done.stdout.splitlines() if "with a blank" in row]
    assert "spans that begin or end with a blank: 6" in line
    assert "line 1, [10, 18] ' Nimbus ' for one: meant is [11, 17] 'Nimbus'" in line
    assert "shorter tokens" not in done.stdout
