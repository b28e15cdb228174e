"""Events of the scheduler: alarms that SNS brings (SPEC.md A12), and starts (B1, C2).

A rule of somebody's own in EventBridge has a spider started. Its input is the rule's, its values
may be an event's, which is to say anybody's: they go into open places of the spider's pattern and
nowhere else (jobs.spiders.models), and are bounded here.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.apps.context import Parts
from crawlfleet.fleet.models import TickPart
from crawlfleet.fleet.ticks import TickReports
from crawlfleet.jobs.bidding.redis import RedisBoard
from crawlfleet.jobs.costs.mongo import MongoHistories
from crawlfleet.jobs.models import JobOrder
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.service import JobStarter, wake_for
from crawlfleet.jobs.spiders.models import PlaceName, PlaceValue, SpiderName
from crawlfleet.jobs.spiders.mongo import MongoSpiders
from crawlfleet.jobs.sqs import StartsQueue
from crawlfleet.kernel.errors import (
    CrawlfleetError,
    InvalidRequestError,
    NoConfigurationError,
    Problem,
    QuotaExceededError,
    RejectedError,
    TenantSuspendedError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import Priority
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.validation import Count, Slug, decode
from crawlfleet.requests.submission.admission import event_name
from crawlfleet.requests.submission.mongo import MongoRules

#: What is kept of a name that stands in a log.
_LONGEST_ALARM: Final = 200
_SOURCE: Final = "aws:sns"
#: A queue hands the clock's event on once more: a tick between two minutes.
_QUEUE: Final = "aws:sqs"


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A CloudWatch alarm's change of state, as far as it matters. All of it is for the log.

    What is done is decided by what is seen then, not by what an alarm says: it may come twice, or
    late, and is only the reason for looking at once.
    """

    name: str
    state: str
    at: datetime | None = None


class _Message(msgspec.Struct, frozen=True):
    """A message of CloudWatch; more fields come with it."""

    AlarmName: str
    NewStateValue: str
    StateChangeTime: str = ""


_decode = msgspec.json.Decoder(_Message).decode


def alarms_in(event: Mapping[str, Any]) -> list[Alarm] | None:
    """Read the alarms that an event carries; None where it is no message of SNS, but a tick.

    A message that is no alarm's is left out: somebody published by hand.

    >>> alarms_in({"source": "aws.events"}) is None, alarms_in({"Records": []})
    (True, [])
    >>> alarms_in({"Records": [{"eventSource": "aws:sqs", "body": "{}"}]}) is None
    True
    """
    records = event.get("Records")
    if not isinstance(records, list):
        return None
    if any(isinstance(one, Mapping) and one.get("eventSource") == _QUEUE for one in records):
        return None
    found = []
    for record in records:
        if not isinstance(record, Mapping) or record.get("EventSource") != _SOURCE:
            continue
        sns = record.get("Sns")
        message = sns.get("Message") if isinstance(sns, Mapping) else None
        try:
            read = _decode(message if isinstance(message, str) else "")
        except (msgspec.MsgspecError, UnicodeError):
            continue
        found.append(
            Alarm(
                name=read.AlarmName[:_LONGEST_ALARM],
                state=read.NewStateValue[:_LONGEST_ALARM],
                at=_time(read.StateChangeTime),
            )
        )
    return found


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


#: Who started a job, as the job says it.
BY_EVENT: Final = "event"
#: What EventBridge calls the event of a rule that has a schedule and no input: a tick.
_SCHEDULED: Final = "Scheduled Event"
_NO_INPUT: Final = (
    "is missing: the event of a rule that starts a spider has an input of the rule's own, as"
    " infra/spider_rules.py makes it"
)
#: What identifies an event, and what does not: in a rule that has a schedule its time does.
_IDENTITY: Final = frozenset({"id", "time"})


class StartEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The input of a rule.

    ``id`` is the event's, ``time`` that of a rule with a schedule: either makes it one job, however
    often it is delivered. A number among ``values`` is put in as it is written.
    """

    crawlfleet: Literal["start"]
    tenant: Slug
    biz: Slug
    spider: SpiderName
    version: Count | None = None
    values: Annotated[
        dict[PlaceName, PlaceValue | Annotated[int, Meta(ge=-(2**53), le=2**53)]],
        Meta(max_length=8),
    ] = {}
    priority: Priority | None = None
    id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    time: Annotated[datetime, Meta(tz=True)] | None = None


def is_start(event: Mapping[str, Any]) -> bool:
    """Tell whether an event is to start a job: it says so, or is of a rule of somebody's own.

    >>> is_start({"crawlfleet": "start"}), is_start({"detail-type": "Scheduled Event"})
    (True, False)
    >>> is_start({"detail-type": "Object Created"})
    True
    """
    return "crawlfleet" in event or event.get("detail-type", _SCHEDULED) != _SCHEDULED


def order_in(event: Mapping[str, Any]) -> JobOrder:
    """Read the job that an event orders, by a name that is the event's own.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    if "crawlfleet" not in event:
        raise InvalidRequestError.of("crawlfleet", _NO_INPUT)
    given, problems = decode(_written(event), StartEvent)
    if given is None:
        raise InvalidRequestError([Problem(p.field or "event", p.message) for p in problems])
    identity = given.id
    if identity is None and given.time is not None:
        identity = given.time.isoformat()
    if identity is None:
        message = "is missing, and so is time: by one of them an event that comes twice is one"
        raise InvalidRequestError.of("id", message)
    content = {name: event[name] for name in event.keys() - _IDENTITY}
    return JobOrder(
        tenant=given.tenant,
        biz=given.biz,
        by=BY_EVENT,
        name=event_name(given.spider, identity, content),
        spider=given.spider,
        version=given.version,
        values={name: str(value) for name, value in given.values.items()},
        priority=given.priority,
    )


