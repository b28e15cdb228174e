"""What happened to a lane as a whole: its queue filled anew, workers buried, accounts corrected."""

from datetime import datetime

import msgspec


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event: when, who, what kind, why in words, and how many requests it concerned."""

    at: datetime
    by: str
    kind: str
    why: str
    count: int = 0
