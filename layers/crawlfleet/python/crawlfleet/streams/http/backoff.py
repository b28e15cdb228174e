"""Pauses between the connections of a stream, by the steps that X documents for its own.

=================  ==================================================================
what happened      pause
=================  ==================================================================
the stream ended   none, then as after a fault of the network
the network        250 ms more each time, to 16 s
an HTTP fault      5 s, doubling to 320 s; so a secret that is refused
too many requests  60 s, doubling to 960 s; what the server asks for where that is longer
=================  ==================================================================

Steps of the network begin anew after a connection that stood longer than the longest of them, so
that a server that lets everybody in and out again is not asked in a loop. The others begin anew
with an answer.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

NETWORK_SECONDS: Final = 0.25
MOST_NETWORK_SECONDS: Final = 16.0
HTTP_SECONDS: Final = 5.0
MOST_HTTP_SECONDS: Final = 320.0
LIMITED_SECONDS: Final = 60.0
MOST_LIMITED_SECONDS: Final = 960.0
#: The longest pause that a server may ask for.
MOST_ASKED_SECONDS: Final = 3_600.0
_MOST_DOUBLINGS: Final = 32


class End(StrEnum):
    """The end of a connection, or the reason why there was none."""

    ENDED = "ended"
    SILENT = "silent"
    NETWORK = "network"
    HTTP = "http"
    #: The secret was refused, or cannot be read.
    REFUSED = "refused"
    LIMITED = "limited"


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Connections that have failed in a row, by what they failed at."""

    network: int = 0
    http: int = 0
    limited: int = 0

    def answered(self) -> "Backoff":
        """Return what holds once the stream has answered that it is open."""
        return replace(self, http=0, limited=0)

    def after(
        self, end: End, stood_seconds: float = 0.0, asked_seconds: float = 0.0
    ) -> "tuple[Backoff, float]":
        """Return what holds after a connection has ended, and the pause before the next one.

        >>> steps, pause = Backoff().after(End.ENDED)
        >>> pause, steps.after(End.ENDED)[1], steps.after(End.ENDED, stood_seconds=17)[1]
        (0.0, 0.25, 0.0)
        >>> Backoff().after(End.LIMITED, asked_seconds=90.0)[1]
        90.0
        """
        asked = min(asked_seconds, MOST_ASKED_SECONDS)
        if end in (End.HTTP, End.REFUSED):
            pause = _doubled(HTTP_SECONDS, self.http, MOST_HTTP_SECONDS)
            return replace(self, http=self.http + 1), max(pause, asked)
        if end is End.LIMITED:
            pause = _doubled(LIMITED_SECONDS, self.limited, MOST_LIMITED_SECONDS)
            return replace(self, limited=self.limited + 1), max(pause, asked)
        network = 0 if stood_seconds > MOST_NETWORK_SECONDS else self.network
        steps = network + (end is End.NETWORK and not network)
        pause = min(NETWORK_SECONDS * steps, MOST_NETWORK_SECONDS)
        return replace(self, network=steps + 1), pause


def _doubled(seconds: float, times: int, most: float) -> float:
    return float(min(seconds * 2 ** min(times, _MOST_DOUBLINGS), most))
