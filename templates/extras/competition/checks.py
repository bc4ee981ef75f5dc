"""Checks of check.py: targets, fold groups, and labels that are paths."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from core.base.extras import need
from core.data.checks import Finding, normalise
from extras.competition.label_scores import CURVES, label_matrix, labels_without_auc
from extras.competition.lists import describe_groups, find_list_faults
from extras.competition.sample_checks import find_sample_faults
from extras.competition.settings import Settings
from extras.competition.targets import gold_numbers

# Deviations from the mean from which on a number is an outlier, which the squared error follows.
FAR = 6.0


def find_faults(
    files: dict[str, Sequence[Any]], labels: Any, settings: Settings | None = None
) -> list[Finding]:
    """Return what is wrong with targets, groups of folds, paths of labels, and the sample.

    Args:
        files: name -> examples, the training file first.
        labels: from `collect_targets`.
        settings: name sample_submission.csv, other names of labels, and labels that change
            places; None: they are not looked at.

    Raises:
        InputError: the labels that change places are none, or the sample is broken.
    """
    if settings and (settings.competition.swap_training or settings.competition.swap_prediction):
        from extras.competition.swapping import check_labels

        check_labels(labels, settings.competition.swapped_names)
    findings = find_shared_groups(files)
    findings += find_unknown_aliases(labels, settings) if settings else []
    findings += find_sample_faults(files, labels, settings) if settings else []
    findings += find_labels_without_auc(files, labels, settings) if settings else []
    if getattr(labels, "are_lists", False):
        findings += find_list_faults(files)
    elif labels.are_numbers:
        for name, examples in files.items():
            known = [example for example in examples if example.labelled]
            findings += find_target_faults(name, known, labels) if known else []
    elif hierarchy := getattr(labels, "hierarchy", ""):
        findings += find_path_faults(files, hierarchy)
    return findings


def find_unknown_aliases(labels: Any, settings: Settings) -> list[Finding]:
    """Find other names of labels that no training example has."""
    aliases = settings.competition.aliases
    unknown = [] if labels.are_numbers else sorted({*aliases.values()} - {*labels.names})
    if not unknown:
        return []
    shown = ", ".join(labels.names[:10]) + ", ..." * (len(labels.names) > 10)
    what = f"other names of the label {unknown[0]!r}, which no training example has"
    advice = f"the labels are {shown}: write one of them, or leave the names out."
    return [Finding("warning", what, "competition.label_aliases", advice)]


def find_labels_without_auc(
    files: dict[str, Sequence[Any]], labels: Any, settings: Settings
) -> list[Finding]:
    """Find labels that the deciding score leaves out, since no record of a file has them."""
    metric: str = settings.metric  # type: ignore[attr-defined]
    if labels.are_numbers or metric not in CURVES:
        return []
    findings = []
    for name, examples in files.items():
        known = [example.labels for example in examples if example.labelled]
        lacking = labels_without_auc(label_matrix(known, labels.names), labels) if known else []
        if lacking:
            counted = f"{len(lacking)}, {lacking[0]!r} for one"
            what = f"labels that no record has, or every one: {counted}"
            advice = f"{metric} is the mean over the other labels there."
            findings.append(Finding("warning", what, name, advice))
    return findings


def find_shared_groups(files: dict[str, Sequence[Any]]) -> list[Finding]:
    """Find groups of folds that are in two files: one may be scored on what the other teaches."""
    places: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, examples in files.items():
        for example in examples:
            if example.fold_group is not None:
                places[example.fold_group].setdefault(name, example)
    shared = {group: own for group, own in places.items() if len(own) > 1}
    if not shared:
        return []
    group, own = next(iter(shared.items()))
    where = " and ".join(f"{name}, line {example.line}" for name, example in own.items())
    what = f"fold groups in two files: {len(shared)}, {group!r} for one"
    advice = "move each group into one file, unless the competition's test file shares them too."
    return [Finding("warning", what, where, advice)]


def find_target_faults(name: str, examples: Sequence[Any], labels: Any) -> list[Finding]:
    """Find targets that never vary, that the loss does not allow, or that are outliers."""
    findings = []
    numbers = gold_numbers(examples)
    scaling = labels.scaling
    for column, target in enumerate(labels.names):
        own = numbers[:, column]
        line = examples[int(np.argmax(np.abs(own - own.mean())))].line
        where = f"{name}, line {line} for one"
        if not np.ptp(own):
            what = f"{target} is {own[0]:g} in every record"
            findings.append(Finding("warning", what, name, "leave the target out: it is constant."))
            continue
        outside = np.flatnonzero((own < 0) | (own > 1))
        if scaling["loss"] == "bce" and len(outside):
            at = f"{name}, line {examples[int(outside[0])].line} for one"
            what = f'{target} beyond 0 to 1 in {len(outside)} records, with loss = "bce"'
            findings.append(Finding("error", what, at, 'scale the target, or set loss = "mse".'))
        far = np.abs(own - own.mean()) > FAR * own.std()
        if far.any() and scaling["loss"] == "mse":
            what = (
                f"{target} further than {FAR:g} deviations from its mean: {int(far.sum())} records"
            )
            advice = 'are they mistakes? If not, loss = "huber" follows them less.'
            findings.append(Finding("warning", what, where, advice))
        unseen = set(own.tolist()) - set(scaling["levels"][column]) if scaling["levels"] else set()
        if unseen:
            what = f"{target} has grades that training never shows: {sorted(unseen)[:5]}"
            findings.append(
                Finding("warning", what, name, "the model can't give them: add records.")
            )
    return findings


def find_path_faults(files: dict[str, Sequence[Any]], separator: str) -> list[Finding]:
    """Find paths that differ only in case or blanks, and parts with two parents."""
    paths: dict[str, str] = {}
    for name, examples in files.items():
        for example in examples:
            for label in example.labels:
                paths.setdefault(label, f"{name}, line {example.line}")
    findings = []
    alike: dict[tuple, list[str]] = defaultdict(list)
    parents: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        alike[tuple(normalise(part) for part in path.split(separator))].append(path)
        parent, _, last = path.rpartition(separator)
        parents[normalise(last)].append(parent)
    twins = [own for own in alike.values() if len(own) > 1]
    if twins:
        what = f"paths that differ only in case or blanks: {', '.join(map(repr, twins[0][:2]))}"
        findings.append(Finding("warning", what, paths[twins[0][1]], "write them in one way."))
    inner = {path.rpartition(separator)[0] for path in paths} - {""}
    homeless = [last for last, own in parents.items() if len(set(own)) > 1 and "" in own]
    if homeless:
        what = f"labels with a parent in some records only: {homeless[0]!r} for one"
        where = next(place for path, place in paths.items() if normalise(path) == homeless[0])
        advice = "write the whole path in every record."
        findings.append(Finding("warning", what, where, advice))
    print(f"paths: {len(paths)} labels, {len(inner)} of them have parts below")
    return findings


def describe_numbers(
    name: str, examples: Sequence[Any], labels: Any, tokens: list[int], cut: int
) -> str:
    """Return the numbers and histograms of a file with targets."""
    draw = need("doctor", "record_checks").draw_histogram
    lines = [f"\n{name}: {len(examples)} records, {cut} cut at the end"]
    known = [example for example in examples if example.labelled]
    if not known:
        lines.append("targets: none, because no record has one")
    for target, own in zip(labels.names, gold_numbers(known).T if known else [], strict=False):
        lines.append(
            f"{target}: {own.min():g} to {own.max():g}, mean {own.mean():.4g}, deviation "
            f"{own.std():.4g}, {len(np.unique(own))} different values"
        )
    if labels.are_lists:
        lines.append(describe_groups(examples))
    lines += draw([sum(map(len, example.texts)) for example in examples], "characters")
    lines += draw(tokens, "tokens")
    return "\n".join(lines)
