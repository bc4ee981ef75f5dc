"""Lists: the records of a group are learned together, from choices, candidates or pairs."""

import csv
import json
import signal

import numpy as np
import pytest
import tensorflow as tf
from conftest import ROOT, use_template
from project_process import ProjectProcess
from projects import bake_project, flags, run
from run_weights import largest_difference, weights
from sklearn.metrics import label_ranking_average_precision_score, log_loss, ndcg_score

use_template("text_classification")

from core.base.errors import InputError  # noqa: E402
from core.base.settings import with_tables  # noqa: E402
from core.data.tokens import train_tokenizer  # noqa: E402
from extras.competition.checks import find_faults  # noqa: E402
from extras.competition.list_batches import ListGenerator  # noqa: E402
from extras.competition.list_models import GroupScores, ListLoss  # noqa: E402
from extras.competition.list_scores import add_probabilities, score_lists  # noqa: E402
from extras.competition.lists import draw_candidates, target_shares  # noqa: E402
from extras.competition.splitting import hold_out, write_parts  # noqa: E402
from inspection.folds import fold_keys, settle_metric  # noqa: E402
from task.data import ExampleGenerator  # noqa: E402
from task.metrics import choose_metric  # noqa: E402
from task.records import collect_targets, read_examples  # noqa: E402
from task.settings import Settings  # noqa: E402

WORKER = ROOT / "tests/replica_worker.py"
LETTERS = "ABCDE"
TOPICS = "amber basil cedar delta ember fjord grove heath".split()
WORDS = "the of a which when where light mass force field wave cell star".split()


def make_questions(count, first=0, gaps=False):
    """The right choice has the topic of the prompt; with gaps some other choices are missing."""
    random, rows = np.random.default_rng(first), []
    for number in range(first, first + count):
        topics, right = random.permutation(TOPICS)[:5], random.integers(5)
        row = {"id": number, "prompt": " ".join([topics[right], *random.choice(WORDS, 3), "?"])}
        for place, (letter, topic) in enumerate(zip(LETTERS, topics, strict=True)):
            missing = gaps and place != right and place < number % 4
            row[letter] = "" if missing else " ".join([topic, topic, *random.choice(WORDS, 2)])
        rows.append({**row, "answer": LETTERS[right]})
    return rows


def write_table(path, rows, columns=None):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or [*rows[0]], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def settings_of(**competition):
    return with_tables(Settings)(max_length=24, buckets=2, seed=3, competition=competition)


CHOICES = {"choice_columns": [*LETTERS]}
PAIRS = {"choice_columns": ["chosen", "rejected"], "right_choice": "chosen"}


# ---------------------------------------------------------------------------- closed forms


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def test_the_loss_and_its_gradient_are_those_of_a_softmax_over_each_group():
    random = np.random.default_rng(1)
    sizes, room = (5, 3, 2, 4), 5
    scores = random.normal(size=(4, room)).astype("float32") * 3
    grades = random.integers(0, 4, (4, room)).astype("float32")
    grades[:, 0] = 2
    targets = np.zeros((4, room, 2), "float32")
    for row, size in enumerate(sizes):
        targets[row, :size, 0] = target_shares(grades[row, :size], "shares")
        targets[row, :size, 1] = 1
    variable = tf.Variable(scores.reshape(-1, 1))
    with tf.GradientTape() as tape:
        losses = ListLoss()(GroupScores()(variable, tf.constant(targets)), targets)
    slopes = tape.gradient(losses, variable).numpy().reshape(4, room)
    for row, size in enumerate(sizes):
        own = scores[row, :size].astype(float)
        shares = grades[row, :size] / grades[row, :size].sum()
        assert abs(losses[row] + shares @ np.log(softmax(own))) < 1e-5
        # The gradient of a softmax's cross-entropy is its difference from the target.
        assert np.abs(slopes[row, :size] - (softmax(own) - shares)).max() < 1e-6
        assert not slopes[row, size:].any()


def test_two_candidates_are_the_model_of_bradley_and_terry():
    gaps = np.array([-3.0, -0.5, 0.0, 2.0, 30.0])
    scores = np.stack([gaps + 1, np.ones(5)], axis=1).astype("float32")
    targets = np.tile(np.array([[1, 1], [0, 1]], "float32"), (5, 1, 1))
    losses = ListLoss()(scores, targets).numpy()
    assert np.abs(losses - np.log1p(np.exp(-gaps))).max() < 1e-5


def test_targets_are_shares_or_the_softmax_of_grades():
    grades = np.array([3.0, 0.0, 1.0])
    assert np.allclose(target_shares(grades, "shares"), [0.75, 0, 0.25])
    assert np.allclose(target_shares(grades, "softmax"), softmax(grades))


