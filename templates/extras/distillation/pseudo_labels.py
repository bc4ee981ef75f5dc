"""From the predictions of a model to records that another one learns from."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from core.base.errors import InputError
from core.data.records import ITEMS, PROBABILITY
from extras.distillation.soft_texts import weigh_texts

# The gold of a record, whatever the task: predictions take its place. A teacher says something of
# all predicates, whichever a person has annotated.
GOLD = {"label", "labels", "triples", "entities", "events", "answers", "answer_texts", "targets"}
GOLD |= {"annotated_predicates"}
TEXT_FIELDS = ("text", "context", "text_a", "text_b", "question", "source", "group")
NOT_IN_GOLD = ("score", "text", "trigger_text", "trigger_score", "subject_text", "object_text")

# Fields of a record, and how sure its teacher is, from 0 to 1; None: it can't say.
Labelled = tuple[dict[str, Any], float | None]


def label_record(
    record: dict, prediction: dict, hard: bool, temperature: float = 1.0
) -> tuple[dict[str, Any], float | None]:
    """Return a record with what was predicted as its gold, and how sure the teacher is.

    Args:
        record: of the unlabelled file.
        prediction: the record of the predictions file with the same id.
        hard: labels without probabilities.
        temperature: above 1 the probabilities of labels, items or texts are more alike, as in
            `soften`.
    """
    kinds: dict[str, Callable[[dict, bool], Labelled]] = {
        "probabilities": from_probabilities,
        **dict.fromkeys(ITEMS, from_items),
        "n_best": from_answer,
        "prediction": from_text,
        "targets": from_numbers,
    }
    read = next(function for field, function in kinds.items() if field in prediction)
    fields, sure = read(prediction, hard)
    if temperature != 1 and "probabilities" in prediction and not hard:
        name = "label" if "label" in fields else "labels"
        fields = {name: soften(fields[name], temperature, exclusive=name == "label")}
    if not hard:
        fields |= {n: with_probabilities(prediction[n], temperature) for n in ITEMS if n in fields}
    if "others" in prediction and not hard:
        fields = {"targets": from_n_best(prediction, temperature)}
    if temperature != 1 and read is from_numbers and "probability" not in prediction:
        raise InputError(
            "--temperature softens probabilities, and these runs predict numbers: leave it out."
        )
    if temperature != 1 and "probability" in prediction:  # normalised where a group is learned
        fields = {name: share ** (1 / temperature) for name, share in fields.items()}
    return {**{n: v for n, v in record.items() if n not in GOLD}, **fields}, sure


def record_of(example: Any) -> dict[str, Any]:
    """Return an example without gold as a record; an empty text is one, an absent one is not."""
    texts = {name: getattr(example, name, None) for name in TEXT_FIELDS}
    return {"id": example.id, **{name: text for name, text in texts.items() if text is not None}}


def is_empty(labelled: dict[str, Any]) -> bool:
    """Return whether a record has no text to learn from: the teacher wrote none."""
    return not any(text.strip() for text in labelled.get("targets", ["of another task"]))


def from_probabilities(prediction: dict, hard: bool) -> Labelled:
    """Return the label or labels of a text, with their probabilities unless `hard`."""
    probabilities = prediction["probabilities"]
    if "label" in prediction:
        if hard:  # with a tuned threshold it need not be the likeliest one
            return {"label": prediction["label"]}, probabilities[prediction["label"]]
        sure = max(probabilities.values())
        total = sum(probabilities.values())
        return {"label": {name: share / total for name, share in probabilities.items()}}, sure
    if hard:
        chosen = prediction["labels"]
        shares = (p if name in chosen else 1 - p for name, p in probabilities.items())
        return {"labels": chosen}, min(shares)
    return {"labels": probabilities}, min(max(p, 1 - p) for p in probabilities.values())


def soften(
    probabilities: dict[str, float], temperature: float, exclusive: bool
) -> dict[str, float]:
    """Return the probabilities of logits that are divided by a temperature.

    A softmax of logits / T is p^(1/T), normalised; of a sigmoid the two outcomes are normalised for
    each label. Source: Hinton et al. 2015, https://arxiv.org/abs/1503.02531.

    >>> soften({"yes": 0.9, "no": 0.1}, 2.0, exclusive=True)
    {'yes': 0.75, 'no': 0.25}
    """
    if exclusive:
        # Shares of the largest one, which no temperature makes 0.
        most = max(probabilities.values())
        powers = {
            name: (share / most) ** (1 / temperature) for name, share in probabilities.items()
        }
        total = sum(powers.values())
        return {name: power / total for name, power in powers.items()}
    pairs = {name: {"": p, "not": 1 - p} for name, p in probabilities.items()}
    return {name: soften(pair, temperature, True)[""] for name, pair in pairs.items()}


def from_numbers(prediction: dict, hard: bool) -> Labelled:
    """Return the numbers of a text, each under its name; of a list the share of its group.

    Raises:
        InputError: which record of a list is the right one can't be told from one of them.
    """
    if hard:
        raise InputError("--hard is for labels, and these runs predict numbers: leave it out.")
    if "probability" in prediction:
        return {"score": prediction["probability"]}, None
    return dict(prediction["targets"]), None


def from_items(prediction: dict, hard: bool) -> Labelled:
    """Return triples, entities or events; the least sure one counts, None if there is none.

    Of items with probabilities a teacher is also sure where it gives a low one.
    """
    name = next(name for name in ITEMS if name in prediction)
    scores = [one if hard else max(one, 1 - one) for one in scores_in(prediction[name])]
    return {name: without_scores(prediction[name])}, min(scores, default=None)


def with_probabilities(items: list[dict], temperature: float) -> list[dict]:
    """Return items as a training file holds them, with their scores as probabilities.

    Where all are 1, as those of a single tagger, they are plain. An argument without a probability
    would have that of its trigger.

    >>> item = {"type": "place", "span": [0, 3], "text": "Rom", "score": 0.9}
    >>> with_probabilities([item], temperature=2.0)
    [{'type': 'place', 'span': [0, 3], 'probability': 0.75}]
    """
    if all(score == 1 for score in scores_in(items)):
        return without_scores(items)
    return soften_items(items, temperature)


def soften_items(items: list[dict], temperature: float) -> list[dict]:
    """Return items and their arguments with probabilities in place of scores."""
    found = []
    for item in items:
        own = without_scores(item)
        if "arguments" in item:
            own["arguments"] = soften_items(item["arguments"], temperature)
        score = item.get("score", item.get("trigger_score"))
        if score is not None:
            softened = soften({"": score}, temperature, exclusive=False)[""]
            own[PROBABILITY] = round(softened, 4)
        found.append(own)
    return found


def from_answer(prediction: dict, hard: bool) -> Labelled:
    """Return the answer of a question, or that it has none, and the probability of that."""
    answer, score = prediction["answer"], prediction["score"]
    if answer is None:
        return {"answers": []}, 1 - score
    return {"answers": [answer]}, score


def from_text(prediction: dict, hard: bool) -> Labelled:
    """Return the text that was written; its score is a mean log-probability of the tokens."""
    return {"targets": [prediction["prediction"]]}, math.exp(min(prediction["score"], 0))


def from_n_best(prediction: dict, temperature: float) -> dict[str, float] | list[str]:
    """Return the texts that were written for a record with their weights."""
    texts = [(one["prediction"], one["score"]) for one in (prediction, *prediction["others"])]
    return weigh_texts(texts, temperature) or [prediction["prediction"]]


def scores_in(value: Any) -> Iterator[float]:
    """Yield all scores in a list of items."""
    if isinstance(value, list):
        for item in value:
            yield from scores_in(item)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name.endswith("score"):
                yield part
            else:
                yield from scores_in(part)


def without_scores(value: Any) -> Any:
    """Return items as a training file holds them, without scores and the texts of spans."""
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if name not in NOT_IN_GOLD}
        return {name: without_scores(part) for name, part in kept.items()}
    return [without_scores(part) for part in value] if isinstance(value, list) else value
