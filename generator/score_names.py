"""How the tables show scores: their names, in percent, over several seeds."""

import statistics

ABBREVIATIONS = {"bleu": "BLEU", "f1": "F1", "map": "MAP", "mrr": "MRR", "rouge_l": "ROUGE-L"}
# Templates whose name differs from the task's.
TASKS = {"pretraining": "pre-training", "seq2seq": "text generation"}
# These scores run from 0 to 100; all others from 0 to 1.
PERCENT = {"bleu", "chrf"}
# Number of compared steps after a change of a baseline's code.
FIRST_STEPS = 20


def task_name(template: str) -> str:
    """Return the readable name of a template's task."""
    return TASKS.get(template, template.replace("_", " "))


def score_name(monitor: str) -> str:
    """Return a score's readable name."""
    words = [monitor] if monitor in ABBREVIATIONS else monitor.split("_")
    return " ".join(ABBREVIATIONS.get(word, word) for word in words)


def in_percent(value: float, monitor: str) -> float:
    """Return a score in percent."""
    return value if monitor in PERCENT else 100 * value


def mean_and_deviation(values: list[float]) -> str:
    """Return the mean of percentages, with the standard deviation if there are several."""
    if len(values) < 2:
        return "".join(f"{value:.1f}" for value in values)
    return f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"


def mean_minutes(scores: dict) -> str:
    """Return the minutes of a training, averaged over the seeds of a scores.json."""
    return f"{statistics.fmean(seed['minutes'] for seed in scores['seeds']):.1f}"
