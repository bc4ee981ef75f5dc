"""From spans and the links between them to events, within a bounded effort."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, islice, product

import networkx

from core.data.records import Span
from task.data import Event, Node

# A graph of n nodes may have 3^(n/3) maximal cliques. Beyond these bounds everything that is linked
# becomes one event.
MOST_CLIQUES = 256
MOST_LINKED = 48
# A link between two kept mentions is accepted above this: most such pairs share an event.
LIKELY_LINK = 0.1
# What is surer stands, whatever else claims its place. A surer link says who belongs to whom.
SURE = 0.9
# An argument also competes for its place and its role: its odds are multiplied by this.
EASED = 4.0

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


def standing(role: str | None, probability: float) -> float:
    """Return the probability that meets the threshold: an argument's has `EASED` times its odds."""
    ease = 1.0 if role is None else EASED
    return ease * probability / (1 + (ease - 1) * probability)


def events_at(graph: Graph, threshold: float) -> list[Event]:
    """Return the events made of the mentions that stand above a threshold.

    Of spans that overlap in one role the surest is kept. Where a type always has a trigger, each
    trigger makes an event; each argument joins all that it is surely linked with, or else the
    nearest. In an event each role has one filler and each span one role: the surest. Arguments that
    nothing triggers are dropped. Of other types an event is a maximal set of mentions that are all
    likely linked with each other, and have one trigger at the most.
    """
    nodes_of: dict[str, dict[Node, float]] = defaultdict(dict)
    for (kind, role, span), probability in graph.mentions.items():
        nodes_of[kind][role, span] = probability
    links_of: dict[str, list[tuple[Span, Span]]] = defaultdict(list)
    for (kind, one, two), probability in graph.links.items():
        if probability > LIKELY_LINK:
            links_of[kind].append((one, two))
    events: list[Event] = []
    for kind, nodes in nodes_of.items():
        high = {node: p for node, p in nodes.items() if standing(node[0], p) > threshold}
        kept = keep_surest(high, lambda node: {(node[0], place) for place in range(*node[1])})
        if kind in graph.triggered:
            triggers = sorted(span for role, span in kept if role is None)
            if kept and not triggers:
                # The arguments may have a less likely trigger: its odds are eased as theirs are.
                eased = {s: p for (role, s), p in nodes.items() if not role}
                best = max(eased, key=lambda span: eased[span], default=None)
                triggers = [best] if best and standing("", eased[best]) > threshold else []
            groups = join_triggers(graph, kind, kept, triggers, links_of[kind])
        else:
            groups = split_linked(kept, links_of[kind], MOST_CLIQUES - len(events))
        events += drop_doubles(
            [Event(kind, trigger, tuple(sorted(own))) for trigger, own in groups]
        )
    return sorted(events, key=sort_key)


def keep_surest(nodes: dict[Node, float], claims: Callable[[Node], set]) -> dict[Node, float]:
    """Return the nodes whose claims no surer one has made; those that are `SURE` share theirs."""
    kept: dict[Node, float] = {}
    taken: set = set()
    for node in sorted(nodes, key=lambda node: (-nodes[node], node[1], node[0] or "")):
        if nodes[node] > SURE or taken.isdisjoint(claims(node)):
            kept[node] = nodes[node]
            taken |= claims(node)
    return kept


