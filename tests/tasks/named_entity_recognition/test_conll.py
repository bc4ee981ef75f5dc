"""CoNLL columns and doccano's exports: read, refused by line, and written as they came."""

import json
import random
from types import SimpleNamespace

import pytest
from conftest import use_template

use_template("named_entity_recognition")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from formats import submission  # noqa: E402
from formats.conll import (  # noqa: E402
    LETTERS,
    find_chunks,
    find_scheme,
    has_tags,
    is_conll,
    join_tokens,
    parse_tag,
    read_chunks,
    read_conll,
    write_chunks,
    write_conll,
)
from formats.records import prediction_records  # noqa: E402
from formats.submission import write_submission  # noqa: E402
from inspection.checks import find_few_overlaps  # noqa: E402
from task.records import Entity, find_schema, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

BIO = "Ada\tNN\tB-PER\nQuill\tNN\tI-PER\nwept\tVB\tO\n\n"
BIO += "-DOCSTART-\t-X-\tO\n\nin\tIN\tO\nOslo\tNN\tB-LOC\n"


def write(tmp_path, content, name="in.conll"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def settings(**changes) -> Settings:
    return with_tables(Settings)(conll=changes)


def words(examples) -> list[list[tuple[str, str]]]:
    """Return words and type of the entities of each example."""
    return [[(e.text[slice(*one.span)], one.type) for one in e.entities] for e in examples]


def submit(tmp_path, source, found, scheme="bio2", **changes) -> str:
    """Return the submission in which the first example has some entities."""
    own = settings(**changes)
    examples = read_examples(source, own, require_entities=False)
    predictions = {example.id: [] for example in examples}
    predictions[examples[0].id] = [(entity, 0.9) for entity in found]
    records = prediction_records(examples, predictions)
    write_submission(tmp_path / "out", source, own, scheme, examples, records)
    return (tmp_path / "out").read_bytes().decode()


# --------------------------------------------------------------------------- tags


def random_chunks(length):
    chunks, start = [], 0
    while start < length:
        if random.random() < 0.5:
            end = random.randrange(start, length)
            chunks.append((random.choice(["PER", "LOC", "creative-work"]), start, end))
            start = end
        start += 1
    return chunks


@pytest.mark.parametrize("scheme", LETTERS)
def test_tags_that_are_written_are_read_again(scheme):
    random.seed(1)
    for _ in range(500):
        length = random.randrange(1, 9)
        chunks = random_chunks(length)
        tags = write_chunks(chunks, length, scheme)
        assert [parse_tag(f"{a}-{b}" if b else "O") for a, b in tags] == tags
        assert find_chunks(tags, scheme, "refuse") == (chunks, None)
        assert read_chunks(tags) == chunks


@pytest.mark.parametrize("scheme", LETTERS)
def test_the_scheme_is_found(scheme):
    chunks = [[("PER", 0, 2), ("PER", 3, 4)], [("LOC", 1, 1)]]
    assert find_scheme([write_chunks(own, 6, scheme) for own in chunks]) == scheme
    assert find_scheme([[("", "")]]) is None


@pytest.mark.parametrize("cell", ["B", "B-", "X-PER", "b-PER", "PER", "o", "B_PER", "-PER"])
def test_what_is_no_tag(cell):
    assert parse_tag(cell) is None


# ------------------------------------------------------------------------ reading


def test_columns_marks_and_sentences(tmp_path):
    path = write(tmp_path, BIO)
    examples = read_examples(path, settings())
    assert [example.text for example in examples] == ["Ada Quill wept", "in Oslo"]
    assert [example.id for example in examples] == [1, 7]
    assert words(examples) == [[("Ada Quill", "PER")], [("Oslo", "LOC")]]


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        (BIO.replace("\t", " "), {}),
        (BIO.replace("\t", "   "), {}),
        (BIO.replace("\n", "\r\n"), {}),
        ("\ufeff" + BIO, {}),
        (BIO.replace("\n\n", "\n\t\n"), {}),
        (BIO.replace("B-", "I-"), {}),
        (BIO.replace("B-LOC", "S-LOC").replace("I-PER", "E-PER"), {}),
        (BIO.replace("B-LOC", "U-LOC").replace("I-PER", "L-PER"), {}),
        ("# id 7\tdomain=en\n" + BIO, {}),
        ("\n".join("\t".join(line.split("\t")[::-1]) for line in BIO.split("\n")),
         {"token_column": -1, "tag_column": 1}),
        ("\n".join("1\t" + line if line else "" for line in BIO.split("\n")), {"token_column": 2}),
    ],
)  # fmt: skip
def test_files_that_say_the_same(content, changes, tmp_path):
    if changes.get("token_column"):
        content = "\n".join(line for line in content.split("\n") if "DOCSTART" not in line)
    found = words(read_examples(write(tmp_path, content), settings(**changes)))
    assert found == [[("Ada Quill", "PER")], [("Oslo", "LOC")]]