# -------------------------------------------------------------------------------- scores


def test_scores_are_those_of_others():
    random = np.random.default_rng(4)
    sizes = random.integers(2, 7, 40)
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    scores = random.normal(size=len(groups))
    binary = np.concatenate([random.permutation([1.0] + [0.0] * (size - 1)) for size in sizes])
    several = (random.random(len(groups)) < 0.4) * 1.0
    grades = random.integers(0, 4, len(groups)).astype(float)
    ends = np.cumsum([0, *sizes])
    for gold in (binary, several, grades):
        parts = [
            (gold[a:b], scores[a:b])
            for a, b in zip(ends, ends[1:], strict=False)
            if gold[a:b].any()
        ]
        found = score_lists(gold, scores, groups, 3)
        assert found["ranked_groups"] == len(parts)
        means = {
            "accuracy": [own[np.argmax(s)] == own.max() for own, s in parts],
            "map": [label_ranking_average_precision_score([own > 0], [s]) for own, s in parts],
            "mrr": [
                1 / (1 + min(np.sum(s > s[place]) for place in np.flatnonzero(own)))
                for own, s in parts
            ],
            "ndcg": [ndcg_score([own], [s]) for own, s in parts],
            "ndcg_at_k": [ndcg_score([own], [s], k=3) for own, s in parts],
            "log_loss": [-(own / own.sum()) @ np.log(softmax(s)) for own, s in parts],
        }
        for name, values in means.items():
            assert abs(found[name] - np.mean(values)) < 1e-9, name
    found = score_lists(binary, scores, groups, 3)
    ranks = [1 + np.sum(s > s[own > 0]) for own, s in zip_groups(binary, scores, ends)]
    assert abs(found["map_at_k"] - np.mean([1 / r if r <= 3 else 0 for r in ranks])) < 1e-9
    rows = np.array([softmax(s)[:2] for s in (scores[a : a + 2] for a in ends[:-1])])
    pairs = np.concatenate([[a, a + 1] for a in ends[:-1]])
    gold = np.tile([1.0, 0.0], len(sizes))
    own = score_lists(gold, scores[pairs], [groups[p] for p in pairs], 3)
    assert abs(own["log_loss"] - log_loss([0] * len(rows), rows, labels=[0, 1])) < 1e-9


def zip_groups(gold, scores, ends):
    return [(gold[a:b], scores[a:b]) for a, b in zip(ends, ends[1:], strict=False)]


def test_equal_scores_gain_nothing():
    for gold in ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0]):
        found = score_lists(np.array(gold), np.zeros(3), ["q"] * 3, 3)
        assert found["accuracy"] == 0 and abs(found["mrr"] - 1 / 3) < 1e-9


# ------------------------------------------------------------------------------- reading


def read(path, settings, labelled=True):
    return read_examples(path, labelled, settings)


def test_choices_become_candidates(tmp_path):
    rows = make_questions(3)
    rows[1]["B" if rows[1]["answer"] != "B" else "C"] = ""
    examples = read(write_table(tmp_path / "a.csv", rows), settings_of(**CHOICES))
    assert len(examples) == 14
    own = [example for example in examples if example.group == "0"]
    assert [e.id for e in own] == [f"0/{letter}" for letter in LETTERS]
    assert [e.choice for e in own if e.numbers == (1.0,)] == [rows[0]["answer"]]
    assert {e.text_a for e in own} == {rows[0]["prompt"]}
    assert [e.text_b for e in own] == [rows[0][letter] for letter in LETTERS]
    assert len([e for e in examples if e.group == "1"]) == 4 and examples[-1].line == 4
    # JSON Lines, several right answers, other names of answers, further texts.
    rows = [{**row, "passage": "p", "answer": "1|C"} for row in make_questions(2)]
    given = {"label_separator": "|", "label_aliases": {"1": "A"}}
    settings = settings_of(**CHOICES, **given, text_columns=["passage", "prompt"])
    examples = read(write_lines(tmp_path / "a.jsonl", rows), settings)
    assert [e.numbers[0] for e in examples[:5]] == [1, 0, 1, 0, 0]
    assert examples[0].texts == ("p", rows[0]["prompt"], rows[0]["A"])
    bare = [{name: value for name, value in row.items() if name != "answer"} for row in rows]
    examples = read(write_table(tmp_path / "b.csv", bare), settings_of(**CHOICES), False)
    assert not any(example.labelled for example in examples)


