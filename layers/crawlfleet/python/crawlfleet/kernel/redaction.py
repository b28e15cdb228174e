"""Texts as they may go into messages: one line, bounded, and errors' without what opens doors.

Errors' texts are cleaned where they are taken in. Names and our own words are not: a biz may be
called ``token``, and what follows its name is no secret.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

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


#: Words in the names of headers whose values let somebody in.
_CREDENTIAL_HEADER: Final = re.compile(
    r"(?i)auth|cookie|token|secret|passw|passphrase|credential|session|signature|api[-_]?key"
    r"|access[-_]?key|private[-_]?key|csrf|xsrf|jwt|bearer"
)
MASK: Final = "***"


def masked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers as they may be shown: those that look like credentials without their values.

    >>> masked_headers({"Authorization": "Bearer abc", "X-API-Key": "k", "Accept": "text/html"})
    {'Authorization': '***', 'X-API-Key': '***', 'Accept': 'text/html'}
    """
    return {
        name: MASK if _CREDENTIAL_HEADER.search(name) else value for name, value in headers.items()
    }


#: Shorter texts are masked in messages alone: in a page they may be any word.
LEAST_IN_PAGES: Final = 8


class Mask:
    """Takes known secret texts out of what is kept and shown: whole, and without their scheme.

    >>> mask = Mask(["Bearer s3cr3t-token"])
    >>> mask.text("refused 's3cr3t-token'"), mask.content(b"you sent Bearer s3cr3t-token")
    ("refused '***'", b'you sent ***')
    >>> Mask(["open sesame 7"]).text("7 of open sesame 7, or sesame 7")
    '7 of ***, or ***'
    """

    __slots__ = ("_texts",)

    def __init__(self, texts: Iterable[str]) -> None:
        found = {part for text in texts for part in (text, text.partition(" ")[2]) if part}
        self._texts = sorted(found, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Mask(...)"

    def __bool__(self) -> bool:
        return bool(self._texts)

    def beside(self, *texts: str) -> "Mask":
        """Return one that takes these out as well."""
        return Mask([*self._texts, *texts])

    def text(self, text: str) -> str:
        """Return a message without them."""
        return self.in_page(text, 1)

    def value(self, value: Any) -> Any:
        """Return a value of JSON without them, whatever it holds."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def finds(self, value: Any) -> bool:
        """Tell whether a value of JSON holds one."""
        if isinstance(value, str):
            return any(secret in value for secret in self._texts)
        inner = value.values() if isinstance(value, Mapping) else value
        return isinstance(value, Mapping | list | tuple) and any(map(self.finds, inner))

    def in_page(self, text: str, least: int = LEAST_IN_PAGES) -> str:
        """Return a text of a page, as its URL, without those of at least so many characters."""
        for secret in self._texts:
            if len(secret) >= least:
                text = text.replace(secret, MASK)
        return text

    def headers(self, headers: Mapping[str, str], least: int = LEAST_IN_PAGES) -> dict[str, str]:
        """Return headers without those of at least so many characters."""
        return {name: self.in_page(value, least) for name, value in headers.items()}

    def content(self, content: bytes, least: int = LEAST_IN_PAGES) -> bytes:
        """Return a body without those of at least so many characters."""
        for secret in self._texts:
            if len(secret) >= least:
                content = content.replace(secret.encode(errors="replace"), MASK.encode())
        return content


#: Where nothing is secret.
NO_SECRETS: Final = Mask(())
