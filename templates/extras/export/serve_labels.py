"""Label texts with an exported model, without the project's code.

python serve.py "one text" "another"            a pair is one argument, separated by a tab

It only needs the packages tensorflow, tokenizers and numpy. A service would load the model once and
call `label` for each request.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tokenizers import Tokenizer

FOLDER = Path(__file__).resolve().parent


class Labeller:
    """A model that labels texts, with its tokenizer.

    Args:
        folder: made by export.py.
    """

    def __init__(self, folder: Path) -> None:
        self.model = tf.saved_model.load(str(folder / "saved_model"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        described = json.loads((folder / "serving.json").read_text(encoding="utf-8"))
        self.inputs, self.labels = described["inputs"], described["labels"]["names"]
        self.tokenizer.enable_truncation(described["max_length"], strategy="longest_first")

    def label(self, texts: list[str]) -> list[dict[str, float]]:
        """Return label -> probability for each text."""
        pairs = [text.split("\t", 1) for text in texts]
        encodings = self.tokenizer.encode_batch([p if len(p) == 2 else p[0] for p in pairs])
        rows = {name: [self.row(encoding, name) for encoding in encodings] for name in self.inputs}
        longest = max(len(row) for row in rows["token_ids"])
        batch = {
            name: tf.constant([np.pad(row, (0, longest - len(row))) for row in part], tf.int32)
            for name, part in rows.items()
        }
        probabilities = self.model.serve(batch)["probabilities"].numpy()
        return [dict(zip(self.labels, map(float, row), strict=True)) for row in probabilities]

    def row(self, encoding, name: str) -> list[int]:
        """Return one input for one text; padding is 0 in all of them."""
        values = {
            "token_ids": encoding.ids,
            "segment_ids": encoding.type_ids,
            "padding_mask": encoding.attention_mask,
            # 1 and 2 for tokens of the first and the second text, 0 for special tokens.
            "text_numbers": [0 if n is None else n + 1 for n in encoding.sequence_ids],
        }
        return values[name]


def main() -> None:
    """Print the most likely label of each argument."""
    for text, found in zip(sys.argv[1:], Labeller(FOLDER).label(sys.argv[1:]), strict=True):
        best = max(found, key=found.__getitem__)
        print(f"{best}\t{found[best]:.4f}\t{text}")


if __name__ == "__main__":
    main()
