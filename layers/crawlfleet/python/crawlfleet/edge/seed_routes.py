"""The calls about seeds, as a table."""

from typing import Final

from crawlfleet.edge import seed_views
from crawlfleet.edge.route import ANY, CURSOR, LIMIT, Parameter, Route
from crawlfleet.edge.seed_inputs import SeedsChangeInput, SeedsInput
from crawlfleet.policy.segment import NAME

_SEEDS: Final = (
    Parameter(
        name="segment",
        meaning="Only seeds of this segment.",
        shape={"type": "string", "pattern": f"^{NAME}$"},
    ),
    Parameter(
        name="state",
        meaning="Only seeds in this state.",
        shape={"type": "string", "enum": ["ready", "handed", "finished", "failed"]},
    ),
)

SEED_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="offerSeeds",
        method="POST",
        path="/v1/{biz}/seeds",
        summary="Offer up to 1,000 URLs, each accepted once a segment. Each is answered.",
        body=(SeedsInput,),
        answers={200: seed_views.OfferedView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="listSeeds",
        method="GET",
        path="/v1/{biz}/seeds",
        summary="Seeds in the order of segment and key.",
        parameters=(*_SEEDS, CURSOR, LIMIT),
        answers={200: seed_views.SeedsView},
        problems=ANY,
    ),
    Route(
        operation="getSeedTotals",
        method="GET",
        path="/v1/{biz}/seeds/totals",
        summary="How many seeds the newest segments have in each state.",
        answers={200: seed_views.SeedTotalsView},
        problems=ANY,
    ),
    Route(
        operation="releaseSeeds",
        method="POST",
        path="/v1/{biz}/seeds/release",
        summary="Make failed or finished seeds ready again: named ones, or those of a filter.",
        body=(SeedsChangeInput,),
        answers={200: seed_views.SeedsChangedView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="forgetSeeds",
        method="POST",
        path="/v1/{biz}/seeds/forget",
        summary="Remove seeds, so that their URLs are accepted anew: named ones, or of a filter.",
        body=(SeedsChangeInput,),
        answers={200: seed_views.SeedsChangedView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="releaseSeed",
        method="POST",
        path="/v1/{biz}/seeds/{segment}/{key}/release",
        summary="Make one failed or finished seed ready again.",
        answers={200: seed_views.SeedView},
        problems=(*ANY, 409),
    ),
    Route(
        operation="forgetSeed",
        method="DELETE",
        path="/v1/{biz}/seeds/{segment}/{key}",
        summary="Remove one seed, so that its URL is accepted anew.",
        answers={204: None},
        problems=ANY,
    ),
)
