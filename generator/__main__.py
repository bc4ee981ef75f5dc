"""`python -m generator` is the command `baselines`."""

from generator.cli import main

main()
