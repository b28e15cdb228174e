"""Keep spiders and their versions on the home node of MongoDB (SPEC.md B2, C2).

``spiders`` has one document a spider: its newest version, and whether it is ``live``. A deleted one
(false) stays there while versions of it do, and then (null) for as long as jobs that have ended may
have its number. ``spider_versions`` has one document a version, whose ``_id`` nobody can write
twice. A version is written there first: whoever finds one that its spider does not show yet,
because its writer is slow or dead, shows it and goes on.
"""

import logging
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection
from pymongo.errors import DuplicateKeyError

from crawlfleet.jobs.spiders.models import HOLD, MOST_SPIDERS, MOST_VERSIONS, KeptSpider, SpiderPlan
from crawlfleet.kernel.errors import QuotaExceededError, StoreUnavailableError
from crawlfleet.kernel.mongo.connection import PART, Document, MongoNodes, border
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import JOB_LIFE

log = logging.getLogger(__name__)

#: Attempts to put a version while others put versions of the same spider.
_TRIES: Final = 50
#: Holds that a process remembers.
_MOST_KNOWN: Final = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SpiderPlan).decode


class MongoSpiders:
    """Kept spiders: of each the last ``most_versions``, and whatever is named or held.

    Open jobs and schedules are not known here: the caller of ``forget`` names their versions. A biz
    keeps ``most_spiders`` at most.
    """

    def __init__(
        self,
        nodes: MongoNodes,
        *,
        most_spiders: int = MOST_SPIDERS,
        most_versions: int = MOST_VERSIONS,
    ) -> None:
        self._nodes = nodes
        self._most_spiders, self._most_versions = most_spiders, most_versions
        self._is_indexed = False
        self._held: dict[str, datetime] = {}

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        """Keep a plan as the spider's newest version; return the newest where it is the same.

        Another description alone makes no version: it replaces the old one. Two that put at once
        make two versions, none lost. A deleted spider's numbers go on where they were.

        Raises:
            QuotaExceededError: the biz keeps as many spiders as it may.
            StoreUnavailableError: also after ``_TRIES`` conflicts with others that put.
        """
        key = _key(tenant, biz, name)
        with border():
            for _ in range(_TRIES):
                head = self._spiders().find_one({"_id": key})
                live = head is not None and head["live"]
                if head is not None and live and head["digest"] == plan.digest:
                    return self._described(head, plan)
                if not live:
                    self._check_room(tenant, biz)
                made = KeptSpider(
                    tenant=tenant,
                    biz=biz,
                    name=name,
                    version=1 if head is None else int(head["version"]) + 1,
                    plan=plan,
                    put_at=from_ms(to_ms(now)),
                )
                document = _document(made)
                try:
                    self._versions().insert_one({"_id": f"{key}/{made.version}", **document})
                except DuplicateKeyError:
                    standing = self._versions().find_one({"_id": f"{key}/{made.version}"})
                    if standing is not None:
                        self._show(key, standing)
                    continue
                self._show(key, document)
                return made
        raise StoreUnavailableError(PART, f"too many put the spider {name!r} at once")

    def hold(self, spider: KeptSpider, now: datetime) -> None:
        """Keep a version that a job or a schedule is about to name, for ``HOLD``.

        Forgotten meanwhile, it is kept again. After that it stays only if it is named.
        """
        head = _key(spider.tenant, spider.biz, spider.name)
        key = f"{head}/{spider.version}"
        if (known := self._held.get(key)) is not None and known > now - HOLD / 2:
            return
        kept = {"$max": {"held_at": now}, "$setOnInsert": _document(spider)}
        with border():
            try:
                self._versions().update_one({"_id": key}, kept, upsert=True)
            except DuplicateKeyError:  # another one held it at the same time
                self._versions().update_one({"_id": key}, kept)
            # There is a version of it again.
            self._spiders().update_one(
                {"_id": head, "live": None}, {"$set": {"live": False}, "$unset": {"gone_at": ""}}
            )
        if len(self._held) >= _MOST_KNOWN:
            self._held.clear()
        self._held[key] = now

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        """Get one version, the newest without a number; None where there is none.

        Those of a deleted spider are found by their number until they are forgotten.
        """
        key = _key(tenant, biz, name)
        with border():
            if version is None:
                found = self._spiders().find_one({"_id": key, "live": True})
            else:
                found = self._versions().find_one({"_id": f"{key}/{version}"})
        return None if found is None else _spider(found)

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        """List the newest version of each spider, by name, beginning after a name."""
        match: Document = {"tenant": tenant, "biz": biz, "live": True}
        if after is not None:
            match["name"] = {"$gt": after}
        with border():
            return list(_readable(self._spiders().find(match).sort("name", ASCENDING).limit(limit)))

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        """List the versions of a spider, the newest first."""
        match = {"tenant": tenant, "biz": biz, "name": name}
        with border():
            found = self._versions().find(match).sort("version", DESCENDING).limit(limit)
            return list(_readable(found))

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """Mark a spider as deleted; its versions stay until forgotten. False without one."""
        with border():
            live = {"_id": _key(tenant, biz, name), "live": True}
            return bool(self._spiders().update_one(live, {"$set": {"live": False}}).matched_count)

    def forget(self, tenant: str, biz: str, name: str, named: Several[int], now: datetime) -> int:
        """Forget versions but for those ``named`` or held: old ones; all of a deleted spider.

        Returns how many. A deleted spider's number stays for as long as ended jobs may have it.
        """
        of = {"tenant": tenant, "biz": biz, "name": name}
        key = _key(tenant, biz, name)
        with border():
            head = self._spiders().find_one({"_id": key}, {"live": True, "version": True})
            if head is None:
                return 0
            last = int(head["version"]) - (self._most_versions if head["live"] else 0)
            match = {
                **of,
                "version": {"$lte": last, "$nin": sorted(named)},
                # Without such a time, or with an early one.
                "held_at": {"$not": {"$gt": now - HOLD}},
            }
            gone = self._versions().delete_many(match).deleted_count
            if not head["live"]:
                self._keep_number(key, of, int(head["version"]), now)
        return gone

    def _keep_number(self, key: str, of: Document, version: int, now: datetime) -> None:
        """Keep only the number of a deleted spider without versions, until its TTL."""
        if self._versions().find_one(of, {"_id": True}) is not None:
            return
        only = {"$set": {"live": None, "gone_at": now}, "$unset": {"plan": "", "digest": ""}}
        self._spiders().update_one({"_id": key, "live": False, "version": version}, only)
        if self._versions().find_one(of, {"_id": True}) is not None:  # somebody held one meanwhile
            again = {"$set": {"live": False}, "$unset": {"gone_at": ""}}
            self._spiders().update_one({"_id": key, "live": None}, again)

    def deleted(self, tenant: str, biz: str, after: str | None, limit: int) -> list[str]:
        """List deleted spiders of which versions are left, by name, beginning after one."""
        match: Document = {"tenant": tenant, "biz": biz, "live": False}
        if after is not None:
            match["name"] = {"$gt": after}
        with border():
            found = self._spiders().find(match, {"name": True}).sort("name", ASCENDING)
            return [head["name"] for head in found.limit(limit)]

    def _check_room(self, tenant: str, biz: str) -> None:
        live = {"tenant": tenant, "biz": biz, "live": True}
        if self._spiders().count_documents(live, limit=self._most_spiders) >= self._most_spiders:
            raise QuotaExceededError(f"a biz keeps at most {self._most_spiders:,} spiders")

    def _described(self, head: Document, plan: SpiderPlan) -> KeptSpider:
        """Return the newest version, with this description."""
        kept = _spider(head)
        if kept.plan == plan:
            return kept
        content = {"$set": {"plan": _encode(plan)}}
        self._versions().update_one({"_id": f"{head['_id']}/{kept.version}"}, content)
        self._spiders().update_one({"_id": head["_id"], "version": kept.version}, content)
        return replace(kept, plan=plan)

    def _show(self, key: str, version: Document) -> None:
        """Make a version the newest one, unless a newer one is."""
        shown = {name: value for name, value in version.items() if name not in {"_id", "held_at"}}
        with suppress(DuplicateKeyError):  # there is a spider, and it shows a newer one
            self._spiders().update_one(
                {"_id": key, "version": {"$lt": version["version"]}},
                {"$set": {**shown, "live": True}, "$unset": {"gone_at": ""}},
                upsert=True,
            )

    def _spiders(self) -> Collection[Document]:
        self._ensure_indexes()
        return self._nodes.control("spiders")

    def _versions(self) -> Collection[Document]:
        self._ensure_indexes()
        return self._nodes.control("spider_versions")

    def _ensure_indexes(self) -> None:
        if self._is_indexed:
            return
        life = int(JOB_LIFE.total_seconds())
        self._nodes.control("spiders").create_indexes(
            [
                IndexModel(["tenant", "biz", "live", "name"], name="by_name"),
                IndexModel(["gone_at"], name="ttl", expireAfterSeconds=life),
            ]
        )
        self._nodes.control("spider_versions").create_index(
            ["tenant", "biz", "name", ("version", DESCENDING)], name="by_version", unique=True
        )
        self._is_indexed = True


def _key(tenant: str, biz: str, name: str) -> str:
    return f"{tenant}/{biz}/{name}"


def _document(spider: KeptSpider) -> Document:
    return {
        "tenant": spider.tenant,
        "biz": spider.biz,
        "name": spider.name,
        "version": spider.version,
        "digest": spider.plan.digest,
        "plan": _encode(spider.plan),
        "put_at": spider.put_at,
    }


def _spider(document: Document) -> KeptSpider:
    return KeptSpider(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        version=int(document["version"]),
        plan=_decode(document["plan"]),
        put_at=document["put_at"],
    )


def _readable(documents: Iterable[Document]) -> Iterator[KeptSpider]:
    """Read spiders, and skip what another release has written unreadably."""
    for document in documents:
        try:
            yield _spider(document)
        except (KeyError, msgspec.DecodeError) as error:
            which: Any = document.get("_id")
            log.warning("a kept spider cannot be read", extra={"id": which, "reason": str(error)})
