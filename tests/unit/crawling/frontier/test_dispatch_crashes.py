"""Whatever dies or is cut off between two steps: no seed is lost, none becomes two requests."""

from collections import Counter
from contextlib import suppress
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import Span
from tests.kit.examples import examples
from tests.kit.frontier import SeedState
from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import Done
from tests.kit.worlds.crashes import DiedError, Trouble
from tests.kit.worlds.frontier import PORTS, SeedWorld, url

STEPS = st.tuples(
    st.sampled_from(["add", "dispatch", "recheck", "work"]),
    st.lists(st.integers(0, 7), min_size=1, max_size=4),
    st.integers(1, 14),
    st.sampled_from(["dies before", "dies after", "away", "unanswered", "another meanwhile", ""]),
    st.integers(0, 7_000),
    st.booleans(),
)


def act(world: SeedWorld, what: str, numbers: list[int], **ports: object) -> None:
    match what:
        case "add":
            world.add(*numbers, **ports)
        case "dispatch":
            world.dispatch(**ports)
        case "recheck":
            world.recheck(**ports)
        case "work":
            claims = world.claim(world.now + timedelta(minutes=5))
            done = claims[: len(numbers)]
            world.settle([(claim, Done(())) for claim in done], seeds_end=len(numbers) % 2 == 0)


@examples(2.5)
@given(steps=st.lists(STEPS, max_size=9), exact=st.booleans())
def test_however_its_steps_crash_and_meet_each_seed_is_one_request_that_is_done(steps, exact):
    world = SeedWorld(exact=exact, ahead=6, span=Span.MONTH)
    added: set[int] = set()

    for what, numbers, at, trouble_kind, seconds, lost in steps:
        trouble = Trouble(
            at,
            trouble_kind,
            lambda what=what, numbers=numbers: act(world, what, numbers),
        )
        ports = {name: trouble.around(getattr(world, name)) for name in PORTS}
        with suppress(DiedError, StoreUnavailableError):
            act(world, what, numbers, **ports)
        added |= set(numbers) if what == "add" else set()
        if lost:
            world.filter.drop(*world.filter_place())
        world.now += timedelta(seconds=seconds)

    # Whoever added and had no answer adds again; then the platform runs without trouble.
    world.add(*added)
    for _ in range(20):
        world.now += timedelta(minutes=61)
        world.recheck()
        world.dispatch()
        world.requeue_pending()
        world.work()

    assert Counter(world.done()) == Counter(url(number) for number in added)
    assert len(world.requests()) == len(added)
    assert {seed.state for seed in world.kept()} <= {SeedState.FINISHED}
    assert len(world.kept()) == len(added)


def test_the_ports_are_called_no_more_often_than_the_trouble_reaches():
    """Else the property above would not look at the last steps."""
    world = SeedWorld(exact=True)
    world.add(1, 2)
    reached = {}
    for what in ("add", "dispatch", "recheck"):
        trouble = Trouble(10**6, "", lambda: None)
        ports = {name: trouble.around(getattr(world, name)) for name in PORTS}
        if what == "recheck":
            world.store = SeedWorld().store  # nothing was ever stored
            world.now += timedelta(hours=2)
            ports["store"] = trouble.around(world.store)
        act(world, what, [1, 2, 3], **ports)
        reached[what] = 10**6 - trouble.at

    assert max(reached.values()) <= 14, reached