def test_chinese_tokens_stand_together(tmp_path):
    path = write(tmp_path, "在\tO\n北\tB-地点\n京\tI-地点\n用\tO\niPhone\tO\n15\tO\n")
    [example] = read_examples(path, settings())
    assert example.text == "在北京用iPhone 15"
    assert words([example]) == [[("北京", "地点")]]
    # Where each token is one character, Latin letters and digits belong together too.
    characters = "".join(f"{one}\tO\n" for one in "买了小米11手机")
    path = write(tmp_path, "在\tO\n\n" + characters)
    assert [one.text for one in read_examples(path, settings())] == ["在", "买了小米11手机"]
    path = write(tmp_path, "iPhone\tO\n\n" + characters)
    assert [one.text for one in read_examples(path, settings())][1] == "买了小米1 1手机"
    assert join_tokens(["a", "北"], "space")[0] == "a 北"
    assert join_tokens(["a", "b"], "none") == ("ab", [(0, 1), (1, 2)])


def test_a_hash_is_a_token_where_it_is_not_a_comment(tmp_path):
    path = write(tmp_path, "# id 3\n#\tO\nid\tO\n\n#\tO\nOslo\tB-LOC\n")
    assert [e.text for e in read_examples(path, settings())] == ["# id", "# Oslo"]


BROKEN = {
    "not a tag": ("Ada\tB-PER\nwept\tVB\n", {}, "line 2: 'VB' is not a tag, which is O, or one of"),
    "goes on with nothing": (
        "Ada\tB-PER\nwept\tO\nQuill\tI-PER\n",
        {},
        "line 3: 'I-PER' is not allowed here in BIO2: correct the tag, or set conll.broken_tags",
    ),
    "does not end": (
        "Ada\tB-PER\nwept\tO\nOslo\tS-LOC\n",
        {},
        "line 1: 'B-PER' is not allowed here in BIOES",
    ),
    "another scheme": ("Ada\tI-PER\n", {"scheme": "bio2"}, "line 1: 'I-PER' is not allowed here"),
    "several schemes": (
        "Ada\tE-PER\nOslo\tU-LOC\n",
        {},
        "line 2: no scheme has E, U together: write",
    ),
    "fewer columns": ("Ada\tNN\tO\nwept\tO\n", {}, "line 2: 2 columns, and line 1 has 3: write as"),
    "a space in a token": ("Ada O\nNew York B-LOC\n", {}, "line 2: 3 columns, and line 1 has 2"),
    "no tags": ("Ada\nwept\n", {}, "line 1: 1 column, and tokens and tags are read from the same"),
    "no such column": (
        "Ada\tO\n",
        {"tag_column": 4},
        "line 1: 2 columns, and conll.tag_column = 4: set",
    ),
    "no such token column": (
        "A\tO\n",
        {"token_column": -3},
        "2 columns, and conll.token_column = -3",
    ),
    "empty token": ("Ada\tO\n\tB-PER\n", {}, "line 2: the token is empty"),
    "not UTF-8": (b"Ada\tO\n\xff\tO\n", {}, "line 2: not UTF-8"),
    "nothing": ("\n\n-DOCSTART- O\n", {}, "holds no record: write one token on each line"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_columns(name, tmp_path):
    content, changes, expected = BROKEN[name]
    path = write(tmp_path, content)
    with pytest.raises(InputError) as error:
        read_examples(path, settings(**changes))
    assert str(error.value).startswith(str(path)) and expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("broken", "count"), [("begin", 2), ("drop", 1)])
def test_broken_tags_as_others_read_them(broken, count, tmp_path):
    path = write(tmp_path, "Ada\tB-PER\nwept\tO\nQuill\tI-PER\n")
    [example] = read_examples(path, settings(broken_tags=broken))
    assert len(example.entities) == count


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.jsonl", "Ada O", False),
        ("a.json", "Ada O", False),
        ("a.txt", '\n{"id": 1}\n', False),
        ("a.txt", '{"id": 1, "text', False),
        ("a.txt", "{ O\n", True),
        ("a.annotated", "Ada\tO\n", True),
        ("a.txt", "7\tO\n", True),
        ("a.txt", "7\n", True),
    ],
)
def test_the_format_is_known_by_name_or_first_line(name, content, columns, tmp_path):
    assert is_conll(write(tmp_path, content, name)) == columns


