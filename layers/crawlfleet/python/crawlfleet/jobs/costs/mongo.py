"""Days and histories on the home node: what work took, and what runs are forecast from.

``costs`` has a document for each biz and day, ``histories`` one for each spider, host and tenant,
with its latest runs.

Workers report their accounts of a day as they report runs (jobs.mongo.usage). Once a worker is
over, what it has reported is added to the day's document and removed, in one transaction.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final

import msgspec
from pymongo import IndexModel, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.jobs.costs.forecast import KEPT, Known, RunSummary
from crawlfleet.jobs.models import RunFigures
from crawlfleet.jobs.mongo.usage import PART_INDEXES, SUMS
from crawlfleet.kernel.mongo import connection
from crawlfleet.kernel.mongo.transactions import in_transaction
from crawlfleet.kernel.time import TimeLeft

#: A worker that reported so long ago is over, and tells no more of it.
OVER: Final = timedelta(hours=1)
#: Days are kept for a year and a month.
LIFE: Final = timedelta(days=400)
_TTL: Final = int(LIFE.total_seconds())
#: Reports that are summed up in one transaction.
BATCH: Final = 500


class BizDay(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a biz's work in a day of UTC."""

    biz: str
    day: date
    figures: RunFigures


class MongoCosts:
    """The days of all tenants."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def sum_up(self, now: datetime, time_left: TimeLeft) -> int:
        """Add what workers that are over have reported to its days; return how many reports."""
        before, done = now - OVER, 0
        while time_left() > 0:
            count = self._sum_up(before)
            done += count
            if count < BATCH:
                break
        return done

    def _sum_up(self, before: datetime) -> int:
        match = {"day": {"$exists": True}, "at": {"$lt": before}}

        def write(session: ClientSession) -> int:
            found = list(parts.find(match, session=session).limit(BATCH).hint("of_day"))
            if not found:
                return 0
            sums: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
            owners: dict[str, dict[str, Any]] = {}
            for part in found:
                owner = {name: part[name] for name in ("tenant", "biz", "day")}
                owners[part["run"]] = owner
                for name in SUMS:
                    sums[part["run"]][name] += part.get(name, 0)
            costs.bulk_write(
                [
                    UpdateOne(
                        {"_id": run},
                        {"$inc": amounts, "$setOnInsert": {**owners[run], "at": before}},
                        upsert=True,
                    )
                    for run, amounts in sums.items()
                ],
                session=session,
            )
            ids = [part["_id"] for part in found]
            parts.delete_many({"_id": {"$in": ids}, "at": {"$lt": before}}, session=session)
            return len(found)

        with connection.border():
            parts, costs = self._at("run_parts"), self._at("costs")
            return in_transaction(costs.database.client, write)

    def days(self, tenant: str, biz: str | None, first: date, last: date) -> list[BizDay]:
        """Read what a tenant's work, or one biz's, took from one day to another, by day and biz."""
        match: connection.Document = {"tenant": tenant}
        match["day"] = {"$gte": first.isoformat(), "$lte": last.isoformat()}
        if biz is not None:
            match["biz"] = biz
        stages: list[connection.Document] = [
            {"$match": match},
            {"$unionWith": {"coll": "run_parts", "pipeline": [{"$match": match}]}},
            {
                "$group": {
                    "_id": {"day": "$day", "biz": "$biz"},
                    **{name: {"$sum": f"${name}"} for name in SUMS},
                }
            },
            {"$sort": {"_id.day": 1, "_id.biz": 1}},
        ]
        with connection.border():
            found = list(self._at("costs").aggregate(stages, hint="of_tenant"))
        return [
            BizDay(
                biz=one["_id"]["biz"],
                day=date.fromisoformat(one["_id"]["day"]),
                figures=msgspec.convert({name: one[name] for name in SUMS}, RunFigures),
            )
            for one in found
        ]

    def of_day(self, tenants: Sequence[str], day: date) -> dict[str, RunFigures]:
        """Read what the work of each of these tenants took in a day, where it took anything."""
        match: connection.Document = {"tenant": {"$in": list(tenants)}, "day": day.isoformat()}
        stages: list[connection.Document] = [
            {"$match": match},
            {"$unionWith": {"coll": "run_parts", "pipeline": [{"$match": match}]}},
            {"$group": {"_id": "$tenant", **{name: {"$sum": f"${name}"} for name in SUMS}}},
        ]
        with connection.border():
            found = list(self._at("costs").aggregate(stages, hint="of_tenant"))
        return {
            one["_id"]: msgspec.convert({name: one[name] for name in SUMS}, RunFigures)
            for one in found
        }

    def _at(self, name: str) -> Collection[connection.Document]:
        if not self._is_indexed:
            self._nodes.control("costs").create_indexes(
                [
                    IndexModel(["tenant", "day"], name="of_tenant"),
                    IndexModel(["at"], name="ttl", expireAfterSeconds=_TTL),
                ]
            )
            self._nodes.control("run_parts").create_indexes([*PART_INDEXES])
            self._is_indexed = True
        return self._nodes.control(name)


class MongoHistories:
    """The latest runs of spiders, hosts and tenants, ``KEPT`` of each."""

    def __init__(self, nodes: connection.MongoNodes) -> None:
        self._nodes = nodes
        self._is_indexed = False

    def known(self, tenant: str, biz: str, spider: str, hosts: Sequence[str]) -> Known:
        """Read what is known of earlier runs, in one look."""
        of_spider, of_hosts, of_tenant = _histories(tenant, biz, spider, hosts)
        with connection.border():
            found = {
                one["_id"]: msgspec.convert(one["runs"], tuple[RunSummary, ...])
                for one in self._at().find({"_id": {"$in": [of_spider, *of_hosts, of_tenant]}})
            }
        return Known(
            spider=found.get(of_spider, ()),
            hosts=[run for name in of_hosts for run in found.get(name, ())],
            tenant=found.get(of_tenant, ()),
        )

    def add(
        self, owner: tuple[str, str, str], hosts: Sequence[str], run: RunSummary, now: datetime
    ) -> None:
        """Keep a run with those of its spider, a tenant's biz's, of its hosts and its tenant."""
        of_spider, of_hosts, of_tenant = _histories(*owner, hosts)
        document = msgspec.to_builtins(run)
        push = {"$push": {"runs": {"$each": [document], "$slice": -KEPT}}, "$set": {"at": now}}
        with connection.border():
            self._at().bulk_write(
                [
                    UpdateOne({"_id": name}, push, upsert=True)
                    for name in (of_spider, *of_hosts, of_tenant)
                ]
            )

    def _at(self) -> Collection[connection.Document]:
        if not self._is_indexed:
            ttl = IndexModel(["at"], name="ttl", expireAfterSeconds=_TTL)
            self._nodes.control("histories").create_indexes([ttl])
            self._is_indexed = True
        return self._nodes.control("histories")


def _histories(
    tenant: str, biz: str, spider: str, hosts: Sequence[str]
) -> tuple[str, list[str], str]:
    """Return the ids of the documents that a run is kept in; no biz has an empty name."""
    return f"{tenant}/{biz}/{spider}", [f"{tenant}//{host}" for host in hosts], f"{tenant}//"
