"""Jobs of a schedule that count one another (SPEC.md B1, C2); part of :mod:`.jobs`.

``schedule_turns`` has a document for each schedule that has started such a job of late. Whoever
keeps one writes there, in the transaction that counts what is open: two at once meet at it, and the
one that is undone counts again. It has nothing to remember, so it goes after a day; whatever is
open is known by the jobs themselves, those of older versions too.
"""

from datetime import timedelta
from typing import Final

from pymongo import ASCENDING
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.adapters.mongo.connection import Document, MongoNodes, border
from crawlfleet.adapters.mongo.job_documents import cancellation, document_of, job_of
from crawlfleet.adapters.mongo.jobs_collection import OPEN, JobsCollection
from crawlfleet.adapters.mongo.transactions import (
    TRANSACTION_SECONDS,
    MetAnotherError,
    in_transaction,
)
from crawlfleet.model.job import Job, JobState

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

    def create_in_turn(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
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
