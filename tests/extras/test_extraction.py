"""Triples and events as texts: the language, its reader, places in the text, scores, a training."""

import importlib
import json
import random
import shutil
import sys
from collections import Counter

import pytest
from cases import event_extraction, relation_extraction
from conftest import ROOT, is_of_template, use_template
from project_process import ProjectProcess
from projects import bake_project, flags
from pydantic import ValidationError
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer, SentencePieceUnigramTokenizer

use_template("seq2seq")

from core.base.errors import InputError  # noqa: E402
from core.base.files import MANIFEST  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from extras.extraction.extractor import Extractor  # noqa: E402
from extras.extraction.language import (  # noqa: E402
    REASONS,
    Names,
    escape,
    name_items,
    read_drafts,
    unescape,
    write_items,
)
from extras.extraction.places import SearchedText, choose_places, fold  # noqa: E402
from extras.extraction.records import (  # noqa: E402
    Example,
    Item,
    describe_items,
    make_event,
    read_example,
    read_prediction,
)
from extras.extraction.scores import METRICS, MONITORS, count_matches, score  # noqa: E402
from extras.extraction.settings import Table  # noqa: E402
from generation.texts import decode_texts  # noqa: E402
from generation.tokenizers import train_text_tokenizer  # noqa: E402
from task.settings import Settings  # noqa: E402

KINDS = ("triples", "events")
WORDS = "Ada Zoë née Müller 北京 大学 北京大学 U.S. founded né(e) 12:40".split()
WORDS += "a|b x;y p=q 5*3 *1 #1 ；｜＝＊".split()
PREDICATES = ("born_in", "works for", "a|b = c;", "出生于", "5*3")
TYPES, ROLES = ("buy", "a=b", "财经/交易-出售"), ("who", "what = it", "时间", "none")
CASES = {"triples": relation_extraction, "events": event_extraction}
SAMPLES = {
    kind: f"{kind_of}_sample"
    for kind, kind_of in zip(KINDS, ("relation_extraction", "event_extraction"), strict=True)
}


def draw_record(draw: random.Random, kind: str) -> dict:
    """Return a record: words that repeat, spans that nest and overlap, none or several items."""
    words = [draw.choice(WORDS) for _ in range(draw.randint(3, 16))]
    spaces = [draw.choice((" ", " ", "", "\n", "  ")) for _ in words]
    text = "".join(map("".join, zip(words, spaces, strict=True)))
    starts = [len("".join(words[:n]) + "".join(spaces[:n])) for n in range(len(words))]

    def span() -> list[int]:
        first = draw.randrange(len(words))
        last = min(len(words) - 1, first + draw.choice((0, 0, 1, 3)))
        return [starts[first], starts[last] + len(words[last])]

    def triple() -> dict:
        return {"subject": span(), "predicate": draw.choice(PREDICATES), "object": span()}

    def event() -> dict:
        parts = [{"role": draw.choice(ROLES), "span": span()} for _ in range(draw.randint(0, 3))]
        trigger = span() if draw.random() < 0.7 or not parts else None
        return {"type": draw.choice(TYPES), "trigger": trigger, "arguments": parts}

    make = triple if kind == "triples" else event
    items = [make() for _ in range(draw.choice((0, 1, 1, 2, 4)))]
    record = {"id": draw.randrange(10**9), "text": text, kind: items}
    if kind == "triples" and draw.random() < 0.2:
        record["annotated_predicates"] = list(PREDICATES)
    return record


def draw_examples(kind: str, count: int, seed: int = 1) -> list[Example]:
    draw = random.Random(seed)
    return [read_example(draw_record(draw, kind), n, kind, True) for n in range(count)]


def words_of(items, text: str) -> Counter:
    """Count the words of items, anywhere in the text and with any spaces."""
    return Counter(
        (item.name, frozenset((role, fold(text[slice(*span)])[0]) for role, span in item.nodes))
        for item in items
    )


def extractor_of(kind: str, examples: list[Example]) -> Extractor:
    return Extractor(Table(kind=kind, names=name_items(examples, kind)))


