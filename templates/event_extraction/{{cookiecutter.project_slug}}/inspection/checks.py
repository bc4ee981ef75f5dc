"""The checks of check.py on the data: can the events be taught, and found again?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from core.data.checks import Finding
from core.data.records import Span
from core.data.tokens import Window, split_into_windows
from core.encoders.encoder import load_encoder
from core.step import Models
from library.graph import events_at, mentions_of
from task.data import pointer_labels, tag_labels
from task.decode import MOST_SPANS, decode_pointers, make_graph, tagged_mentions
from task.metrics import score
from task.model import build_models
from task.records import Event, Example, Schema
from task.settings import Settings

# Below this F1 of a perfect model the data is at fault.
LOWEST_ORACLE_F1 = 0.9

# The doctor says why a span of an event doesn't begin and end with a token.
CUT = "cut"
# Why else an event is not found again, or found without being gold, and what to do about it.
CAUSES = {
    "apart": ("have spans that never share a window", "raise max_length and window_overlap."),
    "unseen": (
        "have a type or a role that is not in the training file",
        "no model can learn it: correct the name, or add such events to train_file.",
    ),
    "crowded": (
        f"have a span beyond the {MOST_SPANS} that each window keeps",
        "lower max_length, so that a window holds fewer spans.",
    ),
    "overlapping": (
        "have a span that overlaps another, while a token has only one tag",
        'set model = "gplinker".',
    ),
    "composed": (
        "share a trigger or an argument with another, or have one nearer to another trigger",
        'set model = "gplinker".',
    ),
    "contained": (
        "are a part of another event of their type",
        "the larger event is found: drop the smaller one if the annotation is at fault.",
    ),
    "joined": (
        "can't be separated from others of their type, because their spans also form other events",
        "leave them if they are few: their spans and roles are still found.",
    ),
    "invented": (
        "a perfect model would invent",
        "fix the findings above; the others come from spans that have another role in another "
        "event of the same type, which no link can separate.",
    ),
}

# Up to this share of the events of a type an exception is likely to be a slip.
FEW = 0.01


@dataclass(frozen=True)
class Reach:
    """The scores of a perfect model on one file, and what it can't find.

    Attributes:
        tokens: of each window.
        spans: number of triggers and arguments.
        cut: the spans that don't begin and end with a token, from the doctor.
        faults: a cause of `CAUSES` -> the lines of its events.
        oracle: scores of the gold events after encoding and decoding.
    """

    tokens: list[int]
    spans: int
    cut: list
    faults: dict[str, list[int]]
    oracle: dict


def find_data_faults(files: Mapping[str, Sequence[Example]]) -> list[Finding]:
    """Find repeats, contradictions, leaks, and labels never shown in training."""
    find = need("doctor", "record_checks").find_record_faults
    found = find(files, lambda example: [example.text], describe_events, count_labels, "events")
    return found + find_few_without_trigger(*next(iter(files.items())))


def find_few_without_trigger(name: str, examples: Sequence[Example]) -> list[Finding]:
    """Find types with a few events without a trigger: none of their events then needs one."""
    counts = Counter(event.type for example in examples for event in example.events)
    lines: dict[str, list[int]] = {}
    for example in examples:
        for event in example.events:
            if event.trigger is None:
                lines.setdefault(event.type, []).append(example.line)
    return [
        Finding(
            "warning",
            f"events of the type {kind!r} without a trigger: {len(own)} of {counts[kind]}",
            f"{name}, line {own[0]} for one",
            "if they are slips, correct them: for them this type is predicted without triggers.",
        )
        for kind, own in lines.items()
        if len(own) <= FEW * counts[kind]
    ]


def describe_events(example: Example) -> list[str]:
    """Return the events of a record in words."""
    return [
        f"{event.type}: "
        + ", ".join(
            f"{role or 'trigger'} {[*span]} {example.text[slice(*span)]!r}"
            for role, span in event.nodes()
        )
        for event in example.events
    ]


def count_labels(examples: Sequence[Example]) -> Counter:
    """Count triggers and arguments: `type: role`."""
    return Counter(
        f"{event.type}: {role or 'trigger'}"
        for example in examples
        for event in example.events
        for role, _ in event.nodes()
    )


def measure_reach(
    examples: Sequence[Example], tokenizer: Tokenizer, schema: Schema, settings: Settings
) -> Reach:
    """Encode the gold events as labels, and decode the labels as if a model had found them."""
    texts = [example.text for example in examples]
    windows = split_into_windows(
        tokenizer, texts, settings.max_length, settings.window_overlap, "encode"
    )
    faults: dict[str, list[int]] = {cause: [] for cause in (CUT, *CAUSES)}
    find_cut_span = need("doctor", "span_faults").find_cut_span
    cut, found = [], {}
    pairs = zip(examples, windows, strict=True)
    for example, parts in tqdm(pairs, "oracle", len(examples), leave=False, disable=None):
        for event in example.events:
            spans = [span for _, span in event.nodes()]
            cut += [find_cut_span(example.text, span, example.line, parts) for span in spans]
        found[example.id] = decode_gold(example, parts, schema, settings.model)
        for event in set(example.events).symmetric_difference(found[example.id]):
            own = found[example.id]
            cause = explain_fault(event, example, own, parts, schema, settings.model)
            faults[cause].append(example.line)
    tokens = [len(window) for parts in windows for window in parts]
    return Reach(tokens, len(cut), [*filter(None, cut)], faults, score(examples, found))


def decode_gold(
    example: Example, windows: Sequence[Window], schema: Schema, model: str
) -> list[Event]:
    """Return the events that are decoded from the labels of the windows of a text."""
    mentions: dict = {}
    links: dict = {}
    for window in windows:
        if model == "crf":
            tags = tag_labels(example.events, window, schema)
            mentions |= tagged_mentions(tags, window, schema)
            continue
        best = select_gold(example, window, schema)
        found, linked = decode_pointers(best, window, schema)
        mentions, links = mentions | found, links | linked
    return events_at(make_graph(mentions, links, schema, model), 0.5)


def select_gold(example: Example, window: Window, schema: Schema) -> dict[str, np.ndarray]:
    """Return the spans and links of the labels of a window, in the form of `select_spans`."""
    labels, types = pointer_labels(example.events, window, schema), list(schema.types)
    rows = sorted((label, *span) for label, spans in labels["span"].items() for span in spans)
    rows = rows[:MOST_SPANS]
    links = np.full((len(rows), len(rows)), -10.0)
    for one, two in product(range(len(rows)), repeat=2):
        (label, *places), (_, *others) = rows[one], rows[two]
        kind = types.index(schema.labels[label][0])
        head, tail = zip(places, others, strict=True)
        if head in labels["head"][kind] and tail in labels["tail"][kind]:
            links[one, two] = 10
    table = np.array(rows, int).reshape(-1, 3).T
    found = dict(zip(("labels", "firsts", "lasts"), table, strict=True))
    return {**found, "scores": np.full(len(rows), 10.0), "links": links}


def explain_fault(
    event: Event,
    example: Example,
    found: Sequence[Event],
    windows: Sequence[Window],
    schema: Schema,
    model: str,
) -> str:
    """Return the cause, `CUT` or one of `CAUSES`, why an event is only gold, or only found."""
    if event in found:
        return "invented"
    spans = [span for _, span in event.nodes()]
    if any(is_too_long(span, windows) for span in spans):
        return "apart"
    is_aligned = need("doctor", "span_faults").is_aligned
    if not all(any(is_aligned(span, window) for window in windows) for span in spans):
        return CUT
    together = (
        any(window.token_span(one) and window.token_span(two) for window in windows)
        for one, two in combinations(spans, 2)
    )
    if not all(together):
        return "apart"
    if not {(event.type, role) for role, _ in event.nodes()} <= {*schema.labels}:
        return "unseen"
    if not mentions_of([event]).keys() <= mentions_of(found).keys():
        return "overlapping" if model == "crf" else "crowded"
    if model == "crf":
        return "composed"
    others = [other for other in example.events if other.type == event.type and other != event]
    if any({*event.nodes()} < {*other.nodes()} for other in others):
        return "contained"
    return "joined"


def is_too_long(span: Span, windows: Sequence[Window]) -> bool:
    """Return whether a span begins and ends with tokens, but in no window with both."""
    begins = any(span[0] in window.starts for window in windows)
    ends = any(span[1] in window.ends for window in windows)
    return begins and ends and not any(window.token_span(span) for window in windows)


def describe_file(name: str, examples: Sequence[Example], reach: Reach, settings: Settings) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    events = [event for example in examples for event in example.events]
    aligned = 1 - len(reach.cut) / max(reach.spans, 1)
    oracle, whole = reach.oracle["metrics"][settings.metric], reach.oracle["metrics"]["event"]
    lines = [
        f"\n{name}: {len(examples)} records, {len(events)} events, {reach.spans} spans",
        f"windows: {len(reach.tokens) / len(examples):.2f} a text",
        f"aligned with tokens: {aligned:.2%} of {reach.spans} spans",
        f"oracle (gold, encoded and decoded): {settings.metric} F1 {oracle['f1']:.4f}; "
        f"{whole['correct']} of {whole['gold']} whole events, "
        f"{whole['predicted'] - whole['correct']} invented"
        if events
        else "oracle: none, because no record has an event",
        *draw([len(example.text) for example in examples], "characters"),
        *draw(reach.tokens, "tokens a window"),
        *draw(Counter(event.type for event in events), "event types"),
        *draw(count_labels(examples), "roles"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach, settings: Settings) -> list[Finding]:
    """Find the events that no model can learn, or that decoding loses."""
    findings = need("doctor", "span_faults").find_span_faults(name, reach.cut)
    for cause, (what, fix) in CAUSES.items():
        if places := reach.faults[cause]:
            where = f"{name}, line {places[0]} for example"
            findings.append(Finding("warning", f"events that {what}: {len(places)}", where, fix))
    metric, oracle = settings.metric, reach.oracle["metrics"][settings.metric]
    if reach.spans and not oracle["gold"]:
        what = f"nothing that metric = {metric!r} counts"
        fix = "choose a metric that counts what the file has: triggers, or arguments."
        findings.append(Finding("error", what, name, fix))
    elif reach.spans and oracle["f1"] < LOWEST_ORACLE_F1:
        what = f"a perfect model would score {metric} F1 {oracle['f1']:.4f}"
        findings.append(Finding("error", what, name, "fix the findings above."))
    return findings


def build(tokenizer: Tokenizer, schema: Schema, settings: Settings) -> Models:
    """Return new models on a new encoder."""
    return build_models(load_encoder(settings, tokenizer), schema, settings)
