"""Parts of tests of incidents: looks, findings, minutes."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tests.kit.config import AlarmLimits
from tests.kit.incidents import (
    ROOM,
    Evaluation,
    Finding,
    Incident,
    Kind,
    Life,
    NotificationState,
    Place,
    Room,
    Word,
    notified,
    step,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DOCS = Place(tenant="acme", biz="docs")
REDIS = Place(part="redis", name="redis")


def a_finding(kind: Kind = Kind.BACKLOG, place: Place = DOCS, **changes: object) -> Finding:
    facts: dict = {"value": 12.0, "threshold": 10.0, "said": "12 wait, more than 10"}
    return Finding(kind=kind, place=place, **{**facts, **changes})


def an_evaluation(*findings: Finding, unknown: tuple[Finding, ...] = ()) -> Evaluation:
    return Evaluation(findings=findings, unknown=frozenset(each.key for each in unknown))


def an_incident(number: int, tenant: str = "acme", **changes: object) -> Incident:
    facts: dict = {
        "id": f"{number:024x}",
        "kind": Kind.BACKLOG,
        "place": Place(tenant=tenant, biz=f"b{number}"),
        "life": Life.OPEN,
        "said": "12 wait, more than 10",
        "value": 12.0,
        "worst": 12.0,
        "threshold": 10.0,
        "since": START,
        "found_at": START,
        "looked_at": START,
        "opened_at": START,
        "people": NotificationState(owed=Word.OPENED),
        "machines": NotificationState(owed=Word.OPENED),
    }
    return Incident(**{**facts, **changes})


LIMITS = AlarmLimits()
BAD, GOOD, BLIND = "b", "g", "?"
EVALUATIONS = {
    BAD: an_evaluation(a_finding()),
    GOOD: an_evaluation(),
    BLIND: an_evaluation(unknown=(a_finding(),)),
}


class Story:
    """Looks a minute apart at one thing, and what people, phones and machines heard."""

    def __init__(
        self, limits: AlarmLimits = LIMITS, *, room: Room = ROOM, reachable: bool = True
    ) -> None:
        self.limits, self.room = limits, room
        self.reachable = reachable
        self.known: dict[str, Incident] = {}
        self.now = START
        self.people: list[tuple[int, Word]] = []
        self.phones: list[tuple[int, Word]] = []
        self.machines: list[tuple[int, Word]] = []
        self.minute = 0

    def evaluate(self, *evaluations: Evaluation) -> "Story":
        for evaluation in evaluations:
            self.minute += 1
            self.now += MINUTE
            self.known = step(self.known, evaluation, self.now, self.limits, self.room)
            if self.reachable:
                self.notify()
        return self

    def notify(self) -> None:
        for key, incident in self.known.items():
            for name in ("people", "phones", "machines"):
                heard: list[tuple[int, Word]] = getattr(self, name)
                notification_state: NotificationState = getattr(incident, name)
                if notification_state.owed is not None:
                    heard.append((self.minute, notification_state.owed))
                    said = notified(notification_state, self.now)
                    incident = replace(incident, **{name: said})  # noqa: PLW2901  told one by one
            self.known[key] = incident

    def run(self, signs: Iterable[str]) -> "Story":
        return self.evaluate(*(EVALUATIONS[sign] for sign in signs))

    @property
    def one(self) -> Incident:
        [incident] = self.known.values()
        return incident
