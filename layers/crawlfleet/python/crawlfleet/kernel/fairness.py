"""Fairness: rounds that may end early, tenants by their shares, the bizs of each by their weights.

**Rounds** begin at another place each minute. The places of consecutive ones lie the golden ratio
apart, so they are spread evenly however many are taken, and nothing has to be remembered of them.
A round goes on with the tenant that took least of its time by its share: however slow what one has
is, others have their part of the round.

**Bizs** that have work take turns by start-time fair queueing (SPEC.md C4). Whoever is served moves
on by the entries that came, divided by its weight, and who has moved on least is served next: a biz
of which a lease brings one entry has as many leases more as it takes. Of 40 turns of one entry a
weight of 3 beside one of 1 has 30, never more than three in a row. While two have work all the
time, what they had by their weights never differs by more than a batch of each (Goyal, Vin and
Cheng, 1996). Who comes, or comes back, begins where those are who are served now: a lull is no
claim on what comes after it. Who is ahead stays so though it has no work for a while, else it would
have a batch more with each pause; that is forgotten when nobody has any, as nobody waits then.

**Tenants** that have work take turns by weighted fair queueing whose cost is known afterwards
(SPEC.md C7), as Kubernetes' API priority and fairness has it, and VTC (arXiv 2401.00588): what a
tenant has in flight is charged a guess, which its end replaces with what it took. Who took least by
its share is served next, however many bizs it has. While two have work all the time, what they took
by their shares never differs by more than what is in flight of each takes. Who comes, or comes
back, begins where the present is; nobody has saved anything up.

**Places** that are held for as long as the work takes, as a worker's runners are, cannot be taken
back. So whoever could use its part of them is kept it free: :class:`FairParts`.
"""

