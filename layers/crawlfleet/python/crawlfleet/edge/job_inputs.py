"""Which jobs clients start, list and retry."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from crawlfleet.edge.inputs import Url, read
from crawlfleet.errors import InvalidRequestError, Problem
from crawlfleet.model.document import RuleName, Slug
from crawlfleet.model.job import JobOrder, JobState
from crawlfleet.model.plan import Priority, SpiderName
from crawlfleet.model.start import PlaceName, PlaceValue, Start
from crawlfleet.model.words import Words
from crawlfleet.policy.job_names import RESERVED, is_reserved

#: A job's name when a client gives it: it is a part of addresses, where dots alone mean others.
StartName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    Words("up to 64 letters, digits, ., _ and -, a letter or a digit first"),
]
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_SHORT: Final = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")


class JobInput(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A run of a kept ``spider``, the newest ``version`` unless it says which; or of a ``rule``.

    A rule comes with its pages: ``urls``, or a ``start`` whose pattern makes them. ``values`` fill
    places that the start leaves open. ``pool`` are the workers that alone do it, whatever its
    spider says. Under one ``name`` there is one job.
    """

    spider: SpiderName | None = None
    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    rule: RuleName | None = None
    urls: Annotated[tuple[Url, ...], Meta(min_length=1, max_length=10_000)] | None = None
    start: Start | None = None
    values: Annotated[dict[PlaceName, PlaceValue], Meta(max_length=16)] = {}
    priority: Priority | None = None
    pool: Slug | None = None
    name: StartName | None = None


class RetryInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How failed tasks are read: by the rule as it was then, or as it is now."""

    rule: Literal["frozen", "current"] = "frozen"


def order_in(body: bytes, tenant: str, biz: str) -> JobOrder:
    """What is ordered.

    Raises:
        InvalidRequestError: names every field that is wrong.
    """
    given = read(body, JobInput)
    problems = []
    if given.urls is not None and given.start is not None:
        problems.append(Problem("urls", "are given, and a start too: one of both"))
    if given.spider is not None:
        problems += [
            Problem(field, "is the spider's own: a job is of a spider, or has both itself")
            for field in ("rule", "urls", "start")
            if getattr(given, field) is not None
        ]
    elif given.version is not None:
        problems.append(Problem("version", "is of a spider, and none is named"))
    if given.name is not None and is_reserved(given.name):
        problems.append(Problem("name", RESERVED))
    if problems:
        raise InvalidRequestError(problems)
    return JobOrder(
        tenant=tenant,
        biz=biz,
        by="api",
        name=given.name,
        spider=given.spider,
        version=given.version,
        rule=given.rule,
        start=given.start if given.urls is None else Start(urls=given.urls),
        values=given.values,
        priority=given.priority,
        pool=given.pool,
    )


def retry_in(body: bytes) -> RetryInput:
    """How failed tasks are retried; no body is the default."""
    return read(body, RetryInput) if body.strip() else RetryInput()


def states_in(query: Mapping[str, str]) -> tuple[JobState, ...]:
    """Which states are meant: several with commas between; none are all."""
    text = query.get("state")
    if text is None:
        return ()
    known = [state.value for state in JobState]
    names = text.split(",")
    if not set(names) <= set(known):
        raise InvalidRequestError.of("state", f"must be of {', '.join(known)}")
    return tuple(JobState(name) for name in dict.fromkeys(names))


def named_in(query: Mapping[str, str], name: str) -> str | None:
    """The name of a spider or a schedule."""
    text = query.get(name)
    if text is not None and not _SHORT.match(text):
        raise InvalidRequestError.of(name, "must be 1 to 32 letters, digits, _ and -")
    return text


def job_name(text: str) -> str:
    """The name in a path."""
    if not _NAME.match(text):
        raise InvalidRequestError.of("job", "must be 1 to 64 letters, digits, '.', '_' or '-'")
    return text
