"""What is written can be read, for every format: seeded records of the strangest texts."""

import csv
import io
import json
import random
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from extras.host_formats.records import text_id
from generator.baselines import Baseline
from generator.data_sets.convert import FORMATS, convert_file
from generator.files import json_lines
from generator.recipes import apply_settings

# Marks of CSV, CoNLL, TOML and JSON, blanks and line ends, characters of several parts.
PIECES = (
    '"', '""', "'", ",", ";", "\\", "\\n", "\\u0000", "{", "}", "[", "]", ":", "null", "NaN", "#",
    "\t", "\n", "\r", "\r\n", " ", "  ", "\u00a0", "\u3000", "\u2028", "\u0085", "\x0b", "\x0c",
    "O", "B-", "I-", "-DOCSTART-", "mr,ref", "id,split,V,A,D,text", "unknown", "to title", "\x00",
    "a", "Oslo", "e\u0301", "\u00e9", "甲", "北京", "\U0001f600", "\U0001f469\u200d\U0001f467",
)  # fmt: skip
TRIALS = 60


class Texts:
    """Draws texts for the records of a format.

    Args:
        seed: the same seed gives the same texts.
        barred: characters that the format can't hold.
    """

    def __init__(self, seed: int, barred: str = "") -> None:
        self.random = random.Random(seed)
        self.pieces = [piece for piece in PIECES if not set(piece) & set(barred)]

    def text(self, most: int = 6) -> str:
        """Return a text that is not blank and does not end as a line does."""
        parts = self.random.choices(self.pieces, k=self.random.randint(1, most))
        return "".join([*parts, self.random.choice(("x", "乙", '"', "\U0001f600"))])

    def span(self, text: str) -> list[int]:
        """Return a span of a text whose ends are no blanks."""
        while True:
            start, end = sorted(self.random.sample(range(len(text) + 1), 2))
            if text[start:end] == text[start:end].strip():
                return [start, end]

    def rows(self) -> range:
        """Return the numbers of a few records."""
        return range(self.random.randint(1, 5))


# ------------------------------------------------------------------------ reading comprehension


def draw_questions(texts: Texts) -> list[dict]:
    """Return questions with answers, or without one."""
    records = []
    for number in texts.rows():
        context = texts.text(12)
        spans = [texts.span(context) for _ in range(number and texts.random.randint(0, 2))]
        known = {"id": f"{number}{texts.text()}", "question": texts.text(), "context": context}
        records.append({**known, "answers": [list(s) for s in dict.fromkeys(map(tuple, spans))]})
    return records


def write_squad(records: list[dict]) -> str:
    """Write each question with a paragraph of its own."""
    paragraphs = []
    for record in records:
        answers = [
            {"text": record["context"][start:end], "answer_start": start}
            for start, end in record["answers"]
        ]
        question = {"id": record["id"], "question": record["question"], "answers": answers}
        question["is_impossible"] = not answers
        paragraphs.append({"context": record["context"], "qas": [question]})
    return json.dumps({"data": [{"paragraphs": paragraphs}]})


def write_rows(records: list[dict]) -> str:
    """Write questions as Hugging Face does: one a line, answers as two lists."""
    rows = []
    for record in records:
        texts = [record["context"][start:end] for start, end in record["answers"]]
        starts = [start for start, _ in record["answers"]]
        rows.append({**record, "answers": {"text": texts, "answer_start": starts}})
    if not any(record["answers"] for record in records):
        # Otherwise it would be a file to predict.
        rows = [{**row, "is_impossible": True} for row in rows]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# -------------------------------------------------------------------------- relations and events


def draw_triples(texts: Texts) -> list[dict]:
    """Return passages with triples of predicates that they are annotated for."""
    records = []
    for number in texts.rows():
        text, names = texts.text(12), sorted({texts.text() for _ in range(3)})
        found = {
            (*texts.span(text), texts.random.choice(names), *texts.span(text))
            for _ in range(texts.random.randint(0, 3))
        }
        triples = [
            {"subject": [a, b], "predicate": name, "object": [c, d]}
            for a, b, name, c, d in sorted(found)
        ]
        known = {"id": f"{number}{texts.text()}", "text": text, "triples": triples}
        records.append({**known, "annotated_predicates": names})
    return records


