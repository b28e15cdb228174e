"""Measure a filter of known URLs beside a SET of fingerprints, as scrapy-redis has.

A SET answers and adds by one command a URL; ours looks, and adds what it does not know. Both are
asked in batches of 1,000, and make their fingerprints of canonical URLs: 16 bytes of BLAKE2b, and
the 40 hexadecimal digits of SHA-1.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha1
from typing import Final

import redis

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.house import QUEUE_KEY
from crawlfleet.config.documents.biz import Biz, Generation
from crawlfleet.config.documents.policies import SeedPolicy
from crawlfleet.crawling.frontier.fingerprint import KEY_BYTES, seed_key
from crawlfleet.crawling.frontier.models import Segment
from crawlfleet.crawling.frontier.redis import RedisSeedFilter
from crawlfleet.kernel.redis.connection import RedisConnection

BATCH: Final = 1_000
ERROR_RATE: Final = 0.001
#: URLs whose keys are made from how they were written, too.
_WRITTEN: Final = 20_000

_DAY: Final = timedelta(days=1)


def run(bench: Bench) -> Found:
    """Fill both with as many URLs, then ask for known ones and for strange ones."""
    bench.addresses.clear()
    count = bench.scale.stored_requests
    ours, ours_bytes = _ours(bench.addresses.redis, count)
    bench.tick("our filter")
    theirs, theirs_bytes = _theirs(bench.addresses.redis, count)
    bench.tick("a set of fingerprints")
    bench.addresses.clear()
    checks = 2 / (1 / ours["known, checks/s"] + 1 / ours["strange, checks/s"])
    return Found(
        figures={"dedupe_checks_per_s": checks, "dedupe_bytes_per_url": ours_bytes},
        details={
            "dedupe": {
                "urls": count,
                "ours": {**ours, "bytes a url": ours_bytes, "keys made/s": _keys_a_second()},
                "set of sha1, as scrapy-redis": {**theirs, "bytes a url": theirs_bytes},
                "memory, theirs / ours": theirs_bytes / ours_bytes,
            }
        },
    )


def _ours(address: str, count: int) -> tuple[dict[str, float], float]:
    now = datetime.now(UTC)
    generation = Generation(starts_at=now, nodes=("main",), databases=("docs",))
    biz = Biz(generations=(generation,), seeds=SeedPolicy(expected=count, error_rate=ERROR_RATE))
    today, other = Segment("today", now, now + _DAY), Segment("other", now, now + _DAY)

    def key(url: bytes) -> bytes:
        return blake2b(url, digest_size=KEY_BYTES).digest()

    with redis.Redis.from_url(address) as watcher, RedisConnection(address) as connection:
        seeds = RedisSeedFilter(connection)
        seeds.add(QUEUE_KEY, biz, other, [key(b"x")])
        seeds.drop(QUEUE_KEY, other.name)

        def look(urls: Sequence[bytes]) -> int:
            return sum(seeds.seen(QUEUE_KEY, biz, today, list(map(key, urls))))

        def learn(urls: Sequence[bytes]) -> int:
            keys = list(map(key, urls))
            seen = seeds.seen(QUEUE_KEY, biz, today, keys)
            pairs = zip(keys, seen, strict=True)
            seeds.add(QUEUE_KEY, biz, today, [one for one, known in pairs if not known])
            return sum(seen)

        before = _used(watcher)
        figures = {"new, checked and added/s": _rate(learn, _urls("page", count))[0]}
        taken = (_used(watcher) - before) / count
        known, found = _rate(look, _urls("page", count))
        strange, wrong = _rate(look, _urls("strange", count))
    if found != count:
        raise BenchError(f"the filter knows {found} of {count}")
    if wrong > 2 * ERROR_RATE * count + 5:
        raise BenchError(f"the filter takes {wrong} of {count} strange URLs for known")
    figures |= {
        "known, checks/s": known,
        "strange, checks/s": strange,
        "false duplicates, of a million": wrong / count * 1e6,
    }
    return figures, taken


def _theirs(address: str, count: int) -> tuple[dict[str, float], float]:
    """SADD of each fingerprint, in a pipeline; the answer says whether it is new."""
    with redis.Redis.from_url(address) as watcher, redis.Redis.from_url(address) as client:

        def learn(urls: Sequence[bytes]) -> int:
            pipe = client.pipeline(transaction=False)
            for url in urls:
                pipe.sadd("docs:dupefilter", sha1(url, usedforsecurity=False).hexdigest())
            return sum(added == 0 for added in pipe.execute())

        before = _used(watcher)
        new, _ = _rate(learn, _urls("page", count))
        taken = (_used(watcher) - before) / count
        known, found = _rate(learn, _urls("page", count))
    if found != count:
        raise BenchError(f"the set knows {found} of {count}")
    return {"new, checked and added/s": new, "known, checks/s": known}, taken


def _urls(word: str, count: int) -> list[bytes]:
    return [b"https://example.org/library/%s?id=%d" % (word.encode(), n) for n in range(count)]


def _rate(ask: Callable[[Sequence[bytes]], int], urls: Sequence[bytes]) -> tuple[float, int]:
    """URLs a second, and the sum of the answers."""
    started = time.perf_counter()
    answers = sum(ask(urls[start : start + BATCH]) for start in range(0, len(urls), BATCH))
    return len(urls) / (time.perf_counter() - started), answers


def _keys_a_second() -> float:
    """Measure how fast keys are made of URLs as they stand on pages, canonical form and all."""
    urls = [
        f"https://Example.org/a/../library/page?id={n}&utm_source=x#top" for n in range(_WRITTEN)
    ]
    started = time.perf_counter()
    for url in urls:
        seed_key(url)
    return _WRITTEN / (time.perf_counter() - started)


def _used(watcher: "redis.Redis") -> int:
    """Measure the memory of Redis's data, key by key, as buffers of clients come and go."""
    return sum(int(watcher.memory_usage(key, samples=0) or 0) for key in watcher.scan_iter())
