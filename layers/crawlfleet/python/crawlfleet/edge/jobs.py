"""The API's calls about jobs."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, job_inputs, job_views
from crawlfleet.edge.answers import page_of, shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.job_operations import SeenJob
from crawlfleet.edge.operations import Page
from crawlfleet.edge.views import View


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
