"""Jobs of a schedule that count one another (SPEC.md B1, C2); part of :mod:`.jobs`.

``schedule_turns`` has a document for each schedule that has started such a job of late. Whoever
keeps one writes there, in the transaction that counts what is open: two at once meet at it, and the
one that is undone counts again. It has nothing to remember, so it goes after a day; whatever is
open is known by the jobs themselves, those of older versions too.

Jobs, on the home node (SPEC.md C2, C3).

A job is one document, its fields as jobs.models.Job names them, and beside them::

    _id       tenant/biz/name
    open      it has not ended
    making    it makes tasks, or has a batch open that is to be closed
    watched   its ledger is looked at
    sweep_at  while it is being cancelled
    placing   it waits for a worker
    unplaced  it has ended, as none suits it

Each of these but ``open`` has an index of its own, of nothing but what is so.

``batch`` is there while one is open. A start may have 8 MB of URLs, so whatever is asked often
leaves it out: the server then sends none of it, and a change writes none of it.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain, zip_longest
from typing import Any, Final

import msgspec
from pymongo import ASCENDING, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.jobs.expansion import shares
from crawlfleet.jobs.models import ENDED, LONGEST_REFUSAL, MOST_REFUSALS, Job, JobState, TaskBatch
from crawlfleet.jobs.mongo.documents import (
    BRIEF,
    MAKING,
    OPEN,
    PLACING,
    SWEEPABLE,
    WAITING,
    WATCHED,
    WITHOUT_START,
    JobsCollection,
    cancellation,
    document_of,
    job_of,
    plain,
)
from crawlfleet.jobs.mongo.lists import JobLists, JobPlacing
from crawlfleet.kernel.mongo.connection import (
    TRANSACTION_SECONDS,
    Document,
    MetAnotherError,
    MongoNodes,
    border,
    in_transaction,
)
from crawlfleet.requests.mongo.documents import clean

#: A turn is of use to those alone who start a job in the same moments.
_LIFE: Final = timedelta(days=1)


class JobOverlap(JobsCollection):
    """What ports.JobStore says of jobs that are kept in turn."""

    def __init__(
        self, nodes: MongoNodes, *, transaction_seconds: float = TRANSACTION_SECONDS
    ) -> None:
        super().__init__(nodes)
        self._transaction_seconds = transaction_seconds
        self._sure_of_turns = False

    def create_limited(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        """See ports.JobStore.create_in_turn."""
        fresh = job.as_created()
        document = document_of(fresh)
        turn = {"_id": f"{job.tenant}/{job.biz}/{job.schedule}"}
        others: Document = {
            "open": True,
            "tenant": job.tenant,
            "biz": job.biz,
            "schedule": job.schedule,
        }
        going = {**others, "state": {"$ne": JobState.CANCELLING.value}}

        def write(session: ClientSession) -> Job | None:
            standing = jobs.find_one({"_id": document["_id"]}, session=session)
            if standing is not None:
                return job_of(standing)
            try:
                # Another number each time: what changes nothing would meet nobody.
                turns.update_one(
                    turn,
                    {"$set": {"at": fresh.created_at}, "$inc": {"jobs": 1}},
                    upsert=True,
                    session=session,
                )
                is_full = jobs.count_documents(others, hint=OPEN, session=session) >= most
                if is_full or (instead and _is_late(jobs, going, fresh, session)):
                    session.abort_transaction()
                    return None
                if instead:
                    change = cancellation(fresh.created_at)
                    jobs.update_many(going, change, hint=OPEN, session=session)
                jobs.insert_one(document, session=session)
            except DuplicateKeyError as error:  # a first turn, or the job itself, this moment
                raise MetAnotherError from error
            return fresh

        with border(self._transaction_seconds):
            jobs, turns = self._jobs(), self._turns()
            return in_transaction(jobs.database.client, write)

    def _turns(self) -> Collection[Document]:
        turns = self._nodes.control("schedule_turns")
        if not self._sure_of_turns:
            life = int(_LIFE.total_seconds())
            turns.create_index([("at", ASCENDING)], name="ttl", expireAfterSeconds=life)
            self._sure_of_turns = True
        return turns


def _is_late(
    jobs: Collection[Document], going: Document, fresh: Job, session: ClientSession
) -> bool:
    if fresh.fire_at is None:
        return False
    later = {**going, "fire_at": {"$gt": fresh.fire_at}}
    return jobs.find_one(later, projection=["_id"], hint=OPEN, session=session) is not None


log = logging.getLogger(__name__)

#: What cannot be read is looked at again so much later.
_PUT_OFF: Final = timedelta(minutes=5)
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
_OPEN_STATES: Final = [state.value for state in JobState if state not in ENDED]


class MongoJobs(JobLists, JobPlacing, JobOverlap):
    """ports.JobStore."""

    def create(self, job: Job) -> Job:
        """See ports.JobStore.create."""
        fresh = job.as_created()
        document = document_of(fresh)
        with border():
            jobs = self._jobs()
            while True:
                try:
                    jobs.insert_one(document)
                except DuplicateKeyError:
                    found = jobs.find_one({"_id": document["_id"]})
                    if found is not None:  # otherwise its time came just now
                        return job_of(found)
                else:
                    return fresh

    def get(self, tenant: str, biz: str, name: str) -> Job | None:
        """See ports.JobStore.get."""
        with border():
            found = self._jobs().find_one({"_id": f"{tenant}/{biz}/{name}"})
        return None if found is None else job_of(found)

    def expandable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """See ports.JobStore.expandable."""
        return self._round_robin(MAKING, limit, now, {MAKING: True})

    def watched(
        self,
        limit: int,
        now: datetime | None = None,
        states: Sequence[JobState] = (JobState.RUNNING, JobState.CANCELLING),
    ) -> list[Job]:
        """See ports.JobStore.watched."""
        wanted = {"$in": [state.value for state in states]}
        return self._round_robin(WATCHED, limit, now, {WATCHED: True, "state": wanted})

    def sweepable(self, limit: int, now: datetime | None = None) -> list[Job]:
        """See ports.JobStore.sweepable."""
        return self._round_robin(SWEEPABLE, limit, now, {"sweep_at": {"$exists": True}}, "sweep_at")

    def swept(
        self, job: Job, now: datetime, again_at: datetime, trouble: str | None = None
    ) -> None:
        """See ports.JobStore.swept."""
        match = {"_id": "/".join(job.key), "state": JobState.CANCELLING.value}
        with border():
            self._jobs().update_one(match, _seen({"looked_at": now, "sweep_at": again_at}, trouble))

    def placing(self, limit: int, now: datetime | None = None) -> list[Job]:
        """See ports.JobStore.placing."""
        return self._round_robin(PLACING, limit, now, {PLACING: True})

    def waiting(self, before: datetime, limit: int) -> list[Job]:
        """See ports.JobStore.waiting."""
        came = {PLACING: True, "created_at": {"$lte": before}}
        return self._round_robin(WAITING, limit, None, came, "created_at")

    def _round_robin(
        self, index: str, limit: int, now: datetime | None, match: Document, due: str = "due_at"
    ) -> list[Job]:
        """Some of each tenant that has any, the one first whose has been due for longest.

        The first look reads nothing but the index, which has only what is to be done.
        """
        if now is not None:
            match = {**match, due: {**match.get(due, {}), "$lte": now}}
        with border():
            jobs = self._jobs()
            pipeline: list[Document] = [
                {"$match": {**match, "tenant": {"$gt": ""}}},
                {"$group": {"_id": "$tenant", "due": {"$min": f"${due}"}, "n": {"$sum": 1}}},
                {"$sort": {"due": 1, "_id": 1}},
                {"$limit": max(limit, 1)},
            ]
            tenants = {
                found["_id"]: int(found["n"]) for found in jobs.aggregate(pipeline, hint=index)
            }
            each = [
                list(
                    jobs.find({**match, "tenant": tenant}, BRIEF)
                    .sort([(due, ASCENDING), ("_id", ASCENDING)])
                    .limit(share)
                    .hint(index)
                )
                for tenant, share in shares(tenants, limit).items()
            ]
        turns = chain.from_iterable(zip_longest(*each))
        return self._readable([found for found in turns if found is not None], now, due)[:limit]

    def _readable(self, documents: list[Document], now: datetime | None, due: str) -> list[Job]:
        """Jobs as they were put; what another release has written otherwise is nobody's hindrance.

        It would be the first of its tenant in each round, and so is put off.
        """
        jobs: list[Job] = []
        unread: list[str] = []
        for document in documents:
            try:
                jobs.append(job_of(document))
            except _UNREADABLE as error:
                unread.append(document["_id"])
                why = {"id": document["_id"], "reason": str(error)[:LONGEST_REFUSAL]}
                log.warning("a job cannot be read", extra=why)
        if unread and now is not None:
            match = {"_id": {"$in": unread}, due: {"$lte": now}}
            with border():
                self._jobs().update_many(match, {"$set": {due: now + _PUT_OFF}})
        return jobs

    def open_batch(self, job: Job, batch: TaskBatch) -> Job | None:
        """See ports.JobStore.open_batch."""
        match = {
            "state": JobState.EXPANDING.value,
            "expanded": batch.first,
            "batch": {"$exists": False},
        }
        change = {"$set": {"batch": plain(batch)}}
        return self._changed(job, match, change)

    def close_batch(
        self,
        job: Job,
        batch: TaskBatch,
        now: datetime,
        refused: int = 0,
        reasons: Sequence[str] = (),
    ) -> Job | None:
        """See ports.JobStore.close_batch."""
        expanded = batch.first + len(batch.ids)
        reported = [clean(reason, LONGEST_REFUSAL) for reason in reasons[:MOST_REFUSALS]]
        is_over: Document = {
            "$and": [
                {"$eq": ["$state", JobState.EXPANDING.value]},
                {"$lte": ["$size", expanded]},
            ]
        }
        still_makes: Document = {
            "$and": [
                {"$eq": ["$state", JobState.EXPANDING.value]},
                {"$gt": ["$size", expanded]},
            ]
        }
        # All of these are worked out of what stood before.
        change: list[Document] = [
            {
                "$set": {
                    "expanded": expanded,
                    "refused": {"$add": ["$refused", refused]},
                    "refusals": {
                        "$slice": [
                            {"$concatArrays": ["$refusals", {"$literal": reported}]},
                            MOST_REFUSALS,
                        ]
                    },
                    "state": {"$cond": [is_over, JobState.RUNNING.value, "$state"]},
                    "expanded_at": {"$cond": [is_over, now, "$$REMOVE"]},
                    "making": still_makes,
                    "watched": {"$or": [is_over, "$watched"]},
                }
            },
            {"$unset": "batch"},
        ]
        return self._changed(job, {"batch.first": batch.first}, change)

    def cancel(self, tenant: str, biz: str, name: str, now: datetime) -> Job | None:
        """See ports.JobStore.cancel."""
        cancelled = JobState.CANCELLING.value
        match: Document = {
            "_id": f"{tenant}/{biz}/{name}",
            "state": {"$in": [state for state in _OPEN_STATES if state != cancelled]},
        }
        with border():
            self._jobs().update_one(match, cancellation(now))
        return self.get(tenant, biz, name)

    def look(
        self,
        job: Job,
        now: datetime,
        trouble: str | None = None,
        again_at: datetime | None = None,
        left: int | None = None,
    ) -> None:
        """See ports.JobStore.look."""
        seen: Document = {"looked_at": now, "due_at": again_at or now, "left": left}
        cancelling = JobState.CANCELLING.value
        state = cancelling if job.state is JobState.CANCELLING else {"$ne": cancelling}
        match = {"_id": "/".join(job.key), "open": True, "state": state}
        with border():
            self._jobs().update_one(match, _seen(seen, trouble))

    def end(self, job: Job, state: JobState, counts: dict[str, int], now: datetime) -> bool:
        """See ports.JobStore.end."""
        match = {
            "_id": "/".join(job.key),
            "open": True,
            "state": job.state.value,
            "batch": {"$exists": False},
            "retries": job.retries,
        }
        change = {
            "$set": {
                "state": state.value,
                "counts": counts,
                "ended_at": now,
                "troubles": 0,
                "open": False,
                "making": False,
                "watched": False,
                "placing": False,
                "unplaced": state is JobState.UNPLACED,
            },
            "$unset": {"trouble": "", "due_at": "", "sweep_at": ""},
        }
        with border():
            return bool(self._jobs().update_one(match, change).modified_count)

    def _changed(self, job: Job, match: Document, change: Any) -> Job | None:
        """The job as it stands after the change, or where ``match`` keeps from it without."""
        key = {"_id": "/".join(job.key)}
        with border():
            jobs = self._jobs()
            found = jobs.find_one_and_update(
                {**key, **match},
                change,
                projection=WITHOUT_START,
                return_document=ReturnDocument.AFTER,
            ) or jobs.find_one(key, WITHOUT_START)
        return None if found is None else job_of(found, job.start)


def _seen(seen: Document, trouble: str | None) -> Document:
    """The change that a look makes."""
    if trouble is None:
        return {"$set": {**seen, "troubles": 0}, "$unset": {"trouble": ""}}
    reported = clean(trouble, LONGEST_REFUSAL)
    return {"$set": {**seen, "trouble": reported}, "$inc": {"troubles": 1}}
