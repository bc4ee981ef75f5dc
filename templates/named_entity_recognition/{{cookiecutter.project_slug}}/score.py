"""Score any predictions file on a file with gold entities; no run is needed.

python score.py PREDICTIONS GOLD [--KEY VALUE ...]   the scores that evaluate.py gives for them
"""

from collections.abc import Sequence
from pathlib import Path

from core.base.errors import InputError, command
from core.base.extras import need
from core.base.settings import read_settings
from core.data.records import Id
from core.scores.precision_recall import print_precision_recall_f1
from formats.conll import file_scheme, is_conll, read_conll
from task.metrics import score
from task.records import Entity, Example, read_example, read_examples
from task.settings import Settings


@command
def main() -> None:
    """Read both files, score, print."""
    scoring = need("comparison", "scoring")
    arguments = scoring.read_arguments(__doc__, settings=True)
    settings = read_settings(Settings, arguments.flags)
    golds = read_examples(arguments.gold, settings)
    if is_conll(arguments.predictions):
        answers = read_columns(arguments.predictions, arguments.gold, golds, settings)
    else:
        answers = scoring.read_answers(arguments.predictions, golds, read_entities)
    scores = score(golds, answers, settings.beta)
    scoring.finish(arguments, scores)
    print_precision_recall_f1("type", {**scores["per_type"], "all": scores})
    print(f"\nmacro F1  {scores['macro_f1']:.4f}\n")
    print_precision_recall_f1("overlap", scores["overlap"])
    if settings.beta != 1:
        print(f"\nF{settings.beta:g}  {scores['f_beta']:.4f}")


def read_entities(place: str, record: dict, gold: Example) -> tuple[Entity, ...]:
    """Return the predicted entities of a record, after checking their spans."""
    scoring = need("comparison", "scoring")
    record = scoring.with_text(record, gold)
    entities = read_example(record, gold.line, True).entities
    scoring.check_words(record.get("entities", ()), {"span": "text"}, gold.text)
    return entities


def read_columns(
    path: Path, gold_file: Path, golds: Sequence[Example], settings: Settings
) -> dict[Id, tuple[Entity, ...]]:
    """Return id -> entities of a file of columns, whose sentences are those of the gold, in order.

    Raises:
        InputError: the sentences are not those of the gold.
    """
    examples = read_examples(path, with_scheme_of(gold_file, settings))
    texts = [[example.text for example in own] for own in (examples, golds)]
    if texts[0] != texts[1]:
        places = (n for n, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1])
        line = examples[next(places, min(map(len, texts)) - 1)].line
        raise InputError(
            f"{path} has other sentences than the gold, from line {line} on: predict the same file."
        )
    return {gold.id: found.entities for gold, found in zip(golds, examples, strict=True)}


def with_scheme_of(gold: Path, settings: Settings) -> Settings:
    """Return settings that read predicted tags in the scheme of the gold.

    If the predictions decided, tags that break that scheme would fit another one. In BIO1
    the tags of BIO2 have the same entities.
    """
    table = settings.conll
    if not is_conll(gold) or table.scheme != "auto":
        return settings
    scheme = file_scheme(read_conll(gold, table, True), table)
    if scheme in (None, "bio1"):
        return settings
    return settings.model_copy(update={"conll": table.model_copy(update={"scheme": scheme})})


if __name__ == "__main__":
    main()
