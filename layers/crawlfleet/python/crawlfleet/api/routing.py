# ruff: noqa: D102  a property of the context is named for the service that it is
"""Routing of calls: the context that handlers work on, a call, a route, the table of resources.

Each resource is a module of this package with ``ROUTES``, imported when it is asked for: a cold
start pays for the resource that the first call is about, and not for the other ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import LARGEST_PAGE, PAGE, TRACEPARENT, body_of, limit_in
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.lookup import tenant_of
from crawlfleet.kernel.settings import Settings

if TYPE_CHECKING:
    from crawlfleet.config.versions.mongo import MongoVersions
    from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
    from crawlfleet.crawling.records.redis import RedisCoverages
    from crawlfleet.crawling.recrawl.mongo import MongoVisits
    from crawlfleet.crawling.trials.remote import TrialService
    from crawlfleet.fleet.quotas.service import QuotaLedgers
    from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisProxyPools
    from crawlfleet.jobs.cancellation import JobCancellation
    from crawlfleet.jobs.costs.mongo import MongoCosts
    from crawlfleet.jobs.mongo.lists import MongoJobReopening
    from crawlfleet.jobs.schedules.service import ScheduleService
    from crawlfleet.jobs.service import JobService
    from crawlfleet.jobs.spiders.service import SpiderService
    from crawlfleet.jobs.submitted import SubmittedJobs
    from crawlfleet.jobs.usage import RunUsage
    from crawlfleet.monitoring.explain.service import RequestExplainer
    from crawlfleet.monitoring.explain.urls import UrlExplainer
    from crawlfleet.monitoring.fleet_view import HostsOfBizs
    from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
    from crawlfleet.monitoring.models import Vitals
    from crawlfleet.monitoring.overview import Glance
    from crawlfleet.monitoring.sampler import Sampler
    from crawlfleet.monitoring.shares import TenantShares
    from crawlfleet.requests.dead_letters.service import DeadLetters
    from crawlfleet.requests.queue.redis.crawls import RedisCrawlLedgers
    from crawlfleet.requests.submission.service import Submissions
    from crawlfleet.requests.submission.tracking import Tracking
    from crawlfleet.requests.submission.transitions import Transitions
    from crawlfleet.streams.delivery.dead_letters import StreamDeadLetters
    from crawlfleet.streams.delivery.explaining import ItemExplainer
    from crawlfleet.streams.delivery.mongo.conversations import MongoConversations
    from crawlfleet.streams.feeds.callbacks import HubCallbacks
    from crawlfleet.streams.reading.seen import SeenSources
    from crawlfleet.streams.subscriptions.service import SubscriptionService
    from crawlfleet.tenancy.configuration import Configuration
    from crawlfleet.tenancy.removal import Removals
    from crawlfleet.tenancy.service import Tenants


class Context(Protocol):
    """The router's services, each opened by the first call that asks for it.

    A Protocol, as the functions' composition (``apps``), which opens them, stands above the API.
    """

    @property
    def config(self) -> SsmConfig: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def submission(self) -> "Submissions": ...
    @property
    def tracking(self) -> "Tracking": ...
    @property
    def transitions(self) -> "Transitions": ...
    @property
    def explaining(self) -> "RequestExplainer": ...
    @property
    def explaining_urls(self) -> "UrlExplainer": ...
    @property
    def dead_letters(self) -> "DeadLetters": ...
    @property
    def seeds(self) -> "SeedDispatcher": ...
    @property
    def visits(self) -> "MongoVisits": ...
    @property
    def coverage(self) -> "RedisCoverages": ...
    @property
    def trials(self) -> "TrialService": ...
    @property
    def schedules(self) -> "ScheduleService": ...
    @property
    def spiders(self) -> "SpiderService": ...
    @property
    def subscriptions(self) -> "SubscriptionService": ...
    @property
    def undelivered(self) -> "StreamDeadLetters": ...
    @property
    def conversations(self) -> "MongoConversations": ...
    @property
    def sources(self) -> "SeenSources": ...
    @property
    def hubs(self) -> "HubCallbacks": ...
    @property
    def explaining_items(self) -> "ItemExplainer": ...
    @property
    def jobs(self) -> "JobService": ...
    @property
    def submitted(self) -> "SubmittedJobs": ...
    @property
    def cancelling(self) -> "JobCancellation": ...
    @property
    def reopening(self) -> "MongoJobReopening": ...
    @property
    def usage(self) -> "RunUsage": ...
    @property
    def costs(self) -> "MongoCosts": ...
    @property
    def quotas(self) -> "QuotaLedgers": ...
    @property
    def detector(self) -> "RedisFailureDetector": ...
    @property
    def hosts(self) -> "HostsOfBizs": ...
    @property
    def shares(self) -> "TenantShares": ...
    @property
    def tenants(self) -> "Tenants": ...
    @property
    def removals(self) -> "Removals": ...
    @property
    def versions(self) -> "MongoVersions": ...
    @property
    def configuration(self) -> "Configuration": ...
    @property
    def proxies(self) -> "RedisProxyPools": ...
    @property
    def sampling(self) -> "Sampler": ...
    @property
    def incidents(self) -> "MongoIncidentBook": ...
    @property
    def crawls(self) -> "RedisCrawlLedgers": ...

    def now(self) -> datetime:
        """Return the time."""
        ...

    def refusal(self) -> str | None:
        """Say why the newest configuration is not in force; None where it is."""
        ...

    def health(self) -> dict[str, str]:
        """Check the parts that the router needs: each is ``ok``, or what is wrong with it."""
        ...

    def vitals(self) -> "Vitals":
        """Return the platform's health and what it runs, some seconds old at most."""
        ...

    def glance(self) -> "Glance":
        """Return a glance at the fleet, some seconds old at most."""
        ...


