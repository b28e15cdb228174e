"""Counting for ever, in the transaction that does what is counted (SPEC.md H1).

The counters of a biz and database are documents of its ``counts``::

    {_id: {k: "biz", s: slot}, submitted, done, dead, cancelled, expired}
    {_id: {k: "job", j: job, s: slot}, the same, at: when it was last counted}
    {_id: {k: "swept"}, last: when recovery last completed there}

A term is the sum over the slots. Transactions that write one document at the same moment undo each
other, so each takes a slot by chance, and another one when it is done again.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from pymongo import MongoClient, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, DuplicateKeyError

from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.mongo.connection import Document, MetAnotherError, in_transaction
from crawlfleet.requests.mongo.sharding import BY_ID, BY_TIME

#: What is counted, by job (None: of no job) and term of the ledger.
Tally: TypeAlias = Counter[tuple[str | None, str]]

#: The terms that are counted for ever.
TERMS: Final = ("submitted", "done", "dead", "cancelled", "expired")
SWEPT: Final[Document] = {"k": "swept"}

_SLOTS: Final = 64
_JOB_SLOTS: Final = 16
#: Slots of old jobs that one round of recovery looks at.
_OLD_SLOTS: Final = 1_000
_DUPLICATE_KEY: Final = 11000


def tally_of(jobs: Iterable[str | None], term: str) -> Tally:
    """One of the term for each request, given by its job."""
    return Counter((job, term) for job in jobs)


def book(counts: Collection[Document], tally: Tally, at: datetime, session: ClientSession) -> None:
    """Count, as the last statement of the transaction: until it ends, nobody else has the slot."""
    biz: Counter[str] = Counter()
    jobs: dict[str, Counter[str]] = {}
    for (job, term), number in tally.items():
        biz[term] += number
        if job is not None:
            jobs.setdefault(job, Counter())[term] += number
    book_apart(counts, biz, jobs, at, session)


def book_apart(
    counts: Collection[Document],
    biz: Counter[str],
    jobs: dict[str, Counter[str]],
    at: datetime,
    session: ClientSession,
) -> None:
    """Count for the biz and for jobs, where the one is not the sum of the others."""
    changes: list[tuple[Document, Document]] = []
    if any(biz.values()):
        # No key of any security: it only has to be another one than the neighbour's.
        slot = random.randrange(_SLOTS)  # noqa: S311
        changes.append(({"k": "biz", "s": slot}, {"$inc": dict(biz)}))
    for job, terms in jobs.items():
        slot = random.randrange(_JOB_SLOTS)  # noqa: S311
        changes.append(
            ({"k": "job", "j": job, "s": slot}, {"$inc": dict(terms), "$max": {"at": at}})
        )
    try:
        if len(changes) == 1:
            [(key, change)] = changes
            counts.update_one({"_id": key}, change, upsert=True, session=session)
        elif changes:
            counts.bulk_write(
                [UpdateOne({"_id": key}, change, upsert=True) for key, change in changes],
                ordered=False,
                session=session,
            )
    except DuplicateKeyError as error:
        raise MetAnotherError from error
    except BulkWriteError as error:
        if {fault["code"] for fault in error.details["writeErrors"]} != {_DUPLICATE_KEY}:
            raise
        raise MetAnotherError from error


def count_submitted(
    requests: Collection[Document],
    counts: Collection[Document],
    ids: list[RequestId],
    at: datetime,
    session: ClientSession,
) -> int:
    """Count those of these as submitted that are not yet; returns how many that were.

    A single submission is stored by one statement without a transaction, and until this has counted
    it, its ``call`` is below 0: the TTL index leaves it alone, and ledgers add it to what they have
    counted. Whoever removes a request calls this in the same transaction, before.
    """
    match = {"_id": {"$in": ids}, "call": {"$lt": 0}}
    found = list(requests.find(match, projection=["job"], hint=BY_ID, session=session))
    if found:
        change = {"$mul": {"call": -1}}
        chosen = {"_id": {"$in": [document["_id"] for document in found]}}
        requests.update_many(chosen, change, hint=BY_ID, session=session)
        tally = tally_of((document.get("job") for document in found), "submitted")
        book(counts, tally, at, session)
    return len(found)


def slots_of(first: Document) -> Document:
    """The counters whose key begins with ``first``."""
    # Documents compare field by field: a prefix is a range of the index.
    *_, (last_field, value) = first.items()
    return {"_id": {"$gte": first, "$lt": {**first, last_field: f"{value}\0"}}}


def forget_jobs(
    client: MongoClient[Document],
    counts: Collection[Document],
    before: datetime,
    still_open: Callable[[set[str]], set[str]],
) -> None:
    """Remove the counters of jobs that were last counted before then: all of a job's, or none.

    Those that are ``still_open`` keep them: without, their ledger would be below 0 when their tasks
    end. They are old no more, so that others are looked at.

    A job's slots are not counted in at the same time. If each went when it is old itself, what is
    left of the job would not balance.
    """
    old = counts.find({"at": {"$lt": before}}, projection=["_id"], hint=BY_TIME).limit(_OLD_SLOTS)
    jobs = {slot["_id"]["j"] for slot in old}
    kept = still_open(jobs) if jobs else jobs
    for job in kept:
        counts.update_many(slots_of({"k": "job", "j": job}), {"$max": {"at": before}}, hint=BY_ID)
    for job in jobs - kept:
        in_transaction(client, partial(_forget_job, counts, job, before))


def _forget_job(
    counts: Collection[Document], job: str, before: datetime, session: ClientSession
) -> None:
    slots = slots_of({"k": "job", "j": job})
    found = counts.find(slots, projection=["at"], hint=BY_ID, session=session)
    last = max((slot["at"] for slot in found), default=before)
    if last < before:
        counts.delete_many(slots, hint=BY_ID, session=session)
    else:
        counts.update_many(slots, {"$max": {"at": last}}, hint=BY_ID, session=session)
