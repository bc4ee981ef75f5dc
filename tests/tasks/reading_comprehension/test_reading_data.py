"""Windows that hold the whole question, exact offsets, and what each window is taught."""

import numpy as np
import pytest
from conftest import use_template
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, pre_tokenizers, processors

use_template("reading_comprehension")

from core.base.errors import InputError  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from inspection import checks  # noqa: E402
from score import read_submission  # noqa: E402
from task import data, records  # noqa: E402
from task.settings import Settings  # noqa: E402

QUESTION = "Who founded Zenco?"
CONTEXT = (
    "Ada Quill founded Zenco in 1999. In 1999 Bob left for Ame\u0301lie's 🚀 shop. "
    "星远科技由陈明创办。"
)
INPUTS = ["token_ids", "segment_ids", "padding_mask"]


def make(question=QUESTION, context=CONTEXT, answers=((0, 9),), texts=(), identity="a", line=1):
    return records.Example(identity, question, context, tuple(answers), tuple(texts), line)


def bert():
    return train_tokenizer(4 * [QUESTION, CONTEXT], 200)


def byte_level():
    """A tokenizer of bytes, in RoBERTa's frame."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {token: number for number, token in enumerate(special)}
    for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[character] = len(vocabulary)
    tokenizer = ByteLevelBPETokenizer(vocabulary, [])._tokenizer
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def preset():
    """A preset's tokenizer of bytes: it has a frame for single texts only."""
    tokenizer = byte_level()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def words():
    """A tokenizer of whole words without any frame."""
    vocabulary = {"[UNK]": 0, "who": 1, "a": 2}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def describe(frame):
    """Return the tokens and the segments of the three parts around a question and its context."""
    parts = (frame.before, frame.between, frame.after)
    assert all((part[1:3] == -1).all() for part in parts)
    return [part[0].tolist() for part in parts], [part[3].tolist() for part in parts]


def test_frame_of_bert():
    tokenizer = bert()
    frame = data.read_frame(tokenizer)
    cls, sep = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
    assert describe(frame) == ([[cls], [sep], [sep]], [[0], [0], [1]])
    assert frame.segments == (0, 1)


@pytest.mark.parametrize("tokenizer", [byte_level, preset])
def test_frame_of_roberta(tokenizer):
    frame = data.read_frame(tokenizer())
    assert describe(frame) == ([[0], [2, 2], [2]], [[0], [0, 0], [0]])
    assert frame.segments == (0, 0)


def test_no_frame_at_all():
    frame = data.read_frame(words())
    assert describe(frame) == ([[], [], []], [[], [], []])


@pytest.mark.parametrize("tokenizer", [bert, byte_level])
def test_one_window_is_what_the_tokenizer_makes_of_the_pair(tokenizer):
    tokenizer = tokenizer()
    ((window,),) = data.split_into_windows(tokenizer, [make()], 500, 10)
    pair = tokenizer.encode(QUESTION, CONTEXT)
    assert window.token_ids.tolist() == pair.ids
    assert window.segment_ids.tolist() == pair.type_ids
    assert window.is_context.tolist() == [owner == 1 for owner in pair.sequence_ids]
    assert not window.question_cut and window.reach == (0, len(CONTEXT))


