"""The journey's step about bidding: a job goes to a worker that has what it states (B4-B6)."""

import time
from typing import Final

from crawlfleet.sdk import Job
from infra.localstack import settings
from infra.localstack.jobs import Jobs
from infra.steps import Step, StepError

#: Bytes of memory that any worker has left, and that none has.
LITTLE: Final = 1e6
TOO_MUCH: Final = 1e15


class Bids:
    """Jobs that wait for a worker which suits them."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._client = jobs, jobs.client

    def placed(self, step: Step) -> None:
        """Show that the job which a worker suits is won and done, and the other one is not."""
        began = time.monotonic()
        large = self._start("os", TOO_MUCH)
        small = self._start("json", LITTLE)
        if waiting := [one.name for one in (large, small) if one.state != "placing"]:
            raise StepError(
                f"{', '.join(waiting)} wait for no worker",
                "The stage document has `bidding`: see whether it is in force.",
                self._jobs.consumers,
            )
        won = self._jobs.ended(settings.BIZ, small.name)
        lost = self._client.job(settings.BIZ, large.name)
        ledger = self._client.ledger(settings.BIZ, job=small.name)
        if won.state != "done" or not won.worker or (ledger.submitted, ledger.done) != (1, 1):
            raise StepError(
                f"{won.name} is {won.state}, won by {won.worker}: {ledger}",
                f"`crawlfleet job show {settings.BIZ} {won.name}` says why.",
                self._jobs.consumers,
            )
        if lost.state != "placing" or lost.worker:
            raise StepError(
                f"{lost.name} is {lost.state}, won by {lost.worker}: no worker has what it states",
                f"`crawlfleet job show {settings.BIZ} {lost.name}` says what that is.",
                self._jobs.consumers,
            )
        self._client.cancel_job(settings.BIZ, lost.name)
        self._jobs.ended(settings.BIZ, lost.name)
        took = time.monotonic() - began
        step.saw(f"won by {won.worker} and done after {took:.0f} s; one of 1 PB by none")

    def _start(self, page: str, memory: float) -> Job:
        """Start a job of one page with a test link of its own."""
        return self._client.start_job(
            settings.BIZ,
            rule=settings.RULE,
            urls=[f"{self._jobs.site}/{page}.html"],
            link={"test_url": f"{self._jobs.site}/pydoc.html", "seconds_below": 30.0},
            demand={"memory": {"maximum": memory}},
        )
