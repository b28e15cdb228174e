"""Jobs that are being cancelled, on Redis: every worker looks there each second."""

from collections.abc import Sequence
from typing import Final

from crawlfleet.jobs.cancellation import ANNOUNCED_SECONDS, MOST_ANNOUNCED, Announced, JobKey
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script, fleet_keys

_ANNOUNCE: Final = Script("jobs/announce_cancelled")
_CANCELLED: Final = Script("jobs/cancelled")

_KEPT_MS: Final = int(ANNOUNCED_SECONDS * 1000)
#: Announced in one call, and so perhaps of one moment; told in one answer. The second is the larger
#: by so much that calls of the same millisecond do not fill an answer either.
_CHUNK: Final = 100
_REPORTED: Final = 1_000


class RedisCancellations:
    """A :class:`~crawlfleet.ports.Cancellations`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
    """

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._keys = (fleet_keys(fleet).cancelled,)

    def announce(self, jobs: Sequence[JobKey]) -> None:
        """See ports.Cancellations.announce."""
        names = ["/".join(job) for job in jobs]
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            whole(self._redis.again(_ANNOUNCE, self._keys, _KEPT_MS, MOST_ANNOUNCED, *part))

    def heard(self, since: int = 0) -> Announced:
        """See ports.Cancellations.heard."""
        answer = self._redis.again(_CANCELLED, self._keys, since, _KEPT_MS, _REPORTED)
        with self._redis.translated():
            reached, *names = several(answer)
            jobs = [_key(text(name).decode()) for name in names]
            return Announced(jobs, whole(reached))


def _key(name: str) -> JobKey:
    tenant, biz, job = name.split("/")
    return tenant, biz, job
