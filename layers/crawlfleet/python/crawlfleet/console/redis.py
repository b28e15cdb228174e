"""The sessions of the console in Redis: a string each, which ends by itself.

What Redis loses is signed in again. A session is no tenant's key: it names one, and is gone within
hours; a tenant that is removed has no key that could be made of it.
"""

from datetime import timedelta

import msgspec

from crawlfleet.console.sessions import Session
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text


class RedisSessions:
    """console.sessions.SessionStore on Redis."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def put(self, name: str, session: Session, term: timedelta) -> None:
        """Store a session for so long."""
        milliseconds = round(term.total_seconds() * 1000)
        content = msgspec.json.encode(session)
        self._redis.together(("SET", session_key(name), content, "PX", milliseconds))

    def get(self, name: str) -> Session | None:
        """Return a session; None where there is none."""
        (found,) = several(self._redis.together(("GET", session_key(name))), 1)
        if found is None:
            return None
        try:
            return msgspec.json.decode(text(found), type=Session)
        except msgspec.DecodeError:
            raise nonsense() from None

    def remove(self, name: str) -> None:
        """Remove a session; no effect where there is none."""
        self._redis.together(("DEL", session_key(name)))


def session_key(name: str) -> str:
    """Return the key of a session.

    >>> session_key("00")
    'cf:{console:00}:session'
    """
    return f"cf:{{console:{name}}}:session"
