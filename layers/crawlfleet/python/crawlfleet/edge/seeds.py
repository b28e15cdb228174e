"""The API's calls about seeds."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, seed_inputs, seed_views, views
from crawlfleet.edge.answers import JSON, page_of, shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.operations import Page
from crawlfleet.edge.seed_operations import SeedChanges
from crawlfleet.errors import InvalidRequestError


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
