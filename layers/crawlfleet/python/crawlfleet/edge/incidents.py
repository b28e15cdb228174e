"""The API's call about incidents."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs
from crawlfleet.edge.answers import page_of
from crawlfleet.edge.call import Call
from crawlfleet.edge.incident_routes import INCIDENT_STATES
from crawlfleet.edge.incident_views import IncidentsView, incident_view
from crawlfleet.edge.operations import Page
from crawlfleet.edge.views import View
from crawlfleet.errors import InvalidRequestError


class IncidentCalls(Call):
    """List."""

    def _list_incidents(self, tenant: str) -> Response[str]:
        query = self._query()
        state = query.get("state", INCIDENT_STATES[0])
        if state not in INCIDENT_STATES:
            message = f"must be one of {', '.join(INCIDENT_STATES)}"
            raise InvalidRequestError.of("state", message)

        def ask(limit: int) -> Page:
            return self._operations.list_incidents(
                tenant,
                open_only=state == INCIDENT_STATES[0],
                cursor=query.get("cursor"),
                limit=limit,
            )

        def view(page: Page) -> View:
            found = [incident_view(each) for each in page.items]
            return IncidentsView(incidents=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)
