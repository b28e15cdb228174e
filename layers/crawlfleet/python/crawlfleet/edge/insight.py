"""The API's calls about why, whether everything is there, who works, and what is known of pages."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs, insight_views
from crawlfleet.edge.answers import shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.coverage_views import coverage_view
from crawlfleet.edge.visit_views import VisitsView, totals_view, visit_view
from crawlfleet.errors import InvalidRequestError


class InsightCalls(Call):
    """Explain, ledger, workers, coverage, visits."""

    def _explain_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        explained = self._operations.explain(tenant, biz, id)
        label = self._operations.label(tenant, biz)
        return shown(200, insight_views.explanation_view(explained, label))

    def _explain_url(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()
        label = self._operations.label(tenant, biz)  # a biz that there is not is told first
        url = query.get("url")
        if url is None:
            raise InvalidRequestError.of("url", "is missing")
        explained = self._operations.explain_url(tenant, biz, url, query.get("rule"))
        return shown(200, insight_views.url_explanation_view(explained, biz, label))

    def _get_ledger(self, tenant: str, biz: str) -> Response[str]:
        job = inputs.job_in(self._query().get("job"))
        return shown(200, insight_views.ledger_view(self._operations.ledger(tenant, biz, job), job))

    def _list_workers(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.workers(tenant, biz)
        return shown(
            200,
            insight_views.WorkersView(
                workers=[insight_views.worker_view(status) for status in found]
            ),
        )

    def _get_coverage(self, tenant: str, biz: str) -> Response[str]:
        return shown(200, coverage_view(self._operations.coverage(tenant, biz)))

    def _get_visits(self, tenant: str, biz: str) -> Response[str]:
        url = self._query().get("url")
        if url is not None:
            visit = visit_view(self._operations.visit(tenant, biz, url))
            return shown(200, VisitsView(visit=visit, totals=None))
        totals = totals_view(self._operations.visit_totals(tenant, biz))
        return shown(200, VisitsView(visit=None, totals=totals))
