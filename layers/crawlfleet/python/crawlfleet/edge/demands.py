"""The API's calls about what runs took."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs
from crawlfleet.edge.answers import shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.demand_views import demand_view, demands_view, run_view
from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.document import RULE_NAME


class DemandCalls(Call):
    """Demands, and the run of a job."""

    def _list_demands(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        limit = inputs.limit_in(query.get("limit"))
        after = query.get("cursor")
        if after is not None and not RULE_NAME.match(after):
            raise InvalidRequestError.of("cursor", "is none of this list")
        found = self._operations.list_demands(tenant, biz, after=after, limit=limit + 1)
        return shown(200, demands_view(found, limit))

    def _get_demand(self, tenant: str, biz: str, spider: str) -> Response[str]:
        return shown(200, demand_view(self._operations.get_demand(tenant, biz, spider)))

    def _get_run(self, tenant: str, biz: str, name: str) -> Response[str]:
        return shown(200, run_view(self._operations.get_run(tenant, biz, name)))
