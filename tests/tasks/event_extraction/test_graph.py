"""Events through labels and back: what must survive, what may not take long, what is kept when."""

import gc
import itertools
import json
import time

import networkx
import numpy as np
import pytest
from conftest import use_template

use_template("event_extraction")

from core.data.tokens import Window, split_into_windows, train_tokenizer  # noqa: E402
from formats.duee import duee_record  # noqa: E402
from formats.records import prediction_records  # noqa: E402
from inspection import checks  # noqa: E402
from library import graph  # noqa: E402
from library.graph import Graph, events_at  # noqa: E402
from task.data import link_cells, pointer_labels, tag_labels  # noqa: E402
from task.decode import (  # noqa: E402
    MOST_SPANS,
    decode_pointers,
    keep_events,
    make_graph,
    make_selector,
)
from task.records import Event, Example, Schema, collect_schema  # noqa: E402
from task.settings import Settings  # noqa: E402

TEXT = "a b c d e f g h i j k l"
TOKENIZER = train_tokenizer([TEXT] * 4, 100)


def span(letters):
    """Return the characters of `c` or `c-e` in the text."""
    first, _, last = letters.partition("-")
    return TEXT.index(first), TEXT.index(last or first) + 1


def event(kind, trigger, *arguments):
    """Return an event; arguments are written `role=c-e`."""
    pairs = (argument.split("=") for argument in arguments)
    found = tuple(sorted({(role, span(letters)) for role, letters in pairs}))
    return Event(kind, span(trigger) if trigger else None, found)


def example(*events, text=TEXT):
    return Example("a", text, tuple(events), 7)


def reach(*events, model="gplinker", max_length=32, known=()):
    settings = Settings.model_construct(
        max_length=max_length, window_overlap=2, model=model, metric="argument_classification"
    )
    own = example(*events)
    schema = collect_schema([own, *known])
    return checks.measure_reach([own], TOKENIZER, schema, settings)


SURVIVING = {
    "one argument": [event("x", "a", "r=c")],
    "a trigger alone": [event("x", "a")],
    "no trigger": [event("x", None, "r=b", "s=d")],
    "one argument without trigger": [event("x", None, "r=b")],
    "several of one type": [event("x", "a", "r=b", "s=c"), event("x", "d", "r=e", "s=f")],
    "an argument shared": [event("x", "a", "r=b", "s=c"), event("x", "d", "r=b", "s=f")],
    "shared between types": [event("x", "a", "r=b", "s=c"), event("y", "a", "q=b")],
    "a role filled twice": [event("x", "a", "r=b", "r=c")],
    "two roles of one span": [event("x", "a", "r=b", "s=b")],
    "an argument that is the trigger": [event("x", "a", "r=a")],
    "nested and overlapping": [event("x", "a", "r=b-e", "s=c-d", "q=d-f", "r=e")],
    "one trigger, two events": [event("x", "a", "r=b", "s=c"), event("x", "a", "r=d", "s=e")],
    "equal but for the trigger": [event("x", "a", "r=b", "s=c"), event("x", "d", "r=b", "s=c")],
    "winner, then loser": [event("x", "a", "w=b", "l=c"), event("x", "d", "w=e", "l=b")],
    "a ring of arguments": [
        event("x", "a", "r=b", "s=c"),
        event("x", "d", "s=c", "q=e"),
        event("x", "f", "q=e", "r=b"),
    ],
    "with and without trigger": [event("x", "a", "r=b"), event("x", None, "r=c", "s=d")],
    "without trigger, an argument shared": [
        event("x", None, "r=b", "s=c"),
        event("x", None, "r=b", "s=d"),
    ],
}


@pytest.mark.parametrize("name", SURVIVING)
def test_events_survive(name):
    found = reach(*SURVIVING[name])
    assert not any(found.faults.values())
    assert found.oracle["event_f1"] == found.oracle["metrics"]["event"]["f1"] == 1
    settings = Settings.model_construct(metric="argument_classification")
    findings = checks.find_reach_faults("train.jsonl", found, settings)
    if name == "a trigger alone":
        assert findings.pop().what == "nothing that metric = 'argument_classification' counts"
    assert findings == []


