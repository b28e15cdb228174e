"""The API's calls about schedules."""

from collections.abc import Mapping
from typing import NamedTuple

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, schedule_inputs, schedule_views
from crawlfleet.edge.answers import JSON, page_of, shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.operations import Page
from crawlfleet.edge.views import View
from crawlfleet.model.schedule import KEPT_VERSIONS, Schedule


class _Versions(NamedTuple):
    """All versions that there are."""

    items: list[Schedule]
    cursor: str | None = None
    more: bool = False


class ScheduleCalls(Call):
    """Put, read, preview, pause, resume, run, delete."""

    def _list_schedules(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.list_schedules(tenant, biz)
        views = [schedule_views.schedule_view(one) for one in found]
        return shown(200, schedule_views.SchedulesView(schedules=views))

    def _get_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.get_schedule(tenant, biz, name))

    def _put_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        given = schedule_inputs.schedule_in(inputs.body_of(self._event))
        schedule = schedule_inputs.schedule_of(given, tenant, biz, name)
        return _seen(self._operations.put_schedule(schedule))

    def _delete_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        self._operations.delete_schedule(tenant, biz, name)
        return Response(204, JSON, "")

    def _preview_schedule(self, tenant: str, biz: str) -> Response[str]:
        count = _count_in(self._query())
        schedule = schedule_inputs.preview_in(inputs.body_of(self._event), tenant, biz)
        runs = self._operations.preview_schedule(schedule, count)
        return shown(200, schedule_views.runs_view(schedule, runs))

    def _get_schedule_runs(self, tenant: str, biz: str, name: str) -> Response[str]:
        count = _count_in(self._query())
        schedule = self._operations.get_schedule(tenant, biz, name)
        runs = self._operations.preview_schedule(schedule, count)
        return shown(200, schedule_views.runs_view(schedule, runs))

    def _list_schedule_versions(self, tenant: str, biz: str, name: str) -> Response[str]:
        text = self._query().get("limit")
        limit = KEPT_VERSIONS
        if text is not None:
            limit = inputs.number_in(text, "limit", 1, KEPT_VERSIONS)

        def ask(limit: int) -> Page:
            return _Versions(self._operations.schedule_versions(tenant, biz, name, limit))

        def view(page: Page) -> View:
            found = [schedule_views.version_view(each) for each in page.items]
            return schedule_views.ScheduleVersionsView(versions=found)

        return page_of(limit, ask, view)

    def _pause_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.enable_schedule(tenant, biz, name, enabled=False))

    def _resume_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        return _seen(self._operations.enable_schedule(tenant, biz, name, enabled=True))

    def _run_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        key = inputs.idempotency_key_in(self._event)
        job = self._operations.run_schedule(tenant, biz, name, key)
        return shown(202, schedule_views.started_view(job))


def _seen(schedule: Schedule) -> Response[str]:
    return shown(200, schedule_views.schedule_view(schedule))


def _count_in(query: Mapping[str, str]) -> int:
    text = query.get("count")
    if text is None:
        return schedule_inputs.RUNS
    return inputs.number_in(text, "count", 1, schedule_inputs.MOST_RUNS)