# ------------------------------------------------------------------------ doccano


def doccano(**fields) -> str:
    return json.dumps({"id": 5, "text": "Ada wept in Oslo.", **fields}) + "\n"


@pytest.mark.parametrize(
    "content",
    [
        doccano(label=[[0, 3, "PER"], [12, 16, "LOC"]], Comments=[]),
        doccano(labels=[[0, 3, "PER"], [12, 16, "LOC"]]),
        doccano(label=[[0, 3, "PER"], [12, 16, "LOC"]], entities=None),
        doccano(
            entities=[
                {"id": 1, "start_offset": 12, "end_offset": 16, "label": "LOC"},
                {"id": 0, "start_offset": 0, "end_offset": 3, "label": "PER"},
            ],
            relations=[{"id": 0, "from_id": 0, "to_id": 1, "type": "wept_in"}],
        ),
        doccano(entities=[{"type": "LOC", "span": [12, 16]}, {"type": "PER", "span": [0, 3]}]),
    ],
)
def test_exports_of_doccano_say_the_same(content, tmp_path):
    found = words(read_examples(write(tmp_path, content, "in.jsonl"), settings()))
    assert found == [[("Ada", "PER"), ("Oslo", "LOC")]]


@pytest.mark.parametrize("name", ["label", "labels", "entities"])
def test_null_is_no_entity(name, tmp_path):
    path = write(tmp_path, doccano(**{name: None}), "in.jsonl")
    assert words(read_examples(path, settings(), False)) == [[]]
    with pytest.raises(InputError, match='line 1: the field "entities" is missing'):
        read_examples(path, settings())


# --------------------------------------------------------------------- submission


def test_columns_come_back_as_they_were(tmp_path):
    """But for the tags: of what is found in the first sentence, in the scheme of the file."""
    source = write(tmp_path, BIO)
    found = [Entity((4, 9), "PER")]
    wanted = BIO.replace("B-PER", "O").replace("I-PER", "B-PER").replace("B-LOC", "O")
    assert submit(tmp_path, source, found) == wanted
    spaced = write(tmp_path, BIO.replace("\t", "  ").replace("B-PER", "B-PER "))
    assert submit(tmp_path, spaced, found).startswith("Ada  NN  O\nQuill  NN  B-PER\n")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("Ada\nQuill\n\nOslo\n", "Ada E-PER\nQuill E-PER\n\nOslo O\n"),
        ("Ada NN\nQuill NN\n", "Ada NN E-PER\nQuill NN E-PER\n"),
        ("Ada\t-\nQuill\t-\n", "Ada\tE-PER\nQuill\tE-PER\n"),
        ("Ada\tO\nQuill\tO\n", "Ada\tE-PER\nQuill\tE-PER\n"),
    ],
)
def test_files_without_tags_get_them(content, wanted, tmp_path):
    """In the scheme of the training file, in a column of their own or in the place that is kept."""
    found = [Entity((0, 9), "PER")]
    wanted = wanted.replace("E-PER", "B-PER", 1)
    assert submit(tmp_path, write(tmp_path, content), found, "bioes") == wanted


