"""Whose rows of gold a run derives: those of the queues that something changed, and of those that depend on them.

A queue's rows follow from its own facts, from its policies and its tenant's, and from what is kept of the other queues
(patterns), with four exceptions. What lies in a dead letter queue is neither healthy nor at risk, so a queue's deaths
say something of the queue where they go. A Zaqar message keeps its id when it is moved, so what happens to it in the
dead letter queue says something of its death (when it was removed). Of other brokers' dead letters an acknowledgement
there does, or a post of what expired, and the queues where these died count as turned. And where a Zaqar dead letter
queue has one of its own or was purged, a project is replayed as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from deadletter.queues import MOST_QUEUES, Queue, all_of_tenant, of_queues
from deadletter.rules.pulsar import tenant_of
from deadletter.tables import EVERY


class Link(NamedTuple):
    """A queue, and a dead letter queue of it at any time: in the same tenant, but on Pulsar in any."""

    system: str
    tenant: str
    queue: str
    dead_letter_tenant: str
    dead_letter_queue: str

    @property
    def source(self) -> Queue:
        """The queue that sends its dead letters on."""
        return self.system, self.tenant, self.queue

    @property
    def target(self) -> Queue:
        """The dead letter queue."""
        return self.system, self.dead_letter_tenant, self.dead_letter_queue


@dataclass(frozen=True)
class Scope:
    """``queues`` whose rows are derived, the others' staying as they are; ``None``: every queue's."""

    queues: frozenset[Queue] | None = None

    @property
    def is_wide(self) -> bool:
        """Whether it has every queue of a tenant."""
        return self.queues is None or any(queue == EVERY for *_, queue in self.queues)

    @property
    def inside(self) -> str:
        """The rows of these queues, as a SQL predicate.

        >>> Scope(frozenset({("zaqar", "p", "a")})).inside, Scope().inside
        ("(system = 'zaqar' AND tenant = 'p' AND queue IN ('a'))", 'true')
        """
        return "true" if self.queues is None else of_queues(self.queues)

    @property
    def outside(self) -> str:
        """The rows of all other queues."""
        return f"NOT ({self.inside})"

    @property
    def receives(self) -> str:
        """The dead letters that went to these queues, whichever queue they died in.

        >>> Scope(frozenset({("rabbitmq", "/", "dead")})).receives
        "(system = 'rabbitmq' AND tenant = '/' AND dead_letter_queue IN ('dead')) OR false"
        >>> topic = ("pulsar", "a/dead", "persistent://a/dead/t")
        >>> print(Scope(frozenset({topic})).receives.replace(tenant_of("dead_letter_queue"), "its"))
        false OR (system = 'pulsar' AND its = 'a/dead' AND dead_letter_queue IN ('persistent://a/dead/t'))
        """
        if self.queues is None:
            return "true"
        topics = {queue for queue in self.queues if queue[0] == "pulsar"}
        here = of_queues(self.queues - topics, queue="dead_letter_queue")
        return f"{here} OR {of_queues(topics, tenant=tenant_of('dead_letter_queue'), queue='dead_letter_queue')}"


EVERYTHING = Scope()
NOTHING = Scope(frozenset())


def affected(changed: Iterable[Queue], links: Iterable[Link], turned: Iterable[Queue] = ()) -> Scope:
    """The scope of a run after the ``changed`` queues got new facts; ``turned`` ones did not, but are derived as well.

    >>> def link(system, tenant, queue, target):
    ...     return Link(system, tenant, queue, tenant, target)
    >>> links = [link("zaqar", "p", "a", "a-dead"), link("zaqar", "p", "b", "a-dead")]
    >>> dead = [link("rabbitmq", "/", "a", "dead"), link("rabbitmq", "/", "dead", "last")]
    >>> sorted(affected([("zaqar", "p", "a")], links).queues)  # and where its dead letters go
    [('zaqar', 'p', 'a'), ('zaqar', 'p', 'a-dead')]
    >>> sorted(affected([("zaqar", "p", "a-dead")], links).queues)  # whose dead letters it holds
    [('zaqar', 'p', 'a'), ('zaqar', 'p', 'a-dead'), ('zaqar', 'p', 'b')]
    >>> sorted(affected([("rabbitmq", "/", "a")], dead).queues)  # step by step
    [('rabbitmq', '/', 'a'), ('rabbitmq', '/', 'dead'), ('rabbitmq', '/', 'last')]
    >>> sorted(affected([("rabbitmq", "/", "dead")], dead[:1]).queues)
    [('rabbitmq', '/', 'dead')]
    >>> sorted(affected([], links, turned=[("zaqar", "p", "a-dead")]).queues)
    [('zaqar', 'p', 'a-dead')]
    >>> sorted(affected([("pulsar", "a/b", "t")], [Link("pulsar", "a/b", "t", "a/dead", "t-DLQ")]).queues)
    [('pulsar', 'a/b', 't'), ('pulsar', 'a/dead', 't-DLQ')]
    >>> chain = [*links, link("zaqar", "p", "a-dead", "c")]
    >>> sorted(affected([("zaqar", "p", "other")], chain).queues)
    [('zaqar', 'p', '*')]
    >>> sorted(affected([("zaqar", "p", "b")], [*links, link("zaqar", "p", "a-dead", "a-dead")]).queues)  # its own
    [('zaqar', 'p', '*')]
    >>> affected([("rabbitmq", EVERY, EVERY)], []) == EVERYTHING  # a feature flag of the whole broker
    True
    >>> many = [("zaqar", "p", str(number)) for number in range(MOST_QUEUES + 1)]
    >>> affected(many, []) == EVERYTHING, affected(many[1:], []) == EVERYTHING
    (True, False)
    """
    links, targets, sources = list(links), defaultdict(set), defaultdict(set)
    for link in links:
        if link.source != link.target:
            targets[link.source].add(link.target)
            if link.system == "zaqar":
                sources[link.target].add(link.source)
    chained = {link.source[:2] for link in links if link.source in sources}
    first = set(changed)
    first |= {source for queue in first for source in sources.get(queue, ())}
    first |= set(turned)
    whole = {queue[:2] for queue in first if queue[2] == EVERY or queue[:2] in chained}
    if any(EVERY in tenant for tenant in whole):
        return EVERYTHING

    def next_ones(ahead: frozenset[Queue]) -> set[Queue]:
        return {to for queue in ahead for at in (queue, all_of_tenant(queue)) for to in targets.get(at, ())}

    found = reached(first, next_ones)
    queues = {all_of_tenant(queue) if queue[:2] in whole else queue for queue in found}
    return Scope(frozenset(queues)) if len(queues) <= MOST_QUEUES else EVERYTHING


def reached(queues: Iterable[Queue], following: Callable[[frozenset[Queue]], Iterable[Queue]]) -> frozenset[Queue]:
    """The ``queues``, those ``following`` them, and so on; also where they follow each other in a circle.

    >>> steps = {"l5": "l3", "l3": "orders", "orders": "l5"}
    >>> sorted(reached({"l3"}, lambda ahead: {steps[queue] for queue in ahead}))
    ['l3', 'l5', 'orders']
    """
    found = ahead = frozenset(queues)
    while ahead:
        ahead = frozenset(following(ahead)) - found
        found |= ahead
    return found
