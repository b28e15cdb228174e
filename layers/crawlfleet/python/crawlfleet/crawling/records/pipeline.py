"""The data processor (SPEC.md B9): what was read becomes records, or says why it does not.

Records of pages are prepared (crawling.records.preparation) on their way to the store. Items that
arrive from outside of workers wait in the data queue; a batch of them goes through the same::

    lease -> read -> normalise -> schema -> key -> store -> finish

An item that is no record, or that the store cannot hold, is dropped, and the journal says
why. One that could not be stored because the store is away goes back as if it had not been tried.
One that comes back again and again, because whoever had it died, is dropped in the end; until then
it is taken with ever fewer others, so that it is alone with its fault.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.records import normalise
from crawlfleet.crawling.records.coverage import coverage_of, with_rejected
from crawlfleet.crawling.records.normalise import MOST_REPORTED
from crawlfleet.crawling.records.preparation import check_fields, first_of, record_key, reported
from crawlfleet.crawling.records.redis import RedisCoverages, RedisDataQueue
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.kernel.errors import InvalidRequestError, StoreError
from crawlfleet.kernel.ids import RequestId, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Item, JournalLine, QueuedItem, Record
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.tokens import new_token

BATCH: Final = 200  #: Items of one batch.
#: An item is leased so often; whoever had it died, or its answer was lost, each time. At the eighth
#: it is alone in a batch.
MOST_ATTEMPTS: Final = 10
DROPPED: Final = "items dropped"  #: The kind of its journal line.


@dataclass(slots=True, kw_only=True)
class Drained:
    """The counts of a batch; of ``dropped`` items the journal says why."""

    stored: int = 0
    dropped: int = 0
    given_back: int = 0

    @property
    def away(self) -> bool:
        """Tell whether the store did not answer: try later."""
        return self.given_back > 0


_Made: TypeAlias = tuple[QueuedItem, Record]
_Dropped: TypeAlias = tuple[QueuedItem, str]


@dataclass(slots=True)
class _Batch:
    """The items that are records, and why the others are not.

    ``rejected`` counts those of the latter that schema or key refused, by rule and version.
    """

    records: list[_Made] = field(default_factory=list)
    dropped: list[_Dropped] = field(default_factory=list)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataProcessor:
    """Stores the items of data queues."""

    queue: RedisDataQueue
    store: MongoRequestStore
    validator: SchemaValidator
    coverages: RedisCoverages
    journal: MongoJournal

    def drain(
        self,
        tree: Tree,
        queue_key: QueueKey,
        token: str,
        now: datetime,
        until: datetime,
        count: int = BATCH,
    ) -> Drained:
        """Store a batch of a queue key's items; all counts are 0 when none wait.

        ``token`` must be new and begin with the worker's id (requests.models); the lease
        lasts ``until``. Nobody else has these items till then, and storing one twice does no harm:
        a repeat replaces, and a late item does not replace what was put after it. Raises
        StoreUnavailableError: the queue does not answer; items are leased again.
        """
        biz = tree.bizs[queue_key.tenant][queue_key.biz]
        batch = _Batch()
        leased = self.queue.lease(queue_key, token, count, now, until)
        taken = _together(leased, count)
        if len(taken) < len(leased):
            self.queue.give_back(queue_key, token, [queued.id for queued in leased[len(taken) :]])
        for queued in taken:
            if queued.attempt > MOST_ATTEMPTS:
                batch.dropped.append((queued, f"was leased {MOST_ATTEMPTS} times and never stored"))
                continue
            try:
                item = normalise.item_of(queued.data)
            except InvalidRequestError as error:
                batch.dropped.append((queued, first_of(error.problems)))
                continue
            try:
                put = normalise.put_of(queued.id)
                record = self._record_of(biz, queue_key, item, put, now)
                batch.records.append((queued, record))
            except InvalidRequestError as error:
                batch.dropped.append((queued, first_of(error.problems)))
                batch.rejected[item.rule, _version_of(biz, item)] += 1
        stored, left = self._store(queue_key, biz, batch, now)
        self._note_dropped(queue_key, token, batch.dropped, now)
        done = [queued.id for queued, _ in (*stored, *batch.dropped)]
        if done:
            self.queue.finish(queue_key, token, done)
        if left:
            self.queue.give_back(queue_key, token, [queued.id for queued, _ in left])
        self._count(queue_key, [record for _, record in stored], batch.rejected)
        return Drained(stored=len(stored), dropped=len(batch.dropped), given_back=len(left))

    def _store(
        self, queue_key: QueueKey, biz: Biz, batch: _Batch, now: datetime
    ) -> tuple[list[_Made], list[_Made]]:
        """Store the records; return what is stored, and what could not be as the store is away.

        What the store cannot hold is found by halves, and dropped.
        """
        stored: list[_Made] = []
        parts = [batch.records] if batch.records else []
        while parts:
            part = parts.pop()
            try:
                self.store.store_keyed(queue_key, biz, [record for _, record in part], now)
            except StoreError as error:
                if error.retryable:
                    warn("items could not be stored yet", error)
                    return stored, [*part, *(one for other in parts for one in other)]
                if len(part) > 1:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                else:
                    batch.dropped.append((part[0][0], str(error)))
            else:
                stored += part
        return stored, []

    def _note_dropped(
        self, queue_key: QueueKey, token: str, dropped: Sequence[_Dropped], now: datetime
    ) -> None:
        """Note in the journal what is dropped, once for each reason."""
        reasons = Counter(reported(reason) for _, reason in dropped).most_common()
        lines = dict(reasons[:MOST_REPORTED])
        if others := sum(count for _, count in reasons[MOST_REPORTED:]):
            lines["of other reasons"] = lines.get("of other reasons", 0) + others
        for why, count in lines.items():
            line = JournalLine(at=now, by=token, kind=DROPPED, why=why, count=count)
            try:
                self.journal.note(queue_key, line)
            except StoreError as error:
                warn(f"{count} items were dropped: {why}", error)

    def _record_of(
        self, biz: Biz, queue_key: QueueKey, item: Item, put: int | None, now: datetime
    ) -> Record:
        """Return the record that a queued item is; raises InvalidRequestError where it is none."""
        source = biz.reader(item.rule)
        fields = normalise.normalised(item.fields)
        check_fields(self.validator, source, fields)
        request = None if item.request is None else parse_id(item.request, "request")
        key = _item_key(source, queue_key, item, fields, request)
        return Record(
            request_id=key[:32] if request is None else request,
            index=0,
            biz=queue_key.biz,
            url=item.url,
            rule=item.rule,
            rule_version=_version_of(biz, item),
            stored_at=now,
            fields=fields,
            key=key,
            put=put,
        )

    def _count(
        self,
        queue_key: QueueKey,
        records: Sequence[Record],
        rejected: Mapping[tuple[str, str], int],
    ) -> None:
        """Add to the coverage of the rules; statistics only."""
        kinds: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in records:
            kinds[record.rule, record.rule_version].append(record)
        for kind in kinds.keys() | rejected.keys():
            counted = coverage_of(one.fields for one in kinds.get(kind, ()))
            try:
                self.coverages.add(queue_key, *kind, with_rejected(counted, rejected.get(kind, 0)))
            except StoreError as error:
                warn("the coverage of a rule was not counted", error)


def _together(leased: Sequence[QueuedItem], count: int) -> Sequence[QueuedItem]:
    """Return those to be taken at once: half as many with each lease that one of them had.

    If one of them kills whoever reads it, the others are stored without it before they have been
    leased too often themselves.
    """
    most = count
    for place, queued in enumerate(leased):
        most = min(most, max(1, count >> (queued.attempt - 1)))
        if place >= most:
            return leased[: max(1, place)]
    return leased


def _version_of(biz: Biz, item: Item) -> str:
    source = biz.reader(item.rule)
    return "" if source is None else source.version


def _item_key(
    source: Rule | Spider | None,
    queue_key: QueueKey,
    item: Item,
    fields: Mapping[str, Any],
    request: RequestId | None,
) -> str:
    if source is not None and source.key:
        return record_key(source, queue_key.tenant, queue_key.biz, item.rule, fields)
    if item.key is not None:
        return normalise.key_of_text(queue_key.tenant, queue_key.biz, item.rule, item.key)
    owner = item.url if request is None else str(request)
    return normalise.key_of_content(queue_key.tenant, queue_key.biz, item.rule, owner, fields)


LEASE: Final = timedelta(seconds=60)  #: An item whose worker is silent is leased again after this.
BATCHES: Final = 20  #: Batches of one queue key in one go: others wait, too.


def _is_there(tree: Tree, queue_key: QueueKey) -> bool:
    """Tell whether a queue key is that of a biz of the configuration."""
    biz = tree.bizs.get(queue_key.tenant, {}).get(queue_key.biz)
    return biz is not None and biz.queue == queue_key.queue


@dataclass(slots=True)
class Drainer:
    """Drains the data queues for one worker, which is named in its leases. Its method blocks.

    Whoever puts items in need not see the fleet's keys, and so cannot announce them. One worker at
    a time, as ``may_search`` says, searches all data queues for items and announces where there are
    some; all workers look into what is announced.
    """

    processor: DataProcessor
    worker: str
    clock: Callable[[], datetime]
    may_search: Callable[[], bool] = lambda: True
    batches: int = BATCHES
    _nonce: str = field(default_factory=partial(secrets.token_hex, 4), init=False)
    _leases: int = field(default=0, init=False)

    def drain(self, tree: Tree) -> int:
        """Store what waits, some batches a queue key; return how many items are done with."""
        queue, every = self.processor.queue, tree.queues()
        if not every:
            return 0
        if self.may_search():
            counts = zip(every, queue.waiting(every), strict=True)
            queue.open.announce([queue_key for queue_key, count in counts if count])
        listed = queue.open.listed()
        open_ones = [one for one in listed if _is_there(tree, one)]
        waiting = dict(zip(open_ones, queue.waiting(open_ones), strict=True))
        # What waits for a biz that there is no more is found again when there is one of its name.
        queue.open.forget({one: at for one, at in listed.items() if not waiting.get(one)})
        done = 0
        for queue_key, count in waiting.items():
            for _ in range(self.batches if count else 0):
                self._leases += 1
                token = new_token(self.worker, self._nonce, self._leases)
                now = self.clock()
                try:
                    drained = self.processor.drain(tree, queue_key, token, now, now + LEASE)
                except Exception as error:  # noqa: BLE001  no queue key's fault may be another's
                    warn("items could not be stored", error)
                    break
                done += drained.stored + drained.dropped
                if drained.away or not drained.stored + drained.dropped:
                    break
        return done
