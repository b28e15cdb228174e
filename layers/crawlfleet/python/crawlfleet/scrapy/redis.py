"""Keep a Scrapy crawl in Redis, shared by its processes without loss (SPEC.md E1).

A request is queued or leased until the process that leased it finishes it. Leases end by the
server's clock; the requests of ended leases are served first.

==============================================  ======  ===  =======================================
key                                             type    TTL  holds
==============================================  ======  ===  =======================================
``cf:{scrapy:tenant:crawl}:queue``              ZSET    no   id by minus its priority
``cf:{scrapy:tenant:crawl}:leases``             ZSET    no   ``process:id`` by the lease's end, ms
``cf:{scrapy:tenant:crawl}:requests``           HASH    no   id -> ``score``, a space, the request
``cf:{scrapy:tenant:crawl}:seen``               SET     no   fingerprints, 16 bytes each
``cf:{scrapy:tenant:crawl}:starts``             SET     no   marks of the start requests of this run
``cf:{scrapy:tenant:crawl}:dead``               LIST    no   reason and request on two lines, newest
                                                             first, at most 10,000
``cf:{scrapy:tenant:crawl}:deaths``             HASH   no   id -> how many processes have ended
                                                             while they had it
``cf:{scrapy:tenant:crawl}:processes``          ZSET    no   process by when it is taken to be gone
``cf:{scrapy:tenant:crawl}:serial``             STRING  no   ids given so far
``cf:{scrapy:tenant:crawl}:fingerprints``       STRING  no   how fingerprints are made, see below
``cf:{scrapy:tenant:crawl}:ended``              STRING  no   1: to be forgotten when nobody is left
``cf:{scrapy:tenant:crawl}:absorbed``           ZSET    yes  batch of start URLs by when it came in
``cf:{scrapy:tenant:crawl}:counts``             HASH    yes  submitted, done, dead, cancelled in
                                                             all runs; a month after its end
``cf:{scrapy:tenant:crawl}:beats``              HASH    yes  journal -> its last number, which tells
                                                             that nothing of it was lost, or
                                                             ``forgotten``; and the second of it
``cf:{<source>}:taking:tenant:crawl``           LIST    no   a batch's name, then its start URLs
``cf:{scrapy:tenant:}:crawls``                  HASH    no   crawl -> the biz that it belongs to
``cf:{scrapy:tenant:}:bizs``                    HASH    no   biz -> 1 if there is one, else 0, and
                                                             the name of its queue
==============================================  ======  ===  =======================================

An id is 15 digits; of equal priority the least is served first. A request is ``r`` and JSON, or
``s`` and what somebody has pushed to a spider's ``redis_key``. An id that is neither queued nor
leased has no request. Times are epoch ms of the server. ``fingerprints`` is there where an import
has brought fingerprints of another make; without it they are those of the running Scrapy. ``ended``
is left by whoever came to the end of the crawl while others still took part. ``bizs`` is told by
the scheduler, once a minute; bizs that are gone, or were asked for before it has told, stay in it.

All keys of a crawl are in one slot. The tag has two colons and a queue's one, so neither can be
taken for the other. The start URLs that others push are under a key of theirs: on a cluster a batch
of them goes over in steps, by way of ``taking``, which is in the slot of that key.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final
from uuid import uuid4

import msgspec

from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.requests.queue.redis.crawls import CrawlKeys, crawl_keys, crawls_key

#: The hash tag of a key.
_TAG: Final = re.compile(r"[^{]*\{([^}]+)\}", re.DOTALL)


def taking_key(source: str, tenant: str, crawl: str) -> str:
    """Return the key of the batch in transit from a source of start URLs to the crawl.

    It is in the source's slot, unless the source's name has a ``}`` and no hash tag.

    >>> taking_key("shop:start_urls", "acme", "shop")
    'cf:{shop:start_urls}:taking:acme:shop'
    >>> taking_key("{shop}:start_urls", "acme", "shop")
    'cf:{shop}:taking:acme:shop'
    """
    tagged = _TAG.match(source)
    return f"cf:{{{tagged[1] if tagged else source}}}:taking:{tenant}:{crawl}"


#: Requests of one call: a script holds up all other clients of the server.
_PUSHED: Final = 500
#: Dead requests that are kept.
DEAD_KEPT: Final = 10_000
#: Default attempts at a request whose processes end.
ATTEMPTS: Final = 5
_LONGEST_REASON: Final = 500
_LONGEST_URL: Final = 2_000

#: What an entry begins with: a request, or a start URL.
_KIND: Final = (b"r", b"s")

_JOURNALS: Final = "scrapy/journal_prelude"
_ENTER: Final = Script("scrapy/crawl_enter", _JOURNALS)
_PUSH: Final = Script("scrapy/crawl_push")
_ABSORB: Final = Script("scrapy/crawl_absorb")
_TAKE_STARTS: Final = Script("scrapy/crawl_take_starts")
_ENTER_STARTS: Final = Script("scrapy/crawl_enter_starts")
_TAKEN: Final = Script("scrapy/crawl_taken")
_LEASE: Final = Script("scrapy/crawl_lease")
_RENEW: Final = Script("scrapy/crawl_renew")
_FINISH: Final = Script("scrapy/crawl_finish")
_GIVE_BACK: Final = Script("scrapy/crawl_give_back")
_DEAD: Final = Script("scrapy/crawl_dead")
_LOAD: Final = Script("scrapy/crawl_load")
_LEAVE: Final = Script("scrapy/crawl_leave", _JOURNALS)
_BEAT: Final = Script("scrapy/journal_beat", _JOURNALS)
_GONE: Final = Script("scrapy/journal_gone")


class Order(StrEnum):
    """The order of requests of the same priority."""

    OLDEST = "oldest"
    NEWEST = "newest"


class Marks(StrEnum):
    """The set in which a request is marked: fingerprints, start requests of this run, none."""

    SEEN = "seen"
    STARTS = "starts"
    NONE = ""


class Forget(StrEnum):
    """The policy by which the last process that leaves removes the crawl's keys."""

    NEVER = "never"
    FINISHED = "finished"
    ALWAYS = "always"


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be queued, unless its ``mark`` is in the set ``marks``, to which it is added.

    With ``start`` it is a start URL as somebody pushed it, which the spider makes a request of.
    """

    content: bytes
    marks: Marks = Marks.NONE
    mark: bytes = b""
    priority: int = 0
    start: bool = False


class Taken(msgspec.Struct, frozen=True):
    """A leased request: its id, whether it is a start URL as pushed, and its content.

    ``deaths`` is how many processes have ended, or lost their lease, while they had it.
    """

    id: str
    start: bool
    content: bytes
    deaths: int = 0


def url_in(taken: Taken) -> str:
    """Find the URL of a leased request, for people; its beginning where it is long.

    >>> url_in(Taken("1", False, b'{"url":"https://a.example/","priority":1}'))
    'https://a.example/'
    >>> url_in(Taken("1", True, b"https://a.example/"))
    'https://a.example/'
    """
    try:
        url = msgspec.json.decode(taken.content, type=_Url).url
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        url = taken.content[:_LONGEST_URL].decode("utf-8", "replace")
    return url[:_LONGEST_URL]


class _Url(msgspec.Struct):
    url: str


class CrawlLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Counts what is left of a crawl, and the other processes that take part."""

    queued: int
    leased: int
    others: int


