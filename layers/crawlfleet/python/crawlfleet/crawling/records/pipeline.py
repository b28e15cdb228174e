"""The data processor (SPEC.md B9): what was read becomes records, or says why it does not.

Records of pages go through :func:`prepare` on their way to the store. Items that arrive from
outside of workers wait in the data queue; :func:`drain` takes a batch of them through the same::

    lease -> read -> normalise -> schema -> key -> store -> finish

An item that is no record, or that the store cannot hold, is dropped, and the journal says
why. One that could not be stored because the store is away goes back as if it had not been tried.
One that comes back again and again, because whoever had it died, is dropped in the end; until then
it is taken with ever fewer others, so that it is alone with its fault.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.crawling.records.normalise import (
    item_of,
    key_of,
    key_of_content,
    key_of_text,
    normalised,
    put_of,
)
from crawlfleet.crawling.records.redis import (
    RedisCoverages,
    RedisDataQueue,
    coverage_of,
    with_rejected,
)
from crawlfleet.crawling.records.schema import SchemaValidator
from crawlfleet.kernel.errors import InvalidRequestError, Problem, StoreError
from crawlfleet.kernel.ids import RequestId, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Claim, Item, JournalLine, QueuedItem, Record, new_token
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.store import MongoRequestStore

#: Texts about rejected records that are kept of one page, and how long each may be.
MOST_REPORTED: Final = 10
LONGEST_REPORTED: Final = 300
#: Items of one batch.
BATCH: Final = 200
#: An item is leased so often; whoever had it died, or its answer was lost, each time. At the eighth
#: it is alone in a batch.
MOST_ATTEMPTS: Final = 10
#: The kind of its journal line.
DROPPED: Final = "items dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records to be stored; how many are not, and why of the first ones.

    ``unfit`` are the fields of the latter that could have been records but for schema or key.
    ``next_index`` is where a later part of the same page goes on.
    """

    records: tuple[Record, ...]
    rejected: tuple[str, ...]
    rejected_count: int
    unfit: tuple[dict[str, Any], ...]
    next_index: int


def prepare(
    validator: SchemaValidator,
    source: Rule | Spider,
    claim: Claim,
    url: str,
    fields: Iterable[Mapping[str, Any]],
    stored_at: datetime,
    first_index: int = 0,
    first_place: int | None = None,
) -> Prepared:
    """Make records of what was read of a claimed request's page.

    ``url`` is where the page was found. Indexes have no gaps: a rejected record has none. It is
    named by its place among all that was read, which begins at ``first_place`` in a later part.
    """
    request = claim.request
    body = request.body
    records: list[Record] = []
    rejected: list[str] = []
    unfit: list[dict[str, Any]] = []
    count = 0
    for place, one in enumerate(fields, first_index if first_place is None else first_place):
        plain = None
        try:
            plain = normalised(one)
            _check(validator, source, plain)
            key = None
            if source.key:
                key = _key(source, request.tenant, request.biz, body.rule, plain)
        except InvalidRequestError as error:
            count += 1
            if plain is not None:
                unfit.append(plain)
            if len(rejected) < MOST_REPORTED:
                rejected.append(_reported(f"record {place}, {_what(error.problems)}"))
            continue
        records.append(
            Record(
                request_id=request.id,
                index=first_index + len(records),
                biz=request.biz,
                url=url,
                rule=body.rule,
                rule_version=body.rule_version,
                stored_at=stored_at,
                fields=plain,
                key=key,
            )
        )
    return Prepared(
        records=tuple(records),
        rejected=tuple(rejected),
        rejected_count=count,
        unfit=tuple(unfit),
        next_index=first_index + len(records),
    )


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


