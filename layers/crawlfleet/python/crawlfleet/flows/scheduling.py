"""A cron tick (SPEC.md B1): due schedules become requests, once per fire time.

A fire is written first, with the ids its requests will have. Whoever comes second, or comes back
after
a crash, finds it and goes on with the same ids, so a request exists once however often this runs.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from crawlfleet.errors import BacklogFullError, InvalidRequestError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.submission import SubmissionPorts, make_room, persist_and_enqueue
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.request import Body, Request
from crawlfleet.model.schedule import Fire, Schedule
from crawlfleet.model.submission import BATCH_LIMIT, Accepted, Refused, Submission
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.admission import Admission
from crawlfleet.policy.cron import fires_due, next_fire
from crawlfleet.ports import ScheduleStore

#: The tick has other things to do than to wait for a silent node, schedule by schedule.
MARGIN_SECONDS: Final = 60.0
#: Schedules handled in one tick, and missed fire times created for one of them.
SCHEDULES_A_TICK: Final = 1_000
FIRES_A_TICK: Final = 60


def run_due(
    ports: SubmissionPorts,
    schedules: ScheduleStore,
    tree: Tree,
    now: datetime,
    time_left: Callable[[], float],
) -> tuple[int, int]:
    """Create the requests of every due schedule; returns (fires, requests).

    A schedule that cannot be run (its biz or rule is gone, a part is down) is reported through
    ``ports.warn`` and does not keep others from running. What there is no time for stays due, and
    so does what there is no room for.
    """
    fires = requests = 0
    crowded: list[tuple[str, BacklogFullError]] = []
    for due in schedules.due(now, SCHEDULES_A_TICK):
        if time_left() < MARGIN_SECONDS:
            break
        schedule = due
        try:
            for fire_at in fires_due(due, now, FIRES_A_TICK):
                requests += _fire(ports, schedules, tree, schedule, fire_at, now)
                fires += 1
                following = next_fire(schedule, fire_at)
                if not schedules.advance(schedule, fire_at, following):
                    break  # another scheduler has gone on from here
                schedule = replace(schedule, next_at=following, last_fired_at=fire_at)
        except BacklogFullError as error:
            crowded.append((f"{due.tenant}/{due.biz}/{due.name}", error))
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            ports.warn(f"schedule {due.tenant}/{due.biz}/{due.name} could not run", error)
    if crowded:
        name, reason = crowded[0]
        ports.warn(f"{len(crowded)} schedules stay due until there is room, {name} first", reason)
    return fires, requests


def _fire(
    ports: SubmissionPorts,
    schedules: ScheduleStore,
    tree: Tree,
    schedule: Schedule,
    fire_at: datetime,
    now: datetime,
) -> int:
    """Create one fire's requests; returns how many this call has stored."""
    lane, biz = biz_of(tree, schedule.tenant, schedule.biz)
    bodies = _bodies(biz, schedule)
    # The rate is the clients': a fire time is not spread over others by being late.
    make_room(ports, tree, lane, len(bodies), replace(biz.intake, per_second=None), now)
    ports.rules.freeze(lane, schedule.rule, biz.rules[schedule.rule])
    fire = schedules.open_fire(
        Fire(
            tenant=schedule.tenant,
            biz=schedule.biz,
            schedule=schedule.name,
            fire_at=fire_at,
            queued_at=from_ms(to_ms(now)),
            ids=tuple(ports.ids.take(lane, biz.id_kind, len(bodies))),
            rule_version=bodies[0].rule_version,
        )
    )
    if fire.done:
        return 0
    stored = 0
    requests = _requests(fire, bodies)
    for start in range(0, len(requests), BATCH_LIMIT):
        part = requests[start : start + BATCH_LIMIT]
        repeatable = frozenset(request.id for request in part)
        receipts = persist_and_enqueue(ports, lane, biz, part, now, repeatable=repeatable)
        refused = [receipt.error for receipt in receipts if isinstance(receipt, Refused)]
        if refused:
            raise refused[0]
        stored += sum(isinstance(r, Accepted) and not r.repeated for r in receipts)
    schedules.close_fire(fire)
    return stored


def _bodies(biz: Biz, schedule: Schedule) -> list[Body]:
    admission = Admission(biz)
    bodies = []
    for index, url in enumerate(schedule.urls):
        body = admission.admit(Submission(url=url, rule=schedule.rule), f"urls[{index}].")
        if not isinstance(body, Body):
            raise InvalidRequestError(body)
        bodies.append(body)
    return bodies


def _requests(fire: Fire, bodies: Sequence[Body]) -> list[Request]:
    # A schedule edited between two tries of a fire: the ids that stand decide how many there are.
    return [
        Request(
            id=an_id,
            tenant=fire.tenant,
            biz=fire.biz,
            queued_at=fire.queued_at,
            body=body,
            job=f"{fire.schedule}.{fire.fire_at:%Y%m%dT%H%M%SZ}",
        )
        for an_id, body in zip(fire.ids, bodies, strict=False)
    ]
