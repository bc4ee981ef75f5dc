"""Random cases of named entities, and what seqeval and nervaluate say of them.

The numbers stand in tests/tasks/named_entity_recognition/entity_numbers.json: neither package is
needed to compare with them. To write them anew:

    pip install seqeval==1.2.2 nervaluate==1.2.1
    python tests/entity_peer.py
"""

import json
from pathlib import Path

import numpy as np

NUMBERS = Path(__file__).parent / "tasks/named_entity_recognition/entity_numbers.json"
LETTERS = {"bio2": "BI", "bioes": "BIES", "bilou": "BILU"}
TYPES = ("PER", "LOC", "ORG")
FILES, SENTENCES, TOKENS = 150, 6, 9


def random_tags(seed: int, letters: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return gold and predicted tags of a small file: most are in no scheme at all."""
    random = np.random.default_rng(seed)
    choices = ["O", *(f"{letter}-{kind}" for letter in letters for kind in TYPES)]
    gold, found = [], []
    for _ in range(SENTENCES):
        length = int(random.integers(1, TOKENS))
        gold.append([choices[i] for i in random.integers(0, len(choices), length)])
        changed = random.random(length) < 0.3
        other = random.integers(0, len(choices), length)
        found.append(
            [choices[o] if c else t for t, o, c in zip(gold[-1], other, changed, strict=True)]
        )
    return gold, found


def random_entities(seed: int) -> tuple[list[list[tuple]], list[list[tuple]]]:
    """Return gold and predicted entities `(start, end, type)` of some texts; no two overlap.

    Of those that do nervaluate takes the first that it meets, even beside one that is wholly right.
    """
    random = np.random.default_rng(seed)

    def draw() -> list[tuple]:
        starts = random.integers(0, 20, random.integers(0, 6))
        sizes, kinds = random.integers(1, 6, len(starts)), random.integers(0, 3, len(starts))
        spans = zip(starts.tolist(), sizes.tolist(), kinds.tolist(), strict=True)
        return keep_apart({(start, start + size, TYPES[kind]) for start, size, kind in spans})

    gold, found = [], []
    for _ in range(SENTENCES):
        gold.append(draw())
        kept = [entity for entity in gold[-1] if random.random() < 0.5]
        found.append(keep_apart({*kept, *draw()}))
    return gold, found


def keep_apart(entities: set[tuple]) -> list[tuple]:
    """Return the entities in their order, without those that overlap one before."""
    kept: list[tuple] = []
    for entity in sorted(entities):
        if not kept or entity[0] >= kept[-1][1]:
            kept.append(entity)
    return kept


def main() -> None:
    """Ask both packages, and write what they say."""
    from nervaluate import Evaluator
    from seqeval.metrics.v1 import precision_recall_fscore_support
    from seqeval.scheme import BILOU, IOB2, IOBES

    schemes = {"bio2": IOB2, "bioes": IOBES, "bilou": BILOU}
    numbers: dict = {"seqeval": {}, "nervaluate": []}
    for name, letters in LETTERS.items():
        numbers["seqeval"][name] = []
        for seed in range(FILES):
            micro, macro = (
                precision_recall_fscore_support(
                    *random_tags(seed, letters),
                    scheme=schemes[name],
                    average=average,
                    zero_division=0,
                )[:3]
                for average in ("micro", "macro")
            )
            # Of files without any entity it says NaN.
            numbers["seqeval"][name].append([*micro, float(np.nan_to_num(macro[2]))])
    for seed in range(FILES):
        # Its ends belong to the entity.
        gold, found = (
            [[{"label": kind, "start": a, "end": b - 1} for a, b, kind in text] for text in texts]
            for texts in random_entities(seed)
        )
        overall = Evaluator(gold, found, tags=[*TYPES], loader="dict").evaluate()["overall"]
        numbers["nervaluate"].append(
            {
                how: [overall[key].precision, overall[key].recall, overall[key].f1]
                for how, key in (("exact", "exact"), ("partial", "partial"), ("type", "ent_type"))
            }
        )
    NUMBERS.write_text(json.dumps(numbers, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
