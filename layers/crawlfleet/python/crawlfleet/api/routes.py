"""Everything the API offers, as a table."""

from typing import Final

from crawlfleet.api import dead_letters as letter_views
from crawlfleet.api import fleet_shapes as fleet_views
from crawlfleet.api import records as coverage_views
from crawlfleet.api import requests as insight_views
from crawlfleet.api import responses as views
from crawlfleet.api import rules as trial_views
from crawlfleet.api import visits as visit_views
from crawlfleet.api.dead_letters import LARGEST_STATUS, PurgesInput, ReplayInput, ReplaysInput
from crawlfleet.api.incidents import INCIDENT_ROUTES
from crawlfleet.api.inputs import IDEMPOTENCY_KEY, Batch
from crawlfleet.api.jobs import JOB_ROUTES
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Parameter, Route
from crawlfleet.api.rules import TrialInput
from crawlfleet.api.schedules import SCHEDULE_ROUTES
from crawlfleet.api.seeds import SEED_ROUTES
from crawlfleet.api.spiders import SPIDER_ROUTES
from crawlfleet.api.usage import DEMAND_ROUTES
from crawlfleet.requests.outcomes import REASONS
from crawlfleet.requests.submission.models import Submission

#: The header of an answer that had been given before.
REPLAYED: Final = "Idempotent-Replayed"


_STATE: Final = Parameter(
    name="state",
    meaning="Only requests in this state: a state of every biz, or one of this biz's own.",
    shape={"type": "string", "maxLength": 32},
)
_SINCE: Final = Parameter(
    name="since",
    meaning="Only requests queued at this time or later: RFC 3339 with a zone, or epoch ms.",
    shape={"type": "string", "maxLength": 40},
)
_REQUEST_ID: Final = Parameter(
    name="request_id",
    meaning="Only the records of this request.",
    shape={"type": "string", "maxLength": 36},
)

