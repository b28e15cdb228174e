"""The calls about seeds, as a table.

The API's calls about seeds.
"""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api import inputs
from crawlfleet.api import responses as views
from crawlfleet.api import seed_shapes as seed_inputs
from crawlfleet.api import seed_shapes as seed_views
from crawlfleet.api.operations_jobs import SeedChanges
from crawlfleet.api.responses import JSON, Page, page_of, shown
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.api.seed_shapes import SeedsChangeInput, SeedsInput
from crawlfleet.crawling.frontier.segments import NAME
from crawlfleet.kernel.errors import InvalidRequestError

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


class SeedCalls(Call):
    """Offer, list, count, release, forget."""

    def _offer_seeds(self, tenant: str, biz: str) -> Response[str]:
        offers = seed_inputs.offers_in(inputs.body_of(self._event))
        answers = self._operations.offer_seeds(tenant, biz, offers)
        wrong = [answer for answer in answers if isinstance(answer, InvalidRequestError)]
        if len(wrong) == len(answers):
            raise InvalidRequestError(problem for error in wrong for problem in error.problems)
        entries = [seed_views.offer_view(answer) for answer in answers]
        accepted = sum(entry.accepted for entry in entries)
        return shown(
            200,
            seed_views.OfferedView(
                accepted=accepted,
                duplicates=len(entries) - accepted - len(wrong),
                rejected=len(wrong),
                seeds=entries,
            ),
        )

    def _list_seeds(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        meant = seed_inputs.meant_in(query)

        def ask(limit: int) -> Page:
            return self._operations.list_seeds(
                tenant, biz, meant, cursor=query.get("cursor"), limit=limit
            )

        def view(page: Page) -> views.View:
            found = [seed_views.seed_view(seed) for seed in page.items]
            return seed_views.SeedsView(seeds=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_seed_totals(self, tenant: str, biz: str) -> Response[str]:
        totals = self._operations.seed_totals(tenant, biz)
        segments = [seed_views.segment_view(each) for each in totals]
        return shown(200, seed_views.SeedTotalsView(segments=segments))

    def _release_seed(self, tenant: str, biz: str, segment: str, key: str) -> Response[str]:
        seed = self._operations.release_seed(tenant, biz, f"{segment}/{key}")
        return shown(200, seed_views.seed_view(seed))

    def _forget_seed(self, tenant: str, biz: str, segment: str, key: str) -> Response[str]:
        self._operations.forget_seed(tenant, biz, f"{segment}/{key}")
        return Response(204, JSON, "")

    def _release_seeds(self, tenant: str, biz: str) -> Response[str]:
        given, meant = seed_inputs.changes_in(inputs.body_of(self._event))
        if meant is None:
            return _changed(self._operations.release_seeds(tenant, biz, given.seeds))
        return _changed(
            self._operations.release_those(
                tenant, biz, meant, cursor=given.cursor, limit=given.limit
            )
        )

    def _forget_seeds(self, tenant: str, biz: str) -> Response[str]:
        given, meant = seed_inputs.changes_in(inputs.body_of(self._event))
        if meant is None:
            return _changed(self._operations.forget_seeds(tenant, biz, given.seeds))
        return _changed(
            self._operations.forget_those(
                tenant, biz, meant, cursor=given.cursor, limit=given.limit
            )
        )


def _changed(done: SeedChanges) -> Response[str]:
    return shown(
        200, seed_views.SeedsChangedView(count=done.count, cursor=done.cursor, more=done.more)
    )
