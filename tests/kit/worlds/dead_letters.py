"""Dead letters of a world in memory, with the arguments that every call about them repeats."""

from datetime import timedelta

from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.ledger import MemoryJournal
from tests.kit.dead_letters import DeadLetterFilter, DeadLetters
from tests.kit.requests import Dead, Submission
from tests.kit.worlds.memory import DOCS, World

ALL = DeadLetterFilter()
MINUTE = timedelta(minutes=1)


class Office:
    """A world, and the dead letters in it with the arguments that every call repeats."""

    def __init__(self, world: World, scan: int = 10_000, **changes: object) -> None:
        self.world = world
        self.journal = MemoryJournal()
        ports = {
            "dead_letters": MemoryDeadLetters(world.store.state, scan),
            "store": world.store,
            "queue": world.queue,
            "workers": world.workers,
            "waker": world,
            "rules": world.rules,
            "journal": self.journal,
        }
        self.ports = DeadLetters(**(ports | changes))

    def place(self):
        return self.world.tree, "default", "docs"

    def list(self, dead_letters=ALL, *, cursor=None, limit=100):
        return self.ports.list_dead_letters(
            *self.place(), dead_letters, cursor=cursor, limit=limit, now=self.world.now
        )

    def replay(self, dead_letters=ALL, *, current_rule=False, limit=100, cursor=None):
        return self.ports.replay(
            *self.place(),
            dead_letters,
            current_rule=current_rule,
            by="api:default",
            limit=limit,
            now=self.world.now,
            cursor=cursor,
        )

    def purge(self, dead_letters=ALL, *, limit=100, cursor=None):
        return self.ports.purge(
            *self.place(),
            dead_letters,
            by="api:default",
            limit=limit,
            now=self.world.now,
            cursor=cursor,
        )

    def replay_one(self, text_id, *, current_rule=False):
        return self.ports.replay_one(
            *self.place(),
            str(text_id),
            current_rule=current_rule,
            by="api:default",
            now=self.world.now,
        )

    def purge_one(self, text_id):
        return self.ports.purge_one(
            *self.place(), str(text_id), by="api:default", now=self.world.now
        )

    def submit(self, number, host="a.example"):
        """Submit and queue this many requests; return their ids."""
        pages = [Submission(url=f"https://{host}/{n}", rule="page") for n in range(number)]
        world = self.world
        receipts = world.submission().submit(world.tree, "default", "docs", pages, world.now)
        return [receipt.id for receipt in receipts]

    def take(self, count=1_000):
        """Lease and claim what is served next."""
        world = self.world
        until = world.now + MINUTE
        entries = world.queue.lease(DOCS, f"w.{world.now}", count, world.now, until)
        return world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "token")

    def kill(self, number, **options):
        """Create this many dead letters; return their ids."""
        ids = self.submit(number, **options)
        claims = self.take()
        assert [claim.request.id for claim in claims] == ids
        dead = [(claim, Dead("PageGone: answered 404", "PageGone")) for claim in claims]
        self.world.store.settle(DOCS, self.world.biz, dead, "w", self.world.now)
        self.world.queue.finish(
            DOCS, f"w.{self.world.now}", [c.entry for c in claims], 0, self.world.now
        )
        self.world.now += MINUTE  # nobody lives any more
        self.world.woken.clear()
        return ids

    def get(self, request_id):
        return self.world.store.get(DOCS, self.world.biz, request_id)