def write_knowledgenet(records: list[dict]) -> str:
    """Write each passage as a document of its own, behind seven characters."""
    lines = []
    for record in records:
        facts = []
        for triple in record["triples"]:
            fact = {"propertyId": triple["predicate"]}
            for role in ("subject", "object"):
                start, end = triple[role]
                fact |= {f"{role}Start": 7 + start, f"{role}End": 7 + end}
                fact[f"{role}Text"] = record["text"][start:end]
            facts.append(fact)
        names = [{"propertyId": n, "propertyName": n} for n in record["annotated_predicates"]]
        passage = {"passageId": record["id"], "passageText": record["text"], "facts": facts}
        passage |= {"passageStart": 7, "exhaustivelyAnnotatedProperties": names}
        lines.append(json.dumps({"passages": [passage]}, ensure_ascii=False) + "\n")
    return "".join(lines)


def draw_pairs(texts: Texts) -> list[dict]:
    """Return sentences with a triple each, whose names stand there once."""
    records = []
    for number in texts.rows():
        head, tail = f"〈{number}{texts.text()}〉", f"《{number}{texts.text()}》"
        before, between = texts.text(), texts.text()
        text = f"{before}{head}{between}{tail}x"
        start = len(before + head + between)
        spans = [[len(before), len(before + head)], [start, start + len(tail)]]
        triple = {"subject": spans[0], "predicate": texts.text(), "object": spans[1]}
        records.append({"id": text_id(text), "text": text, "triples": [triple]})
    return records


def write_finre(records: list[dict]) -> str:
    """Write each triple as a line of head, tail, relation and sentence."""
    lines = []
    for record in records:
        for triple in record["triples"]:
            head, tail = (record["text"][slice(*triple[role])] for role in ("subject", "object"))
            lines.append("\t".join((head, tail, triple["predicate"], record["text"])) + "\n")
    return "".join(lines)


def draw_documents(texts: Texts) -> list[dict]:
    """Return texts of tokens with triples of them."""
    records = []
    for _ in texts.rows():
        tokens = [texts.text(3) for _ in range(texts.random.randint(2, 8))]
        places, start = [], 0
        for token in tokens:
            places.append([start, start + len(token)])
            start += len(token) + 1
        found = {
            (*subject, texts.text(), *object_)
            for subject, object_ in (
                texts.random.sample(places, 2) for _ in range(texts.random.randint(0, 3))
            )
        }
        triples = [
            {"subject": [a, b], "predicate": name, "object": [c, d]}
            for a, b, name, c, d in sorted(found)
        ]
        records.append({"text": " ".join(tokens), "triples": triples})
    return records


def write_documents(records: list[dict]) -> str:
    """Write each text as one sentence, and each span of a triple as an entity."""
    documents = []
    for number, record in enumerate(records):
        starts = {0: 0}
        for token in record["text"].split(" "):
            starts[max(starts) + len(token) + 1] = len(starts)
        ends = [(*t["subject"], *t["object"]) for t in record["triples"]]
        spans = sorted({span for end in ends for span in (end[:2], end[2:])})
        entities = [
            [{"name": record["text"][a:b], "sent_id": 0, "pos": [starts[a], starts[b + 1]]}]
            for a, b in spans
        ]
        labels = [
            {
                "h": spans.index(end[:2]),
                "t": spans.index(end[2:]),
                "r": triple["predicate"],
            }
            for triple, end in zip(record["triples"], ends, strict=True)
        ]
        known = {"title": str(number), "sents": [record["text"].split(" ")]}
        documents.append({**known, "vertexSet": entities, "labels": labels})
    return json.dumps(documents, ensure_ascii=False)


def draw_events(texts: Texts, roles: list[str], triggers: bool) -> list[dict]:
    """Return sentences with events, sorted as the converters sort them."""
    records = []
    for number in texts.rows():
        text, found = texts.text(12), set()
        for _ in range(texts.random.randint(0, 3)):
            arguments = {
                (*texts.span(text), texts.random.choice(roles))
                for _ in range(texts.random.randint(1, 3))
            }
            trigger = tuple(texts.span(text)) if triggers or texts.random.random() < 0.5 else ()
            found.add((trigger, texts.text(), tuple(sorted(arguments))))
        events = [
            {
                "type": kind,
                "trigger": list(trigger) or None,
                "arguments": [{"role": r, "span": [a, b]} for a, b, r in arguments],
            }
            for trigger, kind, arguments in sorted(found)
        ]
        records.append({"id": f"{number}{texts.text()}", "text": text, "events": events})
    return records


