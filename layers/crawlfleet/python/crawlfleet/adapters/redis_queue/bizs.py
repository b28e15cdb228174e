"""Which bizs there are, told on Redis by the scheduler to whoever sees nothing else of the fleet.

Scrapy processes cannot read the configuration. Items for a biz that nobody serves would be taken
and wait for ever, so a process asks before its first item, and the scheduler looks after what was
put in for bizs that are gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.crawl_keys import bizs_key
from crawlfleet.errors import StoreUnavailableError
from crawlfleet.model.lane import Lane

_TELL: Final = Script("tell_bizs")
_GONE: Final = Script("gone_bizs")
_ASK: Final = Script("ask_biz")

#: Bizs that are written down for those who ask while nobody can say; and named in an answer.
_MOST: Final = 1_000
_SHOWN: Final = 20


class RedisBizs:
    """A :class:`~crawlfleet.ports.Bizs`, and the side of those who ask."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def tell(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """See ports.Bizs.tell."""
        return self._gone(_TELL, lanes)[0]

    def gone(self, lanes: Mapping[str, Sequence[Lane]]) -> list[Lane]:
        """See ports.Bizs.gone."""
        gone, away = self._gone(_GONE, lanes)
        if away:
            said = f"of {away} of {len(lanes)} tenants nobody can say which bizs are gone"
            raise StoreUnavailableError("redis", said)
        return gone

    def _gone(self, script: Script, lanes: Mapping[str, Sequence[Lane]]) -> tuple[list[Lane], int]:
        """The lanes that are gone, and of how many tenants nobody can say."""
        tenants = sorted(lanes)
        telling = [_telling(tenant, lanes[tenant]) for tenant in tenants]
        answers = self._redis.as_far_as_may_be(script, telling)
        gone: list[Lane] = []
        away = 0
        with self._redis.translated():
            for tenant, answer in zip(tenants, answers, strict=True):
                if isinstance(answer, StoreUnavailableError):
                    away += 1  # its node of a cluster; it is told when that is there again
                    continue
                words = [text(word).decode() for word in several(answer)]
                gone += [
                    Lane(tenant, biz, queue)
                    for biz, queue in zip(words[::2], words[1::2], strict=True)
                ]
        return gone, away

    def ask(self, lane: Lane) -> tuple[bool | None, list[str]]:
        """Whether the tenant has the biz, None if nobody has said; and some of those it has."""
        found = several(
            self._redis.again(
                _ASK, (bizs_key(lane.tenant),), *(lane.biz, lane.queue, _MOST, _SHOWN)
            )
        )
        if not found:
            raise nonsense()
        with self._redis.translated():
            others = [text(name).decode() for name in found[1:]]
        said = whole(found[0])
        return None if said < 0 else said == 1, others


def _telling(tenant: str, lanes: Iterable[Lane]) -> tuple[tuple[str], list[str]]:
    return (bizs_key(tenant),), [word for lane in lanes for word in (lane.biz, lane.queue)]
