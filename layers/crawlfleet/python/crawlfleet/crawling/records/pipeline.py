"""Draining data queues: items that came from outside of workers, lane by lane (SPEC.md B9).

The data processor (SPEC.md B9): what was read becomes records, or is told why it does not.

Records of pages go through :func:`prepare` on their way to the store. Items that arrive from
outside of workers wait in the data queue; :func:`drain` takes a batch of them through the same::

    lease -> read -> normal form -> schema -> key -> store -> finish

An item that is no record, or that the store cannot hold, is dropped, and the lane's journal says
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
from crawlfleet.crawling.records.coverage import coverage_of, with_rejected
from crawlfleet.crawling.records.normalise import (
    item_of,
    key_of,
    key_of_content,
    key_of_text,
    normalised,
    put_of,
)
from crawlfleet.crawling.records.ports import Coverages, DataQueue, Validator
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
#: An item is handed out so often; whoever had it died, or its answer was lost, each time. At the
#: eighth it is alone in a batch.
MOST_ATTEMPTS: Final = 10
#: What the journal calls it.
DROPPED: Final = "items dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Records to be stored; of those that are not, how many and, of the first ones, why.

    ``unfit`` are the fields of the latter that could have been records but for schema or key.
    ``next_index`` is where a later part of the same page goes on.
    """

    records: tuple[Record, ...]
    rejected: tuple[str, ...]
    rejected_count: int
    unfit: tuple[dict[str, Any], ...]
    next_index: int


def prepare(
    validator: Validator,
    source: Rule | Spider,
    claim: Claim,
    url: str,
    fields: Iterable[Mapping[str, Any]],
    stored_at: datetime,
    first_index: int = 0,
    first_place: int | None = None,
) -> Prepared:
    """What was read of a claimed request's page, as records.

    ``url`` is where the page was found. Indexes have no gaps: a rejected record has none. It is
    told by its place among all that was read, which begins at ``first_place`` in a later part.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPorts:
    """What draining needs of the world."""

    queue: DataQueue
    store: MongoRequestStore
    validator: Validator
    coverages: Coverages
    journal: MongoJournal


@dataclass(slots=True, kw_only=True)
class Drained:
    """What became of a batch; of ``dropped`` items the journal says why. ``away``: try later."""

    stored: int = 0
    dropped: int = 0
    given_back: int = 0

    @property
    def away(self) -> bool:
        """Whether the store did not answer."""
        return self.given_back > 0


@dataclass(slots=True)
class _Batch:
    """Items on their way: those that are records, and why the others are not.

    ``rejected`` are how many of the latter schema or key did not take, by rule and version.
    """

    records: list[tuple[QueuedItem, Record]] = field(default_factory=list)
    dropped: list[tuple[QueuedItem, str]] = field(default_factory=list)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)


def drain(
    ports: DrainPorts,
    tree: Tree,
    queue_key: QueueKey,
    token: str,
    now: datetime,
    until: datetime,
    count: int = BATCH,
) -> Drained:
    """Store a batch of the lane's items; all counts 0 when none wait.

    ``token`` must be new and begin with the worker's id (requests.queue.leases); the lease lasts
    ``until``. Nobody else has these items till then, and storing one twice does no harm: a repeat
    replaces, and an item that comes late does not replace what was put after it.

    Raises:
        StoreUnavailableError: the queue does not answer; items are handed out again.
    """
    biz = tree.bizs[queue_key.tenant][queue_key.biz]
    batch = _Batch()
    leased = ports.queue.lease(queue_key, token, count, now, until)
    taken = _together(leased, count)
    if len(taken) < len(leased):
        ports.queue.give_back(queue_key, token, [queued.id for queued in leased[len(taken) :]])
    for queued in taken:
        if queued.attempt > MOST_ATTEMPTS:
            batch.dropped.append((queued, f"was handed out {MOST_ATTEMPTS} times and never stored"))
            continue
        try:
            item = item_of(queued.data)
        except InvalidRequestError as error:
            batch.dropped.append((queued, _what(error.problems)))
            continue
        try:
            put = put_of(queued.id)
            record = _record_of(ports.validator, biz, queue_key, item, put, now)
            batch.records.append((queued, record))
        except InvalidRequestError as error:
            batch.dropped.append((queued, _what(error.problems)))
            batch.rejected[item.rule, _version_of(biz, item)] += 1
    stored, left = _store(ports, queue_key, biz, batch, now)
    _announce(ports, queue_key, token, batch.dropped, now)
    done = [queued.id for queued, _ in (*stored, *batch.dropped)]
    if done:
        ports.queue.finish(queue_key, token, done)
    if left:
        ports.queue.give_back(queue_key, token, [queued.id for queued, _ in left])
    _count(ports, queue_key, [record for _, record in stored], batch.rejected)
    return Drained(stored=len(stored), dropped=len(batch.dropped), given_back=len(left))


def _together(leased: Sequence[QueuedItem], count: int) -> Sequence[QueuedItem]:
    """Those to be taken at once: half as many with each time that one of them was handed out.

    If one of them kills whoever reads it, the others are stored without it before they have been
    handed out too often themselves.
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
    validator: Validator, biz: Biz, queue_key: QueueKey, item: Item, put: int | None, now: datetime
) -> Record:
    """The record that a queued item is.

    Raises:
        InvalidRequestError: it is none.
    """
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