from collections import defaultdict, deque
from collections.abc import (
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count, zip_longest
from math import lcm
from operator import attrgetter
from typing import Final, Generic, TypeVar

from crawlfleet.kernel.queue_key import QueueKey

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

#: The scheduler's tick.
TICK: Final = timedelta(minutes=1)
#: Steps of this part of a circle leave the smallest gaps, however many they are.
_GOLDEN: Final = (5**0.5 - 1) / 2
#: Of a circle within another: with the same steps some places of both would never meet.
_SILVER: Final = 2**0.5 - 1


def place(now: datetime, every: timedelta = TICK, step: float = _GOLDEN) -> float:
    """Return where this round begins, as a part of the whole, from 0 up to 1.

    >>> [round(place(datetime.fromtimestamp(60 * n)), 2) for n in range(5)]
    [0.0, 0.62, 0.24, 0.85, 0.47]
    """
    return int(now.timestamp() / every.total_seconds()) * step % 1


def rotated(
    things: Sequence[T], now: datetime, every: timedelta = TICK, step: float = _GOLDEN
) -> list[T]:
    """Return all in their order, from this round's place on.

    Rounds that get no further than a few so come to all of them after the fewest rounds.

    >>> rotated("abcde", datetime.fromtimestamp(60))
    ['d', 'e', 'a', 'b', 'c']
    """
    begin = int(place(now, every, step) * len(things))
    return [*things[begin:], *things[:begin]]


def in_turns(queues: Iterable[QueueKey], now: datetime, every: timedelta = TICK) -> list[QueueKey]:
    """Return all queue keys, those of different tenants in turns, from this round's places on.

    A round that gets no further than a few so comes to as many of each tenant, however many it has,
    and after the fewest rounds to all of them.

    >>> several = [QueueKey(*one, "main") for one in ("a1", "a2", "b1")]
    >>> [one.path for one in in_turns(several, datetime.fromtimestamp(0))]
    ['a/1', 'b/1', 'a/2']
    """
    owned: defaultdict[str, list[QueueKey]] = defaultdict(list)
    for one in queues:
        owned[one.tenant].append(one)
    each = [rotated(owned[one], now, every, _SILVER) for one in rotated(list(owned), now, every)]
    return [one for row in zip_longest(*each) for one in row if one is not None]


#: Whose a queue key or a job is.
TENANT: Final = attrgetter("tenant")
#: What a thing takes at least, in seconds, so that those that cost nothing are taken in turns.
_LEAST: Final = 0.001


def by_shares(
    things: Iterable[T],
    owner: Callable[[T], H],
    share: Callable[[H], float],
    now: Callable[[], float],
    taken: MutableMapping[H, float] | None = None,
) -> Iterator[T]:
    """Yield all things: next one of the owner whose things took least time by its share.

    What a thing takes is the time until the next one is asked for. Those of an owner come in their
    order. ``taken`` is what each took by its share before, where a round is gone on with; who is
    not in it begins with those who took least.

    >>> clock = iter([0, 9, 9, 10, 10, 11, 11, 12, 12, 13]).__next__
    >>> list(by_shares(["a1", "a2", "b1", "b2", "b3"], lambda one: one[0], lambda one: 1, clock))
    ['a1', 'b1', 'b2', 'b3', 'a2']
    """
    owned: defaultdict[H, deque[T]] = defaultdict(deque)
    for one in things:
        owned[owner(one)].append(one)
    taken = {} if taken is None else taken
    present = min((taken[one] for one in owned if one in taken), default=0.0)
    turns = count()
    waiting = [(taken.setdefault(one, present), next(turns), one) for one in owned]
    heapify(waiting)
    while waiting:
        at, _, first = heappop(waiting)
        began = now()
        try:
            yield owned[first].popleft()
        finally:
            at = taken[first] = at + max(_LEAST, now() - began) / share(first)
        if owned[first]:
            heappush(waiting, (at, next(turns), first))


#: By how much one entry moves on a weight of 1. Every weight divides it, so nothing is rounded.
_ENTRY: Final = lcm(*range(1, 101))


class FairQueue(Generic[H]):
    """Order those with work by what they had and their weights (start-time fair queueing)."""

    def __init__(self) -> None:
        self._now = 0
        # Only those who are ahead of that.
        self._ahead: dict[H, int] = {}

    def order(self, weights: Mapping[H, int]) -> list[H]:
        """Return those who have work: first the one whose turn it is.

        >>> queue = FairQueue[str]()
        >>> [queue.taken(queue.order({"a": 3, "b": 1})[0], {"a": 3, "b": 1}) for _ in range(8)]
        ['a', 'b', 'a', 'a', 'a', 'b', 'a', 'a']
        """
        # Sorting is stable: of equals the first one named comes first.
        return sorted(weights, key=lambda one: self._ahead.get(one, self._now))

    def taken(self, served: H, weights: Mapping[H, int], entries: int = 1) -> H:
        """Note who of these was served, and with how many entries, one or more."""
        now = self._now = self._ahead.get(served, self._now)
        self._ahead[served] = now + entries * _ENTRY // weights[served]
        self._ahead = {one: at for one, at in self._ahead.items() if at > now}
        return served

    def lull(self) -> None:
        """Forget who is ahead: nobody had anything to take."""
        self._ahead.clear()


class FairShares(Generic[H]):
    """Order owners with work by what they took and their shares. Costs are in any one unit.

    No virtual time ever runs backward: neither the present nor what an owner has taken.
    """

    def __init__(self) -> None:
        #: The virtual time at which whoever comes begins.
        self.now = 0.0
        # The virtual time of those who have work, and of those who are ahead of the present.
        self._taken: dict[H, float] = {}
        self._working: set[H] = set()
        # By what those with work were ordered last.
        self._keys: dict[H, float] = {}

    def order(self, shares: Mapping[H, float], guesses: Mapping[H, float]) -> list[H]:
        """Return those who have work: first the one who took least by its share.

        ``guesses`` are what is in flight of each is thought to take, as far as it has not ended.

        >>> fair = FairShares[str]()
        >>> fair.order({"a": 1, "b": 1}, {}), fair.spend("a", 1, 5.0)
        (['a', 'b'], 5.0)
        >>> fair.order({"a": 1, "b": 1}, {}), fair.order({"a": 1, "b": 1}, {"b": 9.0})
        (['b', 'a'], ['a', 'b'])
        """
        for one in shares.keys() - self._working:
            self._taken[one] = self.taken(one)
        self._working = set(shares)
        self._taken = {
            one: at for one, at in self._taken.items() if one in self._working or at > self.now
        }
        keys = {one: self._taken[one] + guesses.get(one, 0.0) / shares[one] for one in shares}
        self._keys = keys
        self._advance()
        # Sorting is stable: of equals the first one named comes first.
        return sorted(shares, key=keys.__getitem__)

    def taken(self, one: H) -> float:
        """Return the virtual time of an owner; the present, where it is idle and not ahead."""
        at = self._taken.get(one, self.now)
        return at if one in self._working else max(at, self.now)

    def spend(self, one: H, share: float, cost: float) -> float:
        """Charge what a piece of work took; return the owner's virtual time."""
        at = self._taken[one] = self.taken(one) + max(0.0, cost) / share
        return at

    def passed(self, one: H) -> None:
        """Note that nothing came of whose turn it was: that is no claim on what comes later."""
        self._working.discard(one)
        self._keys.pop(one, None)
        self._advance()

    def lull(self) -> None:
        """Forget who is ahead: nobody had anything to take."""
        self._taken.clear()
        self._working.clear()

    def _advance(self) -> None:
        """Go on to the least of those that are served."""
        self.now = max(self.now, min(self._keys.values(), default=self.now))


#: For so long an owner is taken to want as many places as it has just wanted.
DEMAND_SECONDS: Final = 5.0


class _Demand:
    """The most places that an owner held or waited for in the latest one to two spans."""

    __slots__ = ("before", "began", "latest")

    def __init__(self, now: float) -> None:
        self.began, self.before, self.latest = now, 0, 0

    def note(self, count: int, now: float, seconds: float) -> None:
        if now - self.began >= seconds:
            self.before = self.latest if now - self.began < 2 * seconds else 0
            self.began, self.latest = now, 0
        self.latest = max(self.latest, count)


def parts_of(count: int, shares: Mapping[H, float]) -> dict[H, int]:
    """Divide places by shares, so that everybody has one where there are as many places as owners.

    Those whose share of what is left is below one place have one; the others divide the rest. So
    the parts of all are never more than there is, as one and one more for each would be.

    >>> parts_of(8, {"a": 1, "b": 3}), parts_of(4, {"a": 1, "b": 1, "c": 5})
    ({'a': 2, 'b': 6}, {'a': 1, 'b': 1, 'c': 2})
    """
    parts: dict[H, int] = {}
    left, open_ = count, dict(shares)
    while open_:
        whole = sum(open_.values())
        small = [one for one, at in open_.items() if left * at < whole]
        if not small:
            return parts | {one: int(left * at / whole) for one, at in open_.items()}
        for one in small:
            parts[one] = 1
            del open_[one]
        left -= len(small)
    return parts


class FairParts(Generic[H]):
    """Tell which owners may have one of a few places more, each of them held for unknown long.

    An owner's part is its share of all places, among those who wanted any of late. Below its part
    it may have any free one. Beyond, it may have what the others leave: of their own parts they are
    kept as many as they wanted at once in the last ``seconds``. So who has work all the time never
    waits for more than what others had begun before it came, however long theirs takes; and where
    nobody else wants any one owner has all.
    """

    def __init__(self, now: Callable[[], float], seconds: float = DEMAND_SECONDS) -> None:
        self._now, self.seconds = now, seconds
        self._demands: dict[H, _Demand] = {}

    def able(
        self,
        count: int,
        held: Mapping[H, int],
        waiting: Mapping[H, int],
        share: Callable[[H], float],
    ) -> list[H]:
        """Return those of whom something waits and who may have one of ``count`` places now.

        >>> parts = FairParts[str](lambda: 0.0)
        >>> parts.able(4, {"a": 2}, {"a": 9, "b": 1}, lambda one: 1)
        ['a', 'b']
        >>> parts.able(4, {"a": 3}, {"a": 9, "b": 1}, lambda one: 1)
        ['b']
        >>> parts.able(4, {"a": 3, "b": 1}, {"a": 9}, lambda one: 1)
        []
        """
        self._note(held, waiting)
        free = count - sum(held.values())
        if free <= 0:
            return []
        if len(self._demands) < 2:
            return [one for one, many in waiting.items() if many > 0]
        parts = parts_of(count, {one: share(one) for one in self._demands})
        kept = {
            one: max(0, min(parts[one], max(at.before, at.latest)) - held.get(one, 0))
            for one, at in self._demands.items()
        }
        all_kept = sum(kept.values())
        return [
            one
            for one, many in waiting.items()
            if many > 0 and (held.get(one, 0) < parts[one] or free > all_kept - kept[one])
        ]

    def _note(self, held: Mapping[H, int], waiting: Mapping[H, int]) -> None:
        now = self._now()
        wanted = {one: held.get(one, 0) + waiting.get(one, 0) for one in {*held, *waiting}}
        for one, many in wanted.items():
            if many > 0:
                self._demands.setdefault(one, _Demand(now))
        for one, demand in list(self._demands.items()):
            demand.note(wanted.get(one, 0), now, self.seconds)
            if not demand.latest and not demand.before:
                del self._demands[one]