LOST = {
    "crowded": (
        [Event("x", (0, 1), tuple(sorted((f"r{n}", span("c")) for n in range(100))))],
        {},
    ),
    "contained": ([event("x", "a", "r=b"), event("x", "a", "r=b", "s=c")], {}),
    "joined": (
        # Without triggers a ring of three pairs is the same links as one event of three.
        [
            event("x", None, "r=b", "s=c"),
            event("x", None, "s=c", "q=d"),
            event("x", None, "q=d", "r=b"),
        ],
        {},
    ),
    "apart": ([event("x", None, "r=a", "s=l")], {"max_length": 9}),
    "overlapping": ([event("x", "a", "r=b-d", "s=c")], {"model": "crf"}),
    "composed": (
        [event("x", "a", "r=f"), event("x", "e", "r=b")],
        {"model": "crf"},
    ),
}


@pytest.mark.parametrize("cause", LOST)
def test_lost_events_have_their_cause(cause):
    events, options = LOST[cause]
    found = reach(*events, **options)
    assert {name for name, lines in found.faults.items() if lines} - {"invented"} == {cause}
    settings = Settings.model_construct(metric="argument_classification")
    finding = checks.find_reach_faults("dev.jsonl", found, settings)[0]
    assert finding.what.startswith(f"events that {checks.CAUSES[cause][0]}: ")
    assert finding.where == "dev.jsonl, line 7 for example"


def test_an_event_with_a_span_that_cuts_tokens_is_left_to_the_doctor():
    found = reach(Event("x", (0, 1), (("r", (1, 3)),)))
    assert {name for name, lines in found.faults.items() if lines} - {"invented"} == {checks.CUT}
    settings = Settings.model_construct(metric="argument_classification")
    finding = checks.find_reach_faults("dev.jsonl", found, settings)[0]
    assert len(found.cut) == 1 and finding.where.startswith("dev.jsonl, line 7")
    assert "spans" in finding.what


def test_an_unseen_label_is_not_blamed_on_its_overlap():
    """The training file knows neither a type nor a role of the file that is looked at."""
    settings = Settings.model_construct(
        max_length=32, window_overlap=2, model="gplinker", metric="argument_classification"
    )
    schema = collect_schema([example(event("x", "a", "r=b"))])
    for model in ("gplinker", "crf"):
        settings.model = model
        for own in (event("x", "a", "s=c"), event("y", "d", "r=e")):
            found = checks.measure_reach([example(own)], TOKENIZER, schema, settings)
            assert found.faults["unseen"] == [7] and not found.faults["overlapping"]
            finding = checks.find_reach_faults("dev.jsonl", found, settings)[0]
            assert finding.what == (
                "events that have a type or a role that is not in the training file: 1"
            )


def grids_of_cells(random, heads, length, values):
    """Return scores of few values, so that there are ties, most of them below what may hold."""
    grid = random.choice(values, (heads, length, length)).astype(np.float32)
    return np.where(random.random(grid.shape) < 0.9, -9, grid).astype(np.float32)


def test_the_best_of_several_tokens_of_one_character_counts():
    """Tokens may be bytes: then the spans (1, 1), (1, 2) and (2, 2) are one character."""
    schema = collect_schema([example(event("x", "a"))])
    places = np.array([-1, 0, 0, -1])
    window = Window(np.arange(4), places, np.where(places < 0, -1, 1), (0, 1))
    found = {
        "scores": np.array([3.0, 1.0, -1.0], np.float32),
        "labels": np.zeros(3, int),
        "firsts": np.array([1, 1, 2]),
        "lasts": np.array([1, 2, 2]),
        "links": np.array([[2.0, 1, 0], [0, 0, 0], [0, 0, -2]], np.float32),
    }
    mentions, links = decode_pointers(found, window, schema)
    assert [*mentions.values()] == pytest.approx([1 / (1 + np.exp(-3))])
    assert [*links.values()] == pytest.approx([1 / (1 + np.exp(-2))])


