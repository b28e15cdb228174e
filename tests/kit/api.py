"""Names tests use of the HTTP API's routes, inputs and views."""

from crawlfleet.api import dead_letters as letter_views
from crawlfleet.api import inputs, openapi
from crawlfleet.api import responses as views
from crawlfleet.api import schedule_shapes as schedule_inputs
from crawlfleet.api import schedule_shapes as schedule_views
from crawlfleet.api.app import RestApi
from crawlfleet.api.fleet_shapes import REASON, fleet_view
from crawlfleet.api.incidents import incident_view
from crawlfleet.api.job_shapes import job_view, order_in, whole_job_view
from crawlfleet.api.responses import (
    MethodNotAllowedError,
    ProblemDocument,
    TooLargeBodyError,
    document_of,
    is_fault,
    status_of,
)
from crawlfleet.api.routes import ROUTES
from crawlfleet.api.schedule_shapes import schedule_in, schedule_of, schedule_view
from crawlfleet.api.spiders import spider_view, versions_view
from crawlfleet.apps.site_operations import AT_WORK_SECONDS, VITALS_SECONDS, Remembered
