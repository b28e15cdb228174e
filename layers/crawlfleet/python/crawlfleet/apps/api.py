"""The router function's composition: the API over its context, and the console beside it."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger

from crawlfleet.api.app import RestApi
from crawlfleet.api.routing import RESOURCES
from crawlfleet.apps.context import Parts
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.apps.router import RouterContext
from crawlfleet.config.documents.biz import Tree
from crawlfleet.kernel import names
from crawlfleet.kernel.settings import Need, Settings

if TYPE_CHECKING:
    from crawlfleet.console.app import Console
    from crawlfleet.console.sessions import Sessions

_NEEDS: Final = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER, Need.TRIALS)


Event = Mapping[str, Any]
_CONSOLE: Final = re.compile(r"/console(/.*)?\Z")


class RouterPlatform:
    """console.app.Platform over the router's context."""

    def __init__(self, opened: RouterContext) -> None:
        self._opened = opened

    def tree(self) -> Tree:
        """Return the configuration in force."""
        return self._opened.config.current()

    def sessions(self) -> "Sessions":
        """Open the sessions."""
        from crawlfleet.console.redis import RedisSessions
        from crawlfleet.console.sessions import Sessions

        return Sessions(RedisSessions(self._opened.parts.redis))

    def now(self) -> datetime:
        """Return the time."""
        return self._opened.now()


class Router(RestApi):
    """The API of one environment, the console beside it, and its health check."""

    def __init__(self, open_context: Callable[[], RouterContext], site: Path | None = None) -> None:
        log, self._once = Logger(service="router"), cache(open_context)
        self._failed = lambda error: log.error("a call failed", exc_info=error)
        self._folder = site
        super().__init__(self._once, self._failed)

    def answer(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer a proxy event, an authorizer's, or a health check."""
        if is_health_check(event):
            return health_of(names.ROUTER, self._once().parts, RESOURCES)
        if is_authorizers(event):
            return self._console.authorize(event)
        if is_consoles(event):
            return self._console.answer(event)
        return super().answer(event, context)

    @cached_property
    def _console(self) -> "Console":
        from crawlfleet.console.app import Console

        opened = self._once()
        return Console(
            RouterPlatform(opened),
            stage=opened.settings.stage,
            default_key_id=opened.settings.default_api_key_id or "",
            folder=self._folder,
            log=self._failed,
        )


@lru_cache(maxsize=1)
def router(open_parts: Callable[..., Parts] = Parts, site: Path | None = None) -> Router:
    """Open the API of this environment; the console's files are in the folder ``site``."""

    def context() -> RouterContext:
        settings = Settings.from_environment(needs=(Need.REDIS, Need.NODES))
        if not settings.makes_keys:  # whoever makes them answers operators, and invokes nothing
            settings = Settings.from_environment(needs=_NEEDS)
        return RouterContext(open_parts(settings, "router"))

    return Router(context, site)


def is_consoles(event: Event) -> bool:
    """Tell whether a proxy event is for the console.

    >>> [is_consoles({"httpMethod": "GET", "path": path}) for path in ("/console/", "/consoles")]
    [True, False]
    """
    return _CONSOLE.match(str(event.get("path"))) is not None and "httpMethod" in event


def is_authorizers(event: Event) -> bool:
    """Tell whether an event is API Gateway's question who calls."""
    return event.get("type") == "REQUEST" and "methodArn" in event
