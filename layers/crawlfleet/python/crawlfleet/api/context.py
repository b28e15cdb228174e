# ruff: noqa: D102  a property is named for the service that its ports are for
"""The context of the API: the configuration, the clock, the ports of each resource's service."""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from crawlfleet.config.lookup import ConfigCentre
from crawlfleet.kernel.settings import Settings

if TYPE_CHECKING:
    from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
    from crawlfleet.crawling.records.coverage import CoveragePorts
    from crawlfleet.crawling.recrawl.service import Visits
    from crawlfleet.crawling.trials.remote import TryingPorts
    from crawlfleet.fleet.ports import FailureDetector
    from crawlfleet.jobs.cancellation import CancellingPorts
    from crawlfleet.jobs.ports import DemandStore, JobReopening
    from crawlfleet.jobs.schedules.service import PlanningPorts
    from crawlfleet.jobs.service import JobPorts
    from crawlfleet.jobs.spiders.service import SpiderPorts
    from crawlfleet.monitoring.explain.service import ExplainingPorts
    from crawlfleet.monitoring.explain.urls import UrlPorts
    from crawlfleet.monitoring.fleet_view import HostPorts
    from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
    from crawlfleet.monitoring.models import Vitals
    from crawlfleet.monitoring.sampler import SamplingPorts
    from crawlfleet.requests.dead_letters.service import DeadLetters
    from crawlfleet.requests.submission.service import Submissions, Tracking


class Context(Protocol):
    """The router's environment. Ports are opened by the first call that asks for them."""

    @property
    def config(self) -> ConfigCentre: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def submission(self) -> "Submissions": ...
    @property
    def tracking(self) -> "Tracking": ...
    @property
    def explaining(self) -> "ExplainingPorts": ...
    @property
    def explaining_urls(self) -> "UrlPorts": ...
    @property
    def dead_letters(self) -> "DeadLetters": ...
    @property
    def seeds(self) -> "SeedDispatcher": ...
    @property
    def visits(self) -> "Visits": ...
    @property
    def coverage(self) -> "CoveragePorts": ...
    @property
    def trials(self) -> "TryingPorts": ...
    @property
    def schedules(self) -> "PlanningPorts": ...
    @property
    def spiders(self) -> "SpiderPorts": ...
    @property
    def jobs(self) -> "JobPorts": ...
    @property
    def cancelling(self) -> "CancellingPorts": ...
    @property
    def reopening(self) -> "JobReopening": ...
    @property
    def demands(self) -> "DemandStore": ...
    @property
    def detector(self) -> "FailureDetector": ...
    @property
    def hosts(self) -> "HostPorts": ...
    @property
    def sampling(self) -> "SamplingPorts": ...
    @property
    def incidents(self) -> "MongoIncidentBook": ...

    def now(self) -> datetime:
        """Tell the time."""
        ...

    def refusal(self) -> str | None:
        """Say why the newest configuration is not in force; None where it is."""
        ...

    def health(self) -> dict[str, str]:
        """Look at the parts that the router needs, each ``ok`` or what is wrong with it."""
        ...

    def vitals(self) -> "Vitals":
        """Find how the platform is and what it runs; it may be some seconds old."""
        ...
