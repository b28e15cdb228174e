"""What a lane's queue is, in plain words of Python: the model that both twins are held against.

Times are whole seconds. Nothing here is quick, locked or spelled in any way; what decides between
equal times is the order of a sorted set's members, and that is the only thing borrowed.
"""

from dataclasses import dataclass, field

import msgspec

from crawlfleet.model.request import Entry
from crawlfleet.policy.tokens import worker_of


def spelled(entry: Entry) -> bytes:
    return msgspec.json.encode(entry)


def member(token: str, entry: Entry) -> bytes:
    return token.encode() + b":" + spelled(entry)


@dataclass
class Filling:
    """The latest filling of the queue."""

    nonce: str
    reached: int = 0
    complete: bool = False


@dataclass
class Model:
    """``queued`` is in the order of serving."""

    queued: list[Entry] = field(default_factory=list)
    leases: dict[tuple[str, Entry], int] = field(default_factory=dict)
    delayed: dict[Entry, int] = field(default_factory=dict)
    filling: Filling | None = None

    # ---- the queue

    def enqueue(self, entries):
        self.queued = [*self.queued, *entries]
        return len(self.queued)

    def requeue(self, entries):
        self.queued = [*entries, *self.queued]

    def lease(self, token, count, now, until):
        handed = []

        def hand_out(entry):
            if (token, entry) not in self.leases:
                handed.append(entry)
            self.leases[token, entry] = until

        due = [one for one in self.delayed if self.delayed[one] <= now]
        due.sort(key=lambda one: (self.delayed[one], spelled(one)))
        for entry in due[:count]:
            del self.delayed[entry]
            hand_out(entry)
        ended = [held for held in self.leases if self.leases[held] <= now]
        ended.sort(key=lambda held: (self.leases[held], member(*held)))
        for held in ended[: count - len(handed)]:
            del self.leases[held]
        for _, entry in ended[: count - len(handed)]:
            hand_out(entry)
        while self.queued and len(handed) < count:
            hand_out(self.queued.pop(0))
        return handed

    def renew(self, token, entries, until):
        for entry in entries:
            if (token, entry) in self.leases:
                self.leases[token, entry] = until
        return [entry for entry in entries if (token, entry) not in self.leases]

    def let_go(self, token, entries):
        """Those of the entries that the token held, each once, in their order."""
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

    def delay(self, token, entries):
        # Of an entry that is named twice the first time counts.
        due_at = dict(reversed(entries))
        held = self.let_go(token, [entry for entry, _ in entries])
        self.delayed.update({entry: due_at[entry] for entry in held})
        return len(held)

    def depth(self):
        oldest = self.queued[0].ts if self.queued else None
        return (len(self.queued), len(self.leases), len(self.delayed), oldest)

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
        self.queued, self.delayed = [], {}
        self.filling = Filling(nonce)

    def under_way(self, nonce):
        return (
            self.filling is not None and self.filling.nonce == nonce and not self.filling.complete
        )

    def fill(self, nonce, entries, reached):
        if not self.under_way(nonce):
            return False
        self.queued = [*self.queued, *entries]
        self.filling.reached = reached
        return True

    def fill_delayed(self, nonce, entries):
        if not self.under_way(nonce):
            return False
        for entry, due in entries:
            self.delayed.setdefault(entry, due)
        return True

    def filled(self, nonce):
        if self.filling is None or self.filling.nonce != nonce:
            return False
        self.filling.complete = True
        return True

    def mark(self):
        if self.filling is None:
            return (None, None)
        return (self.filling.nonce, None if self.filling.complete else self.filling.reached)

    def somewhere(self):
        """Every entry that has a place."""
        return {*self.queued, *self.delayed, *(entry for _, entry in self.leases)}
