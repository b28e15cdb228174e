"""Announce jobs to every worker through Redis, where it looks each second.

They are being cancelled, or have other quotas than they had.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from crawlfleet.jobs.models import JobKey
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script, fleet_keys

#: An announcement stands for so long; it is made again while the job is being cancelled.
ANNOUNCED_SECONDS: Final = 60.0
#: So many jobs are announced at once; of more, the latest, and as many of each tenant. A worker
#: learns of others when it renews their leases.
MOST_ANNOUNCED: Final = 5_000

_ANNOUNCE: Final = Script("jobs/announce_cancelled")
_CANCELLED: Final = Script("jobs/cancelled")

_KEPT_MS: Final = int(ANNOUNCED_SECONDS * 1000)
#: Jobs of one call, which may all have one moment, and of one answer, which several calls of the
#: same millisecond must not fill.
_CHUNK: Final = 100
_ANSWER: Final = 1_000
#: Before a job whose quotas were replaced. To older workers that is a tenant that there is not.
_REQUOTED: Final = "quotas:"


class Announced(NamedTuple):
    """Jobs that were announced, and the moment from which to ask the next time.

    Of those ``requoted`` the quotas were replaced; the others are being cancelled.
    """

    jobs: list[JobKey]
    reached: int
    requoted: Sequence[JobKey] = ()


class RedisCancellations:
    """Announcements of jobs that are being cancelled.

    They only save time: what is cancelled in MongoDB cannot be settled, whether announced or not.
    ``fleet`` keeps fleets apart that share a Redis.
    """

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._keys = (fleet_keys(fleet).cancelled,)

    def announce(self, jobs: Sequence[JobKey]) -> None:
        """Announce jobs to every worker; it may be repeated, and is then announced anew."""
        names = ["/".join(job) for job in jobs]
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            whole(self._redis.again(_ANNOUNCE, self._keys, _KEPT_MS, MOST_ANNOUNCED, *part))

    def announce_quotas(self, job: JobKey) -> None:
        """Announce to every worker that a job's quotas are others now."""
        name = _REQUOTED + "/".join(job)
        whole(self._redis.again(_ANNOUNCE, self._keys, _KEPT_MS, MOST_ANNOUNCED, name))

    def announced(self, since: int = 0) -> Announced:
        """List what was announced at ``since`` or later, by the server's clock, the oldest first.

        The list is bounded: whoever asks from ``reached`` on misses none, and may get some twice. A
        moment in the future, as after a change of server, counts as 0.
        """
        answer = self._redis.again(_CANCELLED, self._keys, since, _KEPT_MS, _ANSWER)
        with self._redis.translated():
            reached, *names = several(answer)
            every = [text(name).decode() for name in names]
            requoted = [name for name in every if name.startswith(_REQUOTED)]
            return Announced(
                [_key(name) for name in every if not name.startswith(_REQUOTED)],
                whole(reached),
                [_key(name.removeprefix(_REQUOTED)) for name in requoted],
            )


def _key(name: str) -> JobKey:
    tenant, biz, job = name.split("/")
    return tenant, biz, job