# ---------------------------------------------------------------------- the language


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read(kind):
    """The words are the same; the places too, unless the words stand elsewhere as well."""
    examples = draw_examples(kind, 1500)
    extractor = extractor_of(kind, examples)
    unique = 0
    for example in examples:
        text = example.source
        written = write_items(example.items, text, kind)
        found, unread = extractor.read(text, written)
        assert not unread, (text, written, unread)
        said = set(words_of(found, text))
        assert said == set(words_of(example.items, text)), (text, written)
        spans = [text[slice(*s)] for item in example.items for _, s in item.nodes]
        if all(fold(text)[0].count(fold(words)[0]) == 1 for words in spans):
            unique += 1
            assert set(found) == set(example.items), (text, written)
    assert unique > 200


def test_how_items_are_written():
    text = "Ada, born in Zürich; she founded Zenco in 1998."
    born = Item("born_in", (("subject", (0, 3)), ("object", (13, 19))))
    founded = Item("founder", (("subject", (0, 3)), ("object", (33, 38))))
    assert write_items([founded, born], text, "triples") == (
        "Ada | born_in | Zürich ; Ada | founder | Zenco ;"
    )
    start = make_event("start", [("who", (33, 38)), (None, (25, 32)), ("by", (0, 3))])
    untriggered = make_event("life", [("year", (42, 46))])
    assert write_items([untriggered, start], text, "events") == (
        "start = founded | by = Ada | who = Zenco ; life | year = 1998 ;"
    )
    assert write_items([], text, "triples") == write_items([], text, "events") == "none"


def test_marks_within_words_are_escaped():
    for words in ("a|b", ";", "p = q", "5*3", "*1", "；｜＝＊", "**00"):
        written = escape(words)
        assert not set(written) & set("|;=；｜＝＊")
        assert unescape(written) == words
        assert unescape(written.replace("*", "* ")) == words  # as WordPiece gives it back


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokenizer", ["tiny", "wordpiece", "bytes", "unigram"])
def test_the_marks_survive_every_tokenizer(kind, tokenizer):
    """Case, accents, spaces and wide characters may be lost on the way: nothing else is."""
    examples = [one for one in draw_examples(kind, 300, seed=2) if one.items]
    targets = [write_items(one.items, one.source, kind) for one in examples]
    texts = [*(one.source for one in examples), *targets] * 3
    if tokenizer == "tiny":
        made = train_text_tokenizer(texts, 400)
    else:
        classes = {
            "wordpiece": (BertWordPieceTokenizer, {"lowercase": True}, {"min_frequency": 1}),
            "bytes": (ByteLevelBPETokenizer, {}, {}),
            "unigram": (SentencePieceUnigramTokenizer, {}, {"unk_token": "<unk>"}),
        }
        kind_of, options, how = classes[tokenizer]
        made = kind_of(**options)
        made.train_from_iterator(texts, 600, show_progress=False, **how)
        made = made._tokenizer
    ids = [made.encode(target, add_special_tokens=False).ids for target in targets]
    extractor = extractor_of(kind, examples)
    lost = 0
    for example, written in zip(examples, decode_texts(made, ids), strict=True):
        found, unread = extractor.read(example.source, written)
        gold = [extractor.read(example.source, extractor.write(example))[0]]
        lost += unread.total() + (len(found) != len(*gold))
    assert lost == 0


# ------------------------------------------------------------------------ the reader