def test_doccano_comes_back_with_its_fields(tmp_path):
    found = [Entity((0, 3), "PER")]
    source = write(tmp_path, doccano(label=[], meta={"a": 1}), "in.jsonl")
    assert json.loads(submit(tmp_path, source, found)) == {
        "id": 5,
        "text": "Ada wept in Oslo.",
        "label": [[0, 3, "PER"]],
        "meta": {"a": 1},
    }
    source = write(tmp_path, doccano(entities=[], relations=[{"id": 1}]), "in.jsonl")
    record = json.loads(submit(tmp_path, source, found))
    assert record["relations"] == []
    assert record["entities"] == [{"id": 0, "label": "PER", "start_offset": 0, "end_offset": 3}]


def test_what_lacks_entities_comes_back_with_words_and_scores(tmp_path):
    source = write(tmp_path, doccano(), "in.jsonl")
    record = json.loads(submit(tmp_path, source, [Entity((0, 3), "PER")]))
    entity = {"type": "PER", "span": [0, 3], "text": "Ada", "score": 0.9}
    assert record == {"id": 5, "text": "Ada wept in Oslo.", "entities": [entity]}


# ------------------------------------------------------------------------- schema


def test_the_schema_knows_the_scheme_and_whether_entities_overlap(tmp_path):
    path = write(tmp_path, BIO.replace("B-LOC", "S-LOC").replace("I-PER", "E-PER"))
    schema = find_schema(read_examples(path, settings()), path, settings())
    assert (schema.types, schema.flat, schema.scheme) == (["LOC", "PER"], True, "bioes")
    nested = doccano(label=[[0, 3, "PER"], [2, 8, "LOC"], [12, 16, "LOC"]])
    path = write(tmp_path, nested, "in.jsonl")
    assert not find_schema(read_examples(path, settings()), path, settings()).flat


def test_a_few_overlapping_entities_are_named():
    def example(line, *spans):
        entities = tuple(Entity(span, "x") for span in spans)
        return SimpleNamespace(line=line, entities=entities)

    flat = [example(line, (0, 3), (3, 5)) for line in range(100)]
    assert find_few_overlaps("train", flat) == []
    [found] = find_few_overlaps("train", [*flat, example(101, (0, 3), (2, 5))])
    assert found.what.endswith("another one: 1 of 202") and "line 101" in found.where
    nested = [example(line, (0, 3), (0, 5)) for line in range(9)]
    assert find_few_overlaps("train", [*flat, *nested]) == []


# ----------------------------------------------------------- hashtags, tagged test files


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("#text\tB-LOC\nme\tO\n\n#id\tO\n1\tO\n", ["#text me", "#id 1"]),
        ("#text B-LOC\nme O\n\n#newpar O\n", ["#text me", "#newpar"]),
        ("# id 3\tdomain=en\n#id\tO\nOslo\tB-LOC\n", ["#id Oslo"]),
        ("# sent_id = 1\n# text = Ada O\nAda O\nOslo B-LOC\n", ["Ada Oslo"]),
        ("# id 7\nAda NN B-LOC\n", ["Ada"]),
        ("#text\tB-LOC\n", ["#text"]),
    ],
)
def test_a_hashtag_is_a_token(content, texts, tmp_path):
    path = write(tmp_path, content)
    assert [example.text for example in read_examples(path, settings())] == texts


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("#text\nme\n\n#id\n1\n", ["#text me", "#id 1"]),
        ("# id 7\n#text\nme\n", ["#text me"]),
        ("#text\tNN\nme\tPR\n", ["#text me"]),
        ("# id 7\tdomain=en\n#text\tNN\n", ["#text"]),
    ],
)
def test_a_hashtag_is_a_token_without_tags(content, texts, tmp_path):
    path = write(tmp_path, content)
    assert [example.text for example in read_examples(path, settings(), False)] == texts