def what_failed(event: Mapping[str, Any]) -> str:
    """Return a word for the event, the same whenever it comes again, that tells nothing of it."""
    said = {name: event.get(name) for name in ("tenant", "biz", "spider", "id", "time")}
    known = {name: value[:256] for name, value in said.items() if isinstance(value, str)}
    return event_name("start", "", known)


def _written(event: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(event)
    except (UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequestError.of("event", "is no text that JSON can hold") from error


#: Characters of a refusal that are logged.
_LONGEST_START: Final = 2_000


class EventStarts:
    """Starts what events order, each once; what is refused counts as a fault of the tick."""

    def __init__(self, parts: Parts, rules: MongoRules, reports: TickReports) -> None:
        self._parts = parts
        self._reports = reports
        self._starter = JobStarter(
            jobs=MongoJobs(parts.nodes),
            spiders=MongoSpiders(parts.nodes),
            rules=rules,
            board=RedisBoard(parts.redis),
            histories=MongoHistories(parts.nodes),
        )
        url = parts.settings.starts_queue
        self._queue = StartsQueue(url, connect=parts.outside.client) if url else None

    def start(self, event: Mapping[str, Any]) -> dict[str, int | str]:
        """Start the job that an event orders; what was started before is only reported.

        What is wrong with an event stays wrong: it is logged and not raised, so Lambda does not try
        it again. What may be over in a moment waits in the stage's queue, until a tick can start
        it. A stage without one raises it, which rings alarms.

        Raises:
            QuotaExceededError: the biz has as many open jobs as it may.
            TenantSuspendedError: the tenant is suspended.
            CrawlfleetError: a part is away.
        """
        try:
            return self._start(event)[0]
        except CrawlfleetError as error:
            if self._queue is None:
                raise
            # Whoever sent it may have sent it to nobody else.
            self._queue.keep(event)
            said = {**_named(event), "error": type(error).__name__, "reason": str(error)}
            self._parts.log.info("an event waits for its start", extra=said)
            return {"waits": str(error)[:_LONGEST_START]}

    def start_waiting(self, time_left: Callable[[], float]) -> int:
        """Start the events that wait in the stage's queue; return how many jobs are new by that.

        The queue has every event, also what was started at once: that is found, and forgotten. A
        biz whose events cannot be started yet is not asked for another one in this tick.

        Raises:
            StoreUnavailableError: the queue does not answer.
        """
        if self._queue is None:
            return 0
        started = 0
        # Of one event there may be two messages.
        settled: set[str] = set()
        waiting: set[str] = set()
        held_up: set[str] = set()
        while time_left() > 0 and (received := self._queue.receive()):
            done = []
            for kept in received:
                which = repr(sorted(kept.event.items()))
                whose = f"{kept.event.get('tenant')}/{kept.event.get('biz')}"
                if which in settled:
                    done.append(kept)
                    continue
                if whose not in held_up and time_left() > 0:
                    try:
                        started += self._start(kept.event)[1]
                    except (QuotaExceededError, TenantSuspendedError) as error:
                        said = {**_named(kept.event), "reason": str(error)}
                        self._parts.log.info("events wait for their start", extra=said)
                    except Exception as error:  # noqa: BLE001  others must not wait for it
                        warn("events wait for their start", error)
                    else:
                        settled.add(which)
                        done.append(kept)
                        continue
                    held_up.add(whose)
                waiting.add(which)
            self._queue.forget(done)
        self._reports.report_waiting(len(waiting), self._parts.now())
        return started

    def _start(self, event: Mapping[str, Any]) -> tuple[dict[str, int | str], bool]:
        """Start the job of an event, or refuse it; return the report, and whether it is new."""
        now = self._parts.now()
        try:
            order = order_in(event)
            job = self._starter.start(self._parts.config.current(), order, now)
        except (QuotaExceededError, TenantSuspendedError):
            raise
        except NoConfigurationError as error:
            if self._queue is not None:
                raise
            return self._refuse(event, error), False
        except RejectedError as error:
            return self._refuse(event, error), False
        wake_for(job, self._parts.workers, self._parts.waker)
        reported: dict[str, int | str] = {
            "job": job.name,
            "tasks": job.size,
            "state": job.state.value,
        }
        is_new = job.created_at == from_ms(to_ms(now))
        if is_new:
            whose = {"tenant": job.tenant, "biz": job.biz, "spider": str(job.spider)}
            self._parts.log.info("started by an event", extra={**reported, **whose})
        return reported, is_new

    def _refuse(self, event: Mapping[str, Any], error: Exception) -> dict[str, int | str]:
        why = str(error)[:_LONGEST_START]
        said = {**_named(event), "error": type(error).__name__, "reason": why}
        self._parts.log.warning("an event starts nothing", extra=said)
        self._reports.report_fault(TickPart.STARTS, what_failed(event), self._parts.now())
        return {"refused": why}


def _named(event: Mapping[str, Any]) -> dict[str, str]:
    """Return what an event names, as far as that is text, for the log."""
    named = {name: event.get(name) for name in ("tenant", "biz", "spider", "id")}
    return {name: value[:64] for name, value in named.items() if isinstance(value, str)}