@pytest.mark.parametrize("seed", range(8))
def test_selected_spans_and_links_are_those_of_the_whole_grids(seed):
    """Cell by cell: the best spans of all labels, the first of equal ones; links of one type."""
    random = np.random.default_rng(seed)
    events = [event("x", "a", "r=b", "s=c"), event("y", None, "r=b"), event("y", "a", "q=b")]
    schema = collect_schema([example(*events)])
    window = split_into_windows(TOKENIZER, [TEXT], 32, 2)[0][0]
    length, labels = len(window), len(schema.labels)
    grids = {
        "span": grids_of_cells(random, labels, length, [-3.0, 1.0, 2.0, 3.0]),
        "head": grids_of_cells(random, 2, length, [-3.0, 1.0]) + 8,
        "tail": grids_of_cells(random, 2, length, [-3.0, 1.0]) + 8,
    }
    mentions, links = decode_pointers(select_from_grids(grids, schema), window, schema)
    cells = [
        (-grids["span"][label, i, j], label, i, j)
        for label in range(labels)
        for i in range(1, length - 1)
        for j in range(i, length - 1)
    ]
    best = sorted(sorted(cells)[:MOST_SPANS], key=lambda cell: cell[1:])
    best = [c for c in best if c[0] < 4 and min(window.starts[c[2]], window.starts[c[3]]) >= 0]
    spans = [(int(window.starts[i]), int(window.ends[j])) for _, _, i, j in best]
    wanted = {
        (*schema.labels[cell[1]], span): 1 / (1 + np.exp(cell[0]))
        for cell, span in zip(best, spans, strict=True)
    }
    assert mentions == pytest.approx(wanted, abs=1e-6) and list(mentions) == list(wanted)
    expected = {}
    for ((_, one, i, j), span), ((_, two, k, m), other) in itertools.product(
        zip(best, spans, strict=True), repeat=2
    ):
        kind = schema.labels[one][0]
        number = list(schema.types).index(kind)
        weakest = min(grids["head"][number, i, k], grids["tail"][number, j, m])
        if schema.labels[two][0] == kind and (i, j) <= (k, m) and weakest > -4:
            expected[kind, *sorted((span, other))] = 1 / (1 + np.exp(-weakest))
    assert links == pytest.approx(expected, abs=1e-6) and expected


def test_what_tags_express_survives_tags():
    events = [event("x", "a", "r=b", "s=c-d"), event("x", "h", "r=g"), event("y", None, "q=j")]
    found = reach(*events, model="crf")
    assert not any(found.faults.values()) and found.oracle["event_f1"] == 1


def test_an_oracle_below_the_bound_is_an_error():
    found = reach(event("x", "a", "r=b-d", "s=c"), model="crf")
    settings = Settings.model_construct(metric="argument_classification")
    *_, finding = checks.find_reach_faults("dev.jsonl", found, settings)
    assert finding.level == "error" and "argument_classification F1 0.6667" in finding.what


def test_tails_tell_enclosing_spans_from_overlapping_ones():
    assert link_cells((1, 5), (3, 4)) == link_cells((3, 4), (1, 5)) == ((1, 3), (5, 4))
    assert link_cells((1, 4), (3, 5)) == ((1, 3), (4, 5))
    # Beginnings in order: the head pointer masks the other half of its grid.
    assert all(start <= other for (start, other), _ in [link_cells((2, 2), (2, 7))])


def test_links_of_different_types_are_apart():
    events = [event("x", "a", "r=b"), event("y", "a", "r=c")]
    window = split_into_windows(TOKENIZER, [TEXT], 32, 2)[0][0]
    schema = collect_schema([example(*events)])
    labels = pointer_labels(events, window, schema)
    assert list(schema.types) == ["x", "y"]
    assert as_lists(labels["head"]) == {0: [(1, 2)], 1: [(1, 3)]}
    assert as_lists(labels["span"]) == {0: [(1, 1)], 1: [(2, 2)], 2: [(1, 1)], 3: [(3, 3)]}


def as_lists(pairs):
    """Return head -> pairs of tokens."""
    return {head: list(cells) for head, cells in sorted(pairs.items())}