@pytest.mark.parametrize("tokenizer", [bert, byte_level, words])
@pytest.mark.parametrize(
    ("max_length", "overlap"), [(24, 0), (24, 5), (24, 21), (64, 31), (500, 8)]
)
def test_windows_hold_the_question_and_together_the_whole_context(tokenizer, max_length, overlap):
    tokenizer = tokenizer()
    example = make(question="who")
    (windows,) = data.split_into_windows(tokenizer, [example], max_length, overlap)
    frame = data.read_frame(tokenizer)
    question = tokenizer.encode("who", add_special_tokens=False).ids
    (before, between, after), _ = describe(frame)
    front = [*before, *question, *between]
    (whole,) = data.split_into_windows(tokenizer, [example], 10_000, 0)[0]
    position, room = 0, len(windows[0]) - len(front) - len(after)
    for window in windows:
        assert len(front) + len(after) < len(window) <= max_length
        assert window.token_ids[: len(front)].tolist() == front
        assert len(window) == len(window.segment_ids) == len(window.starts) == len(window.ends)
        pieces = context_tokens(window)
        shared = min(overlap, room // 2) if position else 0
        # The last window is full: it may share more.
        places = [position - shared] if window is not windows[-1] else range(position - shared + 1)
        assert any(context_tokens(whole)[place : place + len(pieces)] == pieces for place in places)
        position = position - shared + len(pieces) if window is not windows[-1] else position
        assert len(pieces) == room or len(windows) == 1
    assert pieces == context_tokens(whole)[-room:]
    assert position + len(pieces) >= len(context_tokens(whole))


def context_tokens(window):
    """Return id, start and end of each token of the context."""
    inside = window.is_context
    columns = (window.token_ids[inside], window.starts[inside], window.ends[inside])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_long_question_is_cut_and_the_context_keeps_half_a_window():
    tokenizer = bert()
    example = make(question=60 * "who ")
    (windows,) = data.split_into_windows(tokenizer, [example], 32, 8)
    assert all(window.question_cut and len(window) <= 32 for window in windows)
    assert all(sum(window.is_context) >= 15 for window in windows)
    settings = Settings.model_construct(
        max_length=32, window_overlap=8, answer_length=30, metric="squad"
    )
    reach = checks.measure_reach([example], tokenizer, settings)
    (finding,) = checks.find_reach_faults("train.jsonl", reach)
    assert finding.what.startswith("questions longer than half a window, whose end is cut off: 1")


@pytest.mark.parametrize("tokenizer", [bert, byte_level])
def test_every_word_survives_encoding_and_decoding(tokenizer):
    """Accents of their own, emoji, Chinese: the slice of the passage is the answer, exactly."""
    tokenizer = tokenizer()
    settings = Settings.model_construct(answer_length=200)
    wanted = [
        "Ada Quill",
        "1999",
        "Ame\u0301lie",
        "🚀",
        "星远科技",
        "陈明",
        "Bob left for Ame\u0301lie's 🚀",
    ]
    for text in wanted:
        start = CONTEXT.rindex(text)
        example = make(answers=[(start, start + len(text))])
        for max_length, overlap in ((500, 0), (110, 50)):
            (windows,) = data.split_into_windows(tokenizer, [example], max_length, overlap)
            assert checks.decode_gold(example, windows, settings) == text


def test_the_answer_that_occurs_twice_is_the_one_that_was_marked():
    tokenizer, second = bert(), CONTEXT.index("1999", 30)
    (windows,) = data.split_into_windows(tokenizer, [make()], 24, 6)
    example = make(answers=[(second, second + 4)])
    for window in windows:
        for start, end in data.gold_pairs(example, window):
            assert (window.starts[start], window.ends[end]) == (second, second + 4)
    assert any(data.gold_pairs(example, window) for window in windows)


def generator(examples, batch_size=4, labels=True, **changes):
    values = {"max_length": 500, "window_overlap": 8, "buckets": 2, "seed": 3, **changes}
    settings = Settings.model_construct(**values)
    return data.AnswerGenerator.of(examples, bert(), INPUTS, settings, batch_size, labels)


def test_what_windows_are_taught():
    examples = [
        make(identity="one"),
        make(identity="two", answers=[(0, 9), (0, 3), (0, 9)]),
        make(identity="none", answers=[]),
        make(identity="texts", answers=[], texts=["Quill Ada"]),
    ]
    made = generator(examples)
    assert [made.examples[number].id for number in made.record_of] == ["one", "two", "none"]
    batch = made.make_batch(np.arange(3), made.boundaries[-1])
    assert batch["answers"].shape == (3, 2, 2)
    window = made.windows[0]
    gold = list(window.token_span((0, 9)))
    assert batch["answers"][0].tolist() == [gold, [-1, -1]]
    assert batch["answers"][1].tolist() == [gold, list(window.token_span((0, 3)))]
    assert batch["answers"][2].tolist() == [[0, 0], [-1, -1]]
    assert batch["context_mask"][0].tolist() == window.is_context.astype(int).tolist()
    assert not batch["context_mask"][:, 0].any()


def test_a_window_without_the_answer_is_taught_that_it_is_not_here():
    made = generator([make()], max_length=24)
    batch = made.make_batch(np.arange(len(made.windows)), made.boundaries[-1])
    here = [window.token_span((0, 9)) is not None for window in made.windows]
    assert any(here) and not all(here)
    for row, inside in zip(batch["answers"], here, strict=True):
        assert (row[0].tolist() == [0, 0]) != inside


def test_an_answer_longer_than_every_window_is_left_out_and_reported():
    long = make(identity="long", answers=[(0, 70)], line=9)
    made = generator([make(), long], max_length=24)
    assert set(made.record_of) == {0}
    settings = Settings.model_construct(
        max_length=24, window_overlap=8, answer_length=30, metric="squad"
    )
    reach = checks.measure_reach([make(), long], bert(), settings)
    assert reach.outside == ["line 9"]
    with pytest.raises(InputError, match="no answer fits into a window"):
        data.check_answers(generator([long], max_length=24))


def test_answers_that_are_never_given_are_named():
    settings = Settings.model_construct(
        max_length=24, window_overlap=8, answer_length=1, metric="squad"
    )
    texts = make(identity="texts", answers=[], texts=["nowhere"], line=3)
    examples = [make(), make(identity="long", answers=[(0, 70)], line=9), texts]
    reach = checks.measure_reach(examples, bert(), settings)
    found = {finding.what: finding for finding in checks.find_reach_faults("dev", reach)}
    assert found["answers that fit into no window: 1"].fix == "raise max_length."
    assert found["answers longer than answer_length: 1"].fix == "raise answer_length."
    assert found["a perfect model would score F1 0.0000"].level == "error"
    untaught = checks.find_untaught({"train": [make()], "dev": examples})
    assert [note.what for note in untaught] == [
        "questions with answer_texts and no span: 1, scored, but no model can find them"
    ]


def test_prediction_keeps_every_question():
    examples = [make(identity="texts", answers=[], texts=["x"]), make(identity="long", answers=())]
    made = generator(examples, labels=False)
    assert made.record_of == [0, 1]
    assert "answers" not in made.make_batch(np.arange(2), made.boundaries[-1])


def test_sampled_answers_follow_the_votes_and_the_epoch_alone():
    votes = [(0, 9), (0, 9), (0, 9), (0, 3)]
    examples = [make(identity=str(number), answers=votes) for number in range(100)]
    made = generator(examples, answers="sample", batch_size=50)
    epochs = [[batch["answers"] for batch in made.batches(epoch)] for epoch in (0, 1, 0)]
    assert all(batch.shape == (50, 1, 2) for batch in epochs[0])
    np.testing.assert_array_equal(epochs[0], epochs[2])
    resumed = [batch["answers"] for batch in made.batches(1, skip=1)]
    np.testing.assert_array_equal(resumed, epochs[1][1:])
    drawn = np.concatenate([*epochs[0], *epochs[1]])[:, 0]
    long = made.windows[0].token_span((0, 9))
    assert 0.6 < (drawn == long).all(axis=1).mean() < 0.9
    assert not np.array_equal(epochs[0], epochs[1])


def test_lengths_of_answers_are_smoothed_and_sum_to_one():
    examples = [make(answers=[(0, 9)]), make(answers=[(0, 3), (0, 3)]), make(answers=[(0, 60)])]
    tokenizer = bert()
    found = np.exp(data.answer_lengths(examples, tokenizer, 6))
    assert found.sum() == pytest.approx(1, abs=1e-5)
    counts = np.ones(6)
    for text in (CONTEXT[0:9], CONTEXT[0:3], CONTEXT[0:60]):
        counts[min(len(tokenizer.encode(text, add_special_tokens=False)), 6) - 1] += 1
    np.testing.assert_allclose(found, counts / 9, atol=1e-5)


def test_findings_about_files():
    passage = make(identity="p", question="When?", line=4)
    texts = make(identity="t", context="Bob", answers=[], texts=["Robert"], line=5)
    none = make(identity="n", context="Eve", answers=[], line=6)
    files = {"train": [make(), texts, none], "dev": [passage], "test": [make(context="x")]}
    found = {finding.what: finding for finding in checks.find_data_faults(files)}
    assert found["passages of dev that are also in train: 1 of 1"].level == "warning"
    left_out = found["questions with answer_texts and no span: 1, left out of training"]
    assert left_out.where == "train, line 5 for example"
    assert found["33% of train is unanswerable, but nothing of dev"].level == "warning"
    assert len(found) == 3
    leak = {"train": [make()], "dev": [make(identity="b")]}
    assert "error" in [finding.level for finding in checks.find_data_faults(leak)]


def test_blank_questions_and_passages_are_named():
    files = {"train": [make(), make(identity="b", question=" ", line=7)]}
    [found] = checks.find_blanks(files)
    assert found.what.endswith("passage: 1 of 2") and "line 7" in found.where
    assert checks.find_blanks({"train": [make()]}) == []


def test_answers_without_blanks_ask_for_the_other_metric():
    chinese = make(context="北京大学在北京。", answers=[(0, 4)])
    assert checks.find_unspaced_answers({"train": [make(), chinese]}, "squad") == []
    [found] = checks.find_unspaced_answers({"train": [chinese]}, "squad")
    assert 'set metric = "cmrc2018"' in found.fix
    assert checks.find_unspaced_answers({"train": [chinese]}, "cmrc2018") == []


def test_a_submission_is_scored_too(tmp_path):
    path = tmp_path / "out.json"
    path.write_text('{"a": "Bob", "b": ""}', "utf-8")
    golds = [make(identity="b"), make(identity="a")]
    assert read_submission(path, golds) == {"b": "", "a": "Bob"}
    path.write_text('{"a": "Bob"}', "utf-8")
    with pytest.raises(InputError, match="lacks 1 of 2 records"):
        read_submission(path, golds)
    path.write_text('{"a": ["Bob"], "b": ""}', "utf-8")
    with pytest.raises(InputError, match="is to hold {id: answer}"):
        read_submission(path, golds)


def test_gold_texts():
    assert make(answers=[(0, 3), (4, 9)]).gold_texts == ["Ada", "Quill"]
    assert make(answers=[(0, 3)], texts=["Robert"]).gold_texts == ["Robert"]
    assert make(answers=[]).gold_texts == [] and make(answers=[]).teachable
    assert not make(answers=[], texts=["Robert"]).teachable
