"""A start by an event: what a rule of EventBridge hands to the scheduler (SPEC.md B1, C2).

Its input is the rule's, its values may be an event's, which is to say anybody's: they go into open
places of the spider's pattern and nowhere else (policy.starting), and are bounded here.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.errors import InvalidRequestError, Problem
from crawlfleet.model.document import Count, Slug
from crawlfleet.model.job import JobOrder
from crawlfleet.model.plan import Priority, SpiderName
from crawlfleet.model.start import PlaceName, PlaceValue
from crawlfleet.policy.job_names import event_name
from crawlfleet.policy.mistakes import decode

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
    """Whether an event is meant to start something: it says so, or is of a rule of somebody's own.

    >>> is_start({"crawlfleet": "start"}), is_start({"detail-type": "Scheduled Event"})
    (True, False)
    >>> is_start({"detail-type": "Object Created"})
    True
    """
    return "crawlfleet" in event or event.get("detail-type", _SCHEDULED) != _SCHEDULED


def order_in(event: Mapping[str, Any]) -> JobOrder:
    """The job that an event orders, by a name that is the event's own.

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
    """A word for the event, the same whenever it comes again; nothing of it can be read back."""
    said = {name: event.get(name) for name in ("tenant", "biz", "spider", "id", "time")}
    known = {name: value[:256] for name, value in said.items() if isinstance(value, str)}
    return event_name("start", "", known)


def _written(event: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(event)
    except (UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequestError.of("event", "is no text that JSON can hold") from error