def test_a_hashtag_gets_the_tag_that_was_found(tmp_path):
    path, out = write(tmp_path, "#text\tB-LOC\nme\tO\n\nAda\tO\n"), tmp_path / "out.conll"
    write_conll(out, read_conll(path, settings().conll, False), [[("PER", 1, 1)], []], "bio2")
    assert out.read_text() == "#text\tO\nme\tB-PER\n\nAda\tO\n"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_the_byte_order_mark_stay(mark, end, tmp_path):
    text = f"{mark}#text\tB-LOC{end}me\tO{end}{end}Ada\tO{end}"
    path, out = tmp_path / "in.conll", tmp_path / "out.conll"
    path.write_bytes(text.encode())
    write_conll(out, read_conll(path, settings().conll, False), [[("PER", 1, 1)], []], "bio2")
    wanted = f"{mark}#text\tO{end}me\tB-PER{end}{end}Ada\tO{end}"
    assert out.read_bytes() == wanted.encode()


def test_a_type_with_a_blank_is_written_where_columns_allow_it(tmp_path):
    kind, out = "public place", tmp_path / "out.conll"

    def write_with(content, own=kind):
        file = read_conll(write(tmp_path, content), settings().conll, False)
        write_conll(out, file, [[(own, 0, 0)]], "bio2")
        [example] = read_examples(out, settings())
        return out.read_text(), words([example])

    assert write_with("Oslo\tO\n") == (f"Oslo\tB-{kind}\n", [[("Oslo", kind)]])
    assert write_with("Oslo\n") == (f"Oslo\tB-{kind}\n", [[("Oslo", kind)]])
    assert write_with("Oslo\n", "place")[0] == "Oslo B-place\n"
    for content, own in (("Oslo O\n", kind), ("Oslo\tO\n", "a\tb"), ("Oslo\n", "a\nb")):
        with pytest.raises(InputError, match="holds what separates the columns .* by tabs"):
            write_with(content, own)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Ada\tB-PER\nwept\tO\n", True),
        ("Ada\tO\nwept\tO\n", False),  # O for what nobody has labelled
        ("Ada\t_\nwept\tO\n", False),
        ("Ada\t-\nwept\tB-PER\n", False),
        ("Ada\nwept\n", False),
        ("Ada\tNN\nwept\tVB\n", False),
        ('{"id": 1, "text": "a"}\n', False),
    ],
)
def test_check_knows_a_test_file_with_tags(content, expected, tmp_path):
    assert has_tags(write(tmp_path, content), settings().conll) is expected


# ------------------------------------------------------------------------ what corpora have


@pytest.mark.parametrize(
    "content",
    [
        "#\thttp://example.org [2014]\nAda\tNN\tB-PER\nwept\tVB\tO\n",  # GermEval
        "###MEDLINE:95369245\n\nAda\tB-PER\nwept\tO\n",  # JNLPBA
        "Ada B-PER\nwept O\n\t\n",  # a tab on an empty line
    ],
)
def test_lines_without_a_token_are_left_out(content, tmp_path):
    examples = read_examples(write(tmp_path, content), settings())
    assert words(examples) == [[("Ada", "PER")]]


def test_the_text_of_an_export_may_be_data(tmp_path):
    line = json.dumps({"id": 1, "data": "Ada wept", "label": [[0, 3, "PER"]]})
    assert words(read_examples(write(tmp_path, line, "a.jsonl"), settings())) == [[("Ada", "PER")]]
    both = json.dumps({"id": 1, "text": "Ada", "entities": [], "label": [[0, 3, "PER"]]})
    with pytest.raises(InputError, match='"entities" and "label" both hold entities: keep one'):
        read_examples(write(tmp_path, both, "b.jsonl"), settings())


def test_relations_of_ones_own_are_kept(tmp_path):
    """Records in our format with a further field are no export of doccano."""
    record = {"id": 1, "text": "Ada wept", "entities": [{"type": "PER", "span": [0, 3]}]}
    found = submission.fill_record({**record, "relations": [1]}, record["entities"])
    assert found is None