def test_choices_of_other_names_are_asked_for(tmp_path):
    """A file to predict without any of them could have single answers; no column is one here."""
    rows = [{f"option {n}": value for n, value in row.items()} for row in make_questions(2)]
    path = write_table(tmp_path / "a.csv", rows)
    with pytest.raises(InputError, match="none of the columns A, B, C, D, E, which competition.ch"):
        read(path, settings_of(**CHOICES), False)
    with pytest.raises(InputError, match="has no column 'A', which competition.choice_columns"):
        read(path, settings_of(**CHOICES))


def test_questions_with_the_same_choices_are_split(tmp_path):
    """Only a question ties records together, and a part counts its questions."""
    choices = {"A": "Yes", "B": "No", "C": "Perhaps"}
    numbers = [*range(20), 3]
    rows = [
        {"id": n, "prompt": f"Is {p} ?", **choices, "answer": "A"} for n, p in enumerate(numbers)
    ]
    path, settings = write_table(tmp_path / "a.csv", rows), settings_of(choice_columns=[*choices])
    examples = read(path, settings)
    held = hold_out([*fold_keys(examples)], 0.2, 1)
    parts = write_parts(path, examples, held, settings.competition.dialect)
    prompts = []
    for part, count in parts:
        with open(part, newline="", encoding="utf-8") as file:
            prompts.append([row["prompt"] for row in csv.DictReader(file)])
        assert count == len(prompts[-1]) > 0
    assert sum(map(len, prompts)) == len(rows) and not {*prompts[0]} & {*prompts[1]}


def test_pairs_and_single_answers_are_read(tmp_path):
    row = {"prompt": "p", "chosen": "good one", "rejected": "bad one"}
    examples = read(write_table(tmp_path / "a.csv", [row, row]), settings_of(**PAIRS))
    assert [(e.id, e.texts, e.numbers) for e in examples[2:]] == [
        ("1/chosen", ("p", "good one"), (1.0,)),
        ("1/rejected", ("p", "bad one"), (0.0,)),
    ]
    del row["prompt"]
    examples = read(write_table(tmp_path / "b.csv", [row]), settings_of(**PAIRS))
    assert [e.texts for e in examples] == [("good one",), ("bad one",)]
    for name, single in {
        "c": {"id": 7, "prompt": "p", "response": "r s"},
        "d": {"id": 7, "prompt": "p", "words": "r s"},
    }.items():
        file = write_table(tmp_path / f"{name}.csv", [single])
        [example] = read(file, settings_of(**PAIRS), False)
        assert (example.id, example.texts, example.group) == ("7", ("p", "r s"), None)
    file = write_table(tmp_path / "e.csv", [{"words": "r s"}])
    [example] = read(file, settings_of(**PAIRS), False)
    assert example.texts == ("r s",)
    settings = settings_of(**PAIRS, response_column="other")
    file = write_table(tmp_path / "f.csv", [{"prompt": "p", "answer": "a b", "other": "r s"}])
    [example] = read(file, settings, False)
    assert example.texts == ("p", "r s")


def test_a_question_of_another_name_is_asked_for(tmp_path, capsys):
    rows = [
        {"stem" if n == "prompt" else n: v for n, v in row.items()} for row in make_questions(2)
    ]
    path = write_table(tmp_path / "a.csv", rows)
    with pytest.raises(InputError, match=r"is the question\? .* those with words are stem\."):
        read(path, settings_of(**CHOICES))
    # Pairs often have it in their texts.
    pair = write_table(tmp_path / "pair.csv", [{"chosen": "a", "rejected": "b", "source": "web"}])
    assert read(pair, settings_of(**PAIRS))[0].texts == ("a",)
    assert "warning: " in (said := capsys.readouterr().out) and "words are source." in said
    example = read(path, settings_of(**CHOICES, text_column="stem"))[0]
    assert example.texts == (rows[0]["stem"], rows[0]["A"])
    # Further columns are left out where the question is known, or they have no words.
    for row in rows:
        row |= {"prompt": row.pop("stem"), "note": "some words", "year": 1999}
    assert read(write_table(tmp_path / "b.csv", rows), settings_of(**CHOICES))[0].text_b
    rows = [{n: v for n, v in row.items() if n not in ("prompt", "note")} for row in rows]
    example = read(write_table(tmp_path / "c.csv", rows), settings_of(**CHOICES))[0]
    assert example.texts == (rows[0]["A"],)


