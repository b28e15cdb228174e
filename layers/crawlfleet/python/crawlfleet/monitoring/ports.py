"""The health of the parts, as the sampler asks for it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from crawlfleet.requests.queue.stats import NodeHealth


class Health(Protocol):
    """Looks at the parts."""

    def looks(self) -> Mapping[tuple[str, str], Callable[[], NodeHealth]]:
        """One look by part and node; they may be taken at the same time.

        None raises: a part that is down has an entry that says so. Each ends within ten seconds.
        """
        ...