def write_fewfc(records: list[dict]) -> str:
    """Write trigger and arguments of an event as its mentions."""
    lines = []
    for record in records:
        events = []
        for event in record["events"]:
            nodes = [(argument["role"], argument["span"]) for argument in event["arguments"]]
            nodes += [("trigger", event["trigger"])] if event["trigger"] else []
            mentions = [
                {"role": role, "span": span, "word": record["text"][slice(*span)]}
                for role, span in nodes
            ]
            events.append({"type": event["type"], "mentions": mentions})
        line = {"id": record["id"], "content": record["text"], "events": events}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def write_phee(records: list[dict]) -> str:
    """Write each argument of an event as a mention of its role."""
    lines = []
    for record in records:
        events = []
        for event in record["events"]:
            nodes: dict[str, list] = {"Trigger": [event["trigger"]]}
            for argument in event["arguments"]:
                nodes.setdefault(argument["role"], []).append(argument["span"])
            entities = {
                role: {
                    "text": [[record["text"][start:end]] for start, end in spans],
                    "start": [[start] for start, _ in spans],
                }
                for role, spans in nodes.items()
            }
            events.append({"event_type": event["type"], **entities})
        line = {"id": record["id"], "context": record["text"], "annotations": [{"events": events}]}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


# ------------------------------------------------------------------------------------- entities


def draw_entities(texts: Texts, between: str) -> list[dict]:
    """Return sentences of tokens with an entity here and there."""
    records = []
    for _ in texts.rows():
        words = [texts.text(3) for _ in range(texts.random.randint(1, 5))]
        tokens = words if between else [*"".join(words)]
        text, entities = "", []
        for token in tokens:
            start = len(text) + len(between) * bool(text)
            text += (between if text else "") + token
            if texts.random.random() < 0.4:
                entities.append({"type": texts.text(), "span": [start, len(text)]})
        records.append({"text": text, "entities": entities})
    return records


def write_columns(records: list[dict], between: str, mark: str) -> str:
    """Write a token, a mark behind it, and its tag a line; an empty line ends a sentence."""
    lines = []
    for record in records:
        place = 0
        for token in record["text"].split(between) if between else record["text"]:
            kinds = [e["type"] for e in record["entities"] if e["span"][0] == place]
            lines.append(f"{token}{mark}\t{f'B-{kinds[0]}' if kinds else 'O'}\n")
            place += len(token) + len(between)
        lines.append("\n")
    return "".join(lines)


# --------------------------------------------------------------------------------- other formats


def draw_targets(texts: Texts, most: int) -> list[dict]:
    """Return sources with their targets."""
    records = []
    for number in texts.rows():
        source = f"{number}{texts.text()}"
        targets = [texts.text() for _ in range(texts.random.randint(1, most))]
        records.append({"id": text_id(source), "source": source, "targets": targets})
    return records


def write_csv(rows: list[list]) -> str:
    """Write rows as CSV, a cell in quotes where that is needed."""
    file = io.StringIO(newline="")
    # A writer of "\n" alone would leave a bare "\r" without quotes.
    csv.writer(file, lineterminator="\r\n").writerows(rows)
    return file.getvalue()


def write_e2e(records: list[dict]) -> str:
    """Write each reference on a line of its own."""
    rows = [[record["source"], target] for record in records for target in record["targets"]]
    return write_csv([["mr", "ref"], *rows])


def write_titles(records: list[dict]) -> str:
    """Write prompt, abstract and title of each paper."""
    rows = [(record["source"], target) for record in records for target in record["targets"]]
    return "".join(f"to title\t{source}\t{target}\n" for source, target in rows)


def draw_candidates(texts: Texts) -> list[dict]:
    """Return pairs of question and candidate."""
    records = []
    for number in texts.rows():
        question, candidate = f"{number}{texts.text()}", texts.text()
        known = {"id": text_id(question, candidate), "text_a": question, "text_b": candidate}
        label = texts.random.choice("01")
        records.append({**known, "label": label, "group": text_id(question)})
    return records


def write_candidates(records: list[dict]) -> str:
    """Write question, candidate and label of each pair."""
    return "".join(f"{r['text_a']}\t{r['text_b']}\t{r['label']}\n" for r in records)


def draw_ratings(texts: Texts) -> list[dict]:
    """Return sentences with three numbers each."""
    numbers = {"valence": 3.25, "arousal": 1.0, "dominance": 4.5}
    return [{"text_a": f"{number}{texts.text()}", **numbers} for number in texts.rows()]


def write_ratings(records: list[dict]) -> str:
    """Write the table of sentences and ratings; the first cell names a sentence."""
    numbers = ("valence", "arousal", "dominance")
    rows = [[f"a_{n}", "dev", *(r[k] for k in numbers), r["text_a"]] for n, r in enumerate(records)]
    return write_csv([["id", "split", "V", "A", "D", "text"], *rows])