def test_labels_of_unknown_types_are_left_out():
    window = split_into_windows(TOKENIZER, [TEXT], 32, 2)[0][0]
    schema = collect_schema([example(event("x", "a", "r=b"))])
    events = [event("x", "a", "new=c"), event("new", "d", "r=e")]
    labels = pointer_labels(events, window, schema)
    assert len(schema.labels) == 2 and as_lists(labels["span"]) == {0: [(1, 1)]}
    assert not labels["head"] and not labels["tail"]
    assert tag_labels(events, window, schema).tolist() == [0, 1] + [0] * 12


def test_schema_goes_through_its_file():
    schema = collect_schema([example(event("x", "a", "r=b"), event("y", None, "q=c"))])
    assert schema.labels == [("x", None), ("x", "r"), ("y", "q")]
    assert schema.triggered == {"x"}
    assert Schema(json.loads(json.dumps(schema.types))) == schema
    both = collect_schema([example(event("x", "a"), event("x", None, "q=c"))])
    assert both.triggered == frozenset()


def test_chinese_emoji_and_accents():
    text = "👩\u200d⚕️王医生治好了Re\u0301my和李🚀。"
    pieces = {"doctor": "王医生", "patient": "Re\u0301my", "other": "李"}
    spans = {role: (text.index(p), text.index(p) + len(p)) for role, p in pieces.items()}
    trigger = (text.index("治好了"), text.index("治好了") + 3)
    own = Event("treat", trigger, tuple(sorted(spans.items())))
    tokenizer = train_tokenizer([text] * 4, 100)
    settings = Settings.model_construct(
        max_length=64, window_overlap=2, model="gplinker", metric="duee"
    )
    records = [Example("a", text, (own,), 1)]
    found = checks.measure_reach(records, tokenizer, collect_schema(records), settings)
    assert found.oracle["event_f1"] == found.oracle["duee_f1"] == 1


@pytest.mark.parametrize("far", ["e", "l"])
def test_windows_of_one_text_are_joined(far):
    """Two events in different windows; and an argument that never shares one with its trigger."""
    events = [event("x", "c", "r=d", "s=e"), event("y", "i", "r=j", f"s={far}")]
    found = reach(*events, max_length=8)
    assert len(found.tokens) > 1 and found.oracle["event_f1"] == 1


# ------------------------------------------------------------------- effort and thresholds


def random_graph(seed, mentions=14, triggered=("x",), digits=2):
    """Return a graph of two types with rounded probabilities, so that there are ties."""
    random = np.random.default_rng(seed)
    found = {}
    for _ in range(mentions):
        start = int(random.integers(6))
        kind, role = str(random.choice(["x", "y"])), str(random.choice(["-", "-", "r", "s", "q"]))
        key = kind, None if role == "-" else role, (start, start + int(random.integers(1, 3)))
        found[key] = float(np.round(random.random(), digits))
    spans = sorted({key[2] for key in found})
    links = {
        (kind, one, two): float(np.round(random.random() ** 0.3, digits))
        for kind in "xy"
        for one, two in itertools.combinations_with_replacement(spans, 2)
        if random.random() < 0.8
    }
    return Graph(found, links, frozenset(triggered))


def overlaps(one, two):
    return one[0] < two[1] and two[0] < one[1]


def surest(nodes, fights):
    """Return the nodes that no surer one fights, by comparing all pairs; 0.9 is against all."""
    kept = []
    for node in sorted(nodes, key=lambda n: (-nodes[n], n[1], n[0] or "")):
        if nodes[node] > 0.9 or not any(fights(node, other) for other in kept):
            kept.append(node)
    return kept


def nodes_above(own, kind, threshold):
    """Return the mentions of a type above a threshold; of arguments four times the odds count."""
    nodes = {(r, s): p for (k, r, s), p in own.mentions.items() if k == kind}
    odds = {
        node: p / (1 - p) * (4 if node[0] else 1) if p < 1 else 1e9 for node, p in nodes.items()
    }
    high = {node: p for node, p in nodes.items() if odds[node] / (1 + odds[node]) > threshold}
    high = surest(high, lambda one, two: one[0] == two[0] and overlaps(one[1], two[1]))
    return {node: nodes[node] for node in high}


