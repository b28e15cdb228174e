"""What is known of ways to sites, on Redis.

================================  ======  ====  ==============================================
key                               type    TTL   holds
================================  ======  ====  ==============================================
``cf:{probe:<digest>}:probe``     STRING  yes   what a way was like, as JSON
``cf:{probe:<digest>}:probing``   STRING  yes   the worker that is finding it out
================================  ======  ====  ==============================================

The digest is policy.probing's of tenant, biz, pool and origin: nothing that anybody has put into a
URL stands in a key, and no tenant's ways are another's. Both keys may be evicted at any time.
"""

from datetime import timedelta
from typing import Final

import msgspec

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.model.probing import ProbeKey
from crawlfleet.model.usage import Probe
from crawlfleet.policy.probing import digest

_LOOK: Final = Script("probe_look")
_SAVE: Final = Script("probe_save")


def probe_keys(key: ProbeKey) -> tuple[str, str]:
    """The keys of a way."""
    stem = f"cf:{{probe:{digest(key)}}}"
    return f"{stem}:probe", f"{stem}:probing"


class RedisProbes:
    """A :class:`~crawlfleet.ports.probing.ProbeBook`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def look(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """See ports.probing.ProbeBook.look."""
        told = self._redis.again(_LOOK, probe_keys(key), worker, _ms(hold))
        known, mine = several(told, 2)
        if known is not None:
            try:
                return msgspec.json.decode(text(known), type=Probe)
            except msgspec.DecodeError:
                return True  # whatever stands there, it is found out anew
        return whole(mine) == 1

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """See ports.probing.ProbeBook.save."""
        whole(
            self._redis.again(
                _SAVE, probe_keys(key), worker, msgspec.json.encode(probe), max(1, _ms(keep))
            )
        )

    def release(self, key: ProbeKey, worker: str) -> None:
        """See ports.probing.ProbeBook.release."""
        whole(self._redis.again(_SAVE, probe_keys(key), worker, "", 1))


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
