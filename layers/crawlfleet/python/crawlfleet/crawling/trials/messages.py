"""The messages between whoever answers the API and the function that tries rules.

The latter has neither stores nor configuration: a question carries what it goes by, and no more of
the stage than that. It does one step of a trial for each question. Where it lacks a host slot or a
robots.txt it says so, and goes on where it stopped when it is asked again with what it lacked.
"""

from typing import Final

import msgspec

from crawlfleet.config.documents.biz import FetchLimits, ProxyPool
from crawlfleet.config.documents.policies import Politeness
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.fetching.models import Followed
from crawlfleet.crawling.fetching.stores import StorePlaces
from crawlfleet.crawling.politeness.models import Figure, Observation, RobotsCopy
from crawlfleet.kernel.errors import FetchError, Problem
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Coverage, Link
from crawlfleet.requests.outcomes import reason_of

#: The largest page that may be sent along, in bytes.
LARGEST_PAGE: Final = 1_000_000
#: A trial takes no longer: somebody waits for the answer, and API Gateway for 29 seconds.
TRIAL_SECONDS: Final = 26.0
#: So much of it may pass until the page is there, robots.txt and host slots included, and of this
#: on waiting for slots.
FETCH_SECONDS: Final = 20.0
PATIENCE_SECONDS: Final = 10.0
#: Lambda carries six million bytes of a question, and of an answer.
LARGEST_BYTES: Final = 5_900_000
#: Errors that an answer lists at most, and characters of a message.
MOST_PROBLEMS: Final = 100
_LONGEST: Final = 500


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The terms of the stage and the biz for the download and the reading of a page.

    ``readers`` are the names of the biz's rules and spiders; ``pool`` is the name of ``proxies``;
    ``stores`` are the addresses that are never asked. ``robots_agent`` asks for robots.txt.
    """

    robots_agent: str
    allow_private_addresses: bool = False
    ports: tuple[int, ...] | None = None
    reading: ReadingLimits = ReadingLimits()
    stores: StorePlaces = StorePlaces()
    fetch: FetchLimits = FetchLimits()
    politeness: Politeness = Politeness()
    readers: tuple[str, ...] = ()
    pool: str | None = None
    proxies: ProxyPool | None = None


class Confidential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The secrets that this one trial needs: texts by name, and one proxy, as a line of its list.

    They are shown nowhere.
    """

    texts: dict[str, str] = {}
    proxy: str = ""

    def __repr__(self) -> str:
        """Name it alone."""
        return "Confidential(...)"


class Question(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A step of a trial: a rule or a spider, and a page or where to fetch it.

    ``name`` is the reader's in its biz; a rule that was sent along has none, and is checked first.
    The step takes ``seconds`` at most, its downloads ``fetch_seconds``. ``with_slot`` lets it send
    one request: the first of those that it has to wait for. ``followed`` are the redirects behind
    it, by the URL that they began with. ``robots`` is the robots.txt of the ``origin`` that is
    asked next, None where the fleet has none of it. With ``checks`` errors of the rule or spider
    are all that is asked for.
    """

    tenant: str
    biz: str
    terms: Terms
    checks: bool = False
    name: str = ""
    rule: Rule | None = None
    spider: Spider | None = None
    page: Page | None = None
    url: str | None = None
    depth: int = 0
    seconds: float = TRIAL_SECONDS
    fetch_seconds: float = FETCH_SECONDS
    with_slot: bool = False
    followed: dict[str, tuple[Followed, ...]] = {}
    origin: str = ""
    robots: RobotsCopy | None = None
    confidential: Confidential = Confidential()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was fetched: where redirects ended, and what came from there."""

    url: str
    status: int
    content_type: str = ""
    bytes: int = 0
    seconds: float = 0.0
    redirects: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A page that could not be fetched; ``reason`` is a dead letter's, such as ``PageGone``.

    ``status`` is the site's, 0 where it was not asked or gave no answer. ``retry_after_seconds`` is
    when it makes sense to ask again, if anybody knows.
    """

    reason: str
    message: str
    status: int = 0
    retryable: bool = False
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, error: FetchError) -> "Failure":
        """Make one of an error."""
        return cls(
            reason=reason_of(error),
            message=shortened(str(error)),
            status=error.status,
            retryable=error.retryable,
            retry_after_seconds=getattr(error, "retry_after_seconds", None),
        )


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a trial.

    ``mistakes`` are the rule's errors: with any, nothing was read. With a ``failure`` there was no
    page. ``problems`` are what of the page could not be read: then there are no records, as with a
    worker. ``records`` and ``links`` are the first ones of ``record_count`` and ``link_count``;
    ``refused`` counts links that are not followed, by reason. ``rejected`` says of the first of
    ``rejected_count`` records why they would not be stored, ``left_out`` of the first of
    ``left_out_count`` things of the page why a spider could not read them. ``unread`` says that a
    spider was stopped before the end of the page. ``empty`` says of fields without any value why.
    """

    version: str = ""
    mistakes: tuple[Problem, ...] = ()
    seen: Seen | None = None
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    records: tuple[dict[str, object], ...] = ()
    record_count: int = 0
    links: tuple[Link, ...] = ()
    link_count: int = 0
    refused: dict[str, int] = {}
    coverage: Coverage = Coverage()
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    unread: bool = False
    empty: dict[str, str] = {}
    seconds: float = 0.0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The lack that ends a step: a slot at an origin, or that origin's robots.txt.

    ``crawl_delay`` is the one that the site asks for, in seconds. ``followed`` goes into the next
    question as it is.
    """

    origin: str
    robots: bool = False
    crawl_delay: float | None = None
    followed: dict[str, tuple[Followed, ...]] = {}


class Learnt(msgspec.Struct, frozen=True, kw_only=True):
    """A robots.txt that was fetched, and how long it may be kept; 0 for this trial alone."""

    origin: str
    copy: RobotsCopy
    seconds: Figure


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a step: the result, or what it lacks; and what it has found out on the way.

    ``seen`` says how sites answered.
    """

    tried: Tried | None = None
    wanted: Wanted | None = None
    learnt: Learnt | None = None
    seen: tuple[Observation, ...] = ()


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Cut a text to what any answer can carry."""
    return text[:longest].encode(errors="replace").decode()