def _check(validator: Validator, source: Rule | Spider | None, plain: dict[str, Any]) -> None:
    """That the fields, in normal form, are as the schema wants them."""
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


def _store(
    ports: DrainPorts, queue_key: QueueKey, biz: Biz, batch: _Batch, now: datetime
) -> tuple[list[tuple[QueuedItem, Record]], list[tuple[QueuedItem, Record]]]:
    """Store the records; returns what is stored, and what could not be as the store is away.

    What the store cannot hold is found by halves, and dropped.
    """
    stored: list[tuple[QueuedItem, Record]] = []
    parts = [batch.records] if batch.records else []
    while parts:
        part = parts.pop()
        try:
            ports.store.store_keyed(queue_key, biz, [record for _, record in part], now)
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


def _announce(
    ports: DrainPorts,
    queue_key: QueueKey,
    token: str,
    dropped: Sequence[tuple[QueuedItem, str]],
    now: datetime,
) -> None:
    """Write down what is dropped, once for each kind of reason."""
    reasons = Counter(_reported(reason) for _, reason in dropped)
    others = len(dropped)
    for reason, count in reasons.most_common(MOST_REPORTED):
        others -= count
        _note(
            ports, queue_key, JournalLine(at=now, by=token, kind=DROPPED, why=reason, count=count)
        )
    if others:
        why = "of other reasons"
        _note(ports, queue_key, JournalLine(at=now, by=token, kind=DROPPED, why=why, count=others))


def _note(ports: DrainPorts, queue_key: QueueKey, line: JournalLine) -> None:
    try:
        ports.journal.note(queue_key, line)
    except StoreError as error:
        warn(f"{line.count} items were dropped: {line.why}", error)


def _count(
    ports: DrainPorts,
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
            ports.coverages.add(queue_key, *kind, with_rejected(counted, rejected.get(kind, 0)))
        except StoreError as error:
            warn("the coverage of a rule was not counted", error)


def _what(problems: Sequence[Problem]) -> str:
    """The first problem, and how many there are beside it."""
    first = problems[0]
    said = str(first) if first.field else first.message
    return said if len(problems) == 1 else f"{said} (and {len(problems) - 1} more)"


def _reported(text: str) -> str:
    return text[:LONGEST_REPORTED].encode("utf-8", "replace").decode()


#: An item that nobody was heard of is handed out again after this.
LEASE: Final = timedelta(seconds=60)
#: Batches of one lane in one go: others wait, too.
BATCHES: Final = 20


class Drainer:
    """The draining of one worker. Its method blocks.

    Args:
        ports: The data queue and where its items go.
        worker: The worker's id.
        clock: The time.
        batches: Of one lane in one go: others wait, too.
    """

    def __init__(
        self, ports: DrainPorts, worker: str, clock: Callable[[], datetime], batches: int = BATCHES
    ) -> None:
        self._ports = ports
        self._worker = worker
        self._clock = clock
        self._batches = batches
        self._nonce = secrets.token_hex(4)
        self._leases = 0

    def drain(self, tree: Tree) -> int:
        """Store what waits, as far as it goes in a while; returns how many items are done with."""
        queues = tree.queues()
        if not queues:
            return 0
        done = 0
        for queue_key, waiting in zip(queues, self._ports.queue.waiting(queues), strict=True):
            for _ in range(self._batches if waiting else 0):
                self._leases += 1
                token = new_token(self._worker, self._nonce, self._leases)
                now = self._clock()
                try:
                    drained = drain(self._ports, tree, queue_key, token, now, now + LEASE)
                except Exception as error:  # noqa: BLE001  no lane's fault may be another's
                    warn("items could not be stored", error)
                    break
                done += drained.stored + drained.dropped
                if drained.away or not drained.stored + drained.dropped:
                    break
        return done
