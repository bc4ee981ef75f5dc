"""Names in the folder of a search, and in its trials."""

JOURNAL = "study.journal"  # in the folder of a search
PRUNED = "pruned_after"  # attribute of a trial: the scoring after which it was stopped
