"""The revision of the configuration, announced in Redis by whoever has read it last (SPEC.md A3).

SSM lets an account read 40 times a second, so a fleet of hundreds cannot ask it every few seconds.
Of all environments one at a time, by turns, asks SSM for the revision and announces it here; the
others look here, and ask SSM for what is new themselves.

No word of the configuration is taken from Redis. Whoever can write there could otherwise switch off
the guard of addresses or claim a tenant's keys, and whoever can read there would see headers and
nodes. As it is they can withhold an announcement, which each environment's own look at SSM makes
good within ``in_force.OWN_LOOK_SECONDS``, or announce what is not there, which costs each a read,
and another one in ever longer pauses, until the one whose turn it is announces what there is. A
stale announcement does no more than that.
"""

from typing import Final, NamedTuple

from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script, fleet_keys

_LOOK: Final = Script("config/look")
#: One environment asks SSM in this time.
TURN_SECONDS: Final = 1.0


class Announced(NamedTuple):
    """The revision announced last, empty where none is; and whether this caller is to ask SSM."""

    revision: str
    is_turn: bool


class RedisRevisions:
    """The announced revision of a stage; ``fleet`` keeps stages apart that share a Redis."""

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        keys = fleet_keys(fleet)
        self._keys = keys.revision, keys.revision_turn

    def look(self, announcement: str = "") -> Announced:
        """Read the announcement, after making one; take the turn to ask SSM if nobody has it.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        arguments = int(TURN_SECONDS * 1000), announcement
        revision, is_turn = several(self._redis.again(_LOOK, self._keys, *arguments), 2)
        with self._redis.translated():
            return Announced(text(revision).decode(), whole(is_turn) == 1)
