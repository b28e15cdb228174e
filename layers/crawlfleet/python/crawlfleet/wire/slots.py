"""Host slots that a process outside of the fleet gets."""

from typing import Final

import msgspec

#: A host that may be asked for, as :func:`crawlfleet.kernel.hosts.host_of` writes it.
HOST: Final = r"^(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])$"
#: Slots of one ask at a host, and downloads in flight there.
MOST_SLOTS: Final = 1_000
#: A longer crawl-delay is asked for as this one.
LONGEST_DELAY_SECONDS: Final = 86_400


class GrantedSlots(msgspec.Struct, frozen=True, kw_only=True):
    """The slots at a host: ``count`` of them, the first in ``wait_seconds``, then one an interval.

    The process may have ``permits`` downloads in flight there, for half a minute or until it asks
    again. For more it may ask in ``ready_seconds``; ``why`` is what those wait for, empty where all
    were granted.
    """

    host: str
    count: int
    wait_seconds: float
    interval_seconds: float
    permits: int
    ready_seconds: float
    why: str = ""


class SlotsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The slots, in the order of the asks, and how the biz reads robots.txt files.

    It ignores them where ``obeys_robots`` is false; ``product`` is who they are asked for.
    """

    slots: tuple[GrantedSlots, ...]
    obeys_robots: bool = True
    product: str = ""
