"""How entries are spelled in Redis and on the way there: a JSON object a line, exactly one way."""

from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.model.request import Entry

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Entry)


def spell(entries: Sequence[Entry]) -> bytes:
    """One line an entry."""
    return _encoder.encode_lines(entries)


def read(line: bytes) -> Entry:
    """One entry, whatever its spelling.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _decoder.decode(line)


def read_canonical(lines: bytes) -> list[Entry] | None:
    """The entries, or None unless each line is exactly what we would write."""
    if not lines:
        return []
    try:
        entries = _decoder.decode_lines(lines)
    except msgspec.DecodeError:
        return None
    return entries if spell(entries) == lines + b"\n" else None