class Call:
    """A call of the API.

    Args:
        event: API Gateway's.
        opened: Gives the context; asked when something of it is needed, so that a part that cannot
            be opened is a problem document too.
    """

    def __init__(self, event: Mapping[str, Any], opened: Callable[[], Context]) -> None:
        self.event = event
        self._opened = opened

    @property
    def context(self) -> Context:
        """The context that the call works on."""
        return self._opened()

    @cached_property
    def tenant(self) -> str:
        """The tenant of the call's API key."""
        default = self.context.settings.default_api_key_id
        return tenant_of(self.tree, self.key_id, default, self.now)

    @property
    def key_id(self) -> str:
        """The id of the call's API key; nothing where it has none."""
        identity = (self.event.get("requestContext") or {}).get("identity") or {}
        return identity.get("apiKeyId") or ""

    @property
    def has_key(self) -> bool:
        """Tell whether the call has the key of a tenant; of open routes it rarely is known."""
        return bool(self.key_id) and bool(self.tenant)

    @property
    def by(self) -> str:
        """The tenant's name in the timeline of a request."""
        return f"api:{self.tenant}"

    @property
    def tree(self) -> Tree:
        """The configuration in force."""
        return self.context.config.current()

    @property
    def now(self) -> datetime:
        """The time."""
        return self.context.now()

    @property
    def body(self) -> bytes:
        """The body, within its bounds."""
        return body_of(self.event)

    def header(self, name: str) -> str:
        """Return a header by its name in lower case, "" for none."""
        headers: Mapping[str, str] = self.event.get("headers") or {}
        return next((value for one, value in headers.items() if one.lower() == name), "")

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters, each with its last value."""
        return {name: values[-1] for name, values in self.parameters.items() if values}

    @property
    def cursor(self) -> str | None:
        """The cursor from which a list goes on."""
        return self.query.get("cursor")

    @property
    def limit(self) -> int:
        """The most entries that a page may have."""
        return limit_in(self.query.get("limit"))

    @property
    def parameters(self) -> Mapping[str, Sequence[str]]:
        """Every value of each parameter.

        API Gateway's test page sends the last ones alone; other proxies send only all of them.
        """
        many: Mapping[str, Sequence[str]] = self.event.get("multiValueQueryStringParameters") or {}
        last: Mapping[str, str] = self.event.get("queryStringParameters") or {}
        return many or {name: (value,) for name, value in last.items()}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the query or a header: what it means and its JSON schema."""

    name: str
    meaning: str
    shape: dict[str, object]


#: Shapes by status; one shape alone is that of 200, and None an answer without content.
Answers: TypeAlias = "type[msgspec.Struct] | Mapping[int, type[msgspec.Struct] | None]"
Handler = TypeVar("Handler", bound=Callable[..., Response[str]])
#: Statuses of the problems that any call to a biz may answer: no tenant, no such biz, a part down.
ANY: Final = (400, 403, 404, 503)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """An API operation. ``handler`` is called with the :class:`Call` and the parts of its path.

    ``answers`` gives the shape by status; ``problems`` the statuses of its errors. ``headers`` are
    what the call may carry, ``answer_headers`` what its answers may. An ``open`` one needs no key.
    Where ``is_text`` its answer of 200 is plain text; with ``any_parameters`` it ignores unknown
    ones.
    """

    operation: str
    handler: Callable[..., Response[str]]
    method: str
    path: str
    summary: str
    answers: Mapping[int, type[msgspec.Struct] | None]
    problems: tuple[int, ...] = ()
    body: tuple[type[msgspec.Struct], ...] = ()
    body_required: bool = True
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    answer_headers: tuple[Parameter, ...] = ()
    open: bool = False
    is_text: bool = False
    any_parameters: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the query parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