@dataclass(slots=True)
class _Batch:
    """The items that are records, and why the others are not.

    ``rejected`` counts those of the latter that schema or key refused, by rule and version.
    """

    records: list[tuple[QueuedItem, Record]] = field(default_factory=list)
    dropped: list[tuple[QueuedItem, str]] = field(default_factory=list)
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

        ``token`` must be new and begin with the worker's id (requests.queue.leases); the lease
        lasts ``until``. Nobody else has these items till then, and storing one twice does no harm:
        a repeat replaces, and a late item does not replace what was put after it.

        Raises:
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
                item = item_of(queued.data)
            except InvalidRequestError as error:
                batch.dropped.append((queued, _what(error.problems)))
                continue
            try:
                put = put_of(queued.id)
                record = _record_of(self.validator, biz, queue_key, item, put, now)
                batch.records.append((queued, record))
            except InvalidRequestError as error:
                batch.dropped.append((queued, _what(error.problems)))
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
    ) -> tuple[list[tuple[QueuedItem, Record]], list[tuple[QueuedItem, Record]]]:
        """Store the records; return what is stored, and what could not be as the store is away.

        What the store cannot hold is found by halves, and dropped.
        """
        stored: list[tuple[QueuedItem, Record]] = []
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
        self,
        queue_key: QueueKey,
        token: str,
        dropped: Sequence[tuple[QueuedItem, str]],
        now: datetime,
    ) -> None:
        """Note in the journal what is dropped, once for each reason."""
        reasons = Counter(_reported(reason) for _, reason in dropped).most_common()
        lines = dict(reasons[:MOST_REPORTED])
        if others := sum(count for _, count in reasons[MOST_REPORTED:]):
            lines["of other reasons"] = lines.get("of other reasons", 0) + others
        for why, count in lines.items():
            line = JournalLine(at=now, by=token, kind=DROPPED, why=why, count=count)
            try:
                self.journal.note(queue_key, line)
            except StoreError as error:
                warn(f"{count} items were dropped: {why}", error)

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


def _record_of(
    validator: SchemaValidator,
    biz: Biz,
    queue_key: QueueKey,
    item: Item,
    put: int | None,
    now: datetime,
) -> Record:
    """Return the record that a queued item is; raises InvalidRequestError where it is none."""
    source = biz.reader(item.rule)
    fields = normalised(item.fields)
    _check(validator, source, fields)
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


def _item_key(
    source: Rule | Spider | None,
    queue_key: QueueKey,
    item: Item,
    fields: Mapping[str, Any],
    request: RequestId | None,
) -> str:
    if source is not None and source.key:
        return _key(source, queue_key.tenant, queue_key.biz, item.rule, fields)
    if item.key is not None:
        return key_of_text(queue_key.tenant, queue_key.biz, item.rule, item.key)
    owner = item.url if request is None else str(request)
    return key_of_content(queue_key.tenant, queue_key.biz, item.rule, owner, fields)


def _check(validator: SchemaValidator, source: Rule | Spider | None, plain: dict[str, Any]) -> None:
    """Check normalised fields by the schema."""
    if source is not None and source.schema is not None:
        problems = validator.problems(source.schema, plain)
        if problems:
            raise InvalidRequestError(problems)


def _key(source: Rule | Spider, tenant: str, biz: str, rule: str, fields: Mapping[str, Any]) -> str:
    key = key_of(tenant, biz, rule, source.key, fields)
    if key is None:
        missing = next(name for name in source.key if fields.get(name) in (None, "", [], {}))
        raise InvalidRequestError.of(missing, "is missing, and is part of the record's key")
    return key


def _what(problems: Sequence[Problem]) -> str:
    """Return the first problem, and how many there are beside it."""
    first = problems[0]
    said = str(first) if first.field else first.message
    return said if len(problems) == 1 else f"{said} (and {len(problems) - 1} more)"


def _reported(text: str) -> str:
    return text[:LONGEST_REPORTED].encode("utf-8", "replace").decode()


#: An item whose worker is silent is leased again after this.
LEASE: Final = timedelta(seconds=60)
#: Batches of one queue key in one go: others wait, too.
BATCHES: Final = 20


class Drainer:
    """Drains the data queues for one worker, which is named in its leases. Its method blocks."""

    def __init__(
        self,
        processor: DataProcessor,
        worker: str,
        clock: Callable[[], datetime],
        batches: int = BATCHES,
    ) -> None:
        self._processor, self._worker, self._clock = processor, worker, clock
        self._batches = batches
        self._nonce = secrets.token_hex(4)
        self._leases = 0

    def drain(self, tree: Tree) -> int:
        """Store what waits, some batches a queue key; return how many items are done with."""
        queues = tree.queues()
        if not queues:
            return 0
        done = 0
        for queue_key, waiting in zip(queues, self._processor.queue.waiting(queues), strict=True):
            for _ in range(self._batches if waiting else 0):
                self._leases += 1
                token = new_token(self._worker, self._nonce, self._leases)
                now = self._clock()
                try:
                    drained = self._processor.drain(tree, queue_key, token, now, now + LEASE)
                except Exception as error:  # noqa: BLE001  no queue key's fault may be another's
                    warn("items could not be stored", error)
                    break
                done += drained.stored + drained.dropped
                if drained.away or not drained.stored + drained.dropped:
                    break
        return done
