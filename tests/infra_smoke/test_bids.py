"""The journey's step about bidding: what it takes for shown, and what it does not."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec.structs import replace

from infra.localstack.bids import LITTLE, TOO_MUCH, Bids
from infra.localstack.jobs import Jobs
from infra.smoke.deployment import Deployment
from infra.steps import Step, StepError, wait_for
from tests.kit.sdk import Job, Ledger

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass
class Cloud:
    """The API, as far as the step sees it; each look that is waited for takes a second."""

    at: float = 0.0
    kept: dict[str, Job] = field(default_factory=dict)
    #: What goes wrong.
    no_bidding: bool = False
    takes_all: bool = False
    never_ends: bool = False
    dead: int = 0

    def wait(self, *args, **arguments):
        partial(wait_for, clock=lambda: self.at, sleep=self.sleep)(*args, **arguments)

    def sleep(self, seconds):
        self.at += seconds

    def start_job(self, biz, *, rule, urls, link, demand):
        assert link["test_url"] == "http://site.example/pydoc.html"
        memory = demand["memory"]["maximum"]
        assert memory in {LITTLE, TOO_MUCH}
        state = "expanding" if self.no_bidding else "placing"
        job = Job(name=f"page-{len(self.kept)}", state=state, rule=rule, size=1, created_at=NOW)
        is_won = (memory == LITTLE or self.takes_all) and not self.never_ends
        self.kept[job.name] = replace(job, state="done", worker="w1") if is_won else job
        return job

    def cancel_job(self, biz, name):
        self.kept[name] = replace(self.kept[name], state="cancelled")

    def job(self, biz, name):
        return self.kept[name]

    def ledger(self, biz, job):
        return Ledger(submitted=1, done=1 - self.dead, dead=self.dead, job=job)


def placed(cloud):
    step = Step("bids", lambda _: None)
    deployment = Deployment("localstack", cloud, {}, {})
    Bids(Jobs(deployment, cloud, "http://site.example/", cloud.wait)).placed(step)
    return step


def test_a_job_that_a_worker_suits_is_won_and_the_larger_one_is_cancelled():
    cloud = Cloud()

    step = placed(cloud)

    assert [one.state for one in cloud.kept.values()] == ["cancelled", "done"]
    assert step.seen[-1].startswith("won by w1")


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"no_bidding": True}, "page-0, page-1 wait for no worker"),
        ({"takes_all": True}, "page-0 is done, won by w1: no worker has what it states"),
        ({"never_ends": True}, "the job page-1 ends: not within 90 s"),
        ({"dead": 1}, "page-1 is done, won by w1"),
    ],
)
def test_what_goes_wrong_with_bidding_is_reported(wrong, reported):
    with pytest.raises(StepError) as caught:
        placed(Cloud(**wrong))

    assert reported in str(caught.value)
    assert caught.value.do
