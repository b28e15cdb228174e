"""Ledgers and journals of bizs in MongoDB (SPEC.md H1).

Whatever changes a ledger is one transaction with its counters, so of one node at one moment every
ledger balances, however many transactions are under way. Each read takes a node's collections in
one snapshot. See :mod:`crawlfleet.requests.mongo.documents` for what is counted.
"""

# ruff: noqa: ARG002  a count of what is there needs no clock; fakes do

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from pymongo import ASCENDING, IndexModel, MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError, OperationFailure

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.ids import OWN, OWN_FINAL, State
from crawlfleet.kernel.mongo import connection
from crawlfleet.kernel.mongo.connection import Document
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Correction, Coverage, JournalLine, Ledger
from crawlfleet.requests.mongo import documents, sharding
from crawlfleet.requests.mongo.documents import (
    OWN_OPEN,
    OWN_TERM,
    SWEPT,
    TERMS,
    book_apart,
    clean,
    forget_jobs,
)
from crawlfleet.requests.mongo.sharding import BY_COUNTING, BY_ID, BY_JOB, ByShard, Shards, on_nodes
from crawlfleet.requests.routing import Shard, all_shards

#: How long a line is kept.
LIFE: Final = timedelta(days=30)
#: Characters kept of a line's texts: it may quote what others sent.
LONGEST_WHY: Final = 500
LONGEST_NAME: Final = 128