def join_triggers(
    graph: Graph,
    kind: str,
    nodes: dict[Node, float],
    triggers: list[Span],
    links: list[tuple[Span, Span]],
) -> list[tuple[Span | None, list[Node]]]:
    """Return each trigger of a type, in order, with the arguments of its event.

    Two arguments that are surely linked with the trigger and not with each other are of two events.
    """
    joined: dict[Span, dict[Node, float]] = {trigger: {} for trigger in triggers}
    sure: dict[Span, list[Span]] = defaultdict(list)
    for one, two in links:
        if graph.link(kind, one, two) > SURE:
            for span, other in {(one, two), (two, one)}:
                sure[span] += [other] if other in joined else []
    # Of those that begin before a place, the one that reaches furthest is the nearest.
    furthest: list[Span] = []
    for trigger in triggers:
        furthest.append(max(furthest[-1:] + [trigger], key=lambda span: span[1]))
    for (role, span), probability in nodes.items():
        if role is not None and triggers:
            place = bisect_left(triggers, span)
            near = furthest[max(0, place - 1) : place] + triggers[place : place + 1]
            nearest = min(near, key=lambda t: (gap_between(span, t), -graph.link(kind, span, t)))
            for trigger in sure[span] or [nearest]:
                joined[trigger][role, span] = probability
    groups: list[tuple[Span | None, list[Node]]] = []
    for trigger, members in joined.items():
        own = list(keep_surest(members, set))
        apart = networkx.Graph()
        apart.add_nodes_from(range(len(own)))
        tied = [number for number, (_, span) in enumerate(own) if trigger in sure[span]]
        for first, second in combinations(tied[:MOST_LINKED], 2):
            if graph.link(kind, own[first][1], own[second][1]) <= LIKELY_LINK:
                apart.add_edge(first, second)
        together = [list(apart)]
        if apart.edges:
            together = find_cliques(networkx.complement(apart), MOST_CLIQUES // len(triggers) + 1)
        groups += [(trigger, [own[number] for number in clique]) for clique in together]
    return groups


def split_linked(
    nodes: Iterable[Node], links: list[tuple[Span, Span]], most: int
) -> list[tuple[Span | None, list[Node]]]:
    """Return the trigger, or None, and the arguments of each maximal set of linked nodes."""
    every = list(nodes)
    network = link_nodes(every, links)
    groups: list[tuple[Span | None, list[Node]]] = []
    for part in networkx.connected_components(network):
        cliques = find_cliques(network.subgraph(part), max(1, most - len(groups)))
        for members in ([every[number] for number in clique] for clique in cliques):
            arguments = [node for node in members if node[0] is not None]
            own: list = [span for role, span in members if role is None]
            groups += [(span, arguments) for span in own or [None]]
    return groups


def link_nodes(nodes: list[Node], links: list[tuple[Span, Span]]) -> networkx.Graph:
    """Return the links between nodes of one type, which go by their numbers; triggers have none.

    networkx walks through sets: of numbers, in the same order each time; of names, in another one
    in each process.
    """
    numbers: dict[Span, list[int]] = defaultdict(list)
    for number, (_, span) in enumerate(nodes):
        numbers[span].append(number)
    network = networkx.Graph()
    network.add_nodes_from(range(len(nodes)))
    for one, two in links:
        for pair in product(numbers.get(one, ()), numbers.get(two, ())):
            if pair[0] != pair[1] and any(nodes[number][0] is not None for number in pair):
                network.add_edge(*pair)
    return network


def find_cliques(network: networkx.Graph, most: int) -> list[list[int]]:
    """Return the maximal cliques, or all nodes as one where there are more than `most`."""
    nodes = list(network)
    if len(nodes) > MOST_LINKED:
        return [nodes]
    cliques = list(islice(networkx.find_cliques(network), most + 1))
    return cliques if len(cliques) <= most else [nodes]


def drop_doubles(events: list[Event]) -> list[Event]:
    """Keep the best of events over the same spans: that with the most different roles.

    A link says that two spans belong together, not in which roles. In "A beat B and lost to C" A is
    winner and loser: the links of the first match would also make one with two losers, A and B. An
    event is dropped only if all its mentions stand in others.
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


def gap_between(one: Span, two: Span) -> int:
    """Return the characters between two spans; 0 where they touch or overlap."""
    return max(0, one[0] - two[1], two[0] - one[1])


def sort_key(event: Event) -> tuple:
    """Return what events are ordered by: their place in the text."""
    return min(span for _, span in event.nodes()), event.type, event.trigger or (), event.arguments


def mentions_of(events: Iterable[Event]) -> dict[Mention, None]:
    """Return the mentions of some events, each once, in their order."""
    return {(event.type, role, span): None for event in events for role, span in event.nodes()}
