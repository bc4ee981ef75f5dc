"""Right and wrong tokens of dev, for the report of a run."""

from collections.abc import Sequence

from core.report.report import ErrorExample, ErrorItem


def find_errors(predictions: Sequence[dict]) -> list[ErrorExample]:
    """Return the records of predictions that have a text, with their right and wrong tokens."""
    reports = []
    for record in predictions:
        if "hidden" in record:
            text, (correct, count, _) = record["text"], record["statistics"]
            items = [describe_hidden(text, hidden) for hidden in record["hidden"]]
            ranks = [rank_hidden(text, hidden) for hidden in record["hidden"]]
            measures = {"accuracy": correct / max(count, 1)}
            reports.append(ErrorExample(record["id"], text, items, measures, ranks=ranks))
    return reports


def rank_hidden(text: str, hidden: dict) -> int:
    """Return the rank of a hidden token among the likeliest tokens, from 1; 0: it is not one."""
    tokens = [token.removeprefix("##") for token in hidden["predicted"]]
    token = hidden.get("label", text[slice(*hidden["span"])])
    return tokens.index(token) + 1 if token in tokens else 0


def describe_hidden(text: str, hidden: dict) -> ErrorItem:
    """Return one hidden token, and the likeliest tokens in its place."""
    start, end = hidden["span"]
    kind = "correct" if rank_hidden(text, hidden) == 1 else "missed"
    return ErrorItem(kind, ", ".join(hidden["predicted"]) + " ←", [(start, end, "")])
