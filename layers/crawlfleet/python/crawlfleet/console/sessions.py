"""Sessions of the console: an API key that is put away in two halves, and comes back with a cookie.

Signing in splits the key. A random pad as long as the key goes to the browser, as its cookie; the
key with that pad over it goes to Redis, until the session ends. Neither half says anything about
the key, so neither a stolen backup of Redis nor a stolen log of cookies' ids is one. What the
session may do is what its key may, asked anew at each call: a key that is removed, replaced or out
of its quota ends or limits its sessions by itself.
"""

import base64
import binascii
import hashlib
import re
import secrets
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

#: How long a session lasts, whatever is done in it.
TERM: Final = timedelta(hours=4)
#: API Gateway's keys have 20 to 128 characters, those of a local cloud 40.
LONGEST_KEY: Final = 200
_ID_BYTES: Final = 18
_COOKIE: Final = re.compile(r"([A-Za-z0-9_-]{24})\.([A-Za-z0-9_-]{1,300})\Z")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is stored: whose it is, and one half of its key."""

    tenant: str
    operator: bool
    half: bytes
    expires_at: datetime


class SessionStore(Protocol):
    """The store of sessions, by names from which no cookie can be made."""

    def put(self, name: str, session: Session, term: timedelta) -> None:
        """Store a session for so long."""
        ...

    def get(self, name: str) -> Session | None:
        """Return a session; None where there is none."""
        ...

    def remove(self, name: str) -> None:
        """Remove a session; no effect where there is none."""
        ...


class Sessions:
    """Open, find and end sessions."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def begin(self, key: str, tenant: str, now: datetime, *, operator: bool) -> tuple[str, Session]:
        """Begin a session of a key that was let in; return its cookie's value, and it.

        Raises:
            ValueError: the key is longer than any.
        """
        clear = key.encode()
        if not 0 < len(clear) <= LONGEST_KEY:
            raise ValueError("no API key is so long")
        pad = secrets.token_bytes(len(clear))
        identity = _text(secrets.token_bytes(_ID_BYTES))
        session = Session(
            tenant=tenant, operator=operator, half=_over(clear, pad), expires_at=now + TERM
        )
        self._store.put(_name(identity), session, TERM)
        return f"{identity}.{_text(pad)}", session

    def find(self, cookie: str, now: datetime) -> tuple[str, Session] | None:
        """Return the key of a cookie, and its session; None where it has none, or none any more."""
        parts = _COOKIE.match(cookie)
        if parts is None:
            return None
        session = self._store.get(_name(parts[1]))
        if session is None or session.expires_at <= now:
            return None
        try:
            pad = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
            if len(pad) != len(session.half):
                return None
            return _over(session.half, pad).decode("ascii"), session
        except (binascii.Error, UnicodeDecodeError):  # of another cookie
            return None

    def end(self, cookie: str) -> None:
        """End the session of a cookie; no effect where it has none."""
        if (parts := _COOKIE.match(cookie)) is not None:
            self._store.remove(_name(parts[1]))


def _over(half: bytes, pad: bytes) -> bytes:
    return bytes(one ^ other for one, other in zip(half, pad, strict=True))


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _name(identity: str) -> str:
    """Return a session's name in the store: who reads names there has no cookie."""
    return hashlib.sha256(identity.encode()).hexdigest()
