"""The checks of check.py on the data: can the entities be taught, and found again?"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from core.base.extras import need
from core.data.checks import Finding
from core.data.tokens import Window, split_into_windows
from core.encoders.encoder import load_encoder
from core.step import Models
from task.data import span_labels, tag_labels
from task.decode import MOST_SPANS, decode_spans, rank, snap_to_tokens, tagged_entities
from task.metrics import score
from task.model import build_models
from task.records import Entity, Example, Schema
from task.settings import Settings

# Below this F1 of a perfect model the data is at fault.
LOWEST_ORACLE_F1 = 0.9
# A surface form that is so frequent, and nearly always of one type, is rarely of another.
OFTEN, NEARLY_ALWAYS = 10, 0.9

# The doctor says why the span of an entity doesn't start and end with a token.
CUT = "cut"
# Why else an entity is not found again, or found without being gold, and what to do about it.
CAUSES = {
    "long": ("don't fit into a window", "raise max_length and window_overlap."),
    "unseen": (
        "have a type that is not in the training file",
        "no model can learn it: correct the name, or add such entities to train_file.",
    ),
    "overlapping": (
        "overlap another one, while predicted entities don't overlap",
        'set tagger = "pointer", and add some to train_file if it has none: with any, `flat` '
        "of the schema is false, and the pointers predict them. Or drop these.",
    ),
    "crowded": (
        f"are beyond the {MOST_SPANS} that each window keeps",
        "lower max_length, so that a window holds fewer entities.",
    ),
    "invented": ("a perfect model would invent", "fix the findings above."),
}

# Up to this share of the items of a file an exception is likely to be a slip.
FEW = 0.01


@dataclass(frozen=True)
class Reach:
    """The scores of a perfect model on one file, and what it can't find.

    Attributes:
        tokens: of each window.
        entities: number of them.
        cut: the spans that don't start and end with a token, from the doctor.
        faults: a cause of `CAUSES` -> the lines of its entities.
        forms: surface form -> type -> the lines on which it has that type.
        oracle: scores of the gold entities after encoding and decoding.
    """

    tokens: list[int]
    entities: int
    cut: list
    faults: dict[str, list[int]]
    forms: dict[str, dict[str, list[int]]]
    oracle: dict


def find_data_faults(files: Mapping[str, Sequence[Example]]) -> list[Finding]:
    """Find repeats, contradictions, leaks, and types never shown in training."""
    find = need("doctor", "record_checks").find_record_faults
    found = find(files, lambda example: [example.text], describe_entities, count_types, "entities")
    return found + find_few_overlaps(*next(iter(files.items())))


def find_few_overlaps(name: str, examples: Sequence[Example]) -> list[Finding]:
    """Find a few entities that overlap others: for them any predicted ones may overlap."""
    count, places = sum(len(example.entities) for example in examples), []
    for example in examples:
        ordered = sorted(entity.span for entity in example.entities)
        pairs = zip(ordered, ordered[1:], strict=False)
        places += [example.line for (_, end), (start, _) in pairs if start < end]
    if not 0 < len(places) <= FEW * count:
        return []
    what = f"entities that overlap another one: {len(places)} of {count}"
    fix = "if they are slips, correct them: without any, predicted entities never overlap."
    return [Finding("warning", what, f"{name}, line {places[0]} for one", fix)]


def describe_entities(example: Example) -> list[str]:
    """Return the entities of a record in words."""
    return [f"{e.type} {[*e.span]} {example.text[slice(*e.span)]!r}" for e in example.entities]


def count_types(examples: Sequence[Example]) -> Counter:
    """Count the entities of each type."""
    return Counter(entity.type for example in examples for entity in example.entities)


def measure_reach(
    examples: Sequence[Example], tokenizer: Tokenizer, schema: Schema, settings: Settings
) -> Reach:
    """Encode the gold entities as labels, and decode the labels as if a model had found them."""
    texts = [example.text for example in examples]
    length, overlap = settings.max_length, settings.window_overlap
    windows = split_into_windows(tokenizer, texts, length, overlap, "encode")
    faults: dict[str, list[int]] = {cause: [] for cause in (CUT, *CAUSES)}
    forms: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    find_cut_span = need("doctor", "span_faults").find_cut_span
    cut, found = [], {}
    pairs = zip(examples, windows, strict=True)
    for example, parts in tqdm(pairs, "oracle", len(examples), leave=False, disable=None):
        for entity in example.entities:
            cut.append(find_cut_span(example.text, entity.span, example.line, parts))
            forms[example.text[slice(*entity.span)]][entity.type].append(example.line)
        found[example.id] = decode_gold(example, parts, schema, settings.tagger)
        for entity in sorted(set(example.entities).symmetric_difference(found[example.id])):
            cause = explain_fault(entity, example.text, found[example.id], parts, schema)
            faults[cause].append(example.line)
    tokens = [len(window) for parts in windows for window in parts]
    oracle = score(examples, found, settings.beta)
    return Reach(tokens, len(cut), [*filter(None, cut)], faults, forms, oracle)


def decode_gold(
    example: Example, windows: Sequence[Window], schema: Schema, tagger: str
) -> list[Entity]:
    """Return the entities that are decoded from the labels of the windows of a text."""
    found: dict[Entity, float] = {}
    for window in windows:
        if tagger == "crf":
            tags = tag_labels(example.entities, window, schema.types)
            found |= tagged_entities(tags, window, schema.types)
            continue
        labels = span_labels(example.entities, window, schema.types)
        rows = [(kind, *span) for kind in sorted(labels) for span in labels[kind]][:MOST_SPANS]
        table = np.array(rows, int).reshape(-1, 3)
        best = dict(zip(("types", "firsts", "lasts"), table.T, strict=True))
        found |= decode_spans({**best, "scores": np.ones(len(rows))}, window, schema.types)
    if example.tokens:
        found = snap_to_tokens(found, example.tokens)
    flat = schema.flat or tagger == "crf" or example.tokens is not None
    return [entity for entity, _ in rank(found, flat).above(dict.fromkeys(schema.types, 0.0))]


def explain_fault(
    entity: Entity, text: str, found: Sequence[Entity], windows: Sequence[Window], schema: Schema
) -> str:
    """Return the cause, `CUT` or one of `CAUSES`, why an entity is only gold, or only found."""
    if entity in found:
        return "invented"
    if entity.type not in schema.types:
        return "unseen"
    faults = need("doctor", "span_faults")
    if not any(window.token_span(entity.span) for window in windows):
        return CUT if faults.is_blank(text, entity.span) else "long"
    if not any(faults.is_aligned(entity.span, window) for window in windows):
        return CUT
    start, end = entity.span
    if any(one.span[0] < end and start < one.span[1] for one in found):
        return "overlapping"
    return "crowded"


def describe_file(name: str, examples: Sequence[Example], reach: Reach) -> str:
    """Return the numbers and the histograms of a file."""
    draw = need("doctor", "record_checks").draw_histogram
    count, oracle = reach.entities, reach.oracle
    several = {form: types for form, types in reach.forms.items() if len(types) > 1}
    lines = [
        f"\n{name}: {len(examples)} records, {count} entities",
        f"windows: {len(reach.tokens) / len(examples):.2f} a text",
        f"aligned with tokens: {1 - len(reach.cut) / max(count, 1):.2%} of {count} spans",
        f"oracle (gold, encoded and decoded): F1 {oracle['f1']:.4f}, precision "
        f"{oracle['precision']:.4f}, recall {oracle['recall']:.4f}"
        if count
        else "oracle: none, because no record has an entity",
        f"surface forms with several types: {len(several)} of {len(reach.forms)}"
        + "".join(f"; {describe_form(form, types)}" for form, types in [*several.items()][:3]),
        *draw([len(example.text) for example in examples], "characters"),
        *draw(reach.tokens, "tokens a window"),
        *draw(count_types(examples), "types"),
    ]
    return "\n".join(lines)


def describe_form(form: str, types: dict[str, list[int]]) -> str:
    """Return a surface form with its types and their counts."""
    rows = sorted(types.items(), key=lambda row: -len(row[1]))
    return f"{form!r} is " + ", ".join(f"{kind} ({len(lines)})" for kind, lines in rows)


def find_reach_faults(name: str, reach: Reach) -> list[Finding]:
    """Find entities that no model can learn, or that decoding loses, and likely mistakes."""
    findings = need("doctor", "span_faults").find_span_faults(name, reach.cut)
    for cause, (what, fix) in CAUSES.items():
        if places := reach.faults[cause]:
            where = f"{name}, line {places[0]} for example"
            findings.append(Finding("warning", f"entities that {what}: {len(places)}", where, fix))
    slips = find_slips(reach.forms)
    if slips:
        form, line = slips[0]
        what = f"entities whose words nearly always have another type: {len(slips)}"
        where = f"{name}, line {line}, {form!r} for example"
        findings.append(Finding("warning", what, where, "correct the type if it is a mistake."))
    oracle = reach.oracle
    if oracle["gold"] and oracle["f1"] < LOWEST_ORACLE_F1:
        what = f"a perfect model would score F1 {oracle['f1']:.4f}"
        findings.append(Finding("error", what, name, "fix the findings above."))
    return findings


def find_slips(forms: dict[str, dict[str, list[int]]]) -> list[tuple[str, int]]:
    """Return the surface form and line of entities whose words nearly always have another type."""
    slips = []
    for form, types in forms.items():
        lines = sorted(types.values(), key=len)
        usual, count = len(lines[-1]), sum(map(len, lines))
        if count >= OFTEN and NEARLY_ALWAYS * count <= usual < count:
            slips += [(form, line) for own in lines[:-1] for line in own]
    return slips


def build(tokenizer: Tokenizer, schema: Schema, settings: Settings) -> Models:
    """Return new models on a new encoder."""
    return build_models(load_encoder(settings, tokenizer), len(schema.types), settings)