def test_one_row_may_be_one_candidate(tmp_path):
    rows = [
        {"id": n, "query": "q", "text": f"t {n}", "g": n // 3, "grade": n % 3} for n in range(6)
    ]
    given = {"loss": "listwise", "group_column": "g", "target_columns": "grade"}
    examples = read(write_table(tmp_path / "a.csv", rows), settings_of(**given))
    assert [(e.group, e.numbers) for e in examples[:4]] == [
        ("0", (0.0,)),
        ("0", (1.0,)),
        ("0", (2.0,)),
        ("1", (0.0,)),
    ]
    own = [
        {"id": n, "text_a": "q", "text_b": f"t {n}", "group": f"{n // 2}", "label": f"{n % 2}"}
        for n in range(4)
    ]
    settings = settings_of(loss="listwise")
    assert settings.output == "number"
    examples = read(write_lines(tmp_path / "a.jsonl", own), settings)
    assert [e.numbers for e in examples] == [(0.0,), (1.0,), (0.0,), (1.0,)]
    labels = collect_targets(examples, settings)
    assert labels.are_lists and labels.names == ("score",)


QUESTION = make_questions(1)[0]
BROKEN = {
    "no option": ({"answer": "F"}, "line 3: the answer in the column 'answer' is 'F', but the"),
    "no answer": ({"answer": ""}, "line 3: the answer in the column 'answer' is empty"),
    "lost": ({QUESTION["answer"]: ""}, "line 3: the right choice is"),
    "nothing": (dict.fromkeys(LETTERS, ""), "line 3: the columns A, B, C, D, E are all empty"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_questions_are_refused(case, tmp_path):
    change, expected = BROKEN[case]
    rows = [make_questions(1)[0], {**QUESTION, "id": 1, **change}]
    with pytest.raises(InputError) as error:
        read(write_table(tmp_path / "a.csv", rows), settings_of(**CHOICES))
    assert str(error.value).startswith(f"{tmp_path / 'a.csv'}, {expected}")


def test_files_that_teach_no_list_are_refused(tmp_path):
    rows = [{"id": n, "text": f"t {n}", "g": n // 2, "label": n % 2} for n in range(4)]
    file = write_table(tmp_path / "a.csv", rows)
    for given, expected in (
        ({}, "the records have no group: name its column with competition.group_column"),
        ({"group_column": "id"}, "no group of the training file has anything to learn: 4 with one"),
    ):
        settings = settings_of(loss="listwise", **given)
        with pytest.raises(InputError) as error:
            collect_targets(read(file, settings), settings)
        assert expected in str(error.value)
    rows[2]["label"] = -1
    with pytest.raises(InputError, match="line 4: the relevance .label. is -1.0: with loss"):
        settings = settings_of(loss="listwise", group_column="g")
        read(write_table(tmp_path / "b.csv", rows), settings)
    with pytest.raises(InputError, match="has no column 'E', which competition.choice_columns"):
        columns = ["id", "prompt", *"ABCD", "answer"]
        read(write_table(tmp_path / "c.csv", [QUESTION], columns), settings_of(**CHOICES))


def test_settings_that_do_not_go_with_lists_are_refused():
    for own, other, expected in (
        ({"swap_training": True, "swap_labels": "same"}, {}, "swap_training or swap_prediction"),
        ({"loss": "huber"}, {}, "does not go with loss = huber"),
        ({"group_column": "g"}, {}, "with choice_columns each row is a group"),
        ({}, {"class_weights": "balanced"}, "class_weights or label_smoothing"),
        ({}, {"retrieval": {"loss": "negatives"}}, "a bi-encoder, whose losses see no groups"),
    ):
        with pytest.raises(ValueError) as error:
            with_tables(Settings)(competition={**CHOICES, **own}, **other)
        assert expected in str(error.value)
    for own, expected in (
        ({"choice_columns": ["A"]}, "a question has two at least"),
        ({**CHOICES, "right_choice": "F"}, "is not among the choice_columns"),
        ({"list_size": 1}, "list_size = 1 leaves nothing to choose from"),
    ):
        with pytest.raises(ValueError, match=expected):
            settings_of(**own)


def test_check_names_groups_at_fault(tmp_path):
    rows = [
        {"id": n, "text": f"t {n}", "g": f"g{n // 2}", "label": int(n % 2 and n < 5)}
        for n in range(8)
    ]
    rows[3]["text"] = rows[2]["text"]
    settings = settings_of(loss="listwise", group_column="g")
    examples = read(write_table(tmp_path / "a.csv", rows), settings)
    labels = collect_targets(examples, settings)
    found = [(f.what, f.where) for f in find_faults({"a": examples, "b": examples[:2]}, labels)]
    assert found == [
        ("groups that teach nothing: 2 with no relevant record", "a"),
        ("groups with the same candidate twice: 1 of 4", "a, line 4 for one"),
        ("groups that are also in a: 1 of 1", "b, line 2, group 'g0', for one"),
    ]


def test_all_folds_are_scored_alike(tmp_path):
    """One question has two right answers: a fold that holds none of these out would not know."""
    rows = [
        {"id": n, "text": f"t {n}", "g": f"g{n // 3}", "label": n % 3 > (n > 2)} for n in range(9)
    ]
    rows = [{**row, "label": int(row["label"])} for row in rows]
    settings = settings_of(loss="listwise", group_column="g")
    examples = read(write_table(tmp_path / "a.csv", rows), settings)
    assert settings.metric == "auto"
    assert settle_metric(settings, examples).metric == "map"
    assert settle_metric(settings, examples[3:]).metric == "accuracy"


def test_check_names_groups_of_two_files_once(tmp_path):
    rows = [{"id": n, "text": f"t {n}", "g": f"g{n // 2}", "label": n % 2} for n in range(40)]
    settings = settings_of(loss="listwise", group_column="g")
    examples = read(write_table(tmp_path / "a.csv", rows), settings)
    labels = collect_targets(examples, settings)
    [found] = find_faults({"a": examples, "b": examples[10:]}, labels)
    assert found.what == "groups that are also in a: 15 of 15" and "line 12" in found.where
    # The ids of questions count the rows of each file: the same number is no shared question.
    settings = settings_of(**CHOICES)
    tables = {"a": make_questions(9), "b": make_questions(9, 50)}
    for number, row in enumerate(tables["b"]):
        row["id"] = number
    files = {
        name: read(write_table(tmp_path / f"{name}.csv", own), settings)
        for name, own in tables.items()
    }
    assert find_faults(files, collect_targets(files["a"], settings)) == []


def test_the_metric_that_decides_follows_from_the_data(tmp_path):
    for grades, expected in (((0, 1), "accuracy"), ((1, 1), "map"), ((0, 2), "ndcg")):
        rows = [{"id": n, "text": f"t {n}", "g": 0, "label": (*grades, 0)[n]} for n in range(3)]
        settings = settings_of(loss="listwise", group_column="g")
        examples = read(write_table(tmp_path / "a.csv", rows), settings)
        labels = collect_targets(examples, settings)
        assert choose_metric("auto", labels, examples) == expected
        assert choose_metric("log_loss", labels, examples) == "neg_log_loss"
        with pytest.raises(InputError, match="metric = 'rmse' is not of lists"):
            choose_metric("rmse", labels, examples)


# ------------------------------------------------------------------------------- batches


def make_generator(tmp_path, gaps=True, count=21, **given):
    settings = settings_of(**CHOICES, **given)
    rows = make_questions(count, gaps=gaps)
    for row in rows:
        row["w"] = 1 + row["id"] % 2
    examples = read(write_table(tmp_path / "a.csv", rows), settings)
    tokenizer = train_tokenizer([" ".join([*TOPICS, *WORDS])] * 3, 300)
    names = ["token_ids", "segment_ids", "padding_mask", "text_numbers"]
    labels = collect_targets(examples, settings)
    plain = ExampleGenerator.of(examples, tokenizer, labels, names, settings, 8)
    return plain, ListGenerator(plain)


def candidates_of(batches):
    """Return the tokens and targets of each group that counts."""
    return [
        [
            (tokens[mask.astype(bool)].tolist(), share)
            for tokens, mask, (share, real) in zip(*rows, strict=True)
            if real
        ]
        for batch in batches
        for *rows, weight in zip(
            *(batch[name] for name in ("token_ids", "padding_mask", "targets", "loss_weight")),
            strict=True,
        )
        if weight
    ]


def test_each_batch_holds_whole_groups(tmp_path):
    plain, lists = make_generator(tmp_path, weight_column="w")
    wanted = []
    for group in {example.group: None for example in plain.examples}:
        rows = [n for n, e in enumerate(plain.examples) if e.group == group]
        wanted.append([(plain.arrays[n][0].tolist(), share_of(plain.examples[n])) for n in rows])
    assert len({len(own) for own in wanted}) > 2
    for epoch in range(2):
        batches = [*lists.batches(epoch)]
        assert len(batches) == len(lists) == 3
        assert sorted(candidates_of(batches)) == sorted(wanted)
        assert candidates_of(lists.batches(epoch, 1)) == candidates_of(batches[1:])
        for batch in batches:
            groups, room, length = batch["token_ids"].shape
            assert groups == 8 and batch["targets"].shape == (8, room, 2)
            assert room == lists.rooms[length]  # one shape for each length
    assert candidates_of(lists.batches(0)) != candidates_of(lists.batches(1))


def test_other_examples_become_groups_too(tmp_path):
    plain, lists = make_generator(tmp_path)
    own = ListGenerator.of(plain.examples, *plain.arguments)
    assert candidates_of(own.batches(None)) == candidates_of(lists.batches(None)) != []
    alone = [example for example in plain.examples if example.numbers[0]]
    assert not ListGenerator.of(alone, *plain.arguments).size  # nothing to learn from


def share_of(example):
    return example.numbers[0] * example.weight


def test_candidates_are_drawn_anew_in_each_epoch(tmp_path):
    _, lists = make_generator(tmp_path, gaps=False, list_size=3)
    seen = []
    for epoch in range(3):
        groups = candidates_of(lists.batches(epoch))
        assert {len(own) for own in groups} == {3}
        assert all(sum(share for _, share in own) == 1 for own in groups)
        seen.append({str(own) for own in groups})
    assert len(seen[0] & seen[1]) < 21 and candidates_of(lists.batches(1)) == candidates_of(
        lists.batches(1)
    )
    relevance = np.array([1.0, 1.0, 1.0, 0.0])
    assert all(3 in draw_candidates(range(4), relevance, 2, (1, n)) for n in range(9))


def test_groups_that_teach_nothing_are_left_out(tmp_path):
    rows = [
        {"id": n, "text": f"t {n}", "g": n // 2, "label": int(n % 2 and n < 9)} for n in range(13)
    ]
    settings = settings_of(loss="listwise", group_column="g")
    examples = read(write_table(tmp_path / "a.csv", rows), settings)
    tokenizer = train_tokenizer(["t 1 2 3"] * 3, 300)
    labels = collect_targets(examples, settings)
    names = ["token_ids", "padding_mask"]
    lists = ListGenerator(ExampleGenerator.of(examples, tokenizer, labels, names, settings, 4))
    assert lists.groups == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_probabilities_of_a_group_sum_to_one(tmp_path):
    plain, _ = make_generator(tmp_path)
    scores = np.random.default_rng(2).normal(size=len(plain.examples)) * 40
    records = [{"id": e.id, "targets": {"score": 0.0}} for e in plain.examples]
    found = add_probabilities(records, plain.examples, scores)
    sums = {}
    for record in found:
        sums[record["group"]] = sums.get(record["group"], 0.0) + record["probability"]
    assert len(sums) == 21 and np.abs(np.array([*sums.values()]) - 1).max() < 1e-6


# ------------------------------------------------------------------------------ training


SETTINGS = {
    "epochs": 2,
    "batch_size": 8,
    "seed": 3,
    "max_length": 24,
    "floor": False,
    "checkpoint_steps": 3,
    "metric": "map_at_k",
    "competition.choice_columns": json.dumps([*LETTERS]),
}


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    project = bake_project("text_classification", tmp_path_factory.mktemp("lists"))
    write_table(project / "train.csv", make_questions(52, gaps=True))
    write_table(project / "dev.csv", make_questions(20, 100))
    gold = make_questions(24, 200, gaps=True)
    write_table(project / "gold.csv", gold)
    write_table(project / "test.csv", gold, ["id", "prompt", *LETTERS])
    sample = [{"id": row["id"], "prediction": "A B C"} for row in gold[::-1]]
    write_table(project / "sample.csv", sample)
    process = ProjectProcess(project)
    yield process
    process.stop()


def asked(process, name, **settings):
    files = {f"{part}_file": f"{part}.csv" for part in ("train", "dev", "test")}
    return flags(process.project, **{**SETTINGS, **files, "run_name": name, **settings})


def succeed(process, *command):
    done = process.run(*map(str, command))
    assert done.code == 0, f"{done.out}\n{done.err}"
    return done.out


def train(process, name, **settings):
    succeed(process, "train.py", *asked(process, name, **settings))
    return weights(process.project / "runs" / name)


def read_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_template_is_the_question_of_each_choice(tmp_path):
    path = tmp_path / "questions.csv"
    path.write_text("id,subject,prompt,A,B,answer\n7,maths,how many,two,three,B\n", "utf-8")
    own = {"text_template": "{subject}: {prompt}?", "choice_columns": ["A", "B"]}
    examples = read_examples(path, settings=settings_of(**own))
    assert [example.texts for example in examples] == [
        ("maths: how many?", "two"),
        ("maths: how many?", "three"),
    ]
    assert [example.numbers[0] for example in examples] == [0, 1]
    path.write_text("id,subject,prompt,answer\n7,maths,how many,two\n", "utf-8")
    [single] = read_examples(path, False, settings=settings_of(**own))
    assert single.texts == ("maths: how many?", "two")


@pytest.mark.further
@pytest.mark.trains
def test_replicas_and_interruptions_learn_the_same(process, tmp_path):
    """One replica; and two with micro-batches and a cache, killed in the second epoch."""
    project, own = process.project, {"dropout": 0.2, "competition.list_size": 4}
    whole = train(process, "whole", **own)
    assert largest_difference(whole, train(process, "other", **own, seed=4)) > 1e-3
    two = {"devices.logical_devices": 2, "strategy": "mirrored", "accumulation": 2}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"kill_at": 10}), encoding="utf-8")
    arguments = asked(process, "two", **own, **two, **{"cache.enabled": True})
    done = run(WORKER, project, plan, *arguments, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL, f"{done.stdout}\n{done.stderr}"
    run("train.py", *arguments, cwd=project)
    assert largest_difference(whole, weights(project / "runs" / "two")) < 1e-5


@pytest.mark.trains
def test_the_loss_of_dev_decides_where_no_score_moves(process):
    """Two candidates have one text: rounding decides which of them is ranked first."""
    texts = {**QUESTION, **dict.fromkeys(LETTERS[:2], "amber"), **dict.fromkeys(LETTERS[2:], "")}
    write_table(process.project / "still.csv", [{**texts, "answer": "B"}])
    train(process, "still", dev_file="still.csv", metric="accuracy")
    scores = json.loads((process.project / "runs/still/scores.json").read_text("utf-8"))
    assert scores["dev"]["accuracy"] in (0, 1)  # the rows of a product may differ in the last bit
    assert abs(scores["dev"]["log_loss"] - np.log(2)) < 1e-5


@pytest.mark.trains
def test_a_submission_names_the_best_choices(process, tmp_path):
    project = process.project
    train(process, "exam", epochs=1, **{"competition.sample_submission": "sample.csv"})
    assert "map_at_k" in succeed(process, "evaluate.py", "exam", project / "gold.csv")
    out = tmp_path / "out.csv"
    told = succeed(process, "predict.py", "exam", project / "test.csv", out)
    assert "prediction = the candidates of a group, the likeliest first, the first 3" in told
    assert "rows: 24, one for each group of records" in told
    with open(out, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    gold = {f"{row['id']}": row for row in make_questions(24, 200, gaps=True)}
    assert header == ["id", "prediction"] and [i for i, _ in rows] == [*gold][::-1]
    precisions = []
    for identity, cell in rows:
        answers = cell.split(" ")
        offered = sum(gold[identity][letter] > "" for letter in LETTERS)
        assert len(answers) == len({*answers}) == min(3, offered)
        assert all(gold[identity][answer] for answer in answers)  # none that is not offered
        right = gold[identity]["answer"]
        precisions.append(1 / (1 + answers.index(right)) if right in answers else 0)
    scores = json.loads((project / "runs/exam/scores.json").read_text("utf-8"))
    [kept] = scores["files"].values()
    assert abs(kept["map_at_k"] - np.mean(precisions)) < 1e-9
    lines, scored = tmp_path / "out.jsonl", tmp_path / "scores.json"
    succeed(process, "predict.py", "exam", project / "test.csv", lines)
    choices = ["--competition.choice_columns", json.dumps([*LETTERS]), "--out", scored]
    succeed(process, "score.py", lines, project / "gold.csv", *choices)
    assert json.loads(scored.read_text("utf-8"))["map_at_k"] == kept["map_at_k"]
    refused = process.run("score.py", str(out), str(project / "gold.csv"), *choices[:2])
    assert "out.csv is a table to submit" in refused.err and ".jsonl" in refused.err
    # A question that the predicted file lacks is the only one that is missed.
    lacking = write_table(tmp_path / "l.csv", [{"id": i, "prediction": "A"} for i in [*gold, 999]])
    ask = ("--sample", str(lacking))
    refused = process.run("predict.py", "exam", *map(str, (project / "test.csv", out)), *ask)
    assert "without a row in the predicted file: 999 (1 of 25 ids)" in refused.err
    # A column for each choice.
    columns = ["--columns", "id,E,D,C,B,A", "--values", "probabilities"]
    sample = write_table(tmp_path / "s.csv", [{"id": i, **dict.fromkeys("EDCBA", 0)} for i in gold])
    command = ("predict.py", "exam", project / "test.csv", out, "--sample", sample)
    succeed(process, *command, *columns)
    with open(out, newline="", encoding="utf-8") as file:
        for row, (_, cell) in zip(csv.DictReader(file), rows[::-1], strict=True):
            shares = {letter: float(row[letter]) for letter in LETTERS}
            assert abs(sum(shares.values()) - 1) < 1e-5
            assert max(shares, key=shares.get) == cell[0]


@pytest.mark.further
@pytest.mark.trains
def test_lists_go_with_other_commands(process, tmp_path):
    project = process.project
    train(process, "one", epochs=1)
    train(process, "two_seeds", epochs=1, seed=5)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    succeed(process, "predict.py", "one", project / "test.csv", whole)
    succeed(process, "predict.py", "one", project / "test.csv", parts, "--chunk", "7")
    shares = [[r["probability"] for r in read_lines(path)] for path in (whole, parts)]
    assert np.abs(np.subtract(*shares)).max() < 1e-5  # a chunk holds whole groups
    succeed(process, "predict.py", "two_seeds", project / "test.csv", parts)
    both = tmp_path / "both.jsonl"
    succeed(process, "predict.py", "one", "two_seeds", project / "test.csv", both)
    scores = [[r["targets"]["score"] for r in read_lines(p)] for p in (whole, parts, both)]
    assert np.abs(np.mean(scores[:2], axis=0) - scores[2]).max() < 1e-5
    told = succeed(process, "compare.py", "one", "two_seeds")
    assert "map_at_k" in told
    told = succeed(process, "extras/blends/fit.py", "one", "two_seeds", "--name", "blend")
    succeed(process, "predict.py", "blend", project / "test.csv", both)
    pseudo = project / "pseudo.jsonl"
    label = "extras/distillation/label.py"
    succeed(process, label, "one", project / "test.csv", pseudo)
    records, taught = read_lines(pseudo), read_lines(whole)
    assert [r["score"] for r in records] == [r["probability"] for r in taught]
    assert {r["group"] for r in records} == {f"{n}" for n in range(200, 224)}
    train(process, "student", epochs=1, **{"distillation.files": '["pseudo.jsonl"]'})
    folds = asked(process, "cv", epochs=1, **{"folds.count": 2})
    succeed(process, "extras/folds/cross_validate.py", *folds)
    held = [
        {r["group"] for r in read_lines(fold / "predictions" / "dev.jsonl")}
        for fold in sorted((project / "runs" / "cv").glob("fold_*"))
    ]
    assert len(held) == 2 and not held[0] & held[1] and len(held[0] | held[1]) == 52
    exported = tmp_path / "exported"
    succeed(process, "extras/export/export.py", "one", exported, "--no-encoder")
    assert (exported / "saved_model").is_dir()


@pytest.mark.further
@pytest.mark.trains
def test_pairs_train_a_reward_that_scores_single_answers(process, tmp_path):
    project, random = process.project, np.random.default_rng(8)

    def make(count):
        """The better answer has the topic of the prompt."""
        rows = []
        for _ in range(count):
            good, bad = random.permutation(TOPICS)[:2]
            texts = (f"{good} {good} {random.choice(WORDS)}", f"{bad} {random.choice(WORDS)} {bad}")
            rows.append({"prompt": f"{good} ?", "chosen": texts[0], "rejected": texts[1]})
        return rows

    for name, count in (("pairs", 200), ("dev_pairs", 40)):
        write_table(project / f"{name}.csv", make(count))
    held = make(30)
    write_table(project / "test_pairs.csv", held)
    settings = {
        "train_file": "pairs.csv",
        "dev_file": "dev_pairs.csv",
        "test_file": "test_pairs.csv",
        "metric": "auto",
        "epochs": 6,
        "competition.choice_columns": '["chosen", "rejected"]',
        "competition.right_choice": "chosen",
    }
    train(process, "reward", **settings)
    told = succeed(process, "evaluate.py", "reward", project / "test_pairs.csv")
    scores = json.loads((project / "runs/reward/scores.json").read_text("utf-8"))
    [kept] = scores["files"].values()
    singles = [
        {"id": f"{n}{kind}", "prompt": row["prompt"], "response": row[kind]}
        for n, row in enumerate(held)
        for kind in ("chosen", "rejected")
    ]
    file, out = write_table(tmp_path / "singles.csv", singles), tmp_path / "out.csv"
    told = succeed(process, "predict.py", "reward", file, out)
    assert "numbers: score" in told
    with open(out, newline="", encoding="utf-8") as lines:
        rewards = {row["id"]: float(row["score"]) for row in csv.DictReader(lines)}
    gaps = np.array([rewards[f"{n}chosen"] - rewards[f"{n}rejected"] for n in range(len(held))])
    assert abs(kept["accuracy"] - np.mean(gaps > 0)) < 1e-9 and kept["accuracy"] > 0.8
    assert abs(kept["log_loss"] - np.log1p(np.exp(-gaps)).mean()) < 1e-5
