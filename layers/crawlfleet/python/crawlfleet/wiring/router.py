"""The router: the REST API's operations as flows over the parts."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from crawlfleet.edge.rest import RestApi
from crawlfleet.errors import InvalidRequestError
from crawlfleet.flows import tracking
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.submission import submit
from crawlfleet.model.explanation import Explanation, UrlExplanation
from crawlfleet.model.ledger import Ledger
from crawlfleet.model.letter import LetterFilter
from crawlfleet.model.record import Record
from crawlfleet.model.request import Tracked
from crawlfleet.model.submission import Receipt, Submission
from crawlfleet.model.totals import Stats
from crawlfleet.model.worker import WorkerStatus
from crawlfleet.policy.tenancy import tenant_of
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.demand_operations import RouterDemands
from crawlfleet.wiring.fleet_operations import RouterFleet
from crawlfleet.wiring.job_operations import RouterJobs
from crawlfleet.wiring.parts import Parts
from crawlfleet.wiring.schedule_operations import RouterSchedules
from crawlfleet.wiring.seed_operations import RouterSeeds
from crawlfleet.wiring.spider_operations import RouterSpiders
from crawlfleet.wiring.submissions import submission_ports

if TYPE_CHECKING:
    from crawlfleet.adapters.mongo.incidents import MongoIncidentBook
    from crawlfleet.adapters.mongo.visits import MongoVisits
    from crawlfleet.adapters.redis_queue.watch import RedisWatch
    from crawlfleet.flows.dead_letters import Changed, DeadLetterPorts
    from crawlfleet.flows.explaining import ExplainingPorts
    from crawlfleet.flows.explaining_urls import UrlPorts
    from crawlfleet.flows.trying import TryingPorts
    from crawlfleet.model.harvest import RuleCoverage
    from crawlfleet.model.incident import Incident
    from crawlfleet.model.recrawl import Visit, VisitTotals
    from crawlfleet.model.trial import TrialWanted, Tried


class RouterOperations(
    RouterSeeds, RouterFleet, RouterSchedules, RouterSpiders, RouterJobs, RouterDemands
):
    """edge.rest.Operations: each call is a flow, given the configuration in force and the time.

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
        """flows.submission."""
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
        """flows.tracking."""
        tree = self._parts.config.current()
        return tracking.look_up(self._tracking, tree, tenant, biz, request_id)

    def cancel(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """flows.tracking."""
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
    ) -> tracking.Listing[Tracked]:
        """flows.tracking."""
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
    ) -> tracking.Listing[Record]:
        """flows.tracking."""
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
        """flows.tracking."""
        return tracking.stats(
            self._tracking, self._parts.config.current(), tenant, biz, self._parts.now()
        )

    def ledger(self, tenant: str, biz: str, job: str | None) -> Ledger:
        """flows.tracking."""
        tree = self._parts.config.current()
        return tracking.audit(self._tracking, tree, tenant, biz, job, self._parts.now())

    @cached_property
    def _watch(self) -> "RedisWatch":
        from crawlfleet.adapters.redis_queue.watch import RedisWatch

        return RedisWatch(self._parts.redis)

    def coverage(self, tenant: str, biz: str) -> "list[RuleCoverage]":
        """flows.coverage."""
        from crawlfleet.adapters.redis_queue.coverages import RedisCoverages
        from crawlfleet.flows.coverage import CoveragePorts, coverage

        ports = CoveragePorts(coverages=RedisCoverages(self._parts.redis))
        return coverage(ports, self._parts.config.current(), tenant, biz)

    @cached_property
    def _visits(self) -> "MongoVisits":
        from crawlfleet.adapters.mongo.visits import MongoVisits

        return MongoVisits(self._parts.nodes)

    def visit(self, tenant: str, biz: str, url: str) -> "Visit":
        """flows.recrawling."""
        from crawlfleet.flows.recrawling import look_at
        from crawlfleet.wiring.seeding import RESOLVERS

        return look_at(self._visits, self._parts.config.current(), tenant, biz, url, RESOLVERS)

    def visit_totals(self, tenant: str, biz: str) -> "VisitTotals":
        """flows.recrawling."""
        from crawlfleet.flows.recrawling import totals

        return totals(self._visits, self._parts.config.current(), tenant, biz, self._parts.now())

    @cached_property
    def _trying(self) -> "TryingPorts":
        from crawlfleet.flows.trying import TryingPorts

        return TryingPorts(trials=self._parts.trials)

    def try_rule(self, tenant: str, biz: str, wanted: "TrialWanted") -> "Tried":
        """flows.trying."""
        from crawlfleet.flows.trying import try_rule

        return try_rule(self._trying, self._parts.config.current(), tenant, biz, wanted)

    def workers(self, tenant: str, biz: str) -> list[WorkerStatus]:
        """flows.roster."""
        from crawlfleet.flows.roster import RosterPorts, workers

        ports = RosterPorts(watch=self._watch)
        return workers(ports, self._parts.config.current(), tenant, biz)

    @cached_property
    def _explaining(self) -> "ExplainingPorts":
        from crawlfleet.adapters.mongo.journal import MongoJournal
        from crawlfleet.flows.explaining import ExplainingPorts

        parts = self._parts
        return ExplainingPorts(
            store=parts.store,
            queue=parts.queue,
            journal=MongoJournal(parts.nodes),
            watch=self._watch,
            warn=parts.warn,
        )

    def explain(self, tenant: str, biz: str, request_id: str) -> Explanation:
        """flows.explaining."""
        from crawlfleet.flows.explaining import explain

        tree = self._parts.config.current()
        return explain(self._explaining, tree, tenant, biz, request_id, self._parts.now())

    @cached_property
    def _explaining_urls(self) -> "UrlPorts":
        from crawlfleet.adapters.redis_queue.hosts import RedisHosts
        from crawlfleet.adapters.redis_queue.robots import RedisRobotsCache
        from crawlfleet.flows.explaining_urls import UrlPorts

        return UrlPorts(
            requests=self._explaining,
            seeds=self._seeding,
            visits=self._visits,
            robots=RedisRobotsCache(self._parts.redis),
            hosts=RedisHosts(self._parts.redis),
        )

    def explain_url(self, tenant: str, biz: str, url: str, rule: str | None) -> UrlExplanation:
        """flows.explaining_urls."""
        from crawlfleet.flows.explaining_urls import explain_url

        tree = self._parts.config.current()
        return explain_url(self._explaining_urls, tree, tenant, biz, url, rule, self._parts.now())

    @cached_property
    def _letters(self) -> "DeadLetterPorts":
        from crawlfleet.adapters.mongo.dead_letters import MongoDeadLetters
        from crawlfleet.adapters.mongo.journal import MongoJournal
        from crawlfleet.flows.dead_letters import DeadLetterPorts

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
    ) -> tracking.Listing[Tracked]:
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

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
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

        tree = self._parts.config.current()
        return dead_letters.look_at(self._letters, tree, tenant, biz, request_id)

    def replay_letter(
        self, tenant: str, biz: str, request_id: str, *, current_rule: bool
    ) -> Tracked:
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

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
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

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
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

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
        """flows.dead_letters."""
        from crawlfleet.flows import dead_letters

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
        from crawlfleet.adapters.mongo.incidents import MongoIncidentBook

        return MongoIncidentBook(self._parts.nodes)

    def list_incidents(
        self, tenant: str, *, open_only: bool, cursor: str | None, limit: int
    ) -> "tracking.Listing[Incident]":
        """flows.incidents."""
        from crawlfleet.flows.incidents import list_incidents

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