class MongoJournal:
    """Keep the journal of each biz on the home node: lines by time, for a month."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes, self._sure = nodes, False

    def note(self, queue_key: QueueKey, line: JournalLine) -> None:
        """Keep a line."""
        with connection.border():
            self._lines().insert_one(
                {
                    "tenant": queue_key.tenant,
                    "biz": queue_key.biz,
                    "at": line.at,
                    "by": clean(line.by, LONGEST_NAME),
                    "kind": clean(line.kind, LONGEST_NAME),
                    "why": clean(line.why, LONGEST_WHY),
                    "count": line.count,
                }
            )

    def lines(
        self, queue_key: QueueKey, since: datetime, until: datetime, limit: int
    ) -> list[JournalLine]:
        """List the lines from ``since`` on and before ``until``, oldest first."""
        span = {"$gte": since, "$lt": until}
        match = {"tenant": queue_key.tenant, "biz": queue_key.biz, "at": span}
        with connection.border():
            cursor = self._lines().find(match).sort([("at", ASCENDING), ("_id", ASCENDING)])
            names = ("at", "by", "kind", "why")
            return [
                JournalLine(**{name: line[name] for name in names}, count=int(line["count"]))
                for line in cursor.limit(limit)
            ]

    def _lines(self) -> Collection[Document]:
        lines = self._nodes.control("journal")
        if not self._sure:
            # `_id` keeps what happened within one millisecond in an order that stays.
            order = [(name, ASCENDING) for name in ("tenant", "biz", "at", "_id")]
            life = int(LIFE.total_seconds())
            ttl = IndexModel([("at", ASCENDING)], name="ttl", expireAfterSeconds=life)
            lines.create_indexes([IndexModel(order, name="by_time"), ttl])
            self._sure = True
        return lines


T = TypeVar("T")

#: Counting what is pending counts an index from end to end: about a second for a million. A caller
#: may have less time.
AUDIT_SECONDS: Final = 60.0
#: Jobs that a correction names; it counts them all.
_NAMED: Final = 10

_IN_FLIGHT: Final[Document] = {"flag": {"$in": [int(State.LEASED), int(State.WAITING)]}}
_OTHERS: Final[Document] = {"flag": OWN_OPEN}
_PENDING: Final[Document] = {"flag": int(State.PENDING)}
#: The server cannot read a collection as it was before its newest index; a moment later it can.
_NOT_YET: Final = frozenset({239, 246})


class MongoLedgers:
    """Count the requests of bizs and jobs by state."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes, self._shards = nodes, Shards(nodes)

    def totals(
        self, queue_key: QueueKey, biz: Biz, now: datetime, job: str | None = None
    ) -> Ledger:
        """Count in O(1): counters, and an index count of what is in flight.

        Given up after some seconds. ``pending`` is what remains: the difference is always 0.
        """
        found = self._look(queue_key, biz, job, self._nodes.waits.glance, everything=False)
        return replace(found, pending=max(0, found.difference))

    def audit(
        self,
        queue_key: QueueKey,
        biz: Biz,
        now: datetime,
        job: str | None = None,
        *,
        within_seconds: float | None = None,
    ) -> Ledger:
        """Count every term by itself, of each node at one moment.

        That reads all that is open: a caller in a hurry says how many seconds it may take.
        """
        within = AUDIT_SECONDS if within_seconds is None else within_seconds
        return self._look(queue_key, biz, job, within, everything=True)

    def _look(
        self, queue_key: QueueKey, biz: Biz, job: str | None, within: float, *, everything: bool
    ) -> Ledger:
        def look_at(node: str, parts: ByShard[None]) -> tuple[Counter[str], Counter[int]]:
            with connection.border(within):
                databases = _by_database(parts)
                books = [_Book(self._shards, queue_key, biz, shards) for shards in databases]
                return _at_one_moment(
                    self._nodes.client(node),
                    lambda session: _summed(
                        (book.terms(session, job), book.flags(session, job, everything=everything))
                        for book in books
                    ),
                )

        done = sharding.all_of(on_nodes(_by_node(biz), look_at))
        return _ledger(biz, *_summed(done))

    def counters(self, queue_key: QueueKey, biz: Biz, jobs: Iterable[str]) -> dict[str, Ledger]:
        """Count what was submitted of jobs and has ended: one read of each database for them all.

        It looks at no request: whatever is open is ``pending``.
        """
        terms = {job: Counter[str]() for job in jobs}
        match = {"$or": [documents.slots_of({"k": "job", "j": job}) for job in terms]}

        def look_at(node: str, parts: ByShard[None]) -> list[dict[object, Counter[str]]]:
            with connection.border(self._nodes.waits.glance):
                counts = [self._shards.counts(queue_key, biz, of[0]) for of in _by_database(parts)]
                client, group = self._nodes.client(node), "$_id.j"
                return _at_one_moment(
                    client, lambda s: [_added(c, s, match, group) for c in counts]
                )

        for found in sharding.all_of(on_nodes(_by_node(biz), look_at)) if terms else ():
            for job, of_job in chain.from_iterable(each.items() for each in found):
                terms[str(job)].update(of_job)
        flags = {job: Counter({int(State.PENDING): _open(of_job)}) for job, of_job in terms.items()}
        return {job: _ledger(biz, of_job, flags[job]) for job, of_job in terms.items()}

    def coverage(self, queue_key: QueueKey, biz: Biz, job: str) -> dict[str, Coverage]:
        """Return what the pages of a job were read to, by rule: each page that is done once."""

        def look_at(_: str, parts: ByShard[None]) -> list[Document]:
            with connection.border(self._nodes.waits.glance):
                return [
                    slot
                    for shards in _by_database(parts)
                    for slot in self._shards.counts(queue_key, biz, shards[0]).find(
                        documents.slots_of({"k": "job", "j": job}), projection=["read"], hint=BY_ID
                    )
                ]

        found = sharding.all_of(on_nodes(_by_node(biz), look_at))
        return documents.coverages_of(slot for slots in found for slot in slots)

    def reconcile(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[Correction]:
        """Book what MongoDB may have removed uncounted while no recovery ran, then note this round.

        Call it after :meth:`MongoRequestStore.expire`. Nothing is booked unless the time since the
        last call is longer than the grace that expired requests have. Each database is reconciled
        by itself.
        """

        def reconcile_on(_: str, parts: ByShard[None]) -> list[Correction]:
            found = (self._reconcile(queue_key, biz, shards, now) for shards in _by_database(parts))
            return [correction for correction in found if correction]

        done = sharding.any_of(on_nodes(_by_node(biz), reconcile_on))
        return [correction for corrections in done for correction in corrections]

    def _reconcile(
        self, queue_key: QueueKey, biz: Biz, shards: Sequence[Shard], now: datetime
    ) -> Correction | None:
        shard = shards[0]
        with connection.border(AUDIT_SECONDS):
            if not any(self._shards.is_begun(queue_key, biz, one) for one in shards):
                return None
            counts = self._shards.counts(queue_key, biz, shard, made_sure=True)
            client = self._nodes.client(shard.node)
            before = now - sharding.job_life(biz)
            forget_jobs(client, counts, before, partial(self._still_open, queue_key))
            swept = counts.find_one({"_id": SWEPT})
            last = swept["last"] if swept else None
            # What expired right after the last sweep can be gone as soon as the grace has passed.
            grace = timedelta(seconds=biz.expiry_grace_seconds)
            if last is not None and now - last <= grace:
                counts.update_one({"_id": SWEPT}, {"$max": {"last": now}})
                return None
            ledger_book = _Book(self._shards, queue_key, biz, shards)
            biz_gap, job_gaps = _at_one_moment(client, ledger_book.gaps)
        if last is not None:
            # Less than nothing cannot have been removed: that stays to be seen.
            biz_gap = max(0, biz_gap)
            job_gaps = {job: gap for job, gap in job_gaps.items() if gap > 0}
        jobs = {job: _missing(gap) for job, gap in job_gaps.items()}
        terms = _missing(biz_gap)

        # What others write in the meantime balances, so the gap is still the same; only another
        # reconciliation could book it as well.
        def book_gap(session: ClientSession) -> bool:
            if not _note_sweep(counts, last, now, session):
                return False
            book_apart(counts, terms, jobs, now, session)
            return True

        with connection.border(TRANSACTION_SECONDS):
            booked = in_transaction(client, book_gap)
        if not booked or not (biz_gap or jobs):
            return None
        why = _sentence(shard, last, now, biz_gap, job_gaps)
        [(term, count)] = terms.items()
        return Correction(queue_key=queue_key, term=term, count=count, why=why)

    def _still_open(self, queue_key: QueueKey, names: set[str]) -> set[str]:
        """Return those of these jobs that have not ended; all where that cannot be read."""
        keys = [f"{queue_key.tenant}/{queue_key.biz}/{name}" for name in names]
        match = {"_id": {"$in": keys}, "open": True}
        try:
            with connection.border(self._nodes.waits.glance):
                found = self._nodes.control("jobs").find(match, projection=["name"], hint=BY_ID)
                return {one["name"] for one in found}
        except StoreUnavailableError:
            return names


def _ledger(biz: Biz, terms: Counter[str], flags: Counter[int]) -> Ledger:
    own = Counter({flag: flags[flag] for flag in flags if OWN <= flag < OWN_FINAL})
    ended = {term: count for term, count in terms.items() if term.startswith(OWN_TERM)}
    own.update({int(term.removeprefix(OWN_TERM)): count for term, count in ended.items()})
    return Ledger(
        **{term: terms[term] for term in TERMS},
        pending=flags[State.PENDING],
        leased=flags[State.LEASED],
        waiting=flags[State.WAITING],
        own={flag: own[flag] for flag in sorted({*own, *biz.states.values()})},
    )


class _Book:
    """Count the counters and the requests of a biz, in one database of a node."""

    def __init__(
        self, shards: Shards, queue_key: QueueKey, biz: Biz, mine: Sequence[Shard]
    ) -> None:
        self._counts = shards.counts(queue_key, biz, mine[0])
        # Statements name indexes, so those must be there; of a shard that is begun after this look
        # they are made before anything is written to it.
        self._requests = [
            shards.requests(queue_key, biz, shard, made_sure=shards.is_begun(queue_key, biz, shard))
            for shard in mine
        ]

    def terms(self, session: ClientSession, job: str | None) -> Counter[str]:
        """Sum what is counted for ever."""
        first: Document = {"k": "biz"} if job is None else {"k": "job", "j": job}
        found = _added(self._counts, session, documents.slots_of(first), None).get(None, Counter())
        if job is None:
            for requests in self._requests:
                uncounted = _grouped(requests, session, {"call": {"$lt": 0}}, None, BY_COUNTING)
                found["submitted"] += sum(uncounted.values())
        return found

    def flags(self, session: ClientSession, job: str | None, *, everything: bool) -> Counter[int]:
        """Count requests by state: all that is open, or all but what is pending."""
        whose, index = ({}, sharding.BY_STATE) if job is None else ({"job": job}, BY_JOB)
        found: Counter[int] = Counter()
        for requests in self._requests:
            for flags in (_IN_FLIGHT, _OTHERS):
                found.update(_grouped(requests, session, {**whose, **flags}, "$flag", index))
            if everything:
                # Millions may be pending. Without a field to group by, the server counts the keys
                # of the index and reads none of them: half the time.
                pending = _grouped(requests, session, {**whose, **_PENDING}, None, index)
                found[State.PENDING] += sum(pending.values())
        return found

    def gaps(self, session: ClientSession) -> tuple[int, dict[str, int]]:
        """Count what was submitted and is in no state, of the biz and of each job."""
        terms = self.terms(session, None)
        of_biz = _open(terms) - sum(self.flags(session, None, everything=True).values())
        by_job: Counter[str] = Counter()
        of_jobs = documents.slots_of({"k": "job"})
        for job, counted in _added(self._counts, session, of_jobs, "$_id.j").items():
            by_job[str(job)] += _open(counted)
        for requests in self._requests:
            for flags in (_IN_FLIGHT, _OTHERS, _PENDING):
                match = {"job": {"$exists": True}, **flags}
                by_job.subtract(_grouped(requests, session, match, "$job", BY_JOB))
        return of_biz, {job: gap for job, gap in by_job.items() if gap}


def _added(
    counts: Collection[Document], session: ClientSession, match: Document, group: str | None
) -> dict[object, Counter[str]]:
    """Sum the counters that match, by ``group``."""
    sums: Document = {term: {"$sum": f"${term}"} for term in TERMS}
    # States of the biz's own are any: what is configured may have changed since they were counted.
    pipeline: list[Document] = [
        {"$match": match},
        {"$group": {"_id": group, **sums, "own": {"$push": "$own"}}},
    ]
    found: dict[object, Counter[str]] = {}
    for document in counts.aggregate(pipeline, session=session, hint=BY_ID):
        terms = found[document["_id"]] = Counter({term: int(document[term]) for term in TERMS})
        for slot in document["own"]:
            terms.update({f"{OWN_TERM}{flag}": int(count) for flag, count in slot.items()})
    return found


def _grouped(
    requests: Collection[Document],
    session: ClientSession,
    match: Document,
    group: str | None,
    index: str,
) -> dict[Any, int]:
    pipeline: list[Document] = [{"$match": match}, {"$group": {"_id": group, "n": {"$sum": 1}}}]
    found = requests.aggregate(pipeline, session=session, hint=index)
    return {document["_id"]: int(document["n"]) for document in found}


def _missing(gap: int) -> Counter[str]:
    """Return what is to be booked: a gap as expired, a surplus as submitted before the ledger."""
    return Counter({"expired": gap} if gap >= 0 else {"submitted": -gap})


def _open(terms: Counter[str]) -> int:
    return terms["submitted"] - sum(n for term, n in terms.items() if term != "submitted")


def _by_node(biz: Biz) -> dict[str, ByShard[None]]:
    nodes: dict[str, ByShard[None]] = defaultdict(dict)
    for shard in all_shards(biz):
        nodes[shard.node][shard] = []
    return nodes


def _by_database(parts: ByShard[None]) -> list[list[Shard]]:
    databases: dict[str, list[Shard]] = defaultdict(list)
    for shard in parts:
        databases[shard.database].append(shard)
    return list(databases.values())


def _summed(
    found: Iterable[tuple[Counter[str], Counter[int]]],
) -> tuple[Counter[str], Counter[int]]:
    terms: Counter[str] = Counter()
    flags: Counter[int] = Counter()
    for some_terms, some_flags in found:
        terms.update(some_terms)
        flags.update(some_flags)
    return terms, flags


def _at_one_moment(client: MongoClient[Document], look: Callable[[ClientSession], T]) -> T:
    """Read in a snapshot session: everything is of one moment of the node."""
    while True:
        with client.start_session(snapshot=True) as session:
            try:
                return look(session)
            except OperationFailure as error:
                if error.code not in _NOT_YET:
                    raise


def _note_sweep(
    counts: Collection[Document], last: datetime | None, now: datetime, session: ClientSession
) -> bool:
    """Note the sweep, unless somebody else has since ``last`` was read."""
    if last is not None:
        change = {"$set": {"last": now}}
        noted = counts.update_one({"_id": SWEPT, "last": last}, change, session=session)
        return noted.modified_count == 1
    try:
        counts.insert_one({"_id": SWEPT, "last": now}, session=session)
    except DuplicateKeyError:
        session.abort_transaction()
        return False
    return True


def _sentence(
    shard: Shard, last: datetime | None, now: datetime, gap: int, jobs: dict[str, int]
) -> str:
    place = f"{shard.node}/{shard.database}"
    if gap < 0:
        said = (
            f"the ledger of {place} begins at {_time(now)}: {-gap} of what is submitted was not "
            "counted by it before"
        )
    else:
        since = "until" if last is None else f"from {_time(last)} to"
        said = (
            f"{since} {_time(now)} no recovery looked at {place}; in that time MongoDB removed "
            f"{gap} that were past their time and had not been processed"
        )
    if jobs:
        some = ", ".join(f"{job}: {number}" for job, number in sorted(jobs.items())[:_NAMED])
        said += f" (of jobs: {some}{', and others' if len(jobs) > _NAMED else ''})"
    return said


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