def draw_marked(texts: Texts) -> list[dict]:
    """Return sentences with two marked parts, and the relation of these."""
    records = []
    for number in texts.rows():
        parts = (texts.text(), f"<e1>{texts.text()}</e1>", f"<e2>{texts.text()}</e2>")
        label = f"{texts.random.choice(['Cause-Effect', '甲-é'])}(e2,e1)"
        records.append({"id": str(number), "text_a": "".join(parts), "label": label})
    return records


def write_marked(records: list[dict]) -> str:
    """Write sentence, relation, comment and an empty line of each."""
    return "".join(f'{r["id"]}\t"{r["text_a"]}"\n{r["label"]}\nComment: "?"\n\n' for r in records)


def draw_preferences(texts: Texts) -> list[dict]:
    """Return pairs of arguments, of which one is better; their file is named `in`."""
    return [
        {
            "id": str(number),
            "prompt": "in",
            "a1": texts.text(),
            "a2": texts.text(),
            "label": texts.random.choice(["a1", "a2"]),
        }
        for number in texts.rows()
    ]


def write_preferences(records: list[dict]) -> str:
    """Write the header, and each pair on a line."""
    pairs = [[record[name] for name in ("id", "label", "a1", "a2")] for record in records]
    rows = [[text.replace("\n", " <br/> ") for text in pair] for pair in pairs]
    return "".join("\t".join(row) + "\n" for row in [["#id", "label", "a1", "a2"], *rows])


Draw = Callable[[Texts], list[dict]]
Write = Callable[[list[dict]], str]
SQUAD = (draw_questions, write_squad, "")
# Format -> how its records are drawn and written, and what its texts can't hold.
WRITERS: dict[str, tuple[Draw, Write, str]] = {
    "squad": SQUAD,
    "cmrc2018": SQUAD,
    "drcd": (draw_questions, write_rows, ""),
    "knowledgenet": (draw_triples, write_knowledgenet, ""),
    "finre": (draw_pairs, write_finre, "\t\n"),
    "phee": (lambda t: draw_events(t, ["Subject", "Effect"], True), write_phee, ""),
    "fewfc": (lambda t: draw_events(t, [t.text(), t.text()], False), write_fewfc, ""),
    "e2e": (lambda t: draw_targets(t, 3), write_e2e, ""),
    "csl_title": (lambda t: draw_targets(t, 2), write_titles, "\t\n"),
    "selqa": (draw_candidates, write_candidates, "\t\n"),
    "wnut17": (
        lambda t: draw_entities(t, " "),
        lambda records: write_columns(records, " ", ""),
        "\t\n ",
    ),
    "weibo": (
        lambda t: draw_entities(t, ""),
        lambda records: write_columns(records, "", "0"),
        "\t\n",
    ),
    "emobank": (draw_ratings, write_ratings, ""),
    "redocred": (draw_documents, write_documents, " "),
    "semeval2010": (draw_marked, write_marked, "\n"),
    "ukpconvarg": (draw_preferences, write_preferences, "\t"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_writes_is_read_and_written_alike(name: str, tmp_path: Path) -> None:
    draw, write, barred = WRITERS[name]
    source, out = tmp_path / "in", tmp_path / "out.jsonl"
    for seed in range(TRIALS):
        records = draw(Texts(seed, barred))
        written = write(records).encode("utf-8")
        source.write_bytes(written)
        convert_file(name, source, out)
        found = [json.loads(line) for line in out.read_bytes().decode("utf-8").split("\n")[:-1]]
        without = [{k: v for k, v in record.items() if k in records[0]} for record in found]
        assert without == records
        assert len({record["id"] for record in found}) == len(records)
        assert write(found).encode("utf-8") == written
        assert json_lines(found) == out.read_bytes()


def test_settings_of_any_text_are_written_and_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for seed in range(TRIALS):
        texts = Texts(seed)
        settings = {"prompt": texts.text(), "table.mark": texts.text()}
        path.write_text('# kept\nprompt = ""\n[table]\nmark = ""\n')
        recipe = Baseline("name", "template", settings=settings)
        apply_settings(path, recipe)
        written = path.read_bytes()
        held = tomllib.loads(written.decode("utf-8"))
        assert held == {"prompt": settings["prompt"], "table": {"mark": settings["table.mark"]}}
        apply_settings(path, recipe)
        assert path.read_bytes() == written and written.startswith(b"# kept\n")
