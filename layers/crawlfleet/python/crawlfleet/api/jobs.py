"""The calls about jobs, as a table.

The API's calls about jobs.
"""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api import inputs
from crawlfleet.api import job_shapes as job_inputs
from crawlfleet.api import job_shapes as job_views
from crawlfleet.api.inputs import IDEMPOTENCY_KEY
from crawlfleet.api.job_shapes import JobInput, RetryInput
from crawlfleet.api.operations_jobs import SeenJob
from crawlfleet.api.responses import Page, View, page_of, shown
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.jobs.models import JobState

_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key there is one job, however often it is ordered.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)
_NAME: Final[dict[str, object]] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$"}

JOB_ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="startJob",
        method="POST",
        path="/v1/{biz}/jobs",
        summary="Start a job: a run of a kept spider, or of a rule on URLs. 200: it stood already.",
        body=(JobInput,),
        headers=(_KEY,),
        answers={201: job_views.JobView, 200: job_views.JobView},
        problems=(*ANY, 409, 413, 422, 429),
    ),
    Route(
        operation="listJobs",
        method="GET",
        path="/v1/{biz}/jobs",
        summary="Jobs, the newest first.",
        parameters=(
            Parameter(
                name="state",
                meaning="Only jobs in this state, or in one of several with commas between: "
                + ", ".join(state.value for state in JobState)
                + ".",
                shape={"type": "string", "maxLength": 100},
            ),
            Parameter(name="spider", meaning="Only runs of this spider.", shape=_NAME),
            Parameter(name="schedule", meaning="Only jobs that this schedule fired.", shape=_NAME),
            CURSOR,
            LIMIT,
        ),
        answers={200: job_views.JobsView},
        problems=ANY,
    ),
    Route(
        operation="getJob",
        method="GET",
        path="/v1/{biz}/jobs/{job}",
        summary="A job: how far it is, where its tasks are, when it will have ended.",
        answers={200: job_views.WholeJobView},
        problems=ANY,
    ),
    Route(
        operation="retryJob",
        method="POST",
        path="/v1/{biz}/jobs/{job}/retry",
        summary="Have the failed tasks of a job worked on again; one that was done runs again.",
        body=(RetryInput,),
        body_required=False,
        answers={200: job_views.RetriedView},
        problems=(*ANY, 409, 413),
    ),
    Route(
        operation="cancelJob",
        method="POST",
        path="/v1/{biz}/jobs/{job}/cancel",
        summary="Cancel a job: what is open of it ends, downloads under way too. Again: the same.",
        answers={200: job_views.WholeJobView},
        problems=(*ANY, 409),
    ),
)


class JobCalls(Call):
    """Start, list, show, cancel, retry."""

    def _start_job(self, tenant: str, biz: str) -> Response[str]:
        key = inputs.idempotency_key_in(self._event)
        order = job_inputs.order_in(inputs.body_of(self._event), tenant, biz)
        started = self._operations.start_job(order, key)
        return shown(201 if started.is_new else 200, job_views.job_view(started.job))

    def _list_jobs(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        states = job_inputs.states_in(query)
        spider, schedule = (job_inputs.named_in(query, name) for name in ("spider", "schedule"))

        def ask(limit: int) -> Page:
            return self._operations.list_jobs(
                tenant,
                biz,
                states=states,
                spider=spider,
                schedule=schedule,
                cursor=query.get("cursor"),
                limit=limit,
            )

        def view(page: Page) -> View:
            found = [job_views.job_view(job) for job in page.items]
            return job_views.JobsView(jobs=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_job(self, tenant: str, biz: str, job: str) -> Response[str]:
        return self._whole(self._operations.get_job(tenant, biz, job_inputs.job_name(job)))

    def _cancel_job(self, tenant: str, biz: str, job: str) -> Response[str]:
        return self._whole(self._operations.cancel_job(tenant, biz, job_inputs.job_name(job)))

    def _retry_job(self, tenant: str, biz: str, job: str) -> Response[str]:
        given = job_inputs.retry_in(inputs.body_of(self._event))
        done = self._operations.retry_job(
            tenant, biz, job_inputs.job_name(job), current_rule=given.rule == "current"
        )
        view = job_views.RetriedView(
            retried=done.count,
            skipped=done.skipped,
            more=done.more,
            job=job_views.job_view(done.job),
        )
        return shown(200, view)

    def _whole(self, seen: SeenJob) -> Response[str]:
        now = self._operations.moment()
        return shown(200, job_views.whole_job_view(seen.job, seen.ledger, now))
