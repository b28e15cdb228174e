"""The model of a queue in plain Python, which both implementations are held against.

Times are whole seconds, but for those that priorities age by. Nothing here is quick, locked or
spelled in any way; what decides between equal times is the order of a sorted set's members, and
that, and how urgent an entry is, are the only things borrowed.
"""

from dataclasses import dataclass, field
from math import log2

import msgspec

from tests.fakes.ageing import next_level
from tests.kit.queue import READY_EACH, worker_of
from tests.kit.requests import Entry


def spelled(entry: Entry) -> bytes:
    return msgspec.json.encode(entry)


def member(token: str, entry: Entry) -> bytes:
    return token.encode() + b":" + spelled(entry)


def first_each(entries):
    """The first one of each priority."""
    return {entry.priority: entry for entry in reversed(entries)}


@dataclass
class Filling:
    """The latest filling of the queue."""

    nonce: str
    reached: int = 0
    complete: bool = False


@dataclass
class Model:
    """``queued`` is in the order of serving of each priority, and so is what is parked for a host.

    ``ticks`` are all that ever were, each with the oldest entry's ``ts`` then, in epoch ms.
    """

    queued: list[Entry] = field(default_factory=list)
    leases: dict[tuple[str, Entry], int] = field(default_factory=dict)
    delayed: dict[Entry, int] = field(default_factory=dict)
    deferred_for: dict[str, list[Entry]] = field(default_factory=dict)
    looked_at: dict[str, int] = field(default_factory=dict)
    rebuild: Filling | None = None
    ticks: list[tuple[float, float]] = field(default_factory=list)

    # ---- the queue

    def enqueue(self, entries):
        self.queued = [*self.queued, *entries]
        return len(self.queued)

    def requeue(self, entries):
        self.queued = [*entries, *self.queued]

    def heads(self):
        return first_each(self.queued)

    def settle(self, clock_ms, ageing):
        """Every tick that has come, one after the other, from the oldest entry's time on."""
        oldest = min(entry.ts for entry in self.heads().values())
        last = max([oldest, *(time for time, _ in self.ticks[-1:])])
        tick = (last // ageing.interval_ms + 1) * ageing.interval_ms
        while tick <= clock_ms:
            self.ticks.append((tick, oldest))
            tick += ageing.interval_ms

    def next_entry(self, ageing):
        heads = self.heads()
        each = [heads[level].ts if level in heads else None for level in range(11)]
        times, oldests = ([one[n] for one in self.ticks] for n in (0, 1))
        level = next_level(each, times, oldests, ageing.beta, log2(ageing.clamp))
        self.queued.remove(heads[level])
        return heads[level]

    def lease(self, token, count, now, until, clock_ms, ageing):
        handed = []

        def dispatch(entry):
            if (token, entry) not in self.leases:
                handed.append(entry)
            self.leases[token, entry] = until

        due = [one for one in self.delayed if self.delayed[one] <= now]
        due.sort(key=lambda one: (self.delayed[one], spelled(one)))
        due = due[:count]
        ended = [held for held in self.leases if self.leases[held] <= now]
        ended.sort(key=lambda held: (self.leases[held], member(*held)))
        ended = ended[: count - len(due)]
        self.delayed = {one: at for one, at in self.delayed.items() if one not in due}
        self.leases = {held: at for held, at in self.leases.items() if held not in ended}
        self.queued = [*due, *(entry for _, entry in ended), *self.queued]
        if self.queued:
            self.settle(clock_ms, ageing)
        while self.queued and len(handed) < count:
            dispatch(self.next_entry(ageing))
        return handed

    def renew(self, token, entries, until):
        for entry in entries:
            if (token, entry) in self.leases:
                self.leases[token, entry] = until
        return [entry for entry in entries if (token, entry) not in self.leases]

    def let_go(self, token, entries):
        """Remove the token's leases of the entries and return these, each once, in order."""
        held = [one for one in dict.fromkeys(entries) if (token, one) in self.leases]
        for entry in held:
            del self.leases[token, entry]
        return held

    def finish(self, token, entries):
        return len(self.let_go(token, entries))

    def give_back(self, token, entries):
        last_first = self.let_go(token, entries[::-1])
        self.queued = [*reversed(last_first), *self.queued]
        return len(last_first)

    def return_unconfirmed(self, token, until):
        mine = [one for (of, one), ends in self.leases.items() if (of, ends) == (token, until)]
        return self.give_back(token, sorted(mine, key=spelled))

    def delay(self, token, entries):
        # Of an entry that is named twice the first time counts.
        due_at = dict(reversed(entries))
        held = self.let_go(token, [entry for entry, _ in entries])
        self.delayed.update({entry: due_at[entry] for entry in held})
        return len(held)

    def depth(self):
        deferred = sum(map(len, self.deferred_for.values()))
        return (len(self.queued) + deferred, deferred, len(self.leases), len(self.delayed))

    def oldest(self):
        """Return the least ``ts`` of the heads and of all deferred entries, or None."""
        ages = [one.ts for entries in self.deferred_for.values() for one in entries]
        return min([*ages, *(one.ts for one in self.heads().values())], default=None)

    def load(self, now):
        due = [host for host, at in self.looked_at.items() if at <= now]
        ended = sum(until <= now for until in self.leases.values())
        ready = len(self.queued) + ended + sum(at <= now for at in self.delayed.values())
        ready += sum(min(READY_EACH, len(self.deferred_for[host])) for host in due)
        times = [at for at in (*self.delayed.values(), *self.looked_at.values()) if at > now]
        return (ready, len(self.leases) - ended, min(times, default=None))

    # ---- hosts

    def defer(self, token, hosts):
        moved = 0
        for host, at, entries in hosts:
            if held := self.let_go(token, entries):
                self.deferred_for.setdefault(host, []).extend(held)
                self.looked_at[host] = at
                moved += len(held)
        return moved

    def deferred(self, now, limit):
        due = [host for host, at in self.looked_at.items() if at <= now]
        due.sort(key=lambda host: (self.looked_at[host], host.encode()))
        return [(host, len(self.deferred_for[host]), self.looked_at[host]) for host in due[:limit]]

    def lease_deferred(self, token, hosts, until, clock_ms, ageing):
        handed = {}
        for host, count, at in hosts:
            found, new = self.deferred_for.get(host, []), []
            oldest = min((one.ts for one in first_each(found).values()), default=clock_ms)
            first = oldest // ageing.interval_ms + 1
            times = [
                n * ageing.interval_ms for n in range(first, clock_ms // ageing.interval_ms + 1)
            ]
            while found and len(new) < count:
                heads = first_each(found)
                each = [heads[level].ts if level in heads else None for level in range(11)]
                cap, oldests = log2(ageing.clamp), [oldest] * len(times)
                entry = heads[next_level(each, times, oldests, ageing.beta, cap)]
                found.remove(entry)
                if (token, entry) not in self.leases:
                    new.append(entry)
                self.leases[token, entry] = until
            if found:
                self.looked_at[host] = at
            else:
                self.deferred_for.pop(host, None)
                self.looked_at.pop(host, None)
            handed[host] = [*handed.get(host, []), *new]
        return handed

    # ---- the book

    def held(self, worker=None):
        return {held for held in self.leases if worker in {None, worker_of(held[0])}}

    def relist(self, token, entries, until):
        for entry in entries:
            self.leases[token, entry] = max(until, self.leases.get((token, entry), until))

    # ---- the filling

    def lose(self):
        self.__init__()

    def clear(self, nonce):
        self.queued, self.delayed, self.ticks = [], {}, []
        self.deferred_for, self.looked_at = {}, {}
        self.rebuild = Filling(nonce)

    def under_way(self, nonce):
        return (
            self.rebuild is not None and self.rebuild.nonce == nonce and not self.rebuild.complete
        )

    def fill(self, nonce, entries, reached):
        if not self.under_way(nonce):
            return False
        self.queued = [*self.queued, *entries]
        self.rebuild.reached = reached
        return True

    def fill_delayed(self, nonce, entries):
        if not self.under_way(nonce):
            return False
        for entry, due in entries:
            self.delayed.setdefault(entry, due)
        return True

    def filled(self, nonce):
        if self.rebuild is None or self.rebuild.nonce != nonce:
            return False
        self.rebuild.complete = True
        return True

    def mark(self):
        if self.rebuild is None:
            return (None, None)
        return (self.rebuild.nonce, None if self.rebuild.complete else self.rebuild.reached)

    def somewhere(self):
        """Every entry that has a place."""
        deferred = {entry for entries in self.deferred_for.values() for entry in entries}
        return {*self.queued, *self.delayed, *(entry for _, entry in self.leases)} | deferred
