"""Names tests use of schedules: cron lines, dispatcher, store and service."""

from crawlfleet.adapters.mongo.schedules import MongoSchedules
from crawlfleet.flows import planning
from crawlfleet.flows.firing import OPEN_JOBS, FiringPorts, run_now
from crawlfleet.flows.planning import PlanningPorts, get_schedule, put_schedule, set_enabled
from crawlfleet.flows.scheduling import run_due
from crawlfleet.model.schedule import (
    KEPT_VERSIONS,
    LOOKS_APART,
    Missed,
    Outcome,
    OutcomeKind,
    Overlap,
    Schedule,
)
from crawlfleet.policy.cron import (
    QUEUED_FIRES,
    due_at,
    fires_after,
    fires_due,
    next_fire,
    planned,
    preview,
    problems_with,
)
from crawlfleet.ports import ScheduleStore