NAMES = {
    "triples": Names(["born_in", "works for"]),
    "events": Names(["buy", "buy = who", "buy = what", "die", "die = who"]),
}
TRIPLE = ("Ada", "born_in", "Rome")
DAMAGED = {
    "no end": ("triples", "Ada | born_in | Rome", [TRIPLE], {}),
    "no end within": ("triples", "Ada | born_in | Rome | Bob | works for | Zenco ;", 2, {}),
    "other case and spaces": ("triples", "Ada | Born _ In | Rome ;", [TRIPLE], {}),
    "wide marks": ("triples", "Ada ｜ born_in ｜ Rome；", [TRIPLE], {}),
    "predicate first": ("triples", "born_in | Ada | Rome ;", [TRIPLE], {}),
    "predicate last": ("triples", "Ada | Rome | born_in ;", [TRIPLE], {}),
    "only ends": ("triples", " ; ;; ", [], {}),
    "none among others": ("triples", "none ; Ada | born_in | Rome ; None", [TRIPLE], {}),
    "nothing": ("triples", " ", [], {"nothing_written": 1}),
    "two parts": ("triples", "Ada | born_in ; Bob ;", [], {"missing_part": 2}),
    "an empty part": ("triples", "| born_in | Rome ;", [], {"missing_part": 1}),
    "unknown predicate": ("triples", "Ada | loves | Rome ;", [], {"unknown_name": 1}),
    "four parts": ("triples", "Ada | born_in | Rome | Bob ;", [TRIPLE], {"left_over": 1}),
    "event without end": ("events", "buy = bought | who = Ada", [("buy", 2)], {}),
    "type within": ("events", "who = Ada | BUY = bought | what = Zenco ;", [("buy", 3)], {}),
    "turned pair": ("events", "bought = buy | Ada = who ;", [("buy", 2)], {}),
    "unknown type": ("events", "sell = sold | who = Ada ;", [], {"unknown_name": 1}),
    "unknown role": ("events", "buy = bought | where = Rome ;", [("buy", 1)], {"unknown_name": 1}),
    "role of another type": (
        "events",
        "die = died | what = x ;",
        [("die", 1)],
        {"unknown_name": 1},
    ),
    "role without words": ("events", "buy = bought | who = ;", [("buy", 1)], {"missing_part": 1}),
    "words without role": ("events", "buy = bought | Ada ;", [("buy", 1)], {"missing_part": 1}),
    "no words after the type": ("events", "buy = | who = Ada ;", [("buy", 1)], {"missing_part": 1}),
    "a type alone": ("events", "buy ;", [], {}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_forgiven_or_counted(name):
    kind, written, expected, reasons = DAMAGED[name]
    drafts, unread = read_drafts(written, NAMES[kind], kind)
    if isinstance(expected, int):
        assert len(drafts) == expected
    elif kind == "triples":
        assert [(d.nodes[0][1], d.name, d.nodes[1][1]) for d in drafts] == expected
    else:
        assert [(draft.name, len(draft.nodes)) for draft in drafts] == expected
    assert unread == reasons


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_too_damaged(kind):
    """Random cuts, swaps and insertions: spans lie in the text, names are known, all is counted."""
    draw = random.Random(3)
    examples = draw_examples(kind, 600, seed=3)
    extractor = extractor_of(kind, examples)
    reasons: Counter = Counter()
    for example in examples:
        characters = list(write_items(example.items, example.source, kind))
        for _ in range(draw.randint(1, 8)):
            at = draw.randrange(len(characters) + 1)
            characters[at : at + draw.choice((0, 1, 5))] = draw.choice(
                ("", "|", ";", "=", "*", "Ada")
            )
        written = "".join(characters)[draw.randint(0, 9) :]
        found, unread = extractor.read(example.source, written)
        reasons += unread
        assert all(count > 0 for count in unread.values())
        for item in found:
            assert extractor.table.names.count(escape(item.name)) == 1
            assert all(0 <= s < e <= len(example.source) for _, (s, e) in item.nodes)
            assert kind == "events" or [role for role, _ in item.nodes] == ["subject", "object"]
    assert reasons.keys() == REASONS.keys() - ({"left_over"} if kind == "events" else set())


# ------------------------------------------------------------------ places in the text


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("Ada saw Ada.", "Ada", ["0:3", "8:11"]),
        ("Adam saw Ada.", "Ada", ["9:12"]),  # no word is cut
        ("Adam saw ADA.", "Ada", ["9:12"]),  # rather another case
        ("Adams", "Ada", ["0:3"]),  # unless there is nothing else
        ("北京大学在北京", "北京", ["0:2", "5:7"]),  # ideographs are words of their own
        ("New\n York", "new york", ["0:9"]),
        ("Zoe\u0308 ran", "zoe", ["0:4"]),  # with its accent
        ("Zoë ran", "ZOE", ["0:3"]),
        ("ＡＢＣ", "abc", ["0:3"]),
        ("aaa", "aa", ["0:2", "1:3"]),
        ("Ada", "Bob", []),
        ("Ada", "", []),
    ],
)
def test_where_words_stand(text, words, found):
    assert [f"{start}:{end}" for start, end in SearchedText(text).find(words)] == found


