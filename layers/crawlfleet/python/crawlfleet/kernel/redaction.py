"""Texts as they may go into messages: one line, bounded, and errors' without what opens doors.

Errors' texts are cleaned where they are taken in. Names and our own words are not: a biz may be
called ``token``, and what follows its name is no secret.
"""

import re
from typing import Final

#: What stands between a scheme and a host: a name and a password. In the path of a page an `@` may
#: follow; in addresses of stores it ends the password, whatever stands in that unescaped.
_CREDENTIALS: Final = re.compile(
    r"(?i)\b(https?://)[^\s/?#]*@|\b((?!https?:)[a-z][a-z0-9+.-]{0,31}://)\S*@"
)
#: Words whose value is nobody's to read, in queries of URLs, headers and settings.
_SECRETS: Final = re.compile(
    r"(?i)((?:password|passwd|pwd|token|secret|api[-_]?key|authorization|signature|x-amz-[a-z-]+)"
    r"[\"']?\s*[=:]\s*)(?:basic |bearer )?[^\s&,;]+"
)
_LONGEST_READ: Final = 10_000


def plain(text: str, most: int) -> str:
    """Return the text as one line of at most ``most`` characters, without credentials.

    >>> plain("mongodb://root:s3cr@t@db.example/x is" + chr(10) + "away", 60)
    'mongodb://***@db.example/x is away'
    >>> plain("https://a.example/?api_key=abc&x=1", 40)
    'https://a.example/?api_key=***&x=1'
    >>> plain("one two three", 8)
    'one tw..'
    """
    line = _CREDENTIALS.sub(r"\1\2***@", _line(text))
    return _cut(_SECRETS.sub(r"\1***", line), most)


def one_line(text: str, most: int) -> str:
    """Return the text as one line of at most ``most`` characters, whatever it says.

    >>> one_line("biz acme/token:" + chr(10) + " 5 wait", 30)
    'biz acme/token: 5 wait'
    """
    return _cut(_line(text), most)


def _line(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text[:_LONGEST_READ])
    return " ".join(line.split())


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[: max(0, most - 2)] + ".."[:most]
