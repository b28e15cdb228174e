"""Where the API's call about incidents is."""

from typing import Final

from crawlfleet.edge.incident_views import IncidentsView
from crawlfleet.edge.route import CURSOR, LIMIT, Parameter, Route

#: What ``state`` may be; without it the first.
INCIDENT_STATES: Final = ("open", "all")

INCIDENT_ROUTES: Final = (
    Route(
        operation="listIncidents",
        method="GET",
        path="/v1/incidents",
        summary="What is or was wrong with the tenant's bizs, the newest first; an operator's key"
        " reads everybody's, and the platform's own.",
        parameters=(
            Parameter(
                name="state",
                meaning="Only those that are open, or all of the last three months.",
                shape={
                    "type": "string",
                    "enum": list(INCIDENT_STATES),
                    "default": INCIDENT_STATES[0],
                },
            ),
            CURSOR,
            LIMIT,
        ),
        answers={200: IncidentsView},
        problems=(400, 403, 503),
    ),
)
