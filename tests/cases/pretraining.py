"""What the tests of all tasks need to know of pre-training."""

# Words of the sample are tokens, so that a line fits into an example.
SMALL = {
    "tiny_vocabulary": None,
    "preparation.vocabulary_size": 1000,
    "preparation.packing": False,
    "preparation.words": "spaces",
    "preparation.processes": 1,
}
DEV_SCORE = "accuracy"
# The score that CHANGING.md adds.
CHANGED_SCORE = "neg_perplexity"
PREPARATION = "prepare.py"
