"""What a worker's way to a site is like: measuring it, and knowing it for a while (SPEC.md B4)."""

from datetime import timedelta
from typing import Protocol

from crawlfleet.model.biz import FetchLimits
from crawlfleet.model.probing import ProbeKey
from crawlfleet.model.usage import Probe
from crawlfleet.ports.web import NO_ERRAND, Errand, Passage


class Prober(Protocol):
    """Measures ways to sites, with one request each on a connection of its own."""

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        passage: Passage | None = None,
        errand: Errand = NO_ERRAND,
    ) -> Probe:
        """What the way to a page is like: by when its first byte came, and how fast the rest.

        Of the body ``limits.max_body_bytes`` are read at most, decoded by nobody, and what has not
        come within ``limits.total_seconds`` is not waited for: the answer is that it is slow. A
        page that is not there any more measures the way as well as one that is. Redirects are
        followed, and passed, as those of any download; they count into the first byte's time.

        Raises:
            FetchError: the site gave no answer, or one that is not for us.
        """
        ...


class ProbeBook(Protocol):
    """What is known of ways, shared by the workers of each pool; one at a time finds it out.

    It is about the present, so it may be lost at any time.
    """

    def look(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """What is known; else whether it is this worker that is to find it out.

        It has to within ``hold``: then it may be another one's turn.
        """
        ...

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """The worker has found it out."""
        ...

    def release(self, key: ProbeKey, worker: str) -> None:
        """The worker has not, and another one may."""
        ...
