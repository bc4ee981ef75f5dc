"""Group spans into events by the links between them, in bounded time."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, islice, product

import networkx

from core.data.records import Span
from task.records import Event, Node

# A graph of n nodes may have 3^(n/3) maximal cliques. Beyond these bounds all linked spans become
# one event.
MOST_CLIQUES = 256
MOST_LINKED = 48
# A link between two kept mentions is accepted above this: most such pairs share an event.
LIKELY_LINK = 0.1
# A mention above this is kept even if another one has its place. A link above this decides which
# trigger an argument belongs to.
CERTAIN = 0.9
# The odds of an argument are multiplied by this before they meet the threshold, because arguments
# must also win their place and their role.
EASE = 4.0

# A span with its role and event type.
Mention = tuple[str, str | None, Span]
# Two spans in order, and the type of the event that holds both.
Link = tuple[str, Span, Span]


@dataclass(frozen=True)
class Graph:
    """What a model finds in one text: mentions and links, each with its probability.

    `triggered` are the types whose events always have a trigger.
    """

    mentions: dict[Mention, float]
    links: dict[Link, float]
    triggered: frozenset[str]

    def link(self, kind: str, one: Span, two: Span) -> float:
        """Return the probability that an event of a type holds both spans."""
        return self.links.get((kind, one, two) if one <= two else (kind, two, one), 0.0)


def eased(role: str | None, probability: float) -> float:
    """Return what is compared with the threshold: of arguments the odds are `EASE` times higher.

    >>> eased(None, 0.5), eased("buyer", 0.5)  # odds of 1 become odds of 4: 4 / 5
    (0.5, 0.8)
    """
    ease = 1.0 if role is None else EASE
    return ease * probability / (1 + (ease - 1) * probability)


def events_at(graph: Graph, threshold: float) -> list[Event]:
    """Return the events made of the mentions whose `eased` probability is above a threshold.

    Of spans that overlap in one role, the most probable and those above `CERTAIN` are kept. If a
    type always has a trigger, each trigger makes an event, or several if its arguments aren't
    linked with each other; an argument joins all triggers with which its link is `CERTAIN`, or else
    the nearest one. In an event each role has one filler and each span one role: the most probable
    and those above `CERTAIN`. Arguments without a trigger are dropped. In other types an event is a
    maximal set of mentions that are all linked with each other, with at most one trigger.
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
        high = {node: p for node, p in nodes.items() if eased(node[0], p) > threshold}
        kept = keep_best(high, lambda node: {(node[0], place) for place in range(*node[1])})
        if kind in graph.triggered:
            triggers = sorted(span for role, span in kept if role is None)
            if kept and not triggers:
                # The arguments may have a less probable trigger: its odds are eased like theirs.
                likely = {s: p for (role, s), p in nodes.items() if role is None}
                best = max(likely, key=lambda span: likely[span], default=None)
                triggers = [best] if best and eased("", likely[best]) > threshold else []
            groups = join_triggers(graph, kind, kept, triggers, links_of[kind])
        else:
            groups = split_linked(kept, links_of[kind], MOST_CLIQUES - len(events))
        events += drop_doubles(
            [Event(kind, trigger, tuple(sorted(own))) for trigger, own in groups]
        )
    return sorted(events, key=sort_key)


def keep_best(nodes: dict[Node, float], claims: Callable[[Node], set]) -> dict[Node, float]:
    """Return the nodes that claim nothing that a more probable node has; `CERTAIN` ones all stay.

    Args:
        nodes: with their probabilities.
        claims: from a node to what only one node may have, such as characters or a role.
    """
    kept: dict[Node, float] = {}
    taken: set = set()
    for node in sorted(nodes, key=lambda node: (-nodes[node], node[1], node[0] or "")):
        if nodes[node] > CERTAIN or taken.isdisjoint(claims(node)):
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

    Two arguments whose links with the trigger are `CERTAIN`, but which are not linked with each
    other, belong to two events.
    """
    joined: dict[Span, dict[Node, float]] = {trigger: {} for trigger in triggers}
    certain: dict[Span, list[Span]] = defaultdict(list)
    for one, two in links:
        if graph.link(kind, one, two) > CERTAIN:
            for span, other in {(one, two), (two, one)}:
                certain[span] += [other] if other in joined else []
    # Of the triggers that start before a span, the one that ends last is the nearest.
    furthest: list[Span] = []
    for trigger in triggers:
        furthest.append(max(furthest[-1:] + [trigger], key=lambda span: span[1]))
    for (role, span), probability in nodes.items():
        if role is not None and triggers:
            place = bisect_left(triggers, span)
            near = furthest[max(0, place - 1) : place] + triggers[place : place + 1]
            nearest = min(near, key=lambda t: (gap_between(span, t), -graph.link(kind, span, t)))
            for trigger in certain[span] or [nearest]:
                joined[trigger][role, span] = probability
    groups: list[tuple[Span | None, list[Node]]] = []
    for trigger, members in joined.items():
        own = list(keep_best(members, set))
        apart = networkx.Graph()
        apart.add_nodes_from(range(len(own)))
        tied = [number for number, (_, span) in enumerate(own) if trigger in certain[span]]
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
    """Return the graph of the nodes of one type, by their numbers; two triggers have no link.

    Numbers, because networkx iterates over sets: the order of numbers is the same in each process,
    the order of strings is not.
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
    """Return the maximal cliques; all nodes as one clique if there are more than `most`."""
    nodes = list(network)
    if len(nodes) > MOST_LINKED:
        return [nodes]
    cliques = list(islice(networkx.find_cliques(network), most + 1))
    return cliques if len(cliques) <= most else [nodes]


def drop_doubles(events: list[Event]) -> list[Event]:
    """Of events over the same spans keep the one with the most different roles.

    A link says that two spans belong together, but not in which roles. In "A beat B and lost to C"
    A is winner and loser, so the links of the first match would also make an event with two losers,
    A and B. An event is dropped only if other events have all its mentions.
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
    """Return the characters between two spans; 0 if they touch or overlap."""
    return max(0, one[0] - two[1], two[0] - one[1])


def sort_key(event: Event) -> tuple:
    """Return the sort key of an event: its place in the text first."""
    return min(span for _, span in event.nodes()), event.type, event.trigger or (), event.arguments


def mentions_of(events: Iterable[Event]) -> dict[Mention, None]:
    """Return the mentions of some events, each once, in order."""
    return {(event.type, role, span): None for event in events for role, span in event.nodes()}