@pytest.mark.parametrize("seed", range(40))
def test_each_trigger_makes_an_event_of_what_belongs_to_it(seed, monkeypatch):
    """By comparing all pairs; only that two arguments which are surely apart part is left out."""
    monkeypatch.setattr(graph, "LIKELY_LINK", -1.0)
    own = random_graph(seed, mentions=16, triggered="xy", digits=6)
    for threshold in (0.0, 0.3, 0.5, 0.8, 0.999):
        expected, tied = [], False
        for kind in "xy":
            nodes = nodes_above(own, kind, threshold)
            triggers = sorted(s for r, s in nodes if r is None)
            if nodes and not triggers:
                less = {s: p for (k, r, s), p in own.mentions.items() if (k, r) == (kind, None)}
                likely = {s: p for s, p in less.items() if 4 * p / (1 + 3 * p) > threshold}
                triggers = [max(likely, key=likely.get)] if likely else []
            members = {trigger: {} for trigger in triggers}
            for (role, place), p in nodes.items():
                if role is None or not triggers:
                    continue
                sure = [t for t in triggers if own.link(kind, place, t) > 0.9]
                near = min(graph.gap_between(place, t) for t in triggers)
                near = [t for t in triggers if graph.gap_between(place, t) == near]
                tied |= not sure and len(near) > 1
                for t in sure or near[:1]:
                    members[t][role, place] = p
            for trigger, arguments in members.items():
                kept = surest(arguments, lambda one, two: one[0] == two[0] or one[1] == two[1])
                expected.append(Event(kind, trigger, tuple(sorted(kept))))
        if not tied:  # else the next test says which trigger it is
            assert {*events_at(own, threshold)} == {*expected}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("triggered", ["", "x", "xy"])
def test_no_event_contains_another(seed, triggered):
    own = random_graph(seed, mentions=20, triggered=triggered)
    for threshold in (0.0, 0.2, 0.5):
        for one, two in itertools.permutations(events_at(own, threshold), 2):
            assert one.type != two.type or not {*one.nodes()} <= {*two.nodes()}


def test_an_argument_without_sure_link_joins_the_nearest_trigger():
    mentions = {("x", None, (0, 1)): 0.9, ("x", None, (8, 9)): 0.9, ("x", "r", (6, 7)): 0.9}
    links = {("x", (0, 1), (6, 7)): 0.8, ("x", (6, 7), (8, 9)): 0.2}
    found = events_at(Graph(mentions, links, frozenset("x")), 0.5)
    assert [(e.trigger, len(e.arguments)) for e in found] == [((0, 1), 0), ((8, 9), 1)]
    sure = {**links, ("x", (0, 1), (6, 7)): 0.95}
    found = events_at(Graph(mentions, sure, frozenset("x")), 0.5)
    assert [(e.trigger, len(e.arguments)) for e in found] == [((0, 1), 1), ((8, 9), 0)]
    middle = {("x", None, (0, 1)): 0.9, ("x", None, (8, 9)): 0.9, ("x", "r", (4, 5)): 0.9}
    for stronger in (0, 8):  # as far from both: the link decides
        linked = {("x", *sorted(((4, 5), (stronger, stronger + 1)))): 0.5}
        found = events_at(Graph(middle, linked, frozenset("x")), 0.5)
        assert [e.trigger[0] for e in found if e.arguments] == [stronger]
    found = events_at(Graph(mentions, links, frozenset()), 0.5)  # no trigger is needed
    assert sorted(len(e.arguments) for e in found) == [1, 1]


def test_arguments_without_a_trigger_take_a_less_likely_one_or_go():
    arguments = {("x", "r", (6, 7)): 0.9}
    low = {("x", None, (0, 1)): 0.3, ("x", None, (9, 10)): 0.25}
    (found,) = events_at(Graph({**arguments, **low}, {}, frozenset("x")), 0.5)
    assert found == Event("x", (0, 1), (("r", (6, 7)),))
    unlikely = {("x", None, (0, 1)): 0.1}
    assert events_at(Graph({**arguments, **unlikely}, {}, frozenset("x")), 0.5) == []
    assert events_at(Graph(low, {}, frozenset("x")), 0.5) == []  # nothing asks for them
    (found,) = events_at(Graph(arguments, {}, frozenset()), 0.5)
    assert found == Event("x", None, (("r", (6, 7)),))
    # A role without a name is a role.
    unnamed = {("x", "", (2, 3)): 0.4}
    assert events_at(Graph({**arguments, **unnamed}, {}, frozenset("x")), 0.5) == []


