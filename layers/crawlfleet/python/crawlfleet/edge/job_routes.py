"""The calls about jobs, as a table."""

from typing import Final

from crawlfleet.edge import job_views
from crawlfleet.edge.inputs import IDEMPOTENCY_KEY
from crawlfleet.edge.job_inputs import JobInput, RetryInput
from crawlfleet.edge.route import ANY, CURSOR, LIMIT, Parameter, Route
from crawlfleet.model.job import JobState

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
