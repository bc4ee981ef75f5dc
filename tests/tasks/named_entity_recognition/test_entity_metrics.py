"""Strict scores against seqeval and conlleval, overlaps against nervaluate, thresholds."""

import itertools
import json

import numpy as np
import pytest
from conftest import use_template
from entity_peer import FILES, LETTERS, NUMBERS, TYPES, random_entities, random_tags

use_template("named_entity_recognition")

from core.base.settings import with_tables  # noqa: E402
from core.scores.thresholds import best_threshold  # noqa: E402
from formats.conll import find_chunks, parse_tag  # noqa: E402
from library.thresholds import best_cut, f_beta  # noqa: E402
from task.decode import Found, keep_entities, rank  # noqa: E402
from task.evaluation import evaluate, load_thresholds  # noqa: E402
from task.metrics import count_matches, score, tune_thresholds  # noqa: E402
from task.records import Entity, Example  # noqa: E402
from task.settings import Settings  # noqa: E402

KNOWN = json.loads(NUMBERS.read_text(encoding="utf-8"))


def example(name, entities) -> Example:
    return Example(name, "x" * 99, tuple(entities), None, 1)


def score_tags(gold, found, scheme, broken) -> dict:
    """Score tags as the template scores files that hold them."""
    golds, predictions = [], {}
    for number, texts in enumerate(zip(gold, found, strict=True)):
        own = [
            [
                Entity((first, last + 1), kind)
                for kind, first, last in find_chunks(
                    [parse_tag(tag) for tag in tags], scheme, broken
                )[0]
            ]
            for tags in texts
        ]
        golds.append(example(number, own[0]))
        predictions[number] = own[1]
    return score(golds, predictions)


# ------------------------------------------------------------------ seqeval, conlleval


@pytest.mark.parametrize("scheme", LETTERS)
def test_scores_are_those_of_seqeval_in_its_strict_mode(scheme):
    """On tags most of which are broken: what is not as the scheme writes it is no entity."""
    for seed in range(FILES):
        own = score_tags(*random_tags(seed, LETTERS[scheme]), scheme, "drop")
        numbers = [own["precision"], own["recall"], own["f1"], own["macro_f1"]]
        assert numbers == pytest.approx(KNOWN["seqeval"][scheme][seed], abs=1e-12)


def begins(before: str, tag: str) -> bool:
    """Tell whether a chunk begins, by the rules that conlleval states."""
    (one, _, kind), (two, _, other) = before.partition("-"), tag.partition("-")
    pairs = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
    # Of S, which the first program did not know: it stands alone.
    pairs |= {"BS", "IS", "ES", "SS", "OS", "SB", "SI", "SE", "EB", "EI"}
    return one + two in pairs or (two != "O" and kind != other)


def ends(before: str, tag: str) -> bool:
    """Tell whether a chunk has ended before a tag."""
    (one, _, kind), (two, _, other) = before.partition("-"), tag.partition("-")
    pairs = {"BB", "BO", "IB", "IO", "EE", "EI", "EO", "BS", "IS", "ES", "EB"}
    return one + two in pairs or one == "S" or (one != "O" and kind != other)


def count_as_conlleval(gold, found) -> tuple[int, int, int]:
    """Count correct, found and gold chunks token by token, as conlleval goes through a file."""
    correct = in_gold = in_found = 0
    for one, two in zip(gold, found, strict=True):
        both, last = False, ("O", "O")
        for tags in [*zip(one, two, strict=True), ("O", "O")]:
            ended = [ends(before, tag) for before, tag in zip(last, tags, strict=True)]
            if both and all(ended):
                correct += 1
            if any(ended):
                both = False
            begun = [begins(before, tag) for before, tag in zip(last, tags, strict=True)]
            if all(begun) and tags[0][2:] == tags[1][2:]:
                both = True
            elif any(begun):
                both = False
            in_gold, in_found = in_gold + begun[0], in_found + begun[1]
            last = tags
    return correct, in_found, in_gold


