"""The client: every call of the API as a method, its answers as typed values."""

import time
from typing import Self

from crawlfleet import __version__
from crawlfleet.sdk.address import find_address
from crawlfleet.sdk.configuration import ConfigCalls
from crawlfleet.sdk.dead_letters import DeadLetterCalls
from crawlfleet.sdk.deliveries import DeliveryCalls
from crawlfleet.sdk.fleet import FleetCalls
from crawlfleet.sdk.jobs import JobCalls
from crawlfleet.sdk.requests import RequestCalls
from crawlfleet.sdk.schedules import ScheduleCalls
from crawlfleet.sdk.seeds import SeedCalls
from crawlfleet.sdk.spiders import RuleCalls, SpiderCalls
from crawlfleet.sdk.submission import SubmissionCalls
from crawlfleet.sdk.subscriptions import SubscriptionCalls
from crawlfleet.sdk.tenants import TenantCalls
from crawlfleet.sdk.transport import Clock, Retries, Timeouts, Transport


class Client(
    SubmissionCalls,
    RequestCalls,
    DeadLetterCalls,
    SeedCalls,
    ScheduleCalls,
    SpiderCalls,
    RuleCalls,
    SubscriptionCalls,
    DeliveryCalls,
    JobCalls,
    FleetCalls,
    TenantCalls,
    ConfigCalls,
):
    """A client of one Crawlfleet API.

    ::

        with Client() as fleet:
            urls = ["https://example.org/1", "https://example.org/2"]
            sent = fleet.submit("news", urls, job="june")
            for refused in (each for each in sent if not each.accepted):
                print(refused.url, refused.error)
            for status in fleet.wait("news", sent):
                print(status.url, status.state, status.error)
            for record in fleet.records("news", job="june"):
                print(record.fields)

    Address and key come from the arguments, then ``CRAWLFLEET_API_URL`` and
    ``CRAWLFLEET_API_KEY``, then the ``.crawlfleet/local.json`` of a local cloud in the working
    directory or above it. The key shows in no repr, error or log.

    Every call has time-outs and a bounded number of tries, and is repeated after any passing
    failure (see :mod:`crawlfleet.sdk.transport`); a submission carries a key, so that it is stored
    once. Threads may share a client; use it as a context manager or call :meth:`close`.

    Raises:
        ConfigError: no address or key could be found, or one is unusable.
    """

    def __init__(
        self,
        api_url: str | None = None,
        api_key: str | None = None,
        *,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        clock: Clock = time,
    ) -> None:
        address = find_address(api_url, api_key)
        self.api_url = address.api_url
        transport = Transport(
            address,
            timeouts or Timeouts(),
            retries or Retries(),
            clock=clock,
            user_agent=f"crawlfleet-sdk/{__version__}",
        )
        super().__init__(transport, clock)

    def __repr__(self) -> str:
        return f"Client(api_url={self.api_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()
