"""Names tests use of the HTTP API's routes, inputs and views."""

from crawlfleet.edge import inputs, letter_views, openapi, schedule_inputs, schedule_views, views
from crawlfleet.edge.fleet_views import REASON, fleet_view
from crawlfleet.edge.incident_views import incident_view
from crawlfleet.edge.job_inputs import order_in
from crawlfleet.edge.job_views import job_view, whole_job_view
from crawlfleet.edge.problems import (
    MethodNotAllowedError,
    ProblemDocument,
    TooLargeBodyError,
    document_of,
    is_fault,
    status_of,
)
from crawlfleet.edge.rest import RestApi
from crawlfleet.edge.routes import ROUTES
from crawlfleet.edge.schedule_inputs import schedule_in, schedule_of
from crawlfleet.edge.schedule_views import schedule_view
from crawlfleet.edge.spider_views import spider_view, versions_view
from crawlfleet.wiring.fleet_operations import AT_WORK_SECONDS, VITALS_SECONDS, Remembered
