"""Change jobs in MongoDB (SPEC.md B1, B4-B6, C2, C3): each change on the condition of a state.

Jobs of a schedule whose overlap is limited count one another. ``schedule_turns`` has a document for
each schedule that has started such a job of late, and whoever keeps one writes there, in the
transaction that counts what is open: two at once meet at it, and the one that is undone counts
again. The document carries nothing else, so it expires after a day; what is open is known by the
jobs themselves.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from pymongo import ASCENDING, ReturnDocument, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.config.documents.quota import Quota
from crawlfleet.fleet.quotas.models import JobTerms
from crawlfleet.jobs.models import (
    ENDED,
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    SUBMITTED,
    Job,
    JobState,
    TaskBatch,
)
from crawlfleet.jobs.mongo import documents
from crawlfleet.jobs.mongo.lists import JobLists
from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.kernel.mongo.transactions import (
    TRANSACTION_SECONDS,
    MetAnotherError,
    in_transaction,
)
from crawlfleet.requests.mongo.documents import clean

#: Only jobs that are started at the same moment need a schedule's turn.
_TURN_LIFE: Final = timedelta(days=1)
_OPEN_STATES: Final = [state.value for state in JobState if state not in ENDED]


class MongoJobs(JobLists):
    """The jobs of all tenants. A job that is handed in comes back with the start it has."""

    def __init__(
        self, nodes: MongoNodes, *, transaction_seconds: float = TRANSACTION_SECONDS
    ) -> None:
        super().__init__(nodes)
        self._transaction_seconds = transaction_seconds
        self._has_turn_index = False

    def create(self, job: Job) -> Job:
        """Keep a new job; where one of its name stands, return that one and do nothing."""
        fresh = job.as_created()
        document = documents.document_of(fresh)
        with border():
            jobs = self._jobs()
            while True:
                try:
                    jobs.insert_one(document)
                except DuplicateKeyError:
                    found = jobs.find_one({"_id": document["_id"]})
                    if found is not None:  # otherwise it has expired just now
                        return documents.job_of(found)
                else:
                    return fresh

    def adopt(self, jobs: Sequence[Job], now: datetime) -> None:
        """Keep jobs of what was submitted under their names, or note that more was.

        One that has ended runs again; whoever has read its ledger before that cannot end it. A job
        that was started under such a name stays what it is.
        """
        updates: list[UpdateOne] = []
        for job in jobs:
            document = documents.document_of(job.as_created())
            key = {"_id": document["_id"]}
            mine = {**key, "by": SUBMITTED}
            ended = {**mine, "state": {"$in": [JobState.DONE.value, JobState.CANCELLED.value]}}
            updates += [
                UpdateOne(key, {"$setOnInsert": document}, upsert=True),
                UpdateOne(mine, {"$max": {"submitted_at": now}}),
                UpdateOne(ended, {**documents.reopening(now), "$inc": {"retries": 1}}),
            ]
        with border():
            self._jobs().bulk_write(updates)

    def quota_terms(self, tenant: str, biz: str, name: str) -> JobTerms | None:
        """Read what a job says of quotas; None where there is no such job."""
        return self.quota_terms_of(tenant, biz, [name]).get(name)

    def quota_terms_of(
        self, tenant: str, biz: str, names: Sequence[str], **those: bool
    ) -> dict[str, JobTerms]:
        """Read what jobs of a biz say of quotas, by their names; nothing of those not known."""
        path = f"{tenant}/{biz}/"
        match: Document = {"_id": {"$in": [path + name for name in names]}, **those}
        with border():
            found = list(self._jobs().find(match, {"quotas": True, "user": True}))
        return {one.pop("_id").removeprefix(path): msgspec.convert(one, JobTerms) for one in found}

    def quota_terms_of_open(
        self, tenant: str, biz: str, names: Sequence[str]
    ) -> dict[str, JobTerms]:
        """Read what jobs of a biz say of quotas that have not ended, by their names."""
        return self.quota_terms_of(tenant, biz, names, open=True)

    def set_quotas(self, key: tuple[str, str, str], quotas: Sequence[Quota]) -> bool:
        """Replace the quotas of a job that was ordered; False where there is none of that name."""
        match = {"_id": "/".join(key), "by": {"$ne": SUBMITTED}}
        with border():
            change = {"$set": {"quotas": msgspec.to_builtins(tuple(quotas))}}
            return self._jobs().update_one(match, change).matched_count == 1

    def create_limited(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        """Keep a new job of a schedule, unless ``most`` jobs of that schedule are open: then None.

        Counting and keeping are one transaction. Where one of its name stands, nothing is done and
        that one returned. With ``instead`` the open ones are cancelled in the same transaction, as
        of this one's creation; where one of a later fire time is among them this one is too late:
        None.
        """
        fresh = job.as_created()
        document = documents.document_of(fresh)
        turn = {"_id": f"{job.tenant}/{job.biz}/{job.schedule}"}
        whose = {"tenant": job.tenant, "biz": job.biz, "schedule": job.schedule}
        others: Document = {"open": True, **whose}
        going = {**others, "state": {"$ne": JobState.CANCELLING.value}}

        def write(session: ClientSession) -> Job | None:
            standing = jobs.find_one({"_id": document["_id"]}, session=session)
            if standing is not None:
                return documents.job_of(standing)
            try:
                # Another number each time: a write that changes nothing conflicts with nobody.
                taken = {"$set": {"at": fresh.created_at}, "$inc": {"jobs": 1}}
                turns.update_one(turn, taken, upsert=True, session=session)
                is_full = jobs.count_documents(others, hint=documents.OPEN, session=session) >= most
                if is_full or (instead and _is_late(jobs, going, fresh, session)):
                    session.abort_transaction()
                    return None
                if instead:
                    change = documents.cancellation(fresh.created_at)
                    jobs.update_many(going, change, hint=documents.OPEN, session=session)
                jobs.insert_one(document, session=session)
            except DuplicateKeyError as error:  # a first turn, or the job itself, this moment
                raise MetAnotherError from error
            return fresh

        with border(self._transaction_seconds):
            jobs, turns = self._jobs(), self._turns()
            return in_transaction(jobs.database.client, write)

    def _turns(self) -> Collection[Document]:
        turns = self._nodes.control("schedule_turns")
        if not self._has_turn_index:
            life = int(_TURN_LIFE.total_seconds())
            turns.create_index([("at", ASCENDING)], name="ttl", expireAfterSeconds=life)
            self._has_turn_index = True
        return turns

    def place(
        self, job: Job, pool: str | None, worker: str | None, number: int | None, now: datetime
    ) -> Job | None:
        """Have a job that waits make tasks: for a pool's workers, None for any.

        ``worker`` has won it under the award's number; both are None where the stage has no bidding
        any more. None where it does not wait; the winner that repeats the call gets the job.
        """
        key = {"_id": "/".join(job.key)}
        won: Document = {"placed_at": now, "due_at": now, "troubles": 0}
        for field, value in (("pool", pool), ("worker", worker), ("award", number)):
            if value is not None:
                won[field] = value
        change = {
            "$set": {**won, "state": JobState.EXPANDING.value, "placing": False, "making": True},
            "$unset": {"trouble": "", **({"pool": ""} if pool is None else {})},
        }
        with border():
            jobs = self._jobs()
            found = jobs.find_one_and_update(
                {**key, "placing": True},
                change,
                projection=documents.WITHOUT_START,
                return_document=ReturnDocument.AFTER,
            )
            if found is None and worker is not None:
                mine = {**key, "worker": worker, "award": number}
                found = jobs.find_one(mine, documents.WITHOUT_START)
        return None if found is None else documents.job_of(found, job.start)

    def unplace(self, job: Job, why: str, now: datetime) -> bool:
        """End a job that waits, as no worker suits it; ``why`` is its trouble, for people.

        False where it does not wait any more.
        """
        change = {
            "$set": {
                "state": JobState.UNPLACED.value,
                "trouble": clean(why, LONGEST_REFUSAL),
                "troubles": 0,
                "ended_at": now,
                "open": False,
                "placing": False,
                "unplaced": True,
            },
            "$unset": {"due_at": ""},
        }
        with border():
            match = {"_id": "/".join(job.key), "placing": True}
            return bool(self._jobs().update_one(match, change).modified_count)

    def note_lowered(self, job: Job, lowered: int) -> None:
        """Note how often the demand of a job that waits was lowered; it never shrinks."""
        with border():
            match = {"_id": "/".join(job.key), "placing": True}
            self._jobs().update_one(match, {"$max": {"lowered": lowered}})

    def open_batch(self, job: Job, batch: TaskBatch) -> Job | None:
        """Write down which tasks come next.

        On the condition that the job still expands, has expanded just up to ``batch.first``, and
        has no batch open. Returns the job as it stands then, perhaps with another one's batch to go
        on with; None where it is gone.
        """
        makes = {"state": JobState.EXPANDING.value, "expanded": batch.first}
        change = {"$set": {"batch": documents.plain(batch)}}
        return self._changed(job, {**makes, "batch": {"$exists": False}}, change)

    def close_batch(
        self,
        job: Job,
        batch: TaskBatch,
        now: datetime,
        refused: int = 0,
        reasons: Sequence[str] = (),
    ) -> Job | None:
        """Close a batch whose tasks are stored; after the last one the job runs.

        ``refused`` of them are no requests, for ``reasons``. The second to close changes nothing. A
        job that is being cancelled closes its batch, too, and opens no other. Returns the job as it
        stands, None where it is gone.
        """
        expanded = batch.first + len(batch.ids)
        texts = [clean(reason, LONGEST_REFUSAL) for reason in reasons[:MOST_REFUSALS]]
        makes = {"$eq": ["$state", JobState.EXPANDING.value]}
        is_over: Document = {"$and": [makes, {"$lte": ["$size", expanded]}]}
        still_makes: Document = {"$and": [makes, {"$gt": ["$size", expanded]}]}
        refusals = {"$concatArrays": ["$refusals", {"$literal": texts}]}
        # Every expression sees the values from before the change.
        change: list[Document] = [
            {
                "$set": {
                    "expanded": expanded,
                    "refused": {"$add": ["$refused", refused]},
                    "refusals": {"$slice": [refusals, MOST_REFUSALS]},
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
        """Begin to cancel a job that has not ended; return the job as it stands, None if none."""
        cancelled = JobState.CANCELLING.value
        match: Document = {
            "_id": f"{tenant}/{biz}/{name}",
            "state": {"$in": [state for state in _OPEN_STATES if state != cancelled]},
        }
        with border():
            self._jobs().update_one(match, documents.cancellation(now))
        return self.get(tenant, biz, name)

    def swept(
        self, job: Job, now: datetime, again_at: datetime, trouble: str | None = None
    ) -> None:
        """Note that a job that is being cancelled was swept, and when it is again, or its trouble.

        This says nothing of when its open batch is closed.
        """
        match = {"_id": "/".join(job.key), "state": JobState.CANCELLING.value}
        with border():
            seen = {"looked_at": now, "sweep_at": again_at}
            self._jobs().update_one(match, _with_trouble(seen, trouble))

    def note_known(self, tenant: str, biz: str, known: Mapping[str, Mapping[str, int]]) -> None:
        """Count links that jobs did not follow, by job and by the segment that knew them.

        The segment that was noted last is kept.
        """
        updates = [
            UpdateOne(
                {"_id": f"{tenant}/{biz}/{job}"},
                {"$inc": {"known_links": sum(by.values())}, "$set": {"known_in": max(by)}},
            )
            for job, by in known.items()
            if by
        ]
        if updates:
            with border(self._nodes.waits.glance):
                self._jobs().bulk_write(updates, ordered=False)

    def reschedule(
        self,
        job: Job,
        now: datetime,
        trouble: str | None = None,
        again_at: datetime | None = None,
        left: int | None = None,
    ) -> None:
        """Note that a job was looked at now, and why it does not go on.

        It is due again at ``again_at``, or at once, behind all others. ``left`` of its tasks were
        open, None where nobody counted. No effect on a job that has ended, or that somebody has
        begun to cancel since ``job`` was read.
        """
        seen: Document = {"looked_at": now, "due_at": again_at or now, "left": left}
        cancelling = JobState.CANCELLING.value
        state = cancelling if job.state is JobState.CANCELLING else {"$ne": cancelling}
        match = {"_id": "/".join(job.key), "open": True, "state": state}
        with border():
            self._jobs().update_one(match, _with_trouble(seen, trouble))

    def end(self, job: Job, state: JobState, counts: dict[str, int], now: datetime) -> bool:
        """End a job with its tasks counted by their end; the TTL removes it ``JOB_LIFE`` later.

        On the condition that it is in the state that ``job`` says, that it has no batch open, whose
        tasks may not all be stored, and that no retry has begun since: its ledger was read before.
        False where that is not so, or it has ended.
        """
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
        """Change a job where ``match`` holds; return it as it stands, changed or not."""
        key = {"_id": "/".join(job.key)}
        with border():
            jobs = self._jobs()
            found = jobs.find_one_and_update(
                {**key, **match},
                change,
                projection=documents.WITHOUT_START,
                return_document=ReturnDocument.AFTER,
            ) or jobs.find_one(key, documents.WITHOUT_START)
        return None if found is None else documents.job_of(found, job.start)


def _is_late(
    jobs: Collection[Document], going: Document, fresh: Job, session: ClientSession
) -> bool:
    if fresh.fire_at is None:
        return False
    later = {**going, "fire_at": {"$gt": fresh.fire_at}}
    return (
        jobs.find_one(later, projection=["_id"], hint=documents.OPEN, session=session) is not None
    )


def _with_trouble(seen: Document, trouble: str | None) -> Document:
    if trouble is None:
        return {"$set": {**seen, "troubles": 0}, "$unset": {"trouble": ""}}
    text = clean(trouble, LONGEST_REFUSAL)
    return {"$set": {**seen, "trouble": text}, "$inc": {"troubles": 1}}
