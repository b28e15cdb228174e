"""The time to recover by arithmetic (SPEC.md D12): the pieces add up to less than a minute."""

from itertools import pairwise

from infra.fleet import FLEET
from tests.kit.config import DetectorLimits
from tests.kit.fleet import LIVENESS, worth_a_look
from tests.kit.kernel import names
from tests.kit.recovery import reaper, recovery
from tests.kit.worker import PAUSES

#: A start of a function that has no environment, as the issue states it.
COLD_SECONDS = 3.0
#: EventBridge and SQS hand an event on within a second or two.
DELIVERY_SECONDS = 2.0
#: What a tick does before it looks after workers, and before it begins to reap.
SCALED_SECONDS, REAPING_SECONDS = 1.0, 2.0


def longest_pause() -> float:
    """The longest time between two events of the scheduler."""
    (clock,) = [one for one in FLEET.clocks if one.function == names.SCHEDULER]
    comes = [0, *([clock.again_seconds] if clock.again_seconds else []), clock.every_seconds]
    return max(later - sooner for sooner, later in pairwise(comes))


def reaped_seconds() -> float:
    return worth_a_look(DetectorLimits()).total_seconds() + reaper.EVERY.total_seconds()


def test_what_the_lost_held_is_at_work_again_within_a_minute():
    looked = longest_pause() + DELIVERY_SECONDS + COLD_SECONDS
    returned = looked + REAPING_SECONDS + reaped_seconds()
    there = looked + SCALED_SECONDS + COLD_SECONDS

    assert max(returned, there) <= 45


def test_workers_that_died_with_nothing_in_hand_are_replaced_within_a_minute():
    # One event may come while they still count as live; the next one finds that they do not.
    too_soon = LIVENESS.total_seconds()
    there = too_soon + longest_pause() + DELIVERY_SECONDS + SCALED_SECONDS + COLD_SECONDS

    assert there <= 55


def test_the_locks_of_the_dead_end_and_others_go_on_within_a_minute():
    assert recovery.TERM.total_seconds() / 4 >= recovery.KEPT_SECONDS

    free = max(recovery.TERM, recovery.EVERY).total_seconds()
    assert free + PAUSES.recover + DELIVERY_SECONDS <= 30
