"""What a pattern lets through, said in words: nobody should have to read one in a message."""

from typing import NamedTuple


class Words(NamedTuple):
    """Beside a pattern in ``Annotated``: what is expected, as it goes on from "expected"."""

    text: str