def test_the_surest_filler_of_a_role_wins():
    mentions = {
        ("x", None, (0, 1)): 0.9,
        ("x", "r", (2, 5)): 0.7,
        ("x", "r", (3, 6)): 0.8,  # overlaps the first
        ("x", "r", (9, 10)): 0.6,  # another filler of the same role
        ("x", "s", (3, 6)): 0.5,  # another role of the same span
        ("x", "q", (8, 11)): 0.3,  # overlaps what has lost, in another role
    }
    (found,) = events_at(Graph(mentions, {}, frozenset("x")), 0.5)
    assert found.arguments == (("q", (8, 11)), ("r", (3, 6)))
    sure = dict.fromkeys(mentions, 0.95)
    (found,) = events_at(Graph(sure, {}, frozenset("x")), 0.5)
    assert len(found.arguments) == 5


@pytest.mark.parametrize("seed", range(20))
def test_events_are_all_maximal_sets_of_linked_mentions(seed, monkeypatch):
    """Of types that may lack a trigger, against every subset; doubles are left in."""
    monkeypatch.setattr(graph, "drop_doubles", lambda events: events)
    monkeypatch.setattr(graph, "LIKELY_LINK", 0.4)
    own = random_graph(seed, mentions=9, triggered="")
    for kind in "xy":
        nodes = list(nodes_above(own, kind, 0.4))

        def together(one, two, kind=kind):
            pair = sorted((one[1], two[1]))
            return not (one[0] is None and two[0] is None) and own.links.get((kind, *pair), 0) > 0.4

        good = [
            frozenset(chosen)
            for size in range(1, len(nodes) + 1)
            for chosen in itertools.combinations(nodes, size)
            if all(together(*pair) for pair in itertools.combinations(chosen, 2))
        ]
        largest = {one for one in good if not any(one < other for other in good)}
        found = [frozenset(e.nodes()) for e in events_at(own, 0.4) if e.type == kind]
        assert len(found) == len(set(found)) and set(found) == largest


@pytest.mark.parametrize("triggered", ["", "x"])
def test_the_effort_is_linear_in_the_links(triggered):
    """A text of 4,000 events takes no more than some times what one of 1,000 takes."""

    def seconds(count):
        mentions, links = {}, {}
        for number in range(count):
            spans = [(40 * number + 9 * place, 40 * number + 9 * place + 5) for place in range(4)]
            roles = [None, "r", "s", "q"]
            mentions |= {("x", role, at): 0.8 for role, at in zip(roles, spans, strict=True)}
            links |= {("x", *pair): 0.95 for pair in itertools.combinations(spans, 2)}
        graph = Graph(mentions, links, frozenset(triggered))
        # A collection goes over all that the other tests of this process left.
        gc.disable()
        try:
            start = time.process_time()
            found = events_at(graph, 0.5)
            spent = time.process_time() - start
        finally:
            gc.enable()
        assert len(found) == count and all(len(e.arguments) == 3 for e in found)
        return spent

    assert min(seconds(4000) for _ in range(3)) < 10 * min(seconds(1000) for _ in range(3))


def test_doubles_go_only_where_nothing_is_lost():
    trigger, a, b = (0, 1), (2, 3), (4, 5)
    mentions = {("x", role, s): 0.99 for role, s in [(None, trigger), ("w", a), ("l", a), ("l", b)]}
    links = {("x", *sorted(pair)): 0.99 for pair in [(trigger, a), (trigger, b), (a, b)]}
    found = events_at(Graph(mentions, links, frozenset("x")), 0.5)
    # ("l", a) stands nowhere else: the double stays.
    assert [e.arguments for e in found] == [(("l", a), ("l", b)), (("l", b), ("w", a))]
    other = {("x", None, (6, 7)): 0.99}, {("x", a, (6, 7)): 0.99}
    links = dict.fromkeys(links | other[1], 0.95)
    found = events_at(Graph(mentions | other[0], links, frozenset("x")), 0.5)
    assert (("l", b), ("w", a)) in [e.arguments for e in found]
    assert (("l", a), ("l", b)) not in [e.arguments for e in found]


