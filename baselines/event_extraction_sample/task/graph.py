"""From spans and the links between them to events: cliques, found within a bounded effort."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, islice

import networkx

from core.data.records import Span
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

    def link(self, kind: str, one: Span, two: Span) -> float:
        """Return the probability that an event of a type holds both spans."""
        return self.links.get((kind, one, two) if one <= two else (kind, two, one), 0.0)


def events_at(graph: Graph, threshold: float) -> list[Event]:
    """Return the events made of the mentions that are surer than a threshold, and likely links.

    An event is a maximal set of mentions of one type that are all linked with each other, and have
    one trigger at the most: triggers are never linked. Where a type always has a trigger, a set
    without one is not an event: three events in a ring do not make a fourth of their arguments.
    Every mention that is sure enough is in an event: one without a trigger joins the likeliest.
    """
    nodes_of = defaultdict(list)
    for (kind, role, span), probability in graph.mentions.items():
        if probability > threshold:
            nodes_of[kind].append((role, span))
    events, left = [], MOST_CLIQUES
    for kind, nodes in nodes_of.items():
        network = link_nodes(graph, kind, nodes)
        triggers = [number for number, (role, _) in enumerate(nodes) if role is None]
        if triggers and kind in graph.triggered:
            groups = [(network.subgraph(network[number]), [number]) for number in triggers]
        else:
            parts = networkx.connected_components(network)
            groups = [(network.subgraph(part), []) for part in parts]
        found = []
        for group, trigger in groups:
            cliques = find_cliques(group, max(1, left))
            left -= len(cliques)
            for clique in cliques:
                members = [nodes[number] for number in trigger + clique]
                arguments = tuple(sorted(node for node in members if node[0] is not None))
                own: list = [span for role, span in members if role is None]
                found += [Event(kind, span, arguments) for span in own or [None]]
        events += add_orphans(graph, drop_doubles(found), nodes)
    return sorted(events, key=sort_key)


def link_nodes(graph: Graph, kind: str, nodes: list[Node]) -> networkx.Graph:
    """Return the likely links between the nodes of one type, which go by their numbers.

    networkx walks through sets: of numbers, in the same order each time; of names, in another one
    in each process.
    """
    network = networkx.Graph()
    network.add_nodes_from(range(len(nodes)))
    for one, two in combinations(range(len(nodes)), 2):
        (role, span), (other_role, other_span) = nodes[one], nodes[two]
        if {role, other_role} != {None} and graph.link(kind, span, other_span) > LIKELY_LINK:
            network.add_edge(one, two)
    return network


def find_cliques(network: networkx.Graph, most: int) -> list[list[int]]:
    """Return the maximal cliques, or all nodes as one where there are more than `most`."""
    nodes = list(network)
    if len(nodes) > MOST_LINKED:
        return [nodes]
    # No nodes are a clique too: the arguments of a trigger that stands alone.
    cliques = list(islice(networkx.find_cliques(network), most + 1)) or [[]]
    return cliques if len(cliques) <= most else [nodes]


def drop_doubles(events: list[Event]) -> list[Event]:
    """Keep the best of events over the same spans: that with the most different roles.

    A link says that two spans belong together, not in which roles. Of "A beat B and lost to C" the
    links of the first match hold for the winner A, and for A as what it is in the second, a loser:
    a match with two losers. An event is dropped only if all its mentions stand in others.
    """
    ranks = {
        event: (frozenset(span for _, span in event.nodes()), len(dict(event.arguments)))
        for event in events
    }
    best: dict[frozenset[Span], int] = {}
    for spans, roles in ranks.values():
        best[spans] = max(roles, best.get(spans, 0))
    kept = {event for event, (spans, roles) in ranks.items() if roles == best[spans]}
    covered = mentions_of(kept).keys()
    return [
        event for event in events if event in kept or not mentions_of([event]).keys() <= covered
    ]


def add_orphans(graph: Graph, events: list[Event], nodes: list[Node]) -> list[Event]:
    """Add the nodes that stand in no event to one of the likeliest trigger, the largest."""
    placed = {node for event in events for node in event.nodes()}
    for role, span in sorted(set(nodes) - placed):
        ranks = []
        for event in events:
            assert event.trigger  # where a type may lack one, every node stands in an event
            linked = graph.link(event.type, span, event.trigger)
            ranks.append((linked, -gap_between(span, event.trigger), len(event.arguments)))
        place = ranks.index(max(ranks))
        event = events[place]
        arguments = tuple(sorted([*event.arguments, (role, span)]))
        events[place] = Event(event.type, event.trigger, arguments)
    return events


def gap_between(one: Span, two: Span) -> int:
    """Return the characters between two spans; 0 where they touch or overlap."""
    return max(0, one[0] - two[1], two[0] - one[1])


def sort_key(event: Event) -> tuple:
    """Return what events are ordered by: their place in the text."""
    return min(span for _, span in event.nodes()), event.type, event.trigger or (), event.arguments


def mentions_of(events: Iterable[Event]) -> dict[Mention, None]:
    """Return the mentions of some events, each once, in their order."""
    return {(event.type, role, span): None for event in events for role, span in event.nodes()}
