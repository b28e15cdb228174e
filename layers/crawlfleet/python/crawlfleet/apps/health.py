"""The health check of each function: its version, its configuration and what it runs (SPEC.md D11).

Whoever may invoke a function asks with ``{"health": true}``; nothing is done but to look.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet import __version__
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn

if TYPE_CHECKING:
    from crawlfleet.apps.context import Parts

_QUESTION: Final = {"health": True}


class FunctionHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a function's environment.

    ``runs`` is what it is there for: kinds of ids, resources of the API, executors, parts of a
    tick, findings. ``parts`` are ``ok``, or what is wrong with them; ``revision`` is that of the
    configuration in force, empty where none can be read. ``reading`` are the defences of a
    consumer's reader of pages: of each ``ok``, or why it does not hold here.
    """

    function: str
    version: str
    stage: str
    pool: str
    revision: str
    config_refused: bool
    healthy: bool
    parts: dict[str, str]
    runs: list[str]
    reading: dict[str, str] = {}


def is_health_check(event: object) -> bool:
    """Tell whether an event asks for health, and for nothing else."""
    return event == _QUESTION


def health_of(
    function: str, parts: "Parts", runs: Iterable[str], reading: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Answer a health check; never fails for want of a part.

    A defence that does not hold is no fault, but that no reader can be started is.
    """
    states, settings = part_states(parts), parts.settings
    found = dict(reading or {})
    is_configured = states["config"] == "ok"
    health = FunctionHealth(
        function=function,
        version=__version__,
        stage=settings.stage,
        pool=settings.pool,
        revision=parts.config.current().revision if is_configured else "",
        config_refused=is_configured and parts.config.refused is not None,
        healthy=all(state == "ok" for state in states.values()) and "reader" not in found,
        parts=states,
        runs=sorted(runs),
        reading=found,
    )
    answer: dict[str, object] = msgspec.to_builtins(health)
    return answer


def part_states(parts: "Parts") -> dict[str, str]:
    """Check the configuration, which names the nodes, and then Redis and each node."""
    from crawlfleet.monitoring.store_health import PartHealth

    try:
        nodes = parts.config.current().stage.nodes
    except CrawlfleetError as error:
        warn("there is no configuration", error)
        return {"config": "cannot be read"}
    return {"config": "ok", **PartHealth(parts.redis, parts.nodes, lambda: nodes).answers()}
