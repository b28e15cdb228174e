"""Names tests use of the HTTP API's routes, inputs and views, and of the services that it calls."""

from typing import Any, Final

from crawlfleet.api import dead_letters as dead_letter_views
from crawlfleet.api import explain as explain_views
from crawlfleet.api import inputs, openapi
from crawlfleet.api import requests as request_views
from crawlfleet.api import responses as views
from crawlfleet.api import results as result_views
from crawlfleet.api import schedules as schedule_inputs
from crawlfleet.api import schedules as schedule_views
from crawlfleet.api import seeds as seed_views
from crawlfleet.api.app import RestApi
from crawlfleet.api.fleet import REASON, fleet_view, share_view
from crawlfleet.api.incidents import (
    BIZS_SHOWN,
    INCIDENTS_SHOWN,
    LATE_SHOWN,
    etag_of,
    incident_view,
    overview_view,
)
from crawlfleet.api.jobs import job_view, order_in, whole_job_view
from crawlfleet.api.responses import (
    MethodNotAllowedError,
    TooLargeBodyError,
    document_of,
    is_fault,
    status_of,
)
from crawlfleet.api.routing import all_routes, resources_at, routes_of
from crawlfleet.api.schedules import schedule_in, schedule_view
from crawlfleet.api.spiders import spider_view, versions_view
from crawlfleet.apps.platform import AT_WORK_SECONDS, GLANCE_SECONDS, VITALS_SECONDS, Remembered
from crawlfleet.crawling.frontier import service as seeds
from crawlfleet.crawling.records import redis as records
from crawlfleet.crawling.recrawl import service as recrawl
from crawlfleet.jobs.schedules.service import ScheduleService
from crawlfleet.jobs.submitted import SubmittedJobs
from crawlfleet.monitoring import fleet_view as fleet
from crawlfleet.monitoring.explain.service import RequestExplainer
from crawlfleet.requests.dead_letters.service import DeadLetters
from crawlfleet.requests.submission.service import Submissions
from crawlfleet.requests.submission.tracking import Tracking
from crawlfleet.wire import ProblemDocument

ROUTES = all_routes()

#: The API's services that are classes, by their names in its context.
SERVICE_CLASSES: Final = {
    "submission": Submissions,
    "tracking": Tracking,
    "dead_letters": DeadLetters,
    "explaining": RequestExplainer,
    "schedules": ScheduleService,
    "submitted": SubmittedJobs,
}

#: By a test's name of it: where the API finds the function that answers a call.
SERVICES: Final[dict[str, tuple[Any, str]]] = {
    "submit": (Submissions, "submit"),
    "note": (SubmittedJobs, "note"),
    "list_requests": (Tracking, "list_requests"),
    "list_records": (Tracking, "list_records"),
    "stats": (Tracking, "stats"),
    "ledger": (Tracking, "audit"),
    "explain": (RequestExplainer, "explain"),
    "list_dead_letters": (DeadLetters, "list_dead_letters"),
    "get_dead_letter": (DeadLetters, "get_dead_letter"),
    "replay_dead_letter": (DeadLetters, "replay_one"),
    "replay_dead_letters": (DeadLetters, "replay"),
    "purge_dead_letter": (DeadLetters, "purge_one"),
    "purge_dead_letters": (DeadLetters, "purge"),
    "add_seeds": (seeds, "add_seeds"),
    "dispatch_added": (seeds, "dispatch_added"),
    "list_seeds": (seeds, "list_seeds"),
    "seed_totals": (seeds, "seed_totals"),
    "release_seed": (seeds, "release_seed"),
    "release_seeds": (seeds, "release_seeds"),
    "release_those": (seeds, "release_those"),
    "forget_seed": (seeds, "forget_seed"),
    "forget_seeds": (seeds, "forget_seeds"),
    "forget_those": (seeds, "forget_those"),
    "list_schedules": (ScheduleService, "of_biz"),
    "visit": (recrawl, "get_visit"),
    "visit_totals": (recrawl, "totals"),
    "coverage": (records, "coverage"),
    "workers": (fleet, "workers"),
}
