"""Names tests use of the console's own part of a stage."""

from crawlfleet.apps.api import is_authorizers, is_consoles
from crawlfleet.console.app import HEADER
from crawlfleet.console.redis import session_key
from crawlfleet.console.sessions import LONGEST_KEY, TERM, Session, Sessions
from crawlfleet.console.site import POLICY, Site

__all__ = [
    "HEADER",
    "LONGEST_KEY",
    "POLICY",
    "TERM",
    "Session",
    "Sessions",
    "Site",
    "is_authorizers",
    "is_consoles",
    "session_key",
]
