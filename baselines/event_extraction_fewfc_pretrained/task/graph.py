"""From spans and the links between them to events: cliques, found within a bounded effort."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, islice

import networkx

from common.records import Span
from task.data import Event, Node

# A graph of n nodes may have 3^(n/3) maximal cliques. Beyond these bounds everything that is linked
# becomes one event.
MOST_CLIQUES = 256
MOST_LINKED = 48
# A link between two mentions that are kept needs less: few pairs of them are not of one event. So
# 22 % of the events of PHEE's dev part are whole, and 19 % with the threshold of mentions for both.
LIKELY_LINK = 0.1

# A span with its role and event type.
Mention = tuple[str, str | None, Span]
# Two spans in order, and the type of the event that holds both.
Link = tuple[str, Span, Span]


@dataclass(frozen=True)
class Graph:
    """What a model says of one text: mentions and links, each with its probability.

    `triggered` are the types whose events all have a trigger.
    """

    mentions: dict[Mention, float]
    links: dict[Link, float]
    triggered: frozenset[str]


def link_between(graph: Graph, kind: str, one: Span, two: Span) -> float:
    """Return the probability that an event of a type holds both spans."""
    return graph.links.get((kind, one, two) if one <= two else (kind, two, one), 0.0)


def events_at(graph: Graph, threshold: float) -> list[Event]:
    """Return the events made of the mentions that are surer than a threshold, and likely links.

    An event is a maximal set of mentions of one type that are all linked with each other, and have
    one trigger at the most: triggers are never linked. Where a type always has one, sets without
    are none, so that arguments of three events in a ring make no fourth. Every mention that is sure
    enough stands in an event: one that is linked with no trigger joins the likeliest.

    Args:
        graph: of one text.
        threshold: from 0 to 1.
    """
    nodes = defaultdict(list)
    for (kind, role, span), probability in graph.mentions.items():
        if probability > threshold:
            nodes[kind].append((role, span))
    events, left = [], MOST_CLIQUES
    for kind, members in nodes.items():
        network = link_nodes(graph, kind, members)
        triggers = [
            number
            for number, (role, _) in enumerate(members)
            if role is None and kind in graph.triggered
        ]
        if triggers:
            groups = [(network.subgraph(network[number]), [number]) for number in triggers]
        else:
            parts = networkx.connected_components(network)
            groups = [(network.subgraph(part), []) for part in parts]
        found = []
        for group, trigger in groups:
            cliques = find_cliques(group, max(1, left))
            left -= len(cliques)
            for clique in cliques:
                found += make_events(kind, [members[number] for number in trigger + clique])
        events += add_orphans(graph, drop_doubles(found), members)
    return sorted(events, key=sort_key)


def add_orphans(graph: Graph, events: list[Event], nodes: list[Node]) -> list[Event]:
    """Add the mentions that stand in no event to one of the likeliest trigger, the largest.

    Args:
        graph: of the text.
        events: of one type.
        nodes: all mentions of the type.
    """
    placed = {node for event in events for node in event.nodes()}
    for role, span in sorted(set(nodes) - placed):
        likeliest = max(
            range(len(events)),
            key=lambda index: (
                link_between(graph, events[index].type, span, events[index].trigger),
                -gap_between(span, events[index].trigger),
                len(events[index].arguments),
            ),
        )
        event = events[likeliest]
        arguments = tuple(sorted([*event.arguments, (role, span)]))
        events[likeliest] = Event(event.type, event.trigger, arguments)
    return events


def gap_between(one: Span, two: Span) -> int:
    """Return the characters between two spans; 0 where they touch or overlap."""
    return max(0, one[0] - two[1], two[0] - one[1])


def link_nodes(graph: Graph, kind: str, nodes: list[Node]) -> networkx.Graph:
    """Return the likely links between the nodes of one type, which go by their numbers.

    networkx walks through sets: of numbers, in the same order each time; of names, in another one
    in each process.
    """
    network = networkx.Graph()
    network.add_nodes_from(range(len(nodes)))
    for one, two in combinations(range(len(nodes)), 2):
        (role, span), (other_role, other_span) = nodes[one], nodes[two]
        both_triggers = role is None and other_role is None
        if not both_triggers and link_between(graph, kind, span, other_span) > LIKELY_LINK:
            network.add_edge(one, two)
    return network


def find_cliques(network: networkx.Graph, most: int) -> list[list[int]]:
    """Return the maximal cliques, or all nodes as one where there are more than `most`."""
    nodes = list(network)
    if not nodes:
        return [[]]
    if len(nodes) > MOST_LINKED:
        return [nodes]
    cliques = list(islice(networkx.find_cliques(network), most + 1))
    return cliques if len(cliques) <= most else [nodes]


def make_events(kind: str, nodes: Iterable[Node]) -> list[Event]:
    """Return the nodes as an event, or as several where they have several triggers."""
    nodes = list(nodes)
    arguments = tuple(sorted(node for node in nodes if node[0] is not None))
    triggers = [span for role, span in nodes if role is None]
    return [Event(kind, trigger, arguments) for trigger in triggers or [None]]


def drop_doubles(events: list[Event]) -> list[Event]:
    """Keep the best of events over the same spans: that with the most different roles.

    A link says that two spans belong together, not in which roles. Of "A beat B and lost to C" the
    links of the first match hold for the winner A, and for A as what it is in the second, a loser:
    a match with two losers. An event is dropped only if all its mentions stand in others.
    """
    best: dict[frozenset[Span], int] = {}
    for event in events:
        spans, roles = spans_of(event), count_roles(event)
        best[spans] = max(roles, best.get(spans, 0))
    kept = [event for event in events if count_roles(event) == best[spans_of(event)]]
    covered = mentions_of(kept).keys()
    return [
        event
        for event in events
        if count_roles(event) == best[spans_of(event)] or not mentions_of([event]).keys() <= covered
    ]


def spans_of(event: Event) -> frozenset[Span]:
    """Return the spans of an event without their roles."""
    return frozenset(span for _, span in event.nodes())


def count_roles(event: Event) -> int:
    """Return the number of different roles in an event."""
    return len({role for role, _ in event.arguments})


def sort_key(event: Event) -> tuple:
    """Return what events are ordered by: their place in the text."""
    return min(span for _, span in event.nodes()), event.type, event.trigger or (), event.arguments


def mentions_of(events: Iterable[Event]) -> dict[Mention, None]:
    """Return the mentions of some events, each once, in their order."""
    return {(event.type, role, span): None for event in events for role, span in event.nodes()}
