"""Names tests use of schedules: cron lines, dispatcher, store and service."""

from crawlfleet.jobs.schedules import service as planning
from crawlfleet.jobs.schedules.cron import (
    QUEUED_FIRES,
    due_at,
    fires_after,
    fires_due,
    next_fire,
    planned,
    preview,
    problems_with,
)
from crawlfleet.jobs.schedules.dispatcher import OPEN_JOBS, ScheduleRunner
from crawlfleet.jobs.schedules.models import (
    KEPT_VERSIONS,
    LONG_WAIT,
    SCAN_GAP,
    Missed,
    Outcome,
    OutcomeKind,
    Overlap,
    Schedule,
    ScheduleState,
    state_of,
)
from crawlfleet.jobs.schedules.mongo import MongoSchedules
from crawlfleet.jobs.schedules.service import ScheduleService
