"""Train the vocabulary on train_text; prepare.py does so by itself where there is none.

python train_vocabulary.py [--KEY VALUE ...]        every key of config.toml is a flag
python train_vocabulary.py --overwrite true         replaces the one that is there
"""

from core.base.errors import InputError, command
from core.base.settings import read_settings
from corpus import storage
from corpus.processes import end_when_told
from corpus.vocabulary import keep_vocabulary, train_vocabulary
from task.settings import Settings


@command
def main() -> None:
    """Train, keep, say what the vocabulary covers."""
    settings = read_settings(Settings)
    end_when_told()
    path = storage.place(settings.tokenizer)
    if storage.read_bytes(path) is not None and not settings.overwrite:
        raise InputError(
            f"{path} is there already: name another file with --tokenizer, or replace it with "
            "--overwrite true; the shards then have to be prepared anew."
        )
    keep_vocabulary(path, *train_vocabulary(settings))


if __name__ == "__main__":
    main()