def nearest(text: str, *words: str) -> list[str]:
    """Return where words are placed, the anchor first."""
    searched = SearchedText(text)
    nodes = choose_places(searched, [(str(n), searched.find(w)) for n, w in enumerate(words)])
    return [f"{start}:{end}" for _, (start, end) in nodes]


def test_of_several_places_the_nearest_is_chosen():
    assert nearest("Rome. Ada left Rome", "Ada", "Rome") == ["6:9", "15:19"]
    # A sentence is further than characters.
    assert nearest("It is Rome. Ada was born, they say, in Rome", "Ada", "Rome") == [
        "12:15",
        "39:43",
    ]
    assert nearest("Ada ... Bob. Ada Rome", "Ada", "Rome") == ["13:16", "17:21"]
    # The first of two that are equally near.
    assert nearest("Rome Ada Rome", "Ada", "Rome") == ["5:8", "0:4"]
    # Two roles share a place only where there is one.
    assert nearest("9 - 9", "9", "9") == ["0:1", "4:5"]
    assert nearest("result 9", "9", "9") == ["7:8", "7:8"]
    assert nearest("Ada 9 : 9 Bob", "Ada", "9", "9", "Bob")[1:3] == ["4:5", "8:9"]


# --------------------------------------------------------------------------- scores


def load_template(name: str) -> tuple:
    """Return the modules records, metrics and errors of another template, and put ours back."""
    kept = {name: module for name, module in sys.modules.items() if is_of_template(module)}
    path = list(sys.path)
    use_template(name)
    names = ("task.records", "task.metrics", "inspection.errors")
    modules = tuple(importlib.import_module(name) for name in names)
    for other in [name for name, module in sys.modules.items() if is_of_template(module)]:
        del sys.modules[other]
    sys.modules.update(kept)
    sys.path[:] = path
    return modules


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_pointer_templates(kind):
    """The same files go through both: golds, predictions, every number of every table."""
    data, metrics, errors = load_template(SAMPLES[kind].removesuffix("_sample"))
    draw = random.Random(5)
    for _ in range(60):
        golds, theirs, found, their_found = [], [], {}, {}
        for _ in range(40):
            record, other = draw_record(draw, kind), draw_record(draw, kind)
            length = len(record["text"])
            # Predictions that share some items with gold.
            record[kind] *= draw.choice((1, 1, 2))  # what is given twice counts once
            guess = [item for item in record[kind] if draw.random() < 0.6]
            guess += [item for item in other[kind] if fits(item, length)]
            if kind == "triples" and draw.random() < 0.5:
                names = {item["predicate"] for item in record[kind]} | {draw.choice(PREDICATES)}
                record["annotated_predicates"] = sorted(names)
            golds.append(read_example(record, 1, kind, True))
            theirs.append(data.read_example(record, 1, True))
            name = golds[-1].id
            items = read_prediction("", {kind: guess}, kind)
            written = {kind: describe_items(items, record["text"], kind, 0.5)}
            assert read_prediction("", written, kind) == items
            found[name] = items
            read = errors.read_prediction("", written)
            their_found[name] = list(read) if kind == "triples" else read[0]
        ours, other = score(golds, found, kind), metrics.score(theirs, their_found)
        other = {name: value for name, value in other.items() if not name.startswith("duee")}
        other.get("metrics", {}).pop("duee", None)
        assert json.dumps(ours, sort_keys=True) == json.dumps(other, sort_keys=True)
        for metric in METRICS[kind]:
            if metric == "event_f1":
                continue
            options = () if kind == "triples" else (metric.removesuffix("_f1"),)
            for gold, their_gold in zip(golds, theirs, strict=True):
                counts = metrics.count_matches(their_gold, their_found[gold.id], *options)
                if kind == "triples":
                    counts = tuple(map(sum, zip((0, 0, 0), *counts.values(), strict=True)))
                assert count_matches(gold, found[gold.id], metric) == counts