@pytest.mark.parametrize("scheme", ["bio2", "bioes"])
def test_scores_are_those_of_conlleval(scheme):
    """On the same tags: an I without B begins an entity."""
    for seed in range(400):
        gold, found = random_tags(seed, LETTERS[scheme])
        own = score_tags(gold, found, scheme, "begin")
        counted = count_as_conlleval(gold, found)
        assert (own["correct"], own["predicted"], own["gold"]) == counted, (gold, found)


def test_the_two_differ_in_broken_tags_alone():
    """A B too few: conlleval takes the entity, seqeval's strict mode does not."""
    gold, found = [["B-PER", "I-PER", "O"]], [["I-PER", "I-PER", "O"]]
    assert score_tags(gold, found, "bio2", "begin")["f1"] == 1
    assert score_tags(gold, found, "bio2", "drop")["predicted"] == 0


# -------------------------------------------------------------------------- overlaps


def test_overlaps_are_those_of_nervaluate():
    for seed in range(FILES):
        texts = [
            [[Entity((start, end), kind) for start, end, kind in text] for text in part]
            for part in random_entities(seed)
        ]
        golds = [example(number, own) for number, own in enumerate(texts[0])]
        own = score(golds, dict(enumerate(texts[1])))["overlap"]
        for how, numbers in KNOWN["nervaluate"][seed].items():
            row = own[how]
            assert [row["precision"], row["recall"], row["f1"]] == pytest.approx(numbers, abs=1e-12)


def test_overlaps_by_hand():
    golds = [example(1, [Entity((0, 4), "PER"), Entity((10, 14), "LOC")])]
    found = {1: [Entity((0, 6), "PER"), Entity((10, 14), "ORG"), Entity((30, 31), "PER")]}
    own = score(golds, found)
    assert own["correct"] == 0
    correct = {how: row["correct"] for how, row in own["overlap"].items()}
    assert correct == {"exact": 1, "partial": 1.5, "type": 1}


def test_an_entity_around_another_takes_no_match_of_it():
    """Entities that nest: however many a record has, one that is wholly right counts as such."""
    golds = [example(1, [Entity((2, 5), "dis"), Entity((2, 5), "sym"), Entity((7, 9), "bod")])]
    found = {1: [Entity((2, 3), "bod"), *golds[0].entities, Entity((6, 9), "bod")]}
    counts = score(golds, found)
    assert counts["correct"] == 3
    correct = {how: row["correct"] for how, row in counts["overlap"].items()}
    assert correct == {"exact": 3, "partial": 3, "type": 3}
    # What fits wholly comes first; what is left is matched in its order.
    correct = {
        how: row["correct"] for how, row in score(golds, {1: found[1][:1]})["overlap"].items()
    }
    assert correct == {"exact": 0, "partial": 0.5, "type": 0}


# ------------------------------------------------------------------- counts and F-beta


def test_an_entity_counts_once_and_a_record_without_predictions_has_none():
    twice = [Entity((0, 3), "PER"), Entity((0, 3), "PER"), Entity((0, 3), "LOC")]
    counts = count_matches(example(1, twice[:1]), twice)
    assert {kind: row.tolist() for kind, row in counts.items()} == {
        "PER": [1, 1, 1],
        "LOC": [0, 1, 0],
    }
    assert score([example(1, twice[:1])], {})["recall"] == 0
    assert score([example(1, [])], {1: []})["f1"] == 0


@pytest.mark.parametrize("beta", [0.5, 1.0, 5.0])
def test_f_beta_is_that_of_precision_and_recall(beta):
    random = np.random.default_rng(3)
    for _ in range(500):
        predicted, gold = random.integers(1, 30, 2)
        correct = random.integers(0, min(predicted, gold) + 1)
        precision, recall = correct / predicted, correct / gold
        wanted = (1 + beta**2) * precision * recall
        wanted = wanted / (beta**2 * precision + recall) if correct else 0.0
        assert f_beta(correct, predicted, gold, beta) == pytest.approx(wanted)
    assert f_beta(0, 0, 0, beta) == 0


