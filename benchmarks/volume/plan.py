"""The plan of a run: how many requests and processes, on what they run, what it may cost."""

from typing import Final

import msgspec

from benchmarks.bench import Addresses
from benchmarks.house import BIZ, TENANT, tree_of
from crawlfleet.config.documents.biz import FleetLimits, IntakeLimits, Tree

#: Requests of one submission.
BATCH: Final = 1_000
#: So many pages of a host follow one another, as the links of a page do.
PAGES_IN_A_ROW: Final = 10

#: What a request and its record take of the disk at the most, indexes and what MongoDB has not yet
#: given back included: 830 bytes were measured with 500,000, 497 with 10,000,000; this is twice as
#: much as the first.
DISK_BYTES_EACH: Final = 1_600
#: What must stay free beside that: the machine is not the run's alone.
DISK_SPARE_BYTES: Final = 2_000_000_000
#: What Redis, the workers and MongoDB beside its cache take of memory, a request and in all.
MEMORY_BYTES_EACH: Final = 120
MEMORY_BYTES: Final = 1_500_000_000
#: A run that is slower than this is given up: every phase together, after what starting takes.
SLOWEST_PER_SECOND: Final = 500
START_SECONDS: Final = 300


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run.

    ``cache_gb`` is WiredTiger's cache: 2 is what MongoDB takes by itself on a machine of 5 GB.
    ``expire`` has MongoDB's TTL remove everything in the end, ``lose_redis`` empties Redis while
    the backlog is full, and has recovery fill it again.
    """

    requests: int
    submitters: int = 2
    workers: int = 2
    hosts: int = 1_000
    shards: int = 1
    cache_gb: float = 2.0
    expire: bool = True
    lose_redis: bool = False
    lookups: int = 2_000
    samples: int = 20_000

    @property
    def disk_bytes(self) -> int:
        """Get the bytes of disk that have to be free before it starts."""
        return self.requests * DISK_BYTES_EACH + DISK_SPARE_BYTES

    @property
    def memory_bytes(self) -> int:
        """Get the bytes of memory that it takes."""
        return int(self.cache_gb * 1e9) + MEMORY_BYTES + self.requests * MEMORY_BYTES_EACH

    @property
    def seconds(self) -> float:
        """After so long it is given up."""
        return START_SECONDS + self.requests / SLOWEST_PER_SECOND

    @property
    def look_seconds(self) -> float:
        """Get the time between two samples of the servers: some hundred in a run of any length."""
        return min(10.0, max(0.25, self.requests / 1_000_000))

    def part(self, number: int) -> range:
        """The requests that a submitter submits, of all of them.

        >>> [list(Plan(requests=5, submitters=2).part(number)) for number in (0, 1)]
        [[0, 1], [2, 3, 4]]
        """
        first, last = (self.requests * part // self.submitters for part in (number, number + 1))
        return range(first, last)

    def samples_of_batch(self, size: int) -> int:
        """Get how many ids of a batch are kept, to be looked for."""
        return max(1, min(size, self.samples * size // self.requests))

    def url(self, number: int) -> str:
        """The address of a page; each is another one.

        >>> Plan(requests=1, hosts=2).url(15)
        'https://site1.example/pages/15.html'
        """
        host = number // PAGES_IN_A_ROW % self.hosts
        return f"https://site{host}.example/pages/{number}.html"

    def tree(self) -> Tree:
        """The configuration: as it is by default, but that the biz takes so many at once."""
        base = tree_of(shards=self.shards)
        biz = msgspec.structs.replace(
            base.bizs[TENANT][BIZ], intake=IntakeLimits(max_backlog=2 * self.requests)
        )
        stage = msgspec.structs.replace(
            base.stage, fleet=FleetLimits(max_consumers=max(1, self.workers))
        )
        return msgspec.structs.replace(base, stage=stage, bizs={TENANT: {BIZ: biz}})


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a process of the run."""

    plan: Plan
    redis: str
    mongo: str

    @property
    def addresses(self) -> Addresses:
        """Get the addresses of the servers."""
        return Addresses(redis=self.redis, mongo=self.mongo)
