"""A job from its start to its end, through scheduler and consumer, on real servers."""

from typing import Any

import pytest

from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import PAGES, a_web, following
from tests.functions.http import ask
from tests.kit.apps import now
from tests.kit.jobs import Job, JobOrder, JobStarter, JobState, MongoJobs
from tests.kit.kernel import QueueKey
from tests.kit.mongo import MongoLedgers, MongoRules
from tests.kit.requests import Ledger
from tests.kit.spiders import Range, Start
from tests.waiting import eventually

pytestmark = pytest.mark.measured


class NoSpiders:
    """A store without spiders."""

    def get(self, *_: object) -> None:
        return None


class Office:
    """A helper that starts jobs and reads them."""

    def __init__(self, world: Any) -> None:
        self.parts = world.own
        self.tenant = world.tenants["acme"]
        self.jobs = MongoJobs(self.parts.nodes)

    def start(self, start: Start, name: str = "june") -> Job:
        ports = JobStarter(
            jobs=self.jobs,
            spiders=NoSpiders(),  # type: ignore[arg-type]
            rules=MongoRules(self.parts.nodes),
        )
        order = JobOrder(tenant=self.tenant, biz="docs", by="api", name=name, start=start)
        return ports.start(self.parts.config.current(), order, now())

    def job(self, name: str = "june") -> Job:
        found = self.jobs.get(self.tenant, "docs", name)
        assert found is not None
        return found

    def ledger(self, name: str = "june") -> Ledger:
        biz = self.parts.config.current().bizs[self.tenant]["docs"]
        queue_key = QueueKey(self.tenant, "docs", biz.queue)
        return MongoLedgers(self.parts.nodes).audit(queue_key, biz, now(), name)


def is_done(world: Any, office: Office) -> bool:
    tick(world)
    return office.job().state is JobState.DONE


def test_the_scheduler_makes_the_tasks_of_a_job_and_ends_it(world):
    office = Office(world)
    with a_web() as web:
        start = Start(pattern=f"{web.url}/{{n}}", values={"n": Range(first=0, last=29)})
        office.start(start)

        assert tick(world)["tasks"] == 30
        assert tick(world)["tasks"] == 0
        assert office.job().state is JobState.RUNNING
        assert world.queued() == 30
        world.work()
        eventually(lambda: is_done(world, office))

    job = office.job()
    # Page 13 is none that robots.txt allows.
    assert job.counts == {"done": 29, "dead": 1, "cancelled": 0, "expired": 0, "refused": 0}
    ledger = office.ledger()
    assert (ledger.submitted, ledger.open, ledger.difference) == (30, 0, 0)
    assert {path for path in web.asked if path != "/robots.txt"} == {
        f"/{n}" for n in range(30) if n != 13
    }


def test_a_worker_makes_the_tasks_of_a_job_by_itself_and_works_them_off(world):
    office = Office(world)
    with a_web() as web:
        office.start(Start(urls=tuple(f"{web.url}/{n}" for n in range(5))))

        report = world.work()

        assert (report["tasks"], report["done"]) == (5, 5)
        eventually(lambda: is_done(world, office))
    assert office.job().counts["done"] == 5


def test_a_job_ends_when_what_its_pages_lead_to_has_ended(world):
    world.fresh({"acme": {"docs": following()}})
    office = Office(world)
    with a_web() as web:
        office.start(Start(urls=(f"{web.url}/0",)))

        def done() -> bool:
            world.work()
            return is_done(world, office)

        eventually(done)

    counts = office.job().counts
    assert counts["done"] == PAGES - 1
    assert office.ledger().submitted == counts["done"] + counts["dead"]


def test_a_replayed_dead_letter_of_a_job_that_is_done_leaves_it_done(world):
    office = Office(world)
    with a_web() as web:
        office.start(Start(urls=(f"{web.url}/13",)))
        world.work()
        eventually(lambda: is_done(world, office))
        ended = office.job()
        assert ended.counts["dead"] == 1

        answer = ask(world, "POST", "/v1/docs/dead-letters/replay", {"all": True})
        assert answer.status < 300, answer.text
        tick(world)

    assert office.ledger().open == 1
    assert office.job() == ended
