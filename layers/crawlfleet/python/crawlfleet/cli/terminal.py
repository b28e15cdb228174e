"""Write to the terminal, which no text of the web or of a server is to steer.

Control characters move the cursor, clear what was said before, or set what is typed next; others
turn round the order in which a line is read, or are not seen. All that commands write comes through
here, but for what Rich draws of texts that were made printable; a test looks for other ways.
"""

import io
import json
import re
import sys
from typing import IO, Any, Final, cast

import click

#: Control characters but new lines and tabs; characters that are not seen, or turn round what is
#: seen; white space that looks like a blank and is none; halves of pairs, which nothing can carry.
_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u1680\u180e\u2000-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""Make control characters (but new lines and tabs), and unusual white space, visible.

    >>> print(printable("a" + chr(27) + "[31mb" + chr(0xA0) + chr(0x202F)))
    a\x1b[31mb\xa0\u202f
    """

    def escaped(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 256:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code < 65_536 else f"\\U{code:08x}"

    return _CONTROL.sub(escaped, text)


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Write text to standard output, or to standard error; it steers no terminal."""
    click.secho(printable(text), err=err, nl=nl, **style)


class _Terminal(io.RawIOBase):
    """Standard output where it is a terminal: what would steer it is escaped as JSON does it."""

    def writable(self) -> bool:
        """Allow writing."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes of whole characters."""
        text = bytes(data).decode(errors="replace")
        sys.stdout.buffer.write(_CONTROL.sub(_json_escape, text).encode())
        return len(data)

    def flush(self) -> None:
        """Have it shown."""
        sys.stdout.buffer.flush()


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def output() -> IO[bytes]:
    """Return standard output for bytes; a document of JSON means the same at a terminal."""
    return cast("IO[bytes]", _Terminal()) if sys.stdout.isatty() else sys.stdout.buffer
