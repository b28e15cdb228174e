"""A schedule that is run by hand while it fires: by the router and the scheduler at once."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from threading import Barrier, Semaphore
from typing import Any

import pytest

from tests.functions.http import ask
from tests.functions.test_twice import at_once
from tests.kit.jobs import MongoJobs
from tests.kit.kernel import ConflictError, names

PLAN = {"cron": "* * * * *", "rule": "page", "urls": ["https://a.example/"]}


@pytest.fixture
def all_count_first(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """So many have counted the jobs of a schedule before any of them goes on."""
    count_open = MongoJobs.count_open

    def arrange(number: int) -> None:
        everybody, counted = Barrier(number), Semaphore(number)

        def count(jobs: MongoJobs, tenant: str, biz: str, schedule: str | None = None) -> int:
            count = count_open(jobs, tenant, biz, schedule)
            if schedule is not None and counted.acquire(blocking=False):
                everybody.wait(60)
            return count

        monkeypatch.setattr(MongoJobs, "count_open", count)

    return arrange


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_a_fire_and_two_runs_by_hand_at_once_come_one_after_the_other(
    world: Any,
    all_count_first: Callable[[int], None],
    overlap: str,
) -> None:
    """Below the edge: the framework keeps the event of a call for the whole process."""
    answer = ask(world, "PUT", "/v1/docs/schedules/minutely", PLAN | {"overlap": overlap})
    soon = datetime.fromisoformat(answer.json["next_at"])
    world.clocks[names.SCHEDULER] = lambda: soon
    tenant = world.tenants["acme"]
    all_count_first(3)

    def by_hand(key: str) -> str:
        try:
            return world.operations().run_schedule(tenant, "docs", "minutely", key).name
        except ConflictError as error:
            return str(error)

    ticked, *runs = at_once(
        partial(world.application(names.SCHEDULER).tick, "a-tick", lambda: 120.0),
        partial(by_hand, "a"),
        partial(by_hand, "b"),
    )

    jobs = ask(world, "GET", "/v1/docs/jobs").json["jobs"]
    started_as = {job["name"] for job in jobs}
    last = ask(world, "GET", "/v1/docs/schedules/minutely").json["last_outcome"]
    if overlap == "replace":
        going = [job for job in jobs if job["state"] not in {"cancelling", "cancelled"}]
        assert (len(going), started_as) == (1, {*runs, last["job"]})
        return
    [started] = started_as
    by_hand = [said for said in runs if said == started]
    refused = [said for said in runs if said != started]
    if last["outcome"] == "started":
        assert (last["job"], by_hand, ticked["fires"]) == (started, [], 1)
    else:
        assert last["outcome"] == {"skip": "skipped", "queue": "waiting"}[overlap]
        assert (by_hand, ticked["fires"]) == ([started], 0)
        refused.append(last["why"])
    assert refused == [f"{started} has not ended"] * 2
    again = ask(world, "POST", "/v1/docs/schedules/minutely/run", {})
    assert (again.status, again.json["detail"]) == (409, refused[0])