def select_from_grids(grids, schema):
    """Return what is selected of whole grids of one window: a grid is its own product with 1."""
    length = len(grids["span"][0])
    eye = np.eye(length, dtype=np.float32)[None, None] * length**0.5
    outputs = {name: (np.asarray(grid, np.float32)[None], eye) for name, grid in grids.items()}
    outputs["mask"] = np.ones((1, length), np.int32)
    outputs["mask"][:, [0, -1]] = 0  # special tokens
    found = make_selector(schema, "gplinker")([outputs])
    return {name: array.numpy()[0] for name, array in found.items()}


def accept(length, labels, types, score):
    return {
        "span": score((labels, length, length)),
        "head": score((types, length, length)),
        "tail": score((types, length, length)),
    }


@pytest.mark.parametrize("triggered", [True, False])
@pytest.mark.parametrize("pattern", ["everything", "noise", "most links"])
def test_a_model_that_accepts_everything_is_decoded_quickly(pattern, triggered):
    """A barely trained model: 128 tokens, 8 types, 40 labels, any span and link may hold."""
    random = np.random.default_rng(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = " ".join(random.choice(list(letters), 126))
    events = [
        event(f"t{n}", "a" if triggered else None, *(f"r{m}=b" for m in range(4))) for n in range(8)
    ] + [event(f"t{n}", "a", "r0=b") for n in range(8)]
    schema = collect_schema([example(*events)])
    tokenizer = train_tokenizer([" ".join(letters)] * 4, 100)
    window = split_into_windows(tokenizer, [text], 128, 2)[0][0]
    assert len(window) == 128 and len(schema.labels) == 40
    assert len(schema.triggered) == 8 * triggered
    score = {
        "everything": lambda shape: np.full(shape, 5.0, np.float32),
        "noise": lambda shape: random.normal(3, 3, shape).astype(np.float32),
        "most links": lambda shape: np.where(random.random(shape) < 0.85, 5.0, -9.0),
    }[pattern]
    found = select_from_grids(accept(128, 40, 8, score), schema)
    start = time.process_time()
    own = make_graph(*decode_pointers(found, window, schema), schema, "gplinker")
    found = events_at(own, 0.5)
    seconds = time.process_time() - start
    assert found and len(own.mentions) <= 96
    assert len(found) <= graph.MOST_CLIQUES + 2 * 96
    assert seconds < 0.9, seconds


def test_cliques_without_bound_would_explode(monkeypatch):
    """Moon and Moser's graph: 3^16 maximal cliques of 48 nodes; all nodes become one event."""
    spans = [(2 * n, 2 * n + 1) for n in range(48)]
    mentions = {("x", "r", s): 1.0 for s in spans}
    links = {
        ("x", one, two): 1.0
        for (m, one), (n, two) in itertools.combinations(enumerate(spans), 2)
        if m // 3 != n // 3
    }
    own = Graph(mentions, links, frozenset())
    pairs = [pair for _, *pair in links]
    network = graph.link_nodes([("r", s) for s in spans], pairs)
    assert len(list(itertools.islice(networkx.find_cliques(network), 1000))) == 1000
    start = time.process_time()
    (found,) = events_at(own, 0.5)
    assert len(found.arguments) == 48
    triggered = Graph(
        {**mentions, ("x", None, (99, 100)): 1.0},
        {**links, **{("x", s, (99, 100)): 1.0 for s in spans}},
        frozenset("x"),
    )
    (found,) = events_at(triggered, 0.5)
    assert found.trigger == (99, 100) and len(found.arguments) == 48
    assert time.process_time() - start < 0.9


# ------------------------------------------------------------------------- tags and records


def test_tags_of_overlapping_spans_keep_the_first_and_longer():
    window = split_into_windows(TOKENIZER, [TEXT], 32, 2)[0][0]
    events = [event("x", "a", "r=b-d", "s=c", "q=b", "r=f-g")]
    schema = collect_schema([example(*events)])
    number = {label: index for index, label in enumerate(schema.labels)}
    r = number["x", "r"]
    tags = tag_labels(events, window, schema).tolist()
    begin, inside = 1 + 2 * r, 2 + 2 * r
    a = 1 + 2 * number["x", None]
    assert tags == [0, a, begin, inside, inside, 0, begin, inside, 0, 0, 0, 0, 0, 0]


def test_composed_events_go_to_the_nearest_trigger():
    schema = collect_schema([example(event("x", "a", "r=b"), event("y", None, "q=c", "p=c"))])
    mentions = {
        ("x", None, span("c")): 1.0,
        ("x", None, span("i")): 1.0,
        ("x", "r", span("a")): 1.0,
        ("x", "r", span("f")): 1.0,  # as far from both: the earlier
        ("x", "r", span("k")): 1.0,
        ("y", "q", span("b")): 1.0,
        ("y", "p", span("l")): 1.0,
    }
    found = events_at(make_graph(mentions, {}, schema, "crf"), 0.5)
    assert found == [
        event("x", "c", "r=a", "r=f"),
        event("y", None, "q=b", "p=l"),
        event("x", "i", "r=k"),
    ]


def test_records_of_predictions_and_of_duee():
    own = example(event("x", "a", "r=b-c"))
    schema = collect_schema([own, example(event("y", None, "q=d"))])
    mentions = {("x", None, (0, 1)): 0.9, ("x", "r", (2, 5)): 0.8, ("y", "q", (6, 7)): 0.7}
    candidates = {"a": Graph(mentions, {("x", (0, 1), (2, 5)): 0.6}, schema.triggered)}
    records = prediction_records([own], candidates, keep_events(candidates, 0.5))
    assert records == [
        {
            "id": "a",
            "text": TEXT,
            "events": [
                {
                    "type": "x",
                    "trigger": [0, 1],
                    "trigger_text": "a",
                    "trigger_score": 0.9,
                    "arguments": [{"role": "r", "span": [2, 5], "text": "b c", "score": 0.8}],
                },
                {
                    "type": "y",
                    "trigger": None,
                    "arguments": [{"role": "q", "span": [6, 7], "text": "d", "score": 0.7}],
                },
            ],
        }
    ]
    first, second = duee_record(records[0])["event_list"]
    assert first == {
        "event_type": "x",
        "trigger": "a",
        "arguments": [{"role": "r", "argument": "b c"}],
    }
    assert second == {"event_type": "y", "arguments": [{"role": "q", "argument": "d"}]}


def test_a_few_events_without_a_trigger_are_named():
    """One slip of five hundred would change how all events of its type are found."""

    def examples(count, without):
        events = [Event("x", None if n < without else (0, 1), ()) for n in range(count)]
        return [Example(n, "a", (event,), n) for n, event in enumerate(events)]

    assert checks.find_few_without_trigger("train", examples(500, 0)) == []
    [found] = checks.find_few_without_trigger("train", examples(500, 1))
    assert "'x' without a trigger: 1 of 500" in found.what and "line 0" in found.where
    assert checks.find_few_without_trigger("train", examples(500, 50)) == []


def test_the_format_of_duee_has_the_same_words_once():
    parts = [{"role": "x", "text": "A", "span": [n, n + 1]} for n in (0, 5)]
    event = {"type": "t", "trigger": None, "arguments": parts}
    record = duee_record({"id": 1, "events": [event, {**event, "arguments": parts[1:]}]})
    arguments = [{"role": "x", "argument": "A"}]
    assert record == {"id": 1, "event_list": [{"event_type": "t", "arguments": arguments}]}


def test_a_span_longer_than_a_window_is_named():
    found = reach(event("x", None, "r=a-l"), max_length=9)
    assert found.faults["apart"] and not found.faults[checks.CUT]