def fits(item: dict, length: int) -> bool:
    """Tell whether the spans of an item lie in a text of some length."""
    spans = [item.get("subject"), item.get("object"), item.get("trigger")]
    spans += [part["span"] for part in item.get("arguments", ())]
    return all(span is None or span[1] <= length for span in spans)


# ----------------------------------------------------------------------------- files


@pytest.mark.parametrize("kind", KINDS)
def test_bad_records_are_refused_as_in_the_pointer_templates(kind, tmp_path, subtests):
    case = CASES[kind]
    for name, (content, *words) in {**case.BROKEN_FILES, **case.NOTHING_TO_LEARN}.items():
        with subtests.test(name):
            path = tmp_path / "train.jsonl"
            path.write_text(content, encoding="utf-8")
            with pytest.raises(InputError) as error:
                Extractor(Table(kind=kind)).read_examples(path)
            said = str(error.value)
            assert name in case.NOTHING_TO_LEARN or said.startswith(str(path))
            assert all(word in said for word in words), said


def test_the_training_file_says_the_names(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(event_extraction.GOOD, encoding="utf-8")
    table = Table(kind="events")
    [example] = Extractor(table).read_examples(path)
    assert table.names[0] == "buy" and all(name.startswith("buy = ") for name in table.names[1:])
    [other] = Extractor(Table(kind="events", names=["sell"])).read_examples(path)
    assert other.targets == ("none",) and example.targets != other.targets


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_to_write_for_needs_no_gold(kind, tmp_path):
    """Null is unknown, as in the pointer templates."""
    path, extractor = tmp_path / "test.jsonl", Extractor(Table(kind=kind, names=["sell"]))
    for gold in ("", f', "{kind}": null'):
        path.write_text(f'{{"id": 1, "text": "Ada"{gold}}}\n', encoding="utf-8")
        [plain] = extractor.read_examples(path, require=False)
        assert plain.targets == ()


def make_settings(**changes) -> Settings:
    return with_tables(Settings)(**changes)


def test_nothing_changes_without_a_kind():
    settings = make_settings()
    assert settings.extractor is None and settings.monitor == "bleu"
    for kind in KINDS:
        settings = make_settings(extraction={"kind": kind})
        assert settings.extractor.kind == kind and settings.monitor == MONITORS[kind]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValidationError, match="set extraction.kind, or names"):
        make_settings(extraction={"names": ["born_in"]})
    settings = make_settings(extraction={"kind": "triples"}, generation={"n_best": 2})
    with pytest.raises(InputError, match="n_best = 2 asks for several texts of a record"):
        assert settings.extractor


def test_the_oracle_says_what_is_lost():
    text = "Rome Ada met Bob, whom Rome knows"
    near = Item("born_in", (("subject", (5, 8)), ("object", (0, 4))))
    far = Item("born_in", (("subject", (5, 8)), ("object", (23, 27))))
    examples = [Example(n, text, ("?",), n, (item,), True) for n, item in enumerate((near, far), 1)]
    extractor = extractor_of("triples", examples)
    oracle = extractor.score_oracle(examples, {one.id: extractor.write(one) for one in examples})
    assert (oracle["f1"], oracle["lost"], oracle["invented"]) == (0.5, 1, 1)
    [finding] = extractor.find_oracle_faults("train.jsonl", oracle)
    assert finding.level == "error" and "line 2 for one" in finding.where
    oracle = extractor.score_oracle(examples[:1], {1: extractor.write(examples[0])})
    assert extractor.find_oracle_faults("train.jsonl", oracle) == []
    cut = extractor.score_oracle(examples[:1], {1: "Ada | born_in"})
    assert "lost 1" in extractor.describe_oracle(cut) and "a part is missing (1)" in (
        extractor.describe_oracle(cut)
    )