# ------------------------------------------------------------------------- thresholds


def random_candidates(seed, longest=1, flat=False):
    """Return examples with candidates; scores repeat, and some gold is not among them."""
    random = np.random.default_rng(seed)
    golds, candidates = [], {}
    for number in range(4):
        gold, found = [], {}
        for start in range(int(random.integers(0, 8))):
            length = int(random.integers(1, longest + 1)) if longest > 1 else 1
            entity = Entity((start, start + length), TYPES[random.integers(0, 3)])
            gold += [entity] if random.random() < 0.5 else []
            if random.random() < 0.8:
                found[entity] = float(random.integers(1, 10)) / 10
        golds.append(example(number, gold))
        candidates[number] = rank(found, flat)
    return golds, candidates


def quality(golds, candidates, thresholds, beta):
    """Return F-beta of the predictions; `thresholds` are of `TYPES`, in their order.

    Thresholds come first, then of those that overlap the best is kept, then the next best.
    """
    limit = dict(zip(TYPES, thresholds, strict=True))
    right = {(gold.id, entity) for gold in golds for entity in gold.entities}
    kept = []
    for name, found in candidates.items():
        own: list[Entity] = []
        for entity, value in found.ranked:
            free = not {*range(*entity.span)} & {n for one in own for n in range(*one.span)}
            if value > limit[entity.type] and (free or not found.flat):
                own.append(entity)
        kept += [(name, entity) for entity in own]
    return float(f_beta(len(right & {*kept}), len(kept), len(right), beta))


@pytest.mark.parametrize("beta", [0.5, 1.0, 5.0])
def test_one_threshold_is_the_best_there_is(beta):
    for seed in range(100):
        golds, candidates = random_candidates(seed)
        one, own = tune_thresholds(golds, candidates, False, beta)
        tried = [value / 20 + 0.025 for value in range(20)]
        best = max(quality(golds, candidates, [value] * 3, beta) for value in tried)
        reached = quality(golds, candidates, [one] * 3, beta)
        assert reached == pytest.approx(best) and own == {}


def test_thresholds_of_types_are_never_worse_than_one():
    """And nearly always the best of all combinations, which a pass after another looks for."""
    best_found = 0
    for seed in range(30):
        golds, candidates = random_candidates(seed)
        one, own = tune_thresholds(golds, candidates, True, 1.0)
        reached = quality(golds, candidates, [own.get(kind, one) for kind in TYPES], 1.0)
        assert reached >= quality(golds, candidates, [one] * 3, 1.0) - 1e-12
        every = itertools.product([value / 10 + 0.05 for value in range(10)], repeat=3)
        best = max(quality(golds, candidates, levels, 1.0) for levels in every)
        best_found += reached >= best - 1e-12
    assert best_found > 25


def test_thresholds_of_types_come_before_overlaps():
    """A at 0.6 is never right, and covers B at 0.5, which always is: A's threshold frees B."""
    wrong, right = Entity((0, 7), "A"), Entity((0, 3), "B")
    golds = [example(number, [right]) for number in range(40)]
    golds += [example(number, [wrong]) for number in range(40, 50)]
    scored = {
        gold.id: {wrong: 0.95} if gold.id >= 40 else {wrong: 0.6, right: 0.5} for gold in golds
    }
    for flat in (True, False):
        candidates = {name: rank(own, flat) for name, own in scored.items()}
        one, own = tune_thresholds(golds, candidates, True, 1.0)
        kept = keep_entities(candidates, {kind: own.get(kind, one) for kind in "AB"})
        found = {name: [entity for entity, _ in pairs] for name, pairs in kept.items()}
        assert 0.6 <= own["A"] < 0.95 and own["B"] < 0.5
        assert score(golds, found)["f1"] == 1


