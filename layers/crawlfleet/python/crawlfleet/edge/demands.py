"""The API's calls about what runs took."""

import re
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs
from crawlfleet.edge.answers import shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.demand_views import demand_view, demands_view, run_view
from crawlfleet.errors import InvalidRequestError, NotFoundError

#: Names of kept spiders, rules and jobs.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class DemandCalls(Call):
    """Demands, and the run of a job."""

    def _list_demands(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        limit = inputs.limit_in(query.get("limit"))
        after = query.get("cursor")
        if after is not None and not _NAME.match(after):
            raise InvalidRequestError.of("cursor", "is none of this list")
        found = self._operations.list_demands(tenant, biz, after=after, limit=limit + 1)
        return shown(200, demands_view(found, limit))

    def _get_demand(self, tenant: str, biz: str, spider: str) -> Response[str]:
        return shown(200, demand_view(self._operations.get_demand(tenant, biz, _name(spider))))

    def _get_run(self, tenant: str, biz: str, job: str) -> Response[str]:
        return shown(200, run_view(self._operations.get_run(tenant, biz, _name(job))))


def _name(name: str) -> str:
    """What may be one; of anything else there is nothing."""
    if not _NAME.match(name):
        raise NotFoundError(f"there is nothing called {name[:64]!r}")
    return name
