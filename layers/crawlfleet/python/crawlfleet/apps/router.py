"""The router: the REST API's operations as flows over the parts."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from crawlfleet.api.app import RestApi
from crawlfleet.apps.context import Parts
from crawlfleet.apps.job_operations import RouterDemands, RouterJobs, RouterSchedules
from crawlfleet.apps.site_operations import RouterFleet, RouterSeeds, RouterSpiders
from crawlfleet.apps.submissions import submission_ports
from crawlfleet.config.lookup import biz_of, tenant_of
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.monitoring.explain.models import Explanation, UrlExplanation
from crawlfleet.requests.dead_letters.models import LetterFilter
from crawlfleet.requests.ledger import Ledger
from crawlfleet.requests.models import Record, Tracked
from crawlfleet.requests.queue.stats import Stats
from crawlfleet.requests.submission import tracking
from crawlfleet.requests.submission.models import Receipt, Submission
from crawlfleet.requests.submission.service import submit

if TYPE_CHECKING:
    from crawlfleet.crawling.recrawl.mongo import MongoVisits
    from crawlfleet.crawling.trials.remote import TrialWanted, Tried, TryingPorts
    from crawlfleet.fleet.redis.registry import RedisWatch
    from crawlfleet.monitoring.explain.service import ExplainingPorts
    from crawlfleet.monitoring.explain.urls import UrlPorts
    from crawlfleet.monitoring.incidents.models import Incident
    from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
    from crawlfleet.requests.dead_letters.service import Changed, DeadLetterPorts
    from crawlfleet.requests.models import RuleCoverage, Visit, VisitTotals


class RouterOperations(
    RouterSeeds, RouterFleet, RouterSchedules, RouterSpiders, RouterJobs, RouterDemands
):
    """api.app.Operations: each call is a flow, given the configuration in force and the time.

    What few calls are about is imported by them: cron lines and time zones cost a cold start.
    """

    def __init__(self, parts: Parts) -> None:
        RouterSeeds.__init__(self, parts, submission_ports(parts))
        self._tracking = tracking.TrackingPorts(
            store=parts.store, ledgers=parts.ledgers, queue=parts.queue
        )
        RouterFleet.__init__(self, parts)
        RouterJobs.__init__(self, parts)
        RouterSchedules.__init__(self, parts, self._submission.rules)

    def tenant(self, api_key_id: str | None) -> str:
        """The tenant of an API key."""
        tree = self._parts.config.current()
        return tenant_of(tree, api_key_id, self._parts.settings.default_api_key_id)

    def submit(
        self,
        tenant: str,
        biz: str,
        submissions: list[Submission | InvalidRequestError],
        *,
        single: bool,
        key: str | None,
    ) -> list[Receipt]:
        """requests.submission.service."""
        tree = self._parts.config.current()
        return submit(
            self._submission,
            tree,
            tenant,
            biz,
            submissions,
            self._parts.now(),
            single=single,
            key=key,
        )

    def look_up(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """requests.submission.tracking."""
        tree = self._parts.config.current()
        return tracking.look_up(self._tracking, tree, tenant, biz, request_id)

    def cancel(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """requests.submission.tracking."""
        tree = self._parts.config.current()
        return tracking.cancel(self._tracking, tree, tenant, biz, request_id, self._parts.now())

    def list_requests(
        self,
        tenant: str,
        biz: str,
        *,
        state: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
    ) -> Listing[Tracked]:
        """requests.submission.tracking."""
        return tracking.list_requests(
            self._tracking,
            self._parts.config.current(),
            tenant,
            biz,
            state=state,
            since=since,
            cursor=cursor,
            limit=limit,
            now=self._parts.now(),
        )

    def list_records(
        self, tenant: str, biz: str, *, request: str | None, cursor: str | None, limit: int
    ) -> Listing[Record]:
        """requests.submission.tracking."""
        return tracking.list_records(
            self._tracking,
            self._parts.config.current(),
            tenant,
            biz,
            request=request,
            cursor=cursor,
            limit=limit,
            now=self._parts.now(),
        )

    def stats(self, tenant: str, biz: str) -> Stats:
        """requests.submission.tracking."""
        return tracking.stats(
            self._tracking, self._parts.config.current(), tenant, biz, self._parts.now()
        )

    def ledger(self, tenant: str, biz: str, job: str | None) -> Ledger:
        """requests.submission.tracking."""
        tree = self._parts.config.current()
        return tracking.audit(self._tracking, tree, tenant, biz, job, self._parts.now())

    @cached_property
    def _watch(self) -> "RedisWatch":
        from crawlfleet.fleet.redis.registry import RedisWatch

        return RedisWatch(self._parts.redis)

    def coverage(self, tenant: str, biz: str) -> "list[RuleCoverage]":
        """crawling.records.coverage."""
        from crawlfleet.crawling.records.coverage import CoveragePorts, coverage
        from crawlfleet.crawling.records.redis import RedisCoverages

        ports = CoveragePorts(coverages=RedisCoverages(self._parts.redis))
        return coverage(ports, self._parts.config.current(), tenant, biz)

    @cached_property
    def _visits(self) -> "MongoVisits":
        from crawlfleet.crawling.recrawl.mongo import MongoVisits

        return MongoVisits(self._parts.nodes)

    def visit(self, tenant: str, biz: str, url: str) -> "Visit":
        """crawling.recrawl.service."""
        from crawlfleet.apps.submissions import RESOLVERS
        from crawlfleet.crawling.recrawl.service import look_at

        return look_at(self._visits, self._parts.config.current(), tenant, biz, url, RESOLVERS)

    def visit_totals(self, tenant: str, biz: str) -> "VisitTotals":
        """crawling.recrawl.service."""
        from crawlfleet.crawling.recrawl.service import totals

        return totals(self._visits, self._parts.config.current(), tenant, biz, self._parts.now())

    @cached_property
    def _trying(self) -> "TryingPorts":
        from crawlfleet.crawling.trials.remote import TryingPorts

        return TryingPorts(trials=self._parts.trials)

    def try_rule(self, tenant: str, biz: str, wanted: "TrialWanted") -> "Tried":
        """crawling.trials.remote."""
        from crawlfleet.crawling.trials.remote import try_rule

        return try_rule(self._trying, self._parts.config.current(), tenant, biz, wanted)

    def workers(self, tenant: str, biz: str) -> list[WorkerStatus]:
        """monitoring.workers."""
        from crawlfleet.monitoring.fleet_view import RosterPorts, workers

        ports = RosterPorts(watch=self._watch)
        return workers(ports, self._parts.config.current(), tenant, biz)

    @cached_property
    def _explaining(self) -> "ExplainingPorts":
        from crawlfleet.monitoring.explain.service import ExplainingPorts
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self._parts
        return ExplainingPorts(
            store=parts.store,
            queue=parts.queue,
            journal=MongoJournal(parts.nodes),
            watch=self._watch,
            warn=parts.warn,
        )

    def explain(self, tenant: str, biz: str, request_id: str) -> Explanation:
        """monitoring.explain.service."""
        from crawlfleet.monitoring.explain.service import explain

        tree = self._parts.config.current()
        return explain(self._explaining, tree, tenant, biz, request_id, self._parts.now())

    @cached_property
    def _explaining_urls(self) -> "UrlPorts":
        from crawlfleet.crawling.politeness.redis.hosts import RedisHosts
        from crawlfleet.crawling.politeness.redis.robots import RedisRobotsCache
        from crawlfleet.monitoring.explain.urls import UrlPorts

        return UrlPorts(
            requests=self._explaining,
            seeds=self._seeding,
            visits=self._visits,
            robots=RedisRobotsCache(self._parts.redis),
            hosts=RedisHosts(self._parts.redis),
        )

    def explain_url(self, tenant: str, biz: str, url: str, rule: str | None) -> UrlExplanation:
        """monitoring.explain.urls."""
        from crawlfleet.monitoring.explain.urls import explain_url

        tree = self._parts.config.current()
        return explain_url(self._explaining_urls, tree, tenant, biz, url, rule, self._parts.now())

    @cached_property
    def _letters(self) -> "DeadLetterPorts":
        from crawlfleet.requests.dead_letters.mongo import MongoDeadLetters
        from crawlfleet.requests.dead_letters.service import DeadLetterPorts
        from crawlfleet.requests.mongo.ledger import MongoJournal

        parts = self._parts
        return DeadLetterPorts(
            letters=MongoDeadLetters(parts.nodes),
            store=parts.store,
            queue=parts.queue,
            workers=parts.workers,
            waker=parts.waker,
            rules=self._submission.rules,
            journal=MongoJournal(parts.nodes),
            warn=parts.warn,
        )

    def list_letters(
        self, tenant: str, biz: str, letters: LetterFilter, *, cursor: str | None, limit: int
    ) -> Listing[Tracked]:
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        tree = self._parts.config.current()
        return dead_letters.list_letters(
            self._letters,
            tree,
            tenant,
            biz,
            letters,
            cursor=cursor,
            limit=limit,
            now=self._parts.now(),
        )

    def get_letter(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        tree = self._parts.config.current()
        return dead_letters.look_at(self._letters, tree, tenant, biz, request_id)

    def replay_letter(
        self, tenant: str, biz: str, request_id: str, *, current_rule: bool
    ) -> Tracked:
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        return dead_letters.replay_one(
            self._letters,
            self._parts.config.current(),
            tenant,
            biz,
            request_id,
            current_rule=current_rule,
            by=_by(tenant),
            now=self._parts.now(),
        )

    def purge_letter(self, tenant: str, biz: str, request_id: str) -> None:
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        tree = self._parts.config.current()
        dead_letters.purge_one(
            self._letters, tree, tenant, biz, request_id, by=_by(tenant), now=self._parts.now()
        )

    def replay_letters(
        self,
        tenant: str,
        biz: str,
        letters: LetterFilter,
        *,
        current_rule: bool,
        cursor: str | None,
        limit: int,
    ) -> "Changed":
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        return dead_letters.replay(
            self._letters,
            self._parts.config.current(),
            tenant,
            biz,
            letters,
            current_rule=current_rule,
            by=_by(tenant),
            limit=limit,
            now=self._parts.now(),
            cursor=cursor,
        )

    def purge_letters(
        self, tenant: str, biz: str, letters: LetterFilter, *, cursor: str | None, limit: int
    ) -> "Changed":
        """requests.dead_letters.service."""
        from crawlfleet.requests.dead_letters import service as dead_letters

        return dead_letters.purge(
            self._letters,
            self._parts.config.current(),
            tenant,
            biz,
            letters,
            by=_by(tenant),
            limit=limit,
            now=self._parts.now(),
            cursor=cursor,
        )

    @cached_property
    def _incidents(self) -> "MongoIncidentBook":
        from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook

        return MongoIncidentBook(self._parts.nodes)

    def list_incidents(
        self, tenant: str, *, open_only: bool, cursor: str | None, limit: int
    ) -> "Listing[Incident]":
        """monitoring.incidents.service."""
        from crawlfleet.monitoring.incidents.service import list_incidents

        tree = self._parts.config.current()
        return list_incidents(
            self._incidents, tree, tenant, open_only=open_only, cursor=cursor, limit=limit
        )

    def label(self, tenant: str, biz: str) -> Callable[[int], str]:
        """How this biz calls its states."""
        _, found = biz_of(self._parts.config.current(), tenant, biz)
        return lambda flag: tracking.state_label(found, flag)


def _by(tenant: str) -> str:
    """Who a tenant is in the timeline of a request."""
    return f"api:{tenant}"


@lru_cache(maxsize=1)
def router(open_parts: Callable[..., Parts] = Parts) -> RestApi:
    """The API of this environment."""
    log = Logger(service="router")

    def operations() -> RouterOperations:
        needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
        return RouterOperations(open_parts(Settings.from_environment(needs=needs), "router"))

    return RestApi(operations, lambda error: log.error("a call failed", exc_info=error))