@pytest.mark.parametrize("beta", [0.5, 1.0, 5.0])
def test_thresholds_of_types_with_overlaps_against_all_combinations(beta):
    best_found = 0
    for seed in range(40):
        golds, candidates = random_candidates(seed, longest=4, flat=True)
        one, own = tune_thresholds(golds, candidates, True, beta)
        levels = [own.get(kind, one) for kind in TYPES]
        reached = quality(golds, candidates, levels, beta)
        kept = keep_entities(candidates, dict(zip(TYPES, levels, strict=True)))
        found = {name: [entity for entity, _ in pairs] for name, pairs in kept.items()}
        scores = score(golds, found, beta)
        assert reached == pytest.approx(scores["f1"] if beta == 1 else scores["f_beta"])
        assert reached >= quality(golds, candidates, [one] * 3, beta) - 1e-12
        every = itertools.product([value / 10 + 0.05 for value in range(10)], repeat=3)
        best = max(quality(golds, candidates, levels, beta) for levels in every)
        best_found += reached >= best - 1e-12
    assert best_found > 30, best_found


def test_with_beta_1_the_cut_is_that_of_core():
    random = np.random.default_rng(5)
    for _ in range(300):
        count = int(random.integers(1, 20))
        scores, hits = random.integers(1, 12, count) / 12, random.random(count) < 0.5
        gold = int(hits.sum() + random.integers(0, 4))
        own = best_cut(scores, hits, gold, 1.0, 0.5)
        core = best_threshold(scores, hits, gold)
        kept, wanted = scores > own, scores > core
        assert f_beta(hits[kept].sum(), kept.sum(), gold, 1.0) == pytest.approx(
            f_beta(hits[wanted].sum(), wanted.sum(), gold, 1.0)
        )
    assert best_cut(np.zeros(0), np.zeros(0, bool), 3, 1.0, 0.5) == 0.5


def write_run(folder, one, own, **config) -> None:
    """Write what says which thresholds a run has."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"seed": 1, **config}))
    dev = {"threshold": one} if own is None else {"threshold": one, "thresholds": own}
    (folder / "scores.json").write_text(json.dumps({"dev": dev}))


def test_runs_that_predict_together_share_their_mean_thresholds(tmp_path):
    write_run(tmp_path / "a", 0.4, {"PER": 0.2})
    write_run(tmp_path / "b", 0.6, None)
    found = load_thresholds([tmp_path / "a", tmp_path / "b"])
    assert found["PER"] == pytest.approx(0.4) and found["LOC"] == 0.5


def test_a_fold_has_the_thresholds_of_its_cross_validation(tmp_path):
    write_run(tmp_path / "whole", 0.3, {"LOC": 0.1})
    write_run(tmp_path / "whole/fold_1", 0.8, {"LOC": 0.9}, fold=1)
    found = load_thresholds([tmp_path / "whole/fold_1"])
    assert (found["LOC"], found["PER"]) == (0.1, 0.3)


def test_thresholds_of_types_are_used_and_kept(tmp_path):
    """PER is found at any score, LOC at none; with beta 5 recall decides."""
    golds = [example(n, [Entity((0, 3), "PER")]) for n in range(4)]
    pairs = [(Entity((5, 8), "LOC"), 0.6), (Entity((0, 3), "PER"), 0.2)]
    found = {n: Found(pairs, False) for n in range(4)}
    file = tmp_path / "dev.jsonl"
    file.write_text("")
    settings = with_tables(Settings)(threshold="per_type", beta=5)
    scores = evaluate(golds, found, file, settings).scores
    assert scores["thresholds"]["PER"] < 0.2 and scores["thresholds"]["LOC"] >= 0.6
    assert scores["f1"] == scores["f_beta"] == 1 and scores["beta"] == 5
    one = evaluate(golds, found, file, with_tables(Settings)(beta=5)).scores
    assert one["f_beta"] > one["f1"] == pytest.approx(2 / 3) and one["thresholds"] == {}
