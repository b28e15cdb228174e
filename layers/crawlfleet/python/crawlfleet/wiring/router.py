"""The router: the REST API's operations as flows over the parts."""

from collections.abc import Callable
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from crawlfleet.adapters.part_health import PartHealth
from crawlfleet.edge.rest import RestApi
from crawlfleet.errors import CrawlfleetError, InvalidRequestError
from crawlfleet.flows import tracking
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.submission import submit
from crawlfleet.model.record import Record
from crawlfleet.model.request import Tracked
from crawlfleet.model.schedule import Schedule
from crawlfleet.model.submission import Receipt, Submission
from crawlfleet.model.totals import Stats
from crawlfleet.policy.tenancy import tenant_of
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.parts import Parts, now
from crawlfleet.wiring.submissions import submission_ports

if TYPE_CHECKING:
    from crawlfleet.adapters.mongo.schedules import MongoSchedules


class RouterOperations:
    """edge.rest.Operations: each call is a flow, given the configuration in force and the time.

    What few calls are about is imported by them: cron lines and time zones cost a cold start.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._submission = submission_ports(parts)
        self._tracking = tracking.TrackingPorts(
            store=parts.store, ledgers=parts.ledgers, queue=parts.queue
        )
        self._health = PartHealth(
            parts.redis, parts.nodes, lambda: parts.config.current().stage.nodes
        )

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
    ) -> list[Receipt]:
        """flows.submission."""
        tree = self._parts.config.current()
        return submit(self._submission, tree, tenant, biz, submissions, now(), single=single)

    def look_up(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """flows.tracking."""
        tree = self._parts.config.current()
        return tracking.look_up(self._tracking, tree, tenant, biz, request_id)

    def cancel(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """flows.tracking."""
        tree = self._parts.config.current()
        return tracking.cancel(self._tracking, tree, tenant, biz, request_id, now())

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
            now=now(),
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
            now=now(),
        )

    def stats(self, tenant: str, biz: str) -> Stats:
        """flows.tracking."""
        return tracking.stats(self._tracking, self._parts.config.current(), tenant, biz, now())

    def label(self, tenant: str, biz: str) -> Callable[[int], str]:
        """How this biz calls its states."""
        _, found = biz_of(self._parts.config.current(), tenant, biz)
        return lambda flag: tracking.state_label(found, flag)

    @cached_property
    def _schedules(self) -> "MongoSchedules":
        from crawlfleet.adapters.mongo.schedules import MongoSchedules

        return MongoSchedules(self._parts.nodes)

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.put_schedule(self._schedules, tree, schedule, now())

    def get_schedule(self, tenant: str, biz: str, name: str) -> Schedule:
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.get_schedule(self._schedules, tree, tenant, biz, name)

    def list_schedules(self, tenant: str, biz: str) -> list[Schedule]:
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.list_schedules(self._schedules, tree, tenant, biz)

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        planning.delete_schedule(self._schedules, tree, tenant, biz, name)

    def health(self) -> dict[str, str]:
        """The parts the router needs; the configuration comes first, as it names the nodes."""
        try:
            self._parts.config.current()
        except CrawlfleetError as error:
            self._parts.warn("there is no configuration", error)
            return {"config": "cannot be read"}
        return {"config": "ok", **self._health.answers()}


@lru_cache(maxsize=1)
def router() -> RestApi:
    """The API of this environment."""
    log = Logger(service="router")
    return RestApi(_operations, lambda error: log.error("a call failed", exc_info=error))


def _operations() -> RouterOperations:
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
    return RouterOperations(Parts(Settings.from_environment(needs=needs), "router"))
