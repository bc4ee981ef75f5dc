"""The extra `cache` plans the batches of an epoch as core does, in less memory."""

import functools

import numpy as np
import pytest
from traced_memory import peak_memory

from core.batches import DataGenerator
from extras.cache.plans import plan


@pytest.mark.parametrize("trial", range(60))
def test_batches_are_those_of_core(trial):
    random = np.random.default_rng(trial)
    lengths = random.integers(1, random.integers(2, 80), random.integers(1, 400))
    size, buckets = int(random.integers(1, 40)), int(random.integers(1, 12))
    generator = DataGenerator(lengths, size, buckets, seed=trial)
    for epoch, generator.fits_batch in ((None, False), (0, True), (7, False), (None, True)):
        expected, found = generator.plan(epoch), plan(generator, epoch)
        assert len(found) == len(expected)
        for part in (slice(None), slice(2, None), slice(1, None, 3)):
            whole = zip(found[part], expected[part], strict=True)
            for (items, length), (expected_items, expected_length) in whole:
                assert items.tolist() == expected_items.tolist() and length == expected_length
        assert found[0][0].tolist() == expected[0][0].tolist()
        with pytest.raises(IndexError):
            found[len(expected)]


def test_an_item_takes_few_bytes():
    items = 300_000
    lengths = np.random.default_rng(0).integers(4, 128, items).astype(np.int16)
    generator = DataGenerator(lengths, 16)
    makes = (plan, DataGenerator.plan)
    peaks = [peak_memory(functools.partial(make, generator, 0)) / items for make in makes]
    assert peaks[0] < 16 and peaks[0] < peaks[1] / 2, peaks