# -------------------------------------------------------------------------- a project


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A project with the first training records of both samples, and all of their dev."""
    project = bake_project(
        "seq2seq", tmp_path_factory.mktemp("extraction"), "comparison, doctor, extraction"
    )
    for kind, sample in SAMPLES.items():
        folder = project / kind
        shutil.copytree(ROOT / "baselines" / sample / "sample", folder)
        for name, count in (("train", 48), ("test", 8)):
            path = folder / f"{name}.jsonl"
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:count]
            path.write_text("".join(lines), encoding="utf-8")
    process = ProjectProcess(project)
    yield process
    process.stop()


def start(process, *command) -> str:
    """Return what a command prints, which ends well."""
    done = process.run(*command)
    assert done.code == 0, done.out + done.err
    return done.out


@pytest.mark.further
@pytest.mark.trains
@pytest.mark.parametrize(("kind", "model"), [("triples", "unilm"), ("events", "encoder_decoder")])
def test_a_writer_stands_beside_the_pointer_model(process, kind, model):
    project = process.project
    files = {f"{name}_file": f"{kind}/{name}.jsonl" for name in ("train", "dev", "test")}
    table = {"extraction.kind": kind, "generation.beams": 2, "target_length": 32}
    settings = flags(project, run_name=kind, model=model, steps=2, **files, **table)
    said = start(process, "train.py", *settings)
    assert f"best dev {MONITORS[kind].replace('_', ' ').replace('f1', 'F1')} " in said
    assert "not read: " in said or "all that was written was read" in said

    scores = json.loads((project / "runs" / kind / "scores.json").read_text(encoding="utf-8"))
    assert scores["monitor"] == MONITORS[kind]
    assert scores["dev"]["unread_reasons"].keys() == REASONS.keys()
    assert scores["dev"]["unread"] == sum(scores["dev"]["unread_reasons"].values())

    out = project / f"{kind}.jsonl"
    said = start(process, "predict.py", kind, project / kind / "test.jsonl", out)
    assert f"{kind}.jsonl: 8 records, " in said
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [list(record) for record in records] == [
        ["id", "text", kind, "prediction", "score", "unread"]
    ] * 8
    said = start(process, "evaluate.py", kind, project / kind / "test.jsonl")
    assert "f1" in said and ("not read" in said or "was read" in said)

    runs, config = (
        project / "runs",
        json.loads((project / "runs" / kind / "config.json").read_text()),
    )
    assert config["extraction"]["kind"] == kind and len(config["extraction"]["names"]) > 2
    shutil.copytree(runs / kind, runs / "other", dirs_exist_ok=True)
    (runs / "other" / MANIFEST).unlink()
    config["extraction"]["names"].pop()
    (runs / "other/config.json").write_text(json.dumps(config))
    done = process.run("predict.py", kind, "other", project / kind / "test.jsonl", out)
    assert done.code == 1 and "these runs write different things" in done.err

    baseline = ROOT / "baselines" / SAMPLES[kind]
    start(process, "compare.py", kind, baseline)
    compared = json.loads((project / "runs" / kind / "comparison.json").read_text(encoding="utf-8"))
    reference = json.loads((baseline / "reference/scores.json").read_text(encoding="utf-8"))
    assert compared["second"] == pytest.approx(reference["dev"][MONITORS[kind]], abs=1e-12)
    assert compared["low"] <= compared["difference"] <= compared["high"] < 0


@pytest.mark.trains
def test_the_gold_of_a_project_is_checked(process):
    done = process.run(
        "check.py",
        *flags(
            process.project,
            **{
                "train_file": "triples/train.jsonl",
                "dev_file": "triples/dev.jsonl",
                "test_file": "triples/test.jsonl",
                "extraction.kind": "triples",
                "target_length": 120,
            },
        ),
    )
    assert "oracle (gold, written and found again): F1 " in done.out, done.out + done.err
    assert "exact match" not in done.out and "triples in all " in done.out
