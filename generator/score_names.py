"""How the tables write scores: their names, in percent, over several seeds."""

import statistics

ABBREVIATIONS = {"bleu": "BLEU", "f1": "F1", "map": "MAP", "mrr": "MRR", "rouge_l": "ROUGE-L"}
# Of templates that are not called as the task is.
TASKS = {"pretraining": "pre-training", "seq2seq": "text generation"}
# These are made to run from 0 to 100; all other scores are shares.
PERCENT = {"bleu", "chrf"}
# So many steps are compared when the code of a baseline has changed.
FIRST_STEPS = 20


def task_name(template: str) -> str:
    """Return what a template is for, as a reader writes it."""
    return TASKS.get(template, template.replace("_", " "))


def score_name(monitor: str) -> str:
    """Return a score's name as a reader writes it."""
    words = [monitor] if monitor in ABBREVIATIONS else monitor.split("_")
    return " ".join(ABBREVIATIONS.get(word, word) for word in words)


def in_percent(value: float, monitor: str) -> float:
    """Return a score in percent."""
    return value if monitor in PERCENT else 100 * value


def mean_and_deviation(values: list[float]) -> str:
    """Return the mean of percentages, with its standard deviation where there are several."""
    if len(values) < 2:
        return "".join(f"{value:.1f}" for value in values)
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"


def mean_minutes(scores: dict) -> str:
    """Return the minutes of a training, the mean over the seeds of a scores.json."""
    return f"{statistics.fmean(seed['minutes'] for seed in scores['seeds']):.1f}"
