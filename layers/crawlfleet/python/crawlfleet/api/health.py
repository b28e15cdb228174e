"""The platform's health, which anybody may ask for: the parts, and with ``deep`` what runs."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.fleet import HeadcountView, headcount_view
from crawlfleet.api.responses import View, at, shown
from crawlfleet.api.routing import Call, Parameter, Route
from crawlfleet.fleet.models import Ticked
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.models import Vitals

_DEPTHS: Final = {None: False, "0": False, "1": True}


class TickView(View, frozen=True, kw_only=True):
    """The scheduler's latest tick that ended.

    ``seconds_ago`` is null where none is known; ``faults`` has of each part that failed how often
    it did.
    """

    seconds_ago: float | None
    took_seconds: float
    faults: dict[str, int]


class DeepView(View, frozen=True, kw_only=True):
    """What answers, and what it runs. It is found at most once in ten seconds.

    ``config_digest`` is the same wherever the same documents are in force; ``workers`` and ``tick``
    are null while Redis does not say.
    """

    at: str
    version: str
    stage: str
    revision: str
    config_digest: str
    config_refused: bool
    workers: HeadcountView | None
    tick: TickView | None


class HealthView(View, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the router can do its work, and which part keeps it from it.

    ``deep`` is what it runs, where that was asked for.
    """

    status: str
    parts: dict[str, str]
    deep: DeepView | None = None


def tick_view(ticked: Ticked) -> TickView:
    """A tick."""
    ago = ticked.seconds_ago
    return TickView(
        seconds_ago=None if ago is None else round(ago, 1),
        took_seconds=round(ticked.took_seconds, 3),
        faults=dict(ticked.faults),
    )


def health_view(status: str, parts: dict[str, str], vitals: Vitals | None) -> HealthView:
    """How the platform is."""
    if vitals is None:
        return HealthView(status=status, parts=parts)
    return HealthView(
        status=status,
        parts=parts,
        deep=DeepView(
            at=at(vitals.at),
            version=vitals.version,
            stage=vitals.stage,
            revision=vitals.revision,
            config_digest=vitals.config_digest,
            config_refused=vitals.config_refused,
            workers=None if vitals.workers is None else headcount_view(vitals.workers),
            tick=None if vitals.ticked is None else tick_view(vitals.ticked),
        ),
    )


def _get_health(call: Call) -> Response[str]:
    given = call.query.get("deep")
    if given not in _DEPTHS:
        raise InvalidRequestError.of("deep", "must be 0 or 1")
    vitals = call.context.vitals() if _DEPTHS[given] else None
    parts = call.context.health() if vitals is None else vitals.parts
    well = all(state == "ok" for state in parts.values())
    # Redis alone may be away: submissions are persisted and queued later.
    able = well or all(state == "ok" for part, state in parts.items() if part != "redis")
    status = "ok" if well else "degraded" if able else "down"
    return shown(200 if able else 503, health_view(status, parts, vitals))


_DEEP: Final = Parameter(
    name="deep",
    meaning="1: also what is running, as it was found some seconds ago at most.",
    shape={"type": "string", "enum": ["0", "1"]},
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="getHealth",
        handler=_get_health,
        method="GET",
        path="/health",
        summary="Whether the router can do its work, and with deep=1 what is running.",
        parameters=(_DEEP,),
        answers={200: HealthView, 503: HealthView},
        problems=(400, 503),
        open=True,
    ),
)
