"""Every sentence of docs/benchmarks.md that says what a table proves agrees with its figures."""

import pytest
from conftest import ROOT

from generator.benchmark_tables import FIGURE_TABLES, GROWTH, PREDICTION_COLUMNS, find_figure
from generator.document_tables import TABLES
from generator.files import read_json

RESULTS = ROOT / "benchmarks/results"
PAGE = " ".join((ROOT / "docs/benchmarks.md").read_text(encoding="utf-8").split())


def figures(table: str) -> dict[tuple, float]:
    """Return file and keys -> figure, of the figures of a table that are measured."""
    found = {
        (file, *keys): find_figure(RESULTS / file, keys) for file, keys, _ in FIGURE_TABLES[table]
    }
    return {keys: value for keys, value in found.items() if value is not None}


def test_the_page_shows_every_table_below_a_heading():
    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert {
        name for name in TABLES["docs/benchmarks.md"] if f"<!-- {name}: begin -->" not in text
    } == set()
    assert "Figures are from CPUs, mostly two cores, unless a GPU is named." in PAGE


def test_a_step_on_a_gpu_is_shorter_than_the_peers():
    assert "our step with XLA takes less time than eager PyTorch's in every row" in PAGE
    assert "and more memory; without XLA MiniLM takes longer" in PAGE
    found = read_json(RESULTS / "gpu.json")
    assert "H100" in found["card"]
    times: dict[tuple, dict] = {}
    memory: dict[tuple, list] = {}
    for row in found["rows"]:
        memory.setdefault((row["case"], row["side"]), []).append(row["peak_MiB"])
        times.setdefault((row["case"], row["side"]), {})[row["mode"]] = row["milliseconds"]
    cases = {case for case, _ in times}
    assert len(cases) == 4
    for case in cases:
        ours, peer = times[case, "ours"], times[case, "peer"]
        assert min(ours.values()) < min(peer.values()), case
        assert min(memory[case, "ours"]) > min(memory[case, "peer"])
        if "float32" in ours:
            assert ours["float32, XLA"] < min(peer.values()) < ours["float32"]
    assert not any("compiled" in mode for modes in times.values() for mode in modes)
    assert "`torch.compile` was not measured" in PAGE


def test_an_epoch_is_shorter_than_the_peers_but_for_one():
    assert "in every comparison except Weibo on an Intel Xeon" in PAGE
    found = figures("training")
    longer = {
        keys[0] for keys, value in found.items() if "pretraining" not in keys[0] and value >= 1
    }
    assert longer == {"peer_named_entities_weibo_intel.json"}
    assert "more tokens per second than the peer" in PAGE
    assert all(value > 1 for keys, value in found.items() if "pretraining" in keys[0])


def test_named_entities_score_higher_than_the_peer():
    assert "our named-entity models score higher than the peer" in PAGE
    found = {keys[:2]: value for keys, value in figures("peer_scores").items()}
    files = {file for file, side in found if side == "ours"}
    assert files and all(found[file, "ours"] > found[file, "peer"] for file in files)


def test_prediction_beats_both_peers_on_one_processor_and_one_on_the_other():
    assert "On an AMD EPYC prediction is faster than both peers." in PAGE
    assert "slower than a peer that sorts it by length" in PAGE
    [in_order], [by_length] = (
        PREDICTION_COLUMNS[f"ours / {peer}"] for peer in ("file order", "sorted")
    )
    for task in ("relation_extraction", "reading_comprehension", "text_classification"):
        amd, intel = (RESULTS / f"prediction_speed{end}.json" for end in ("_amd", ""))
        assert find_figure(intel, (task, *by_length)) < 1 < find_figure(intel, (task, *in_order))
        assert 1 < find_figure(amd, (task, *by_length)) < find_figure(amd, (task, *in_order))


def test_batches_and_caches_gain_what_the_page_says():
    assert "7 to 72 times as fast as one record at a time" in PAGE
    assert all(7 <= value <= 72 for value in figures("batching").values())
    assert "at least 12 times as fast" in PAGE
    for keys, value in figures("generation").items():
        assert value > (1 if "transformers" in keys[-1] else 12)


def test_memory_extras_save_what_the_page_says():
    found = {keys[1:]: value for keys, value in figures("memory").items()}
    assert "to less than a third and makes the step about a third longer" in PAGE
    assert found["memory_percent",] < 100 / 3
    assert found["times_as_long",] == pytest.approx(4 / 3, abs=0.03)
    assert "a third of the step's time with the table of XLM-R" in PAGE
    assert found["xlm_roberta", "wall_ratio"] == pytest.approx(2 / 3, abs=0.03)
    assert found["xlm_roberta", "wall_ratio"] < found["minilm", "wall_ratio"] < 1


def test_dropout_and_input_cost_what_the_page_says():
    assert "about 1 % of a training step" in PAGE
    [cost] = figures("dropout").values()
    assert cost == pytest.approx(1.01, abs=0.01)
    generator, buckets, one_length = figures("input").values()
    assert generator > 100 and buckets < 1.1 < one_length


def test_starts_with_the_cache_stay_short_and_small():
    assert "well under a second and memory stays below 50 MiB" in PAGE
    for file in GROWTH:
        for size in find_figure(RESULTS / file, ("sizes",)).values():
            assert size["cache_second_start"]["seconds"] < 0.5
            assert size["cache_two_processes"]["peak_mebibytes"] < 50
    assert "as fast as training from lists, within 5 %" in PAGE
    assert all(abs(value - 1) < 0.05 for value in figures("cache_training").values())
