"""The jobs that steps of the journey start, and how these wait for their ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crawlfleet.kernel import names
from crawlfleet.sdk import Client, Job
from infra.smoke.deployment import Deployment, log_group
from infra.steps import wait_for

#: A tick starts a worker, or ends a job, if nobody does before.
TICK: Final = 90.0


@dataclass(slots=True)
class Jobs:
    """The jobs of a deployment.

    Attributes:
        deployment: Where they are.
        client: The API's.
        site: The address of the site, as functions see it.
        wait: Waits until something holds.
        consumers: The log group of those who work on them.
    """

    deployment: Deployment
    client: Client
    site: str
    wait: Callable[..., None] = wait_for
    consumers: str = field(init=False)

    def __post_init__(self) -> None:
        self.site = self.site.rstrip("/")
        self.consumers = log_group(self.deployment.stage, names.CONSUMER)

    def ended(self, biz: str, name: str) -> Job:
        """Wait until a job has ended; return it."""
        self.wait(
            lambda: self.client.job(biz, name).ended,
            TICK,
            f"the job {name} ends",
            f"`crawlfleet job show {biz} {name}` says what it waits for.",
            log_group=self.consumers,
        )
        return self.client.job(biz, name)
