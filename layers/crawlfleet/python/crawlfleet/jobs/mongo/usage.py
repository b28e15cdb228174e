"""Keep runs and demands on the home node of MongoDB (SPEC.md B3, B10).

``runs`` and ``demands`` have one document a job and a spider, ``run_parts`` one for each worker's
part of a job, until its run is closed, and for its account of a biz in one day, until that is
summed up (jobs.costs.mongo). A run is closed, and the demand changed, in one transaction.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec
from pymongo import ASCENDING, IndexModel, ReplaceOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.jobs.models import DAY, RUN_LIFE, JobDemand, RunFigures, RunPart, RunRecord
from crawlfleet.kernel.mongo import connection
from crawlfleet.kernel.mongo.transactions import MetAnotherError, in_transaction

#: Figures of parts that add up.
SUMS: Final = (
    *("seconds", "memory_seconds", "cpu_seconds", "bytes"),
    *("requests", "records", "errors", "workers"),
    *("gb_seconds", "proxied_bytes", "proxy_usd", "stored_bytes"),
)
_MAXIMA: Final = ("memory_max", "cpu_max", "bandwidth_max")
_TO_LEARN: Final = "to_learn"
_OF_DAYS: Final[connection.Document] = {"partialFilterExpression": {"day": {"$exists": True}}}
_TTL: Final = int(RUN_LIFE.total_seconds())
PART_INDEXES: Final = (
    IndexModel(["run"], name="by_run"),
    IndexModel(["tenant", "day"], name="of_tenant", **_OF_DAYS),
    IndexModel(["day", "at"], name="of_day", **_OF_DAYS),
    IndexModel(["at"], name="ttl", expireAfterSeconds=_TTL),
)


class MongoDemands:
    """Demands and runs of all tenants."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def add_run(self, parts: Sequence[RunPart], now: datetime) -> None:
        """Keep what workers have measured of runs; a part replaces its earlier version.

        So it may be repeated. Kept for a month after the last time.
        """
        if not parts:
            return
        with connection.border():
            self._at("run_parts").bulk_write(
                [
                    ReplaceOne(
                        {"_id": f"{run}/{one.part}"},
                        {"run": run, "at": now, **_of_day(one), **_document(one.figures)},
                        upsert=True,
                    )
                    for one in parts
                    for run in (_key(one.tenant, one.biz, one.job),)
                ],
                ordered=False,
            )

    def measured(self, tenant: str, biz: str, job: str) -> RunFigures:
        """Sum up the parts of a job in MongoDB, as there may be thousands; nothing without any."""
        stages: list[connection.Document] = [
            {"$match": {"run": _key(tenant, biz, job)}},
            {
                "$group": {
                    "_id": None,
                    **{name: {"$sum": f"${name}"} for name in SUMS},
                    **{name: {"$max": f"${name}"} for name in _MAXIMA},
                    "began_at": {"$min": "$began_at"},
                    "ended_at": {"$max": "$ended_at"},
                }
            },
            {"$unset": "_id"},
        ]
        with connection.border():
            for found in self._at("run_parts").aggregate(stages):
                return msgspec.convert(found, RunFigures)
        return RunFigures()

    def end_run(self, run: RunRecord) -> None:
        """Keep that a run has ended, to be closed later; until it is, the last call counts.

        A closed one is open again where its job was retried since (``retries``): its figures and
        whether it was learnt from stay. Otherwise nothing changes.
        """
        end = _document(run)
        first = {name: end.pop(name) for name in ("figures", "learnt_at")}
        may_end = [{"closed": False}, {"retries": {"$lt": run.retries}}]
        match = {"_id": _key(run.tenant, run.biz, run.job), "$or": may_end}
        change = {"$set": {**end, "closed": False}, "$setOnInsert": first}
        with connection.border(), suppress(DuplicateKeyError):  # closed, and not retried since
            self._at("runs").update_one(match, change, upsert=True)

    def forget_end(self, run: RunRecord) -> None:
        """Withdraw an end, unless the run is closed or ended at another time.

        One that was closed before is closed again.
        """
        key = _key(run.tenant, run.biz, run.job)
        match = {"_id": key, "closed": False, "ended_at": run.ended_at}
        with connection.border():
            if run.was_closed:
                change = {"$set": {"closed": True, "retries": run.retries - 1}}
                self._at("runs").update_one(match, change)
            else:
                self._at("runs").delete_one(match)

    def tenants_to_learn(self, before: datetime) -> list[str]:
        """List tenants that have unclosed runs which ended before a moment."""
        stages: list[connection.Document] = [
            {"$match": {"closed": False, "ended_at": {"$lt": before}}},
            {"$group": {"_id": "$tenant"}},
        ]
        with connection.border():
            found = self._at("runs").aggregate(stages, hint=_TO_LEARN)
            return sorted(one["_id"] for one in found)

    def to_learn(self, tenant: str, before: datetime, limit: int) -> list[RunRecord]:
        """List such runs of one tenant, the longest ended first."""
        with connection.border():
            found = (
                self._at("runs")
                .find({"closed": False, "tenant": tenant, "ended_at": {"$lt": before}})
                .sort("ended_at", ASCENDING)
                .limit(limit)
                .hint(_TO_LEARN)
            )
            return msgspec.convert(list(found), list[RunRecord])

    def close_run(self, run: RunRecord, known: JobDemand, learnt: JobDemand | None) -> bool:
        """Close a run with its figures, and keep what was learnt from it, both or none.

        On the condition that the run is open, with this end, and that the demand has as many runs
        as ``known`` (0: there is none yet), for which ``learnt`` is kept; None leaves it alone.
        False where one of both has changed: nothing is written then. Its parts are removed.
        """
        runs, demands, parts = self._at("runs"), self._at("demands"), self._at("run_parts")
        key = _key(run.tenant, run.biz, run.job)
        of_spider = _key(known.tenant, known.biz, known.spider)
        document = _document(msgspec.structs.replace(run, closed=True))

        def write(session: ClientSession) -> bool:
            standing_run = {"_id": key, "closed": False, "ended_at": run.ended_at}
            closed = runs.update_one(standing_run, {"$set": document}, session=session)
            if not closed.matched_count:
                session.abort_transaction()
                return False
            if learnt is not None:
                standing = demands.find_one({"_id": of_spider}, {"runs": 1}, session=session)
                if (0 if standing is None else standing["runs"]) != known.runs:
                    session.abort_transaction()
                    return False
                match, content = {"_id": of_spider}, _document(learnt)
                try:
                    demands.replace_one(match, content, upsert=True, session=session)
                except DuplicateKeyError as error:  # another one's first run, learnt just now
                    raise MetAnotherError from error
            return True

        with connection.border():
            client = self._nodes.control("runs").database.client
            if not in_transaction(client, write):
                return False
            # A crash before this leaves parts that nobody reads, and that expire in a month.
            parts.delete_many({"run": key})
        return True

    def get(self, tenant: str, biz: str, spider: str) -> JobDemand | None:
        """Get what the runs of a spider have taken, or None where there was none."""
        with connection.border():
            found = self._at("demands").find_one({"_id": _key(tenant, biz, spider)})
        return None if found is None else msgspec.convert(found, JobDemand)

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[JobDemand]:
        """List demands by the spider's name, beginning after a name."""
        match: connection.Document = {"tenant": tenant, "biz": biz}
        if after is not None:
            match["spider"] = {"$gt": after}
        with connection.border():
            found = self._at("demands").find(match).sort("spider", ASCENDING).limit(limit)
            return msgspec.convert(list(found), list[JobDemand])

    def run(self, tenant: str, biz: str, job: str) -> RunRecord | None:
        """Get the run of a job that has ended, or None."""
        with connection.border():
            found = self._at("runs").find_one({"_id": _key(tenant, biz, job)})
        return None if found is None else msgspec.convert(found, RunRecord)

    def _at(self, name: str) -> Collection[connection.Document]:
        if not self._is_indexed:
            of_open_runs = {"partialFilterExpression": {"closed": False}}
            self._nodes.control("runs").create_indexes(
                [
                    IndexModel(["tenant", "ended_at"], name=_TO_LEARN, **of_open_runs),
                    IndexModel(["ended_at"], name="ttl", expireAfterSeconds=_TTL),
                ]
            )
            self._nodes.control("run_parts").create_indexes([*PART_INDEXES])
            self._nodes.control("demands").create_index(["tenant", "biz", "spider"], name="of_biz")
            self._is_indexed = True
        return self._nodes.control(name)


def _key(tenant: str, biz: str, name: str) -> str:
    return f"{tenant}/{biz}/{name}"


def _of_day(part: RunPart) -> connection.Document:
    """Say of which day the account of a biz is; nothing of the part of a job."""
    if not part.job.startswith(DAY):
        return {}
    return {"tenant": part.tenant, "biz": part.biz, "day": part.job.removeprefix(DAY)}


def _document(value: msgspec.Struct) -> connection.Document:
    document: connection.Document = msgspec.to_builtins(value, builtin_types=(datetime,))
    return document
