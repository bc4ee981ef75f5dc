"""What check.py asks of the data: can the events be taught, and found again?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from common.data_checks import (
    Finding,
    Texts,
    find_duplicates,
    find_leaks,
    find_unseen_labels,
    label_histogram,
    length_histogram,
)
from common.encoder import freeze_layers, load_encoder
from common.optimizers import make_optimizer
from common.regularization import make_regularization
from common.settings import project_path
from common.tokens import Window, is_aligned, split_into_windows
from common.training import TrainingModel
from task.data import Event, Example, Schema, pointer_labels, read_examples, tag_labels
from task.decode import Scored, compose_graph, decode_window, pointer_graph, tagged_mentions
from task.graph import events_at, mentions_of
from task.metrics import score
from task.model import build_models, compared_scores
from task.settings import Settings

# Gold that the best possible model could not find: below this the data is at fault.
LOWEST_ORACLE_F1 = 0.9

# Why an event is not found again, and what to do about it.
CAUSES = {
    "unaligned": (
        "have a span that doesn't begin and end with a token",
        "correct the offsets, or choose an encoder with shorter tokens.",
    ),
    "apart": (
        "have spans that never share a window",
        "raise max_length and window_overlap.",
    ),
    "overlapping": (
        "have a span that overlaps another, and a token has one tag",
        'set model = "gplinker".',
    ),
    "composed": (
        "share a trigger or an argument with another, or have one nearer to another trigger",
        'set model = "gplinker".',
    ),
    "contained": (
        "are a part of another event of their type",
        "drop the smaller one of each two where the annotation is at fault; the larger is found.",
    ),
    "joined": (
        "are not told apart from others of their type, whose spans make other events with theirs",
        "nothing needs mending where they are few: their spans and roles are found all the same.",
    ),
}


@dataclass(frozen=True)
class Reach:
    """What a perfect model could reach on one file.

    Attributes:
        windows: of all texts.
        tokens: of each text.
        spans: triggers and arguments.
        unaligned: spans among them that don't begin and end with a token.
        lost: cause -> examples of the events that are not found again.
        invented: examples of the events that are found and are not in the gold.
        oracle: scores of the gold events after encoding and decoding.
    """

    windows: int
    tokens: list[int]
    spans: int
    unaligned: int
    lost: dict[str, list[Example]]
    invented: list[Example]
    oracle: dict


def read_files(settings: Settings) -> dict[str, list[Example]]:
    """Return file -> examples, the training file first; a test file may lack, or lack events."""
    files = {
        settings.train_file: read_examples(project_path(settings.train_file)),
        settings.dev_file: read_examples(project_path(settings.dev_file)),
    }
    if project_path(settings.test_file).is_file():
        test = read_examples(project_path(settings.test_file), require_events=False)
        files.setdefault(settings.test_file, test)
    return files


def find_data_faults(files: dict[str, list[Example]]) -> list[Finding]:
    """Find repeats, leaks, and types and roles that the training file never shows."""
    texts: Texts = {
        name: [(example.id, example.text, example.line) for example in examples]
        for name, examples in files.items()
    }
    labels = {name: count_labels(examples) for name, examples in files.items()}
    return [*find_duplicates(texts), *find_leaks(texts), *find_unseen_labels(labels)]


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
    overlap = settings.window_overlap
    windows = split_into_windows(tokenizer, texts, settings.max_length, overlap, "encode")
    lost, found = {cause: [] for cause in CAUSES}, {}
    unaligned, invented = 0, []
    bar = tqdm(
        zip(examples, windows, strict=True), "oracle", len(examples), leave=False, disable=None
    )
    for example, parts in bar:
        unaligned += sum(
            not any(is_aligned(span, window) for window in parts)
            for event in example.events
            for _, span in event.nodes()
        )
        found[example.id] = decode_gold(example, parts, schema, settings.model)
        for event in set(example.events) - set(found[example.id]):
            cause = explain_loss(event, example, found[example.id], parts, settings.model)
            lost[cause].append(example)
        invented += [example] * len({*found[example.id]} - {*example.events})
    return Reach(
        windows=sum(map(len, windows)),
        # Tokens that windows share are counted once: each starts at another character.
        tokens=[len(np.unique(np.concatenate([w.starts for w in parts]))) for parts in windows],
        spans=sum(len(event.nodes()) for example in examples for event in example.events),
        unaligned=unaligned,
        lost={cause: places for cause, places in lost.items() if places},
        invented=invented,
        oracle=score(examples, found),
    )


def decode_gold(
    example: Example, windows: Sequence[Window], schema: Schema, model: str
) -> list[Event]:
    """Return the events that are decoded from the labels of the windows of a text."""
    decode = {"gplinker": decode_pointer_labels, "crf": decode_tag_labels}[model]
    mentions, links = {}, {}
    for window in windows:
        found, linked = decode(example, window, schema)
        mentions |= found
        links |= linked
    make_graph = {"gplinker": pointer_graph, "crf": compose_graph}[model]
    return events_at(make_graph(mentions, links, schema), 0.5)


def decode_pointer_labels(example: Example, window: Window, schema: Schema) -> Scored:
    """Return what is decoded where the true cells score 10 and all others -10."""
    grids = {}
    for name, pairs in pointer_labels(example.events, window, schema).items():
        grid = np.full((len(pairs), len(window), len(window)), -10, np.float32)
        for own, cells in zip(grid, pairs, strict=True):
            cells = cells[cells[:, 0] >= 0]
            own[cells[:, 0], cells[:, 1]] = 10
        grids[name.removesuffix("_labels")] = grid
    return decode_window(grids, window, schema)


def decode_tag_labels(example: Example, window: Window, schema: Schema) -> Scored:
    """Return what is decoded from the true tags."""
    return tagged_mentions(tag_labels(example.events, window, schema)["tags"], window, schema), {}


def explain_loss(
    event: Event,
    example: Example,
    found: Sequence[Event],
    windows: Sequence[Window],
    model: str,
) -> str:
    """Return the cause, a key of `CAUSES`, for which a gold event is not found again."""
    spans = [span for _, span in event.nodes()]
    if not all(any(is_aligned(span, window) for window in windows) for span in spans):
        return "unaligned"
    together = (
        any(window.token_span(one) and window.token_span(two) for window in windows)
        for one, two in combinations(spans, 2)
    )
    if not all(together):
        return "apart"
    if not mentions_of([event]).keys() <= mentions_of(found).keys():
        return "overlapping"
    if model == "crf":
        return "composed"
    others = [other for other in example.events if other.type == event.type and other != event]
    if any({*event.nodes()} < {*other.nodes()} for other in others):
        return "contained"
    return "joined"


def describe_file(name: str, examples: Sequence[Example], reach: Reach, settings: Settings) -> str:
    """Return the numbers and the histograms of a file."""
    events = [event for example in examples for event in example.events]
    aligned = 1 - reach.unaligned / max(reach.spans, 1)
    oracle, whole = reach.oracle["metrics"][settings.metric], reach.oracle["metrics"]["event"]
    lines = [
        f"\n{name}: {len(examples)} records, {len(events)} events, {reach.spans} spans",
        f"windows: {reach.windows / len(examples):.2f} a text",
        f"aligned with tokens: {aligned:.2%} of {reach.spans} spans",
        f"oracle (gold, encoded and decoded): {settings.metric} F1 {oracle['f1']:.4f}; "
        f"{whole['correct']} of {whole['gold']} whole events, {len(reach.invented)} invented",
        length_histogram([len(example.text) for example in examples], "characters"),
        length_histogram(reach.tokens, "tokens"),
        label_histogram(Counter(event.type for event in events), "event types"),
        label_histogram(count_labels(examples), "roles"),
    ]
    return "\n".join(lines)


def find_reach_faults(name: str, reach: Reach, settings: Settings) -> list[Finding]:
    """Find the events that no model can learn, or that decoding loses."""
    findings = [
        Finding(
            "warning",
            f"events that {CAUSES[cause][0]}: {len(places)}",
            f"{name}, line {places[0].line} for one",
            CAUSES[cause][1],
        )
        for cause, places in reach.lost.items()
    ]
    if reach.invented:
        findings.append(
            Finding(
                "warning",
                f"events that a perfect model would invent: {len(reach.invented)}",
                f"{name}, line {reach.invented[0].line} for one",
                "mend the findings above; what else there is comes from spans with other roles in "
                "another event of the type, which no link tells apart.",
            )
        )
    oracle = reach.oracle["metrics"][settings.metric]
    if reach.spans and not oracle["gold"]:
        findings.append(
            Finding(
                "error",
                f"nothing that metric = {settings.metric!r} counts",
                name,
                "choose a metric of what the file holds: triggers, or arguments.",
            )
        )
    elif reach.spans and oracle["f1"] < LOWEST_ORACLE_F1:
        findings.append(
            Finding(
                "error",
                f"a perfect model would score {settings.metric} F1 {oracle['f1']:.4f}",
                name,
                "mend the findings above.",
            )
        )
    return findings


def build_compiled(tokenizer: Tokenizer, schema: Schema, settings: Settings) -> TrainingModel:
    """Return the training model, compiled with an optimizer whose first step is of full size."""
    encoder = load_encoder(settings, tokenizer)
    model, inference = build_models(encoder, schema, settings)
    settings = settings.model_copy(update={"schedule": "constant", "warm_up": 0.0})
    freeze_layers(encoder, settings.frozen_layers)
    model.compile(
        make_optimizer(settings, model, encoder, steps=1),
        regularization=make_regularization(settings, encoder, compared_scores(inference)),
    )
    return model
