"""The API's calls about dead letters."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, letter_inputs, letter_views, views
from crawlfleet.edge.answers import JSON, page_of, shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.operations import Page


class LetterCalls(Call):
    """List, show, replay, purge: one by its id, or those that a filter means."""

    def _list_dead_letters(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        meant = letter_inputs.letters_in(query)

        def ask(limit: int) -> Page:
            return self._operations.list_letters(
                tenant, biz, meant, cursor=query.get("cursor"), limit=limit
            )

        def view(page: Page) -> views.View:
            found = [letter_views.letter_view(letter) for letter in page.items]
            return letter_views.LettersView(dead_letters=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_dead_letter(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        letter = self._operations.get_letter(tenant, biz, id)
        return shown(
            200, letter_views.whole_letter_view(letter, self._operations.label(tenant, biz))
        )

    def _replay_dead_letter(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        given = letter_inputs.replay_in(inputs.body_of(self._event))
        tracked = self._operations.replay_letter(
            tenant, biz, id, current_rule=given.rule == "current"
        )
        return shown(200, views.request_view(tracked, self._operations.label(tenant, biz)))

    def _purge_dead_letter(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        self._operations.purge_letter(tenant, biz, id)
        return Response(204, JSON, "")

    def _replay_dead_letters(self, tenant: str, biz: str) -> Response[str]:
        given, meant = letter_inputs.replays_in(inputs.body_of(self._event))
        done = self._operations.replay_letters(
            tenant,
            biz,
            meant,
            current_rule=given.rule == "current",
            cursor=given.cursor,
            limit=given.limit,
        )
        return shown(
            200,
            letter_views.ReplayedView(
                replayed=done.count, skipped=done.skipped, cursor=done.cursor, more=done.more
            ),
        )

    def _purge_dead_letters(self, tenant: str, biz: str) -> Response[str]:
        given, meant = letter_inputs.purges_in(inputs.body_of(self._event))
        done = self._operations.purge_letters(
            tenant, biz, meant, cursor=given.cursor, limit=given.limit
        )
        return shown(
            200,
            letter_views.PurgedView(
                purged=done.count, skipped=done.skipped, cursor=done.cursor, more=done.more
            ),
        )