class Routes(list[Route]):
    """The routes of a resource."""

    def add(
        self,
        method: str,
        path: str,
        answers: Answers,
        *,
        problems: tuple[int, ...] = (),
        **facts: Any,
    ) -> Callable[[Handler], Handler]:
        """Make the decorated function the handler of a route.

        The operation has its name, and the first paragraph of its docstring for a summary.
        ``problems`` are those beside :data:`ANY`, or beside 400 where the route is open.
        """
        usual = (400,) if facts.get("open") else ANY if "{biz}" in path else (400, 403, 503)

        def added(handler: Handler) -> Handler:
            first, *words = handler.__name__.split("_")
            route = Route(
                operation=first + "".join(word.capitalize() for word in words),
                handler=handler,
                method=method,
                path=path,
                summary=" ".join((handler.__doc__ or "").partition("\n\n")[0].split()),
                answers=answers if isinstance(answers, Mapping) else {200: answers},
                problems=(*usual, *problems),
                **facts,
            )
            self.append(route)
            return handler

        return added


def word(name: str, meaning: str) -> Parameter:
    """Make a parameter that is a text of some length."""
    return Parameter(
        name=name, meaning=meaning, shape={"type": "string", "minLength": 1, "maxLength": 255}
    )


def order_by(meaning: str) -> Parameter:
    """Make the parameter that says which entries of a list come first."""
    return Parameter(
        name="order",
        meaning=f"{meaning}. A reader who wants to come back takes the oldest first.",
        shape={"type": "string", "enum": ["oldest", "newest"], "default": "oldest"},
    )


CURSOR: Final = Parameter(
    name="cursor",
    meaning="Where to go on: the cursor of an earlier answer.",
    shape={"type": "string", "maxLength": 200},
)

LIMIT: Final = Parameter(
    name="limit",
    meaning="Most entries of one page; it holds fewer where they are large.",
    shape={"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE},
)

SINCE: Final = Parameter(
    name="since",
    meaning="Only requests queued at this time or later: RFC 3339 with a zone, or epoch ms.",
    shape={"type": "string", "maxLength": 40},
)

PAGE_URL: Final = Parameter(
    name="url",
    meaning="The page, by any URL that is the same page to the biz.",
    shape={"type": "string", "minLength": 1, "maxLength": 8_000},
)

TRACED: Final = Parameter(
    name=TRACEPARENT,
    # Of any length: what is no traceparent is left unread, as W3C wants it, not refused.
    meaning="W3C Trace Context: where its trace is recorded, what is submitted is traced in it.",
    shape={"type": "string"},
)

JOB: Final = Parameter(
    name="job",
    meaning="Only what belongs to this job.",
    shape={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
)

#: By resource, in the order of the document, the words by which its paths are known.
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "requests": frozenset({"requests"}),
    "explain": frozenset({"explain", "visits"}),
    "dead_letters": frozenset({"dead-letters"}),
    "seeds": frozenset({"seeds"}),
    "results": frozenset({"records", "stats", "ledger"}),
    "fleet": frozenset({"workers", "hosts", "proxies", "fleet", "shares", "health"}),
    "tenants": frozenset({"tenants"}),
    "configuration": frozenset({"config"}),
    "slots": frozenset({"slots"}),
    "quotas": frozenset({"quotas"}),
    "costs": frozenset({"costs"}),
    "rules": frozenset({"coverage", "rules", "bizs"}),
    "schedules": frozenset({"schedules"}),
    "spiders": frozenset({"spiders"}),
    "subscriptions": frozenset({"subscriptions", "hubs"}),
    "deliveries": frozenset({"undelivered", "conversations", "stream-items", "sources", "figures"}),
    "jobs": frozenset({"jobs", "forecasts"}),
    "demands": frozenset({"demands", "run"}),
    "incidents": frozenset({"incidents", "overview"}),
    "openapi": frozenset({"openapi.json"}),
}


@cache
def _routes_of(resource: str) -> tuple[Route, ...]:
    routes: Routes = import_module(f"crawlfleet.api.{resource}").ROUTES
    return tuple(routes)


#: The resources of the API.
RESOURCES: Final = tuple(_WORDS)


def resources_at(path: str) -> Iterator[str]:
    """Find the resources that a path may be of: those of which it has a word."""
    words = path.split("/")
    return (resource for resource, known in _WORDS.items() if not known.isdisjoint(words))


def routes_of(*resources: str) -> Iterator[Route]:
    """Import resources and list their routes."""
    return (route for resource in resources for route in _routes_of(resource))


def all_routes() -> tuple[Route, ...]:
    """List everything that the API offers."""
    return tuple(routes_of(*_WORDS))
