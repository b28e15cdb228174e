"""A block of ids, as the id-issuer hands it out."""

from datetime import datetime

import msgspec


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Ids to be used before ``expires_at``: runs of ``(first, how many)``, or single hex ids."""

    expires_at: datetime
    runs: tuple[tuple[int, int], ...] = ()
    ids: tuple[str, ...] = ()
