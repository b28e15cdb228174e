"""How workers hear that a job is being cancelled (SPEC.md C2)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

#: Tenant, biz and name of a job.
JobKey: TypeAlias = tuple[str, str, str]


class Heard(NamedTuple):
    """Jobs that were announced, and the moment from which to ask the next time."""

    jobs: list[JobKey]
    reached: int


class Cancellations(Protocol):
    """Announcements of jobs that are being cancelled; they are kept for a minute or so.

    They only make it quick: what is cancelled in the truth is nobody's, whoever heard of it.
    """

    def announce(self, jobs: Sequence[JobKey]) -> None:
        """Tell every worker; again is as good as once, and is heard again."""
        ...

    def heard(self, since: int = 0) -> Heard:
        """What was announced at ``since`` or later, by the server's clock, the oldest first.

        A bounded number of them: whoever asks from ``reached`` on misses none, and may hear some
        twice. A moment that has not come yet, as after a change of server, is taken for 0.
        """
        ...