_KEY: Final = Parameter(
    name=IDEMPOTENCY_KEY,
    meaning="Under one key a submission is one, however often it is sent.",
    shape={"type": "string", "pattern": "^[!-~]{1,255}$"},
)
_REPEATED: Final = Parameter(
    name=REPLAYED,
    meaning="`true` when all of it had been accepted before, under this key or its client ids.",
    shape={"type": "string", "const": "true"},
)
_PAGE_URL: Final = Parameter(
    name="url",
    meaning="The page, by any URL that is the same page to the biz.",
    shape={"type": "string", "minLength": 1, "maxLength": 8_000},
)
_DEEP: Final = Parameter(
    name="deep",
    meaning="1: also what is running, as it was found some seconds ago at most.",
    shape={"type": "string", "enum": ["0", "1"]},
)
_JOB: Final = Parameter(
    name="job",
    meaning="Only what belongs to this job.",
    shape={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
)


def _word(name: str, meaning: str) -> Parameter:
    return Parameter(
        name=name, meaning=meaning, shape={"type": "string", "minLength": 1, "maxLength": 255}
    )


_LETTERS: Final = (
    Parameter(
        name="reason",
        meaning="Only those given up on for this kind of error.",
        shape={"type": "string", "enum": list(REASONS)},
    ),
    Parameter(
        name="status",
        meaning="Only those whose last answer had this status; 0: there was none.",
        shape={"type": "integer", "minimum": 0, "maximum": LARGEST_STATUS},
    ),
    _word("rule", "Only those of this rule."),
    _word("host", "Only those whose URL has this host; a port or a scheme does not matter."),
    _JOB,
    _word("text", "Only those with this text in their error or their URL."),
    _SINCE,
    Parameter(
        name="until",
        meaning="Only requests queued before this time: RFC 3339 with a zone, or epoch ms.",
        shape={"type": "string", "maxLength": 40},
    ),
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="submitRequests",
        method="POST",
        path="/v1/{biz}/requests",
        summary="Submit one page, or up to 1,000, to be downloaded. Each entry is answered.",
        body=(Submission, Batch),
        headers=(_KEY,),
        told=(_REPEATED,),
        answers={202: views.BatchView},
        problems=(*ANY, 409, 413, 422, 429),
    ),
    Route(
        operation="listRequests",
        method="GET",
        path="/v1/{biz}/requests",
        summary="Requests by time of queueing, oldest first.",
        parameters=(_STATE, _SINCE, CURSOR, LIMIT),
        answers={200: views.RequestsView},
        problems=ANY,
    ),
    Route(
        operation="getRequest",
        method="GET",
        path="/v1/{biz}/requests/{id}",
        summary="One request: state, timeline, attempts, worker, error, readable body.",
        answers={200: views.RequestView},
        problems=ANY,
    ),
    Route(
        operation="cancelRequest",
        method="DELETE",
        path="/v1/{biz}/requests/{id}",
        summary="Cancel a request that nobody works on yet.",
        answers={200: views.RequestView},
        problems=(*ANY, 409),
    ),
    Route(
        operation="explainRequest",
        method="GET",
        path="/v1/{biz}/requests/{id}/explain",
        summary="Why a request is where it is: every decision, and where it stands now.",
        answers={200: insight_views.ExplanationView},
        problems=ANY,
    ),
    Route(
        operation="explainUrl",
        method="GET",
        path="/v1/{biz}/explain",
        summary="Why a URL was or was not crawled: its seeds, their last request, its page.",
        parameters=(_PAGE_URL, _word("rule", "Only what is of this rule or spider.")),
        answers={200: insight_views.UrlExplanationView},
        problems=ANY,
    ),
    Route(
        operation="listDeadLetters",
        method="GET",
        path="/v1/{biz}/dead-letters",
        summary="Requests that were given up on, oldest first: why, and the site's last answer.",
        parameters=(*_LETTERS, CURSOR, LIMIT),
        answers={200: letter_views.LettersView},
        problems=ANY,
    ),
    Route(
        operation="getDeadLetter",
        method="GET",
        path="/v1/{biz}/dead-letters/{id}",
        summary="One dead letter with everything, the beginning of the last answer's body too.",
        answers={200: letter_views.WholeLetterView},
        problems=(*ANY, 409),
    ),
    Route(
        operation="replayDeadLetter",
        method="POST",
        path="/v1/{biz}/dead-letters/{id}/replay",
        summary="Have a dead letter worked on again, by its rule as it was or as it is now.",
        body=(ReplayInput,),
        body_required=False,
        answers={200: views.RequestView},
        problems=(*ANY, 409, 413),
    ),
    Route(
        operation="purgeDeadLetter",
        method="DELETE",
        path="/v1/{biz}/dead-letters/{id}",
        summary="Remove a dead letter; the ledger still counts it as dead.",
        answers={204: None},
        problems=(*ANY, 409),
    ),
    Route(
        operation="replayDeadLetters",
        method="POST",
        path="/v1/{biz}/dead-letters/replay",
        summary="Have the dead letters that a filter means worked on again, some at a time.",
        body=(ReplaysInput,),
        answers={200: letter_views.ReplayedView},
        problems=(*ANY, 413),
    ),
    Route(
        operation="purgeDeadLetters",
        method="POST",
        path="/v1/{biz}/dead-letters/purge",
        summary="Remove the dead letters that a filter means, some at a time.",
        body=(PurgesInput,),
        answers={200: letter_views.PurgedView},
        problems=(*ANY, 413),
    ),
    *SEED_ROUTES,
    Route(
        operation="listRecords",
        method="GET",
        path="/v1/{biz}/records",
        summary="Records by time of storing, oldest first. The cursor may be kept to come back.",
        parameters=(_REQUEST_ID, CURSOR, LIMIT),
        answers={200: views.RecordsView},
        problems=ANY,
    ),
    Route(
        operation="getStats",
        method="GET",
        path="/v1/{biz}/stats",
        summary="Totals per state, queue depth, rates over 1, 5 and 60 seconds.",
        answers={200: views.StatsView},
        problems=ANY,
    ),
    Route(
        operation="getLedger",
        method="GET",
        path="/v1/{biz}/ledger",
        summary="Where everything that was ever submitted is: every term, and the difference.",
        parameters=(_JOB,),
        answers={200: insight_views.LedgerView},
        problems=ANY,
    ),
    Route(
        operation="listWorkers",
        method="GET",
        path="/v1/{biz}/workers",
        summary="The fleet's workers: how they are, and what they hold of this biz.",
        answers={200: insight_views.WorkersView},
        problems=ANY,
    ),
    Route(
        operation="listHosts",
        method="GET",
        path="/v1/{biz}/hosts",
        summary="Hosts that this biz is at or waits for, the worst first: how they answer.",
        answers={200: fleet_views.HostsView},
        problems=ANY,
    ),
    Route(
        operation="getFleet",
        method="GET",
        path="/v1/fleet",
        summary="One look at the whole fleet: workers, bizs, hosts, parts. Operators only.",
        answers={200: fleet_views.FleetView},
        problems=(400, 403, 503),
    ),
    Route(
        operation="getVisits",
        method="GET",
        path="/v1/{biz}/visits",
        summary="What is known of a page since it was last read, or of all pages together.",
        parameters=(_PAGE_URL,),
        answers={200: visit_views.VisitsView},
        problems=ANY,
    ),
    Route(
        operation="getCoverage",
        method="GET",
        path="/v1/{biz}/coverage",
        summary="In how many records each field has a value, by rule and version.",
        answers={200: coverage_views.CoverageView},
        problems=ANY,
    ),
    Route(
        operation="tryRule",
        method="POST",
        path="/v1/{biz}/rules/try",
        summary="What a rule yields of a page that is sent along, or of a URL; nothing is stored.",
        body=(TrialInput,),
        answers={200: trial_views.TriedView},
        problems=(*ANY, 413),
    ),
    *SCHEDULE_ROUTES,
    *SPIDER_ROUTES,
    *JOB_ROUTES,
    *INCIDENT_ROUTES,
    *DEMAND_ROUTES,
    Route(
        operation="getHealth",
        method="GET",
        path="/health",
        summary="Whether the router can do its work, and with deep=1 what is running.",
        parameters=(_DEEP,),
        answers={200: fleet_views.HealthView, 503: fleet_views.HealthView},
        problems=(400, 503),
        open=True,
    ),
    Route(
        operation="getOpenApi",
        method="GET",
        path="/openapi.json",
        summary="This document.",
        answers={200: None},
        problems=(400,),
        open=True,
    ),
)
