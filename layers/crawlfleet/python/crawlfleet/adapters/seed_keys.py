"""What decides on the same page where the default does not: resolvers that packages bring (F2).

A package names its own under the entry point group ``crawlfleet.seed_keys``; a biz says by
``seeds.resolvers`` which of its rules and spiders they decide for. They are called as
:func:`crawlfleet.policy.seedkey.seed_key` is, and are code of whoever operates the stage.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from threading import Lock
from typing import Final

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.biz import Biz
from crawlfleet.model.seed import KeyRules
from crawlfleet.policy.seedkey import KEY_BYTES, SeedKeyResolver, seed_key

GROUP: Final = "crawlfleet.seed_keys"
_PLAIN: Final = KeyRules()


def installed() -> Iterable[EntryPoint]:
    """The entry points of the packages that are installed here."""
    return entry_points(group=GROUP)


class SeedKeys:
    """The resolvers of one process, loaded when they are first asked for. Threads may share it.

    Args:
        points: Gives the entry points that there are.
    """

    def __init__(self, points: Callable[[], Iterable[EntryPoint]] = installed) -> None:
        self._points = points
        self._loaded: dict[str, SeedKeyResolver] = {}
        self._lock = Lock()

    def __call__(self, biz: Biz, rule: str) -> SeedKeyResolver:
        """What decides for a rule or spider of a biz.

        Raises:
            InvalidRequestError: it names one that is not installed here, or is broken.
        """
        name = biz.seeds.resolvers.get(rule)
        if name is None:
            return seed_key
        with self._lock:
            found = self._loaded.get(name)
            if found is None:
                found = self._loaded[name] = _load(self._points(), name, rule)
            return found


def missing(names: Iterable[str]) -> list[str]:
    """Those of the names under which nothing is installed here; loads nothing."""
    there = {point.name for point in installed()}
    return sorted(set(names) - there)


def _load(points: Iterable[EntryPoint], name: str, rule: str) -> SeedKeyResolver:
    field = f"seeds.resolvers.{rule}"
    found = [point for point in points if point.name == name]
    if len(found) != 1:
        several = f"{len(found)} packages bring one" if found else "no package brings one"
        raise InvalidRequestError.of(field, f"{several} called {name!r} ({GROUP})")
    try:
        return _guarded(found[0].load(), name)
    except Exception as error:
        message = f"{found[0].value} cannot be loaded: {type(error).__name__}: {error}"
        raise InvalidRequestError.of(field, message[:300]) from error


def _guarded(resolver: SeedKeyResolver, name: str) -> SeedKeyResolver:
    """The same, whose faults cost the URL that they befall and nothing else."""

    def resolve(
        url: str, rules: KeyRules = _PLAIN, *, method: str = "GET", body: bytes | None = None
    ) -> bytes:
        try:
            key: object = resolver(url, rules, method=method, body=body)
        except InvalidRequestError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:200]
            raise InvalidRequestError.of("url", f"has no key by {name}: {why}") from error
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidRequestError.of("url", f"has no key of {KEY_BYTES} bytes by {name}")
        return key

    return resolve
