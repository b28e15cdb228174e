"""The table of resources: each a module of this package with ``ROUTES``, imported when asked for.

A cold start pays for the resource that the first call is about, and not for the other ones.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from crawlfleet.api.routing import Route

#: By resource, in the order of the document, the words that tell its paths.
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "requests": frozenset({"requests"}),
    "explain": frozenset({"explain"}),
    "dead_letters": frozenset({"dead-letters"}),
    "seeds": frozenset({"seeds"}),
    "records": frozenset({"records"}),
    "stats": frozenset({"stats", "ledger"}),
    "fleet": frozenset({"workers", "hosts", "fleet"}),
    "visits": frozenset({"visits"}),
    "rules": frozenset({"coverage", "rules"}),
    "schedules": frozenset({"schedules"}),
    "spiders": frozenset({"spiders"}),
    "jobs": frozenset({"jobs"}),
    "incidents": frozenset({"incidents"}),
    "usage": frozenset({"demands", "run"}),
    "health": frozenset({"health"}),
    "openapi": frozenset({"openapi.json"}),
}


@cache
def _routes_of(resource: str) -> tuple[Route, ...]:
    routes: tuple[Route, ...] = import_module(f"crawlfleet.api.{resource}").ROUTES
    return routes


def resources_at(path: str) -> Iterator[str]:
    """Find the resources that a path may be of: those of which it has a word."""
    words = path.split("/")
    return (resource for resource, known in _WORDS.items() if not known.isdisjoint(words))


def routes_of(*resources: str) -> Iterator[Route]:
    """Import resources and list their routes."""
    return (route for resource in resources for route in _routes_of(resource))


def all_routes() -> tuple[Route, ...]:
    """List everything that the API offers."""
    return tuple(routes_of(*_WORDS))
