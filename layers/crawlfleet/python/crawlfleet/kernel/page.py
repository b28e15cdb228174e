"""A page as the web gave it, and what is kept of an answer that failed."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A downloaded page. ``url`` is where redirects ended; ``seconds`` from start to last byte.

    ``peers`` are the addresses that answered, one for each hop.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes
    redirects: tuple[str, ...] = ()
    seconds: float = 0.0
    peers: tuple[str, ...] = ()

    @property
    def content_type(self) -> str:
        """Return ``Content-Type`` in lower case with its parameters, or an empty string."""
        return self.headers.get("content-type", "").lower()


#: How much of a body is kept of an attempt that failed.
SAMPLE_BYTES: Final = 2_000
#: Response headers that tell why a page was not given, or by whom. Never a cookie or a credential.
INFORMATIVE_HEADERS: Final = frozenset(
    [
        *("age", "allow", "cache-control", "date", "location", "retry-after", "server", "via"),
        *("content-encoding", "content-language", "content-length", "content-type"),
        *("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"),
        *("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
        *("cf-cache-status", "cf-mitigated", "cf-ray", "x-amz-cf-id", "x-cache"),
        *("x-request-id", "x-robots-tag"),
    ]
)
_LONGEST_HEADER: Final = 500
_LONGEST_URL: Final = 2_000
#: The user's name and password in a URL, which nobody who reads a dead letter needs.
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/?#]*@")


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A site's answer to an attempt that failed, as far as people need it to find out why.

    ``headers`` are the few that matter; ``sample`` is the beginning of the body. Made by :meth:`of`
    all of it is bounded and free of credentials.
    """

    url: str
    status: int = 0
    headers: dict[str, str] = {}
    seconds: float = 0.0
    sample: bytes = b""

    @classmethod
    def of(
        cls, url: str, status: int, headers: Mapping[str, str], seconds: float, body: bytes = b""
    ) -> "Answer":
        """Keep what matters of an answer whose ``headers`` have lower-case names.

        >>> Answer.of("http://me:pw@a.example/", 404, {"set-cookie": "x", "server": "y"}, 1)
        Answer(url='http://a.example/', status=404, headers={'server': 'y'}, seconds=1, sample=b'')
        """
        return cls(
            url=_plain(url, _LONGEST_URL),
            status=status,
            headers={
                name: _plain(value, _LONGEST_URL if name == "location" else _LONGEST_HEADER)
                for name, value in headers.items()
                if name in INFORMATIVE_HEADERS
            },
            seconds=round(seconds, 6),
            sample=bytes(body[:SAMPLE_BYTES]),
        )

    @classmethod
    def of_page(cls, page: Page) -> "Answer":
        """Keep what matters of a page that came but could not be read."""
        return cls.of(page.url, page.status, page.headers, page.seconds, page.body)

    def facts(self) -> "Answer":
        """Return the answer without its sample."""
        return msgspec.structs.replace(self, sample=b"")


def _plain(text: str, length: int) -> str:
    """Return text that every store can take, bounded, without credentials in a URL."""
    return _CREDENTIALS.sub("", text)[:length].encode(errors="replace").decode()
