import pytest

from tests.kit.fleet import Card, Health, Pulse
from tests.kit.kernel import UnknownBizError
from tests.kit.monitoring import RosterPorts, workers
from tests.kit.worlds.memory import make_tree


class Seen:
    """A watch that has seen these."""

    def __init__(self, *pulses: Pulse) -> None:
        self._pulses = list(pulses)

    def pulses(self, silent_for=None) -> list[Pulse]:
        return self._pulses


def a_pulse(worker: str, silent_ms: int = 100, **held: int) -> Pulse:
    card = Card(started_ms=1_000, held={f"{t}/docs": n for t, n in held.items()}, done=9)
    return Pulse(worker=worker, silent_ms=silent_ms, intervals=(1_000,) * 20, card=card)


def test_a_worker_is_shown_with_what_it_holds_of_this_biz_alone():
    ports = RosterPorts(watch=Seen(a_pulse("w", default=3, acme=40)))

    [mine] = workers(ports, make_tree(), "default", "docs")
    [theirs] = workers(ports, make_tree(), "acme", "docs")

    assert (mine.card, theirs.card) == (
        Card(started_ms=1_000, held={"default/docs": 3}, done=9),
        Card(started_ms=1_000, held={"acme/docs": 40}),
    )


def test_the_dead_come_before_the_suspected_before_the_living():
    watch = Seen(a_pulse("a"), a_pulse("b", 60_000), a_pulse("c", 4_400))

    found = workers(RosterPorts(watch=watch), make_tree(), "default", "docs")

    assert [(status.worker, status.health) for status in found] == [
        ("b", Health.DEAD),
        ("c", Health.SUSPECTED),
        ("a", Health.ALIVE),
    ]


def test_who_has_no_such_biz_sees_no_worker():
    with pytest.raises(UnknownBizError):
        workers(RosterPorts(watch=Seen(a_pulse("w"))), make_tree(), "default", "nobiz")
