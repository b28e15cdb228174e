"""Seeds of two segments, and a queue key of a tenant over a seed store."""

from datetime import datetime, timedelta

from tests.contract.store_cases import NOW, a_biz
from tests.kit.frontier import MongoSeeds, Seed, SeedSpec, SeedState, SeedTotals, Segment, seed_key
from tests.kit.kernel import QueueKey

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
TODAY = Segment("2026-03-01", NOW - HOUR, NOW + 23 * HOUR)
TOMORROW = Segment("2026-03-02", NOW + 23 * HOUR, NOW + 47 * HOUR)
READY, HANDED, FINISHED, FAILED = SeedState


def a_seed(number: int, segment: Segment = TODAY, **changes: object) -> Seed:
    url = f"https://site.example/{number}"
    facts: dict = {
        "key": seed_key(url).hex(),
        "segment": segment.name,
        "spec": SeedSpec(url=url, rule="detail", meta={"n": number}, job="june", depth=2),
        "state": READY,
        "offered_at": NOW,
        "due_at": max(NOW, segment.starts_at),
        "ends_at": segment.ends_at,
    }
    return Seed(**{**facts, **changes})


def seeds_of(*numbers: int, segment: Segment = TODAY) -> list[Seed]:
    return [a_seed(number, segment) for number in numbers]


class Bed:
    """A queue key of a tenant over a seed store, with the arguments that every call repeats."""

    def __init__(self, store: MongoSeeds, queue_key: QueueKey, **changes: object) -> None:
        self.store, self.queue_key, self.biz = store, queue_key, a_biz(**changes)

    def insert(self, *seeds: Seed) -> set[str]:
        return self.store.insert(self.queue_key, self.biz, seeds)

    def known(self, *seeds: Seed, segment: Segment = TODAY) -> set[str]:
        return self.store.known(self.queue_key, self.biz, segment, [seed.key for seed in seeds])

    def ready(self, now: datetime = NOW, limit: int = 100) -> int:
        return self.store.ready(self.queue_key, self.biz, now, limit)

    def dispatch(self, *ids: int | str, now: datetime = NOW) -> list[Seed]:
        return self.store.dispatch(self.queue_key, self.biz, ids, now, now + HOUR)

    def overdue(self, now: datetime, limit: int = 100) -> list[Seed]:
        return self.store.overdue(self.queue_key, self.biz, now, limit)

    def ended(self, *seeds: Seed, why: str = "", now: datetime = NOW) -> int:
        ends = {seed.id: (seed.request, why) for seed in seeds}
        return self.store.ended(self.queue_key, self.biz, ends, now)

    def release(self, *seeds: Seed, why: str = "again", now: datetime = NOW) -> int:
        return self.store.release(self.queue_key, self.biz, [seed.id for seed in seeds], why, now)

    def forget(self, *seeds: Seed) -> int:
        return self.store.forget(self.queue_key, self.biz, [seed.id for seed in seeds])

    def find(self, segment=None, state=None, after=None, limit=1000) -> list[Seed]:
        return self.store.find(
            self.queue_key, self.biz, segment=segment, state=state, after=after, limit=limit
        )

    def of_keys(self, *seeds: Seed) -> list[Seed]:
        return self.store.of_keys(self.queue_key, self.biz, [seed.key for seed in seeds])

    def totals(self, now: datetime = NOW) -> list[SeedTotals]:
        return self.store.totals(self.queue_key, self.biz, now)
