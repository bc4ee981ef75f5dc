"""Scores of numbers, probabilities and rankings against scikit-learn, scipy and pytrec_eval.

Random cases have ties, constant columns and single classes; what is undefined elsewhere has the one
answer that the docstrings give.
"""

import itertools
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics
from traced_memory import peak_memory

from core.base.errors import InputError
from extras.competition import drawn, label_scores, number_scores, rankings, resampling
from extras.competition.cuts import apply_cuts, grades_between, steady_cuts, tune_cuts
from extras.competition.paths import consistent, with_parents
from extras.competition.settings import Table

CASES = 300
PYTREC = json.loads((Path(__file__).parent / "pytrec_numbers.json").read_text(encoding="utf-8"))


def numbers(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return gold and predicted numbers, many of them equal, and now and then all."""
    size = random.integers(1, 30)
    kinds = [
        lambda: random.normal(3, 2, size),
        lambda: random.integers(0, 4, size).astype(float),
        lambda: np.full(size, random.normal()),
    ]
    chosen = random.choice(3, 2, p=[0.4, 0.5, 0.1])
    return kinds[chosen[0]](), kinds[chosen[1]]()


@pytest.fixture(autouse=True)
def quiet():
    """What is undefined elsewhere warns there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ------------------------------------------------------------------------ numbers


def test_scores_of_numbers_are_those_of_scikit_learn_and_scipy():
    random = np.random.default_rng(1)
    undefined = 0
    for _ in range(CASES):
        gold, found = numbers(random)
        assert number_scores.rmse(gold, found) == pytest.approx(
            np.sqrt(metrics.mean_squared_error(gold, found))
        )
        assert number_scores.mae(gold, found) == metrics.mean_absolute_error(gold, found)
        constant = len(gold) < 2 or not np.ptp(gold) or not np.ptp(found)
        undefined += constant
        for own, theirs in (
            (number_scores.pearson, stats.pearsonr),
            (number_scores.spearman, stats.spearmanr),
        ):
            wanted = 0.0 if constant else theirs(gold, found).statistic
            assert own(gold, found) == pytest.approx(wanted, abs=1e-12)
    assert undefined > CASES // 20


def test_several_targets_have_the_mean_of_their_scores():
    random = np.random.default_rng(2)
    gold, found = random.normal(size=(2, 50, 3))
    names = ("a", "b", "c")
    scores = number_scores.score_numbers(gold, found, names, [None] * 50, {}, [0] * 3, 3)
    columns = metrics.root_mean_squared_error(gold, found, multioutput="raw_values")
    assert scores["mcrmse"] == pytest.approx(columns.mean())
    assert scores["rmse"] == pytest.approx(np.sqrt(metrics.mean_squared_error(gold, found)))
    assert scores["neg_mcrmse"] == -scores["mcrmse"] and scores["neg_rmse"] == -scores["rmse"]
    pearsons = [stats.pearsonr(gold[:, n], found[:, n]).statistic for n in range(3)]
    assert scores["pearson"] == pytest.approx(np.mean(pearsons))
    assert [row["pearson"] for row in scores["per_target"].values()] == pytest.approx(pearsons)


def kappa(gold: np.ndarray, found: np.ndarray) -> float:
    """Return the kappa from which compare.py draws records."""
    return drawn.Drawable(drawn.kappa_of(gold, found), len(gold)).value


def test_kappa_is_that_of_scikit_learn():
    random = np.random.default_rng(3)
    for _ in range(CASES):
        size, grades = random.integers(1, 30), random.integers(1, 7)
        gold, found = random.integers(-2, -2 + grades, (2, size)).astype(float)
        pair = gold.astype(int), found.astype(int)
        every = range(min(map(min, pair)), max(map(max, pair)) + 1)
        wanted = metrics.cohen_kappa_score(*pair, labels=every, weights="quadratic")
        wanted = 0.0 if np.isnan(wanted) else wanted
        assert number_scores.quadratic_kappa(gold, found) == pytest.approx(wanted, abs=1e-12)
        assert kappa(gold, found) == pytest.approx(wanted, abs=1e-9)


def test_an_outlier_among_grades_needs_no_memory():
    gold, found = np.array([1.0, 2, 3, 1e7]), np.array([1.0, 2, 2, 3])
    assert 0 < number_scores.quadratic_kappa(gold, found) < 1e-6


def test_cuts_have_the_best_kappa_of_all():
    """Against all ways to cut between neighbouring predictions."""
    random = np.random.default_rng(4)
    for _ in range(CASES // 2):
        size, top = random.integers(2, 9), random.integers(1, 4)
        grades = grades_between(1, 1 + top)
        gold = random.integers(1, 2 + top, size).astype(float)
        found = random.normal(size=size).round(random.integers(0, 3))
        values = np.unique(found)
        places = [values[0] - 1, *((values[1:] + values[:-1]) / 2), values[-1] + 1]
        every = itertools.combinations_with_replacement(places, top)
        given = np.array([apply_cuts(found, cuts, 1) for cuts in every])
        # This kappa is that of scikit-learn: see above.
        best = max(kappa(gold, own) for own in given)
        tuned = tune_cuts(gold, found, grades)
        assert len(tuned) == top and sorted(tuned) == tuned
        own = kappa(gold, apply_cuts(found, tuned, 1))
        if best > 1e-9:
            assert own == pytest.approx(best, abs=1e-9)
        else:  # nothing beats chance
            assert tuned == (grades[:-1] + 0.5).tolist()


@pytest.mark.parametrize("records", [49, 150])
def test_steady_cuts_are_better_on_new_records_than_those_that_are_best_on_few(records):
    """By scikit-learn's kappa: what few records promise is nearer to what new ones give, too."""
    grades, found = grades_between(1, 6), []
    for seed in range(12):
        random = np.random.default_rng(seed)
        latent = random.normal(3, 1.05, records + 4000)
        gold = np.clip(np.round(latent), 1, 6).astype(int)
        predicted = latent + random.normal(0, 0.45, len(latent))
        cuts = [
            tune(gold[:records], predicted[:records], grades) for tune in (tune_cuts, steady_cuts)
        ]
        given = [apply_cuts(predicted, own, 1) for own in cuts]
        found.append(
            [
                kappa(gold[part], own[part])
                for part in (slice(records), slice(records, None))
                for own in given
            ]
        )
    promised, steady_promise, best, steady = np.mean(found, axis=0)
    assert steady > best + 0.002
    assert abs(steady_promise - steady) < abs(promised - best) / 1.5


def test_cuts_of_many_predictions_beat_rounding():
    random = np.random.default_rng(5)
    gold = random.integers(1, 7, 5000).astype(float)
    found = 0.4 * gold + random.normal(0, 0.3, 5000)
    rounded = np.clip(np.rint(found), 1, 6)
    tuned = apply_cuts(found, tune_cuts(gold, found, grades_between(1, 6)), 1)
    own, other = (number_scores.quadratic_kappa(gold, given) for given in (tuned, rounded))
    assert own > other + 0.2


@pytest.mark.parametrize("limits", [(0.5, 3), (0, 2.5), (0, 1000)])
def test_numbers_that_are_no_grades_have_none(limits):
    assert grades_between(*limits).size == 0


# ------------------------------------------------------------------ probabilities


def make_labels(count: int, several: bool = False, positive: str | None = None) -> SimpleNamespace:
    names = tuple("abcdefgh"[:count])
    return SimpleNamespace(
        names=names, several=several, positive=positive, hierarchy="", scaling=None,
        has_threshold=several or (positive is not None and count == 2),
    )  # fmt: skip


def probabilities(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Return rows that sum to 1, of few different values."""
    raw = random.integers(1, 5, (rows, columns)).astype(float)
    return raw / raw.sum(axis=1, keepdims=True)


def test_scores_of_one_label_are_those_of_scikit_learn():
    random = np.random.default_rng(6)
    for _ in range(CASES):
        rows, columns = random.integers(2, 20), random.integers(2, 5)
        given = probabilities(random, rows, columns)
        numbers = random.integers(0, columns, rows)
        gold = np.eye(columns, dtype=bool)[numbers]
        labels = make_labels(columns)
        scores = probability_scores(gold, given, labels)
        wanted = metrics.log_loss(numbers, given, labels=list(range(columns)))
        assert scores["log_loss"] == pytest.approx(wanted)
        whole = np.sum((given - gold) ** 2, axis=1).mean()
        tried = [1] if columns == 2 else range(columns)
        if columns == 2:
            whole = metrics.brier_score_loss(gold[:, 1], given[:, 1], pos_label=True)
        assert scores["brier"] == pytest.approx(whole)
        seen = [n for n in tried if 0 < gold[:, n].sum() < rows]
        for name, score, undefined in (
            ("roc_auc", metrics.roc_auc_score, 0.5),
            ("pr_auc", metrics.average_precision_score, 0.0),
        ):
            values = [score(gold[:, n], given[:, n]) for n in seen]
            assert scores[name] == pytest.approx(np.mean(values) if values else undefined)
        if columns > 2 and rows > 5:
            k = int(random.integers(1, columns))
            wanted = metrics.top_k_accuracy_score(numbers, given, k=k, labels=range(columns))
            assert label_scores.top_k_hits(gold, given, k, gold.any(axis=1)).mean() == wanted


def probability_scores(gold: np.ndarray, given: np.ndarray, labels: SimpleNamespace) -> dict:
    """Return the scores of probabilities by name."""
    makers = label_scores.make_scores(gold, gold, given, [None] * len(gold), labels, Table())
    return {name: makers[name]().value for name in ("log_loss", "brier", "roc_auc", "pr_auc")}


def test_scores_of_several_labels_are_those_of_scikit_learn():
    random = np.random.default_rng(7)
    for _ in range(CASES):
        rows, columns = random.integers(2, 20), random.integers(2, 5)
        given = random.integers(0, 6, (rows, columns)) / 5
        gold = random.random((rows, columns)) < random.random(columns)
        labels = make_labels(columns, several=True)
        scores = probability_scores(gold, given, labels)
        losses = [metrics.log_loss(gold[:, n], given[:, n], labels=[0, 1]) for n in range(columns)]
        assert scores["log_loss"] == pytest.approx(np.mean(losses))
        briers = [
            metrics.brier_score_loss(gold[:, n], given[:, n], pos_label=True)
            for n in range(columns)
        ]
        assert scores["brier"] == pytest.approx(np.mean(briers))
        if (seen := (gold.any(axis=0) & ~gold.all(axis=0))).all():
            assert scores["roc_auc"] == pytest.approx(metrics.roc_auc_score(gold, given))
            assert scores["pr_auc"] == pytest.approx(metrics.average_precision_score(gold, given))
        elif not seen.any():
            assert (scores["roc_auc"], scores["pr_auc"]) == (0.5, 0.0)
        found, beta = given > 0.5, float(random.choice([0.5, 1.0, 5.0]))
        wanted = metrics.fbeta_score(gold, found, beta=beta, average="micro", zero_division=0)
        assert label_scores.f_beta(gold, found, labels, beta).value == pytest.approx(wanted)


def test_f_beta_of_one_label_is_that_of_scikit_learn():
    random = np.random.default_rng(8)
    for _ in range(CASES // 4):
        gold, found = (np.eye(3, dtype=bool)[random.integers(0, 3, 9)] for _ in range(2))
        pair = gold.argmax(axis=1), found.argmax(axis=1)
        beta = float(random.choice([0.5, 2.0]))
        wanted = metrics.fbeta_score(*pair, beta=beta, average="macro", zero_division=0)
        assert label_scores.f_beta(gold, found, make_labels(3), beta).value == pytest.approx(wanted)
        wanted = metrics.fbeta_score(pair[0] == 1, pair[1] == 1, beta=beta, zero_division=0)
        own = label_scores.f_beta(gold, found, make_labels(3, positive="b"), beta).value
        assert own == pytest.approx(wanted)


# --------------------------------------------------------------------- thresholds


@pytest.mark.parametrize("beta", [0.5, 1.0, 5.0])
def test_a_threshold_has_the_best_f_beta_of_all(beta):
    random = np.random.default_rng(9)
    for _ in range(CASES // 2):
        size = random.integers(1, 12)
        hits, scores = random.random(size) < 0.4, random.integers(0, 8, size) / 7
        cut = label_scores.best_cut(hits, scores, beta)
        tried = np.array([cut, 0.5, 0.0, *np.unique(scores)])
        kept = scores > tried[:, None]
        own, *others = (
            (1 + beta**2) * (kept & hits).sum(1) / np.maximum(kept.sum(1) + beta**2 * hits.sum(), 1)
        )
        assert 0 <= cut <= 1 and own == max(own, *others)


def test_each_label_has_its_threshold_and_paths_stay_whole():
    random = np.random.default_rng(10)
    names = ("a", "a/b", "a/b/c", "d")
    for _ in range(CASES // 10):
        gold = random.random((15, 4)) < 0.4
        gold[:, 0] |= gold[:, 1] | gold[:, 2]
        gold[:, 1] |= gold[:, 2]
        given = consistent(random.random((15, 4)), names, "/")
        examples = [
            SimpleNamespace(id=n, labels=tuple(np.array(names)[row])) for n, row in enumerate(gold)
        ]
        labels = SimpleNamespace(names=names, several=True, hierarchy="/", has_threshold=True)
        settings = SimpleNamespace(metric="auto", competition=Table(thresholds="per_label"))
        tuned = label_scores.tune_thresholds(examples, dict(enumerate(given)), labels, settings)
        found = given > [tuned[name] for name in names]
        assert (found[:, 1] <= found[:, 0]).all() and (found[:, 2] <= found[:, 1]).all()
        assert tuned["d"] == label_scores.best_cut(gold[:, 3], given[:, 3], 1.0)


def test_a_path_has_its_parents():
    assert with_parents(["a/b/c", "a/d"], "/") == ("a", "a/b", "a/b/c", "a/d")
    capped = consistent(np.array([[0.2, 0.9, 0.8]]), ("a", "a/b", "a/b/c"), "/")
    assert capped.tolist() == [[0.2, 0.2, 0.2]]


# ----------------------------------------------------------------------- rankings


def test_ndcg_is_that_of_scikit_learn():
    random = np.random.default_rng(11)
    for _ in range(CASES):
        size, k = random.integers(2, 12), int(random.integers(1, 12))
        gains = random.integers(0, 4, size).astype(float)
        scores = random.integers(0, 4, size).astype(float)
        wanted = metrics.ndcg_score([gains], [scores], k=k) if gains.any() else 0.0
        assert rankings.mean_ndcg(gains, scores, ["q"] * size, k) == pytest.approx(wanted)
    assert rankings.mean_ndcg(np.array([2.0]), np.array([0.1]), ["q"]) == 1
    assert rankings.mean_ndcg(np.array([0.0]), np.array([0.1]), ["q"]) == 0


def test_rankings_are_those_of_pytrec_eval():
    """Its numbers were computed once: see `source` in the file."""
    assert len(PYTREC["cases"]) >= 300
    for case in PYTREC["cases"]:
        gains, scores = np.array(case["gains"], float), np.array(case["scores"], float)
        for k, wanted in case["map_cut"].items():
            # trec_eval divides by all relevant ones, competitions by k where that is less.
            wanted *= (gains > 0).sum() / max(min((gains > 0).sum(), int(k)), 1)
            own = rankings.average_precision_at_k(gains > 0, scores, int(k))
            assert own == pytest.approx(wanted, abs=1e-9)
        if len(set(case["scores"])) == len(scores):  # of equal scores it takes those of later names
            groups = ["q"] * len(gains)
            for k, wanted in case["ndcg_cut"].items():
                own = rankings.mean_ndcg(gains, scores, groups, int(k))
                assert own == pytest.approx(wanted, abs=1e-9)
            own = rankings.mean_ndcg(gains, scores, groups)
            assert own == pytest.approx(case["ndcg"], abs=1e-9)


def test_a_long_name_of_a_group_needs_its_own_room_alone():
    groups = ["b", None, "a" * 20_000, *map(str, range(999))]
    assert peak_memory(lambda: rankings.number_groups(groups)) < 10_000_000
    numbers = rankings.number_groups(groups)
    assert numbers.tolist() == [sorted(map(str, groups)).index(str(name)) for name in groups]


def test_groups_without_anything_relevant_are_left_out():
    relevant = np.array([True, False, False])
    groups = ["a", "a", "b"]
    for scores, wanted in (([0.9, 0.1, 0.5], 1), ([0.5, 0.5, 0.5], 0.5)):
        values = rankings.average_precision_of_groups(relevant, np.array(scores), groups, 3)
        assert np.isnan(values[1]) and label_scores.mean_of_known(values).value == wanted


# --------------------------------------------------------------------- comparison


def test_what_chance_draws_again_gives_the_scores():
    random = np.random.default_rng(12)
    gold, found = random.normal(size=(2, 40, 2)).round(1)
    names, none = ("a", "b"), [None] * 40
    scores = number_scores.score_numbers(gold, found, names, none, {}, [0, 0], 3)
    for name in ("neg_rmse", "neg_mcrmse", "neg_mae", "pearson", "spearman"):
        own = resampling.number_score(name, gold, found, none, None)
        assert own.value == pytest.approx(scores[name])


def draw(random: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the drawn rows of some draws, and how often each row is drawn in each."""
    drawn_rows = random.integers(0, rows, (5, rows))
    return drawn_rows, np.array([np.bincount(own, minlength=rows) for own in drawn_rows], float)


def test_drawn_numbers_have_the_scores_of_scikit_learn_and_scipy():
    random = np.random.default_rng(13)
    theirs = {
        "neg_rmse": lambda g, f: -metrics.root_mean_squared_error(g, f),
        "neg_mae": lambda g, f: -metrics.mean_absolute_error(g, f),
        "pearson": lambda g, f: stats.pearsonr(g, f).statistic,
        "spearman": lambda g, f: stats.spearmanr(g, f).statistic,
        "qwk": lambda g, f: metrics.cohen_kappa_score(
            g.astype(int), f.astype(int), weights="quadratic"
        ),
    }
    for _ in range(CASES // 10):
        size = random.integers(3, 25)
        gold = random.integers(1, 5, size).astype(float) + 1000 * random.integers(0, 2)
        found = gold + random.integers(-1, 2, size)
        rows, counts = draw(random, size)
        for name, function in theirs.items():
            score = resampling.number_score(name, gold[:, None], found[:, None], [], None).score
            for own, taken in zip(score(counts), rows, strict=True):
                wanted = function(gold[taken], found[taken])
                constant = name[0] != "n" and not (np.ptp(gold[taken]) and np.ptp(found[taken]))
                assert own == pytest.approx(0.0 if constant else wanted, abs=1e-9) or (
                    name == "qwk" and np.ptp([*gold[taken], *found[taken]])
                )


@pytest.mark.shown("False")
@pytest.mark.parametrize("several", [False, True])
def test_drawn_records_have_the_scores_of_scikit_learn(several):
    """The scores of drawn records are those of a file that holds these records."""
    random = np.random.default_rng(14)
    defined = 0
    for _ in range(CASES // 10):
        size, columns = random.integers(4, 25), int(random.integers(2, 6))
        labels = make_labels(columns, several=several)
        gold = np.eye(columns, dtype=bool)[random.integers(0, columns, size)]
        if several:
            gold = random.random(gold.shape) < 0.4
        given = random.integers(1, 6, gold.shape) / 5
        given = given if several else given / given.sum(axis=1, keepdims=True)
        best = given.argmax(axis=1)
        found = given > 0.5 if several else np.eye(columns, dtype=bool)[best]
        none = [None] * size
        makers = label_scores.make_scores(gold, found, given, none, labels, Table())
        rows, counts = draw(random, size)
        own_scores = {name: make().score(counts) for name, make in makers.items()}
        for number, taken in enumerate(rows):
            wanted = scores_elsewhere(gold[taken], found[taken], given[taken], labels)
            defined += len(wanted)
            for name, value in wanted.items():
                assert own_scores[name][number] == pytest.approx(value, abs=1e-9), name
    assert defined > CASES


def scores_elsewhere(
    gold: np.ndarray, found: np.ndarray, given: np.ndarray, labels: SimpleNamespace
) -> dict[str, float]:
    """Return the scores of records by scikit-learn, those that it defines."""
    columns = range(len(labels.names))
    tried = [1] if len(columns) == 2 and not labels.several else columns
    seen = [n for n in tried if 0 < gold[:, n].sum() < len(gold)]
    scores = {}
    if seen:
        curves = {"roc_auc": metrics.roc_auc_score, "pr_auc": metrics.average_precision_score}
        scores = {
            name: np.mean([score(gold[:, n], given[:, n]) for n in seen])
            for name, score in curves.items()
        }
    ranked = [n for n in range(len(gold)) if gold[n].any()]
    if ranked:
        scores["ndcg"] = metrics.ndcg_score(gold[ranked], given[ranked])
        scores["ndcg_at_k"] = metrics.ndcg_score(gold[ranked], given[ranked], k=3)
    if labels.several:
        losses = [metrics.log_loss(gold[:, n], given[:, n], labels=[0, 1]) for n in columns]
        scores["log_loss"] = np.mean(losses)
        pair, average = (gold, found), "micro"
    else:
        numbers = gold.argmax(axis=1)
        scores["log_loss"] = metrics.log_loss(numbers, given, labels=list(columns))
        if len(columns) > 3:
            scores["top_k_accuracy"] = metrics.top_k_accuracy_score(
                numbers, given, k=3, labels=columns
            )
        pair, average = (numbers, found.argmax(axis=1)), "macro"
    beta = metrics.fbeta_score(*pair, beta=Table().beta, average=average, zero_division=0)
    return {**scores, "f_beta": beta}


def test_groups_are_drawn_as_a_whole():
    random = np.random.default_rng(15)
    labels = make_labels(2, positive="b")
    groups = np.repeat([*"uvwxyz"], 4).tolist()
    gold = np.eye(2, dtype=bool)[random.integers(0, 2, 24)]
    gold[:4], gold[4::4] = [True, False], [False, True]  # nothing is relevant to the first
    given = random.random((24, 1)).round(1)
    given = np.concatenate([1 - given, given], axis=1)
    makers = label_scores.make_scores(gold, gold, given, groups, labels, Table(k=2))
    for name, k in (("ndcg", None), ("ndcg_at_k", 2)):
        own = makers[name]()
        wanted = [
            metrics.ndcg_score([gold[rows, 1]], [given[rows, 1]], k=k)
            for rows in np.arange(4, 24).reshape(5, 4)
        ]
        assert own.rows == 5 and own.value == pytest.approx(np.mean(wanted))
        assert own.score(np.array([[2, 0, 0, 3, 0]]))[0] == pytest.approx(
            (2 * wanted[0] + 3 * wanted[3]) / 5
        )


@pytest.mark.parametrize("metric", ["f_beta", "pr_auc"])
def test_one_of_two_labels_is_asked_for(metric):
    """Which one no name tells, unless it is of a pair such as no and yes."""
    labels = SimpleNamespace(names=("abusive", "normal"), several=False, positive=None)
    with pytest.raises(InputError, match="name it with positive_label, such as 'normal'"):
        label_scores.choose_label_metric(metric, labels, False)
    labels.positive = "abusive"
    assert label_scores.choose_label_metric(metric, labels, False) == metric
    labels = SimpleNamespace(names=("no", "yes"), several=False, positive=None)
    assert label_scores.choose_label_metric("pr_auc", labels, False) == "pr_auc"
