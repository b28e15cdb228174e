"""Where the API's calls about what runs took are."""

from typing import Final

from crawlfleet.edge.demand_views import DemandsView, DemandView, RunView
from crawlfleet.edge.route import ANY, CURSOR, LIMIT, Route

DEMAND_ROUTES: Final = (
    Route(
        operation="listDemands",
        method="GET",
        path="/v1/{biz}/demands",
        summary="What runs of the biz's spiders and rules take of a worker, by name.",
        parameters=(CURSOR, LIMIT),
        answers={200: DemandsView},
        problems=ANY,
    ),
    Route(
        operation="getDemand",
        method="GET",
        path="/v1/{biz}/demands/{spider}",
        summary="What one's runs take of a worker: memory, CPU, bandwidth, average and maximum.",
        answers={200: DemandView},
        problems=ANY,
    ),
    Route(
        operation="getRun",
        method="GET",
        path="/v1/{biz}/jobs/{job}/run",
        summary="What a job's run took, for a month after its end; while it goes on, up to now.",
        answers={200: RunView},
        problems=ANY,
    ),
)
