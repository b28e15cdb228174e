"""The states of a request."""

from enum import IntEnum


class State(IntEnum):
    """``flag`` on the wire. A biz may add states of its own from 100 upwards."""

    PENDING = 0
    DONE = 1
    LEASED = 2
    WAITING = 3
    DEAD = 4
    CANCELLED = 5
    EXPIRED = 6

    @property
    def label(self) -> str:
        """The state as clients write it: ``pending``."""
        return self.name.lower()


#: States in which nothing more will happen to a request.
FINAL_STATES = frozenset({State.DONE, State.DEAD, State.CANCELLED, State.EXPIRED})