class Entered(CrawlLoad, frozen=True, kw_only=True):
    """The crawl that a process enters; ``fingerprints`` names its fingerprinter, or is empty."""

    flushed: bool
    fingerprints: str


class RedisCrawl:
    """A crawl, for one of its processes: ``process`` is a unique id without a colon.

    A lease that is not renewed lasts ``lease_ms``. There are ``attempts`` at a request whose
    processes end, of which the last one is alone; ``order`` is that among equal priorities.
    ``known_by`` is the crawl whose fingerprints it shares, its own by default.

    Raises ConfigError (on a cluster, the fingerprints of another crawl are in another slot).
    """

    def __init__(
        self,
        connection: RedisConnection,
        tenant: str,
        crawl: str,
        process: str,
        *,
        lease_ms: int = 60_000,
        attempts: int = ATTEMPTS,
        order: Order = Order.OLDEST,
        known_by: str = "",
    ) -> None:
        self._redis, self._process = connection, process
        self._lease_ms, self._attempts, self._order = lease_ms, attempts, order
        self._name = tenant, crawl
        self.keys: CrawlKeys = crawl_keys(tenant, crawl)
        if known_by and known_by != crawl:
            seen = crawl_keys(tenant, known_by).seen
            if connection.are_apart(seen, self.keys.queue):
                why = f"on a cluster it must name what SCHEDULER_QUEUE_KEY does, {crawl!r}"
                raise ConfigError([Problem("SCHEDULER_DUPEFILTER_KEY", why)])
            self.keys = self.keys._replace(seen=seen)

    def enter(self, *, flush: bool = False) -> Entered:
        """Take part; ``flush`` forgets the crawl first, unless others take part."""
        keys = self.keys
        touched = (
            *(keys.processes, keys.queue, keys.leases, keys.starts),
            *(keys.requests, keys.seen, keys.fingerprints, keys.ended, keys.deaths),
            *(keys.counts, keys.beats),
        )
        answer = self._redis.again(_ENTER, touched, self._process, self._lease_ms, int(flush))
        queued, leased, others, flushed, fingerprints = several(answer, 5)
        return Entered(
            queued=whole(queued),
            leased=whole(leased),
            others=whole(others),
            flushed=whole(flushed) == 1,
            fingerprints=text(fingerprints).decode(),
        )

    def push(self, requests: Sequence[Pushed]) -> list[bool]:
        """Queue the requests that are not known; return of each whether it was queued.

        The script that queues a request marks it: no crash can come in between. Where a reply is
        lost the call is repeated, and a request without a mark may be queued twice.
        """
        return [bool(each) for each in self.push_each(requests)]

    def push_each(self, requests: Sequence[Pushed]) -> list[str]:
        """Do so; return the id of each, empty where it is known."""
        keys = self.keys
        queued: list[str] = []
        for first in range(0, len(requests), _PUSHED):
            part = requests[first : first + _PUSHED]
            arguments: list[str | bytes | int] = [self._order]
            for each in part:
                content = _KIND[each.start] + each.content
                arguments += [each.marks, each.mark, -each.priority, content]
            touched = (
                *(keys.queue, keys.requests, keys.seen),
                *(keys.starts, keys.serial, keys.counts),
            )
            answers = several(self._redis.again(_PUSH, touched, *arguments), len(part))
            queued += [text(each).decode() for each in answers]
        return queued

    def absorb(self, source: str, number: int) -> list[tuple[str, bytes]]:
        """Queue up to ``number`` start URLs of a list, set or sorted set; return ids and URLs.

        Raises ConfigError (on a cluster, no key can be in the slot of the source's name).
        """
        if self._redis.are_apart(source, self.keys.queue):
            return self._absorb_from_afar(source, number)
        keys = (source, self.keys.queue, self.keys.requests, self.keys.serial, self.keys.counts)
        return _pairs(self._redis.once(_ABSORB, keys, self._order, number))

    def _absorb_from_afar(self, source: str, number: int) -> list[tuple[str, bytes]]:
        """Do so in three steps, each of which may be repeated, by another process too.

        A batch is kept in the slot of its source until it has entered the queue, once.
        """
        taking = taking_key(source, *self._name)
        if self._redis.are_apart(source, taking):
            why = "has a } and no {...}: a cluster needs another name"
            raise ConfigError([Problem(source, why)])
        taken = self._redis.again(_TAKE_STARTS, (source, taking), uuid4().hex, number)
        batch = [text(each) for each in several(taken)]
        if not batch:
            return []
        own = (self.keys.queue, self.keys.requests, self.keys.serial)
        keys = (*own, self.keys.absorbed, self.keys.counts)
        entered = _pairs(self._redis.again(_ENTER_STARTS, keys, self._order, *batch))
        whole(self._redis.again(_TAKEN, (taking,), batch[0]))
        return entered

    def lease(self, number: int, held: int = 0) -> tuple[list[Taken], int]:
        """Lease up to ``number`` requests; return them, and how many are of ended leases.

        ``held`` is how many the process has. The last attempt at a request whose processes have
        ended is leased alone, to a process that has none; after it the request is leased to be
        marked dead.
        """
        keys = (self.keys.leases, self.keys.queue, self.keys.requests, self.keys.deaths)
        limits = (self._process, number, self._lease_ms, self._attempts, held)
        answer = several(self._redis.once(_LEASE, keys, *limits))
        if len(answer) % 3 != 1:
            raise nonsense()
        taken = []
        for at in range(1, len(answer), 3):
            id_, deaths, content = text(answer[at]), whole(answer[at + 1]), text(answer[at + 2])
            taken.append(Taken(id_.decode(), content[:1] == b"s", content[1:], deaths))
        return taken, whole(answer[0])

    def renew(self, ids: Sequence[str]) -> set[str]:
        """Renew the process and these leases; return the ids that it has lost."""
        keys, mine = (self.keys.processes, self.keys.leases), (self._process, self._lease_ms)
        answer = self._redis.again(_RENEW, keys, *mine, "\n".join(ids))
        return {text(each).decode() for each in several(answer)}

    def finish(self, ids: Sequence[str]) -> int:
        """Remove finished requests; return how many the process had leased."""
        if not ids:
            return 0
        keys = (self.keys.leases, self.keys.requests, self.keys.deaths, self.keys.counts)
        return whole(self._redis.again(_FINISH, keys, self._process, "\n".join(ids)))

    def give_back(self, ids: Sequence[str]) -> int:
        """Return requests to their places in the queue; return how many the process had leased."""
        if not ids:
            return 0
        keys = (self.keys.leases, self.keys.queue, self.keys.requests)
        return whole(self._redis.again(_GIVE_BACK, keys, self._process, "\n".join(ids)))

    def mark_dead(self, id: str, reason: str) -> bool:  # noqa: A002  as the field of Taken
        """Keep a request among the dead ones; return whether the process had leased it."""
        own = (self.keys.leases, self.keys.requests, self.keys.dead, self.keys.deaths)
        keys = (*own, self.keys.counts)
        line = " ".join(reason.split())[:_LONGEST_REASON]
        answer = self._redis.once(_DEAD, keys, self._process, id, line, DEAD_KEPT)
        return whole(answer) == 1

    def beat(self, journal: str, expected: int, *, force: bool = False) -> int:
        """Raise a journal's number; return 1, or 0 where Redis has lost it, or 2: forgotten."""
        return beat(self._redis, self.keys.beats, journal, expected, force=force)

    def gone(self, ids: Sequence[str]) -> list[str]:
        """Return those of these requests that are neither queued nor leased any more."""
        return gone(self._redis, self.keys.requests, ids)

    def belong_to(self, biz: str) -> None:
        """Note the biz in whose ledger the crawl is."""
        tenant, crawl = self._name
        self._redis.together(("HSET", crawls_key(tenant), crawl, biz))

    def load(self) -> CrawlLoad:
        """Count what is left."""
        keys = (self.keys.queue, self.keys.leases, self.keys.processes)
        queued, leased, others = several(self._redis.again(_LOAD, keys, self._process), 3)
        return CrawlLoad(queued=whole(queued), leased=whole(leased), others=whole(others))

    def leave(self, forget: Forget) -> bool:
        """Leave the crawl; return whether it was forgotten."""
        keys = self.keys
        touched = (
            *(keys.processes, keys.queue, keys.leases, keys.requests),
            *(keys.seen, keys.starts, keys.fingerprints, keys.ended, keys.deaths),
            *(keys.counts, keys.beats),
        )
        return whole(self._redis.again(_LEAVE, touched, self._process, forget)) == 1

    def learn(self, marks: Sequence[bytes]) -> int:
        """Mark fingerprints as seen; return how many were new."""
        if not marks:
            return 0
        (answer,) = several(self._redis.together(("SADD", self.keys.seen, *marks)), 1)
        return whole(answer)

    def known(self) -> tuple[int, str]:
        """Count the fingerprints, and name their fingerprinter, empty for Scrapy's."""
        commands = (("SCARD", self.keys.seen), ("GET", self.keys.fingerprints))
        count, make = several(self._redis.together(*commands), 2)
        return whole(count), "" if make is None else text(make).decode()

    def set_fingerprinter(self, fingerprints: str) -> None:
        """Store the name of the crawl's fingerprinter."""
        self._redis.together(("SET", self.keys.fingerprints, fingerprints))


def beat(
    connection: RedisConnection, key: str, journal: str, expected: int, *, force: bool = False
) -> int:
    """Raise a journal's number; return 1, or 0 where Redis has lost it, or 2: forgotten."""
    numbers = (expected, expected + 1, int(force))
    return whole(connection.again(_BEAT, (key,), journal, *numbers))


def gone(connection: RedisConnection, key: str, ids: Sequence[str]) -> list[str]:
    """Return those that a HASH has not."""
    answer = several(connection.again(_GONE, (key,), *ids)) if ids else []
    return [text(each).decode() for each in answer]


def _pairs(answer: object) -> list[tuple[str, bytes]]:
    flat = several(answer)
    if len(flat) % 2:
        raise nonsense()
    return [(text(flat[at]).decode(), text(flat[at + 1])) for at in range(0, len(flat), 2)]
