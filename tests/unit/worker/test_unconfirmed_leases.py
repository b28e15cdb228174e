"""Leases of which the answer was lost: the index has moved entries, the worker knows of none."""

import contextlib
from datetime import timedelta

import pytest

from tests.kit.kernel import StoreUnavailableError
from tests.kit.worker import UnconfirmedLeases
from tests.kit.worlds.memory import DOCS, OTHER
from tests.kit.worlds.worker import submitted, work

URLS = [f"https://example.org/{n}" for n in range(12)]
PAGES = dict.fromkeys(URLS, b"x")


class Mute:
    """A queue of which the named method does what it is asked, and tells nobody, some times."""

    def __init__(self, port, method, count=1):
        self._port, self._method, self.left = port, method, count

    def __getattr__(self, name):
        method = getattr(self._port, name)
        if not callable(method):
            return method

        def call(*args, **kwargs):
            answer = method(*args, **kwargs)
            if name == self._method and answer and self.left:
                self.left -= 1
                raise StoreUnavailableError("test", "no answer")
            return answer

        return call


def test_what_was_leased_without_an_answer_is_done_without_waiting_for_the_leases_end(world):
    submitted(world, *URLS[:12])

    report = work(world, PAGES, queue=Mute(world.queue, "lease", 2))

    assert (report.done, report.handed_back) == (12, 0)
    assert sum("lease was lost" in one for one in world.warnings) == 2
    assert world.queue.depth(DOCS).leased == 0


def test_what_waits_for_a_host_and_was_leased_without_an_answer_is_done_too(world):
    submitted(world, *URLS[:4])
    leased = world.queue.lease(DOCS, "other", 4, world.now, world.now + timedelta(seconds=60))
    world.queue.defer(DOCS, "other", [("example.org", world.now, leased)])
    mute = Mute(world.queue, "lease_deferred")

    report = work(world, PAGES, queue=mute)

    assert (report.done, mute.left) == (4, 0)


def test_a_lease_that_comes_late_is_looked_for_again(world):
    """The server was held up: what was asked of it is done after the worker has asked again."""
    world.pace(unconfirmed=0.0)
    submitted(world, *URLS[:3])
    late = []

    class Late(Mute):
        def lease(self, *args):
            if not late:
                late.append(args)
                raise StoreUnavailableError("test", "no answer")
            return self._port.lease(*args)

        def return_unconfirmed(self, *args):
            found = self._port.return_unconfirmed(*args)
            if len(late) == 1:
                late.append(self._port.lease(*late[0]))
            return found

    report = work(world, PAGES, queue=Late(world.queue, ""))

    assert (len(late[1]), report.done) == (3, 3)


def test_a_lease_that_would_be_over_is_looked_for_no_more(world):
    queue = Mute(world.queue, "lease")
    lost = UnconfirmedLeases(queue, world.clock)
    submitted(world, *URLS[:2])
    until = world.now + timedelta(seconds=60)
    with pytest.raises(StoreUnavailableError), lost.asking(DOCS, "w.n.1", until):
        queue.lease(DOCS, "w.n.1", 2, world.now, until)
    world.now = until

    lost.return_unconfirmed()

    assert world.queue.depth(DOCS).leased == 2
    assert world.warnings == []


def test_of_leases_without_an_answer_the_latest_are_looked_for(world):
    queue = Mute(world.queue, "lease", 7)
    lost = UnconfirmedLeases(queue, world.clock, most=5)
    submitted(world, *URLS[:7])
    until = world.now + timedelta(seconds=60)
    for number in range(7):
        token = f"w.n.{number}"
        with pytest.raises(StoreUnavailableError), lost.asking(DOCS, token, until):
            queue.lease(DOCS, token, 1, world.now, until)

    lost.return_unconfirmed()

    depth = world.queue.depth(DOCS)
    assert (depth.queued, depth.leased) == (5, 2)


def test_where_the_index_does_not_answer_for_one_queue_the_others_are_looked_after(world):
    """One node of a cluster may be away; each queue is asked once in a while, not each time."""
    until = world.now + timedelta(seconds=60)
    asked = []

    class Partly(Mute):
        def return_unconfirmed(self, queue_key, token, until):
            asked.append((queue_key, token))
            if queue_key == OTHER:
                raise StoreUnavailableError("test", "no answer")
            return self._port.return_unconfirmed(queue_key, token, until)

    submitted(world, *URLS[:2])
    queue = Partly(world.queue, "lease")
    lost = UnconfirmedLeases(queue, world.clock)
    for queue_key, token in ((OTHER, "w.n.1"), (OTHER, "w.n.2"), (DOCS, "w.n.3")):
        queue.left = 1
        with contextlib.suppress(StoreUnavailableError), lost.asking(queue_key, token, until):
            queue.lease(queue_key, token, 2, world.now, until)
            raise StoreUnavailableError("test", "no answer")

    for _ in range(3):
        lost.return_unconfirmed()

    assert asked == [(OTHER, "w.n.1"), (DOCS, "w.n.3")]
    assert world.queue.depth(DOCS).queued == 2
