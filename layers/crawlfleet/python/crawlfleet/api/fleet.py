"""The API's calls about the platform itself: its health, the fleet, the hosts of a biz."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api import fleet_shapes as fleet_views
from crawlfleet.api.responses import shown
from crawlfleet.api.routing import Call
from crawlfleet.kernel.errors import InvalidRequestError

_DEEP = {None: False, "0": False, "1": True}


class FleetCalls(Call):
    """Health, fleet, hosts."""

    def _get_health(self) -> Response[str]:
        given = self._query().get("deep")
        if given not in _DEEP:
            raise InvalidRequestError.of("deep", "must be 0 or 1")
        vitals = self._operations.vitals() if _DEEP[given] else None
        parts = self._operations.health() if vitals is None else vitals.parts
        well = all(state == "ok" for state in parts.values())
        # Redis alone may be away: submissions are persisted and queued later.
        able = well or all(state == "ok" for part, state in parts.items() if part != "redis")
        status = "ok" if well else "degraded" if able else "down"
        return shown(200 if able else 503, fleet_views.health_view(status, parts, vitals))

    def _get_fleet(self, tenant: str) -> Response[str]:
        return shown(200, fleet_views.fleet_view(self._operations.fleet(tenant)))

    def _list_hosts(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.hosts(tenant, biz)
        return shown(
            200, fleet_views.HostsView(hosts=[fleet_views.host_view(host) for host in found])
        )
