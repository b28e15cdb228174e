"""Plans of readers, the figures of channels, and a state machine over workers that know too little.

The machine has workers that hear late of subscriptions and of each other, and whose messages to the
store of holds are lost, or done twice, or answered to nobody. Two never read one source; and once
all is heard, what is read is what the subscriptions need.
"""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.kit.examples import examples
from tests.kit.streams import (
    KEEP_SECONDS,
    LEASE_SECONDS,
    OFFER_SECONDS,
    WHOLE,
    ChannelCounters,
    ReaderHold,
    Source,
    Subscription,
    owned,
    parse,
    planned,
)

NOW = datetime(2026, 11, 24, tzinfo=UTC)


def subscription(name, channel, text):
    return Subscription(id=name, channel=channel, filter=parse(text))


def test_a_channel_that_does_not_filter_is_one_source_for_all():
    plan = planned(
        [subscription("a", "wire", "storm"), subscription("b", "wire", "rain")], {"wire": False}
    )

    [(source, found)] = plan.items()
    assert (source, found.filter_text) == (Source("wire", WHOLE), "")
    assert {name: each.text for name, each in found.filters.items()} == {"a": "storm", "b": "rain"}


def test_a_channel_that_filters_has_a_source_for_each_filter_that_no_other_covers():
    asked = [
        subscription("a", "wire", "storm"),
        subscription("b", "wire", "storm OR rain"),
        subscription("c", "wire", "snow"),
    ]
    plan = planned(asked, {"wire": True})

    assert {found.filter_text: set(found.filters) for found in plan.values()} == {
        "rain OR storm": {"a", "b"},
        "snow": {"c"},
    }


def test_subscriptions_to_channels_that_the_stage_does_not_have_are_not_read_for():
    assert planned([subscription("a", "gone", "storm")], {"wire": False}) == {}


def test_figures_of_a_channel_are_counted_and_its_lag_is_of_its_latest_items():
    counters = ChannelCounters(NOW)
    counters.fault("silent", "nothing came for 60 s", NOW)
    counters.accepted([None, NOW - timedelta(seconds=3), NOW + timedelta(seconds=9)], NOW)
    report = counters.report(subscriptions=1, connections=0)

    assert (report.faults, report.last_fault) == ({"silent": 1}, "nothing came for 60 s")
    assert (report.lag_p95_seconds, report.last_item_at) == (3.0, NOW)


class Holds:
    """The rules of ``lua/hold.lua`` for a store that loses nothing."""

    def __init__(self):
        self.now, self.fence = 0.0, 0
        self.held = {}

    def take(self, source, worker):
        _, _, until = self.held.get(source, ("", 0, 0.0))
        if until > self.now:
            return None
        self.fence += 1
        self.held[source] = worker, self.fence, self.now + OFFER_SECONDS
        return self.fence

    def keep(self, source, worker, fence):
        holder, standing, until = self.held.get(source, ("", 0, 0.0))
        if (holder, standing) != (worker, fence) or until <= self.now:
            return False
        self.held[source] = worker, fence, self.now + LEASE_SECONDS
        return True

    def release(self, source, worker, fence):
        holder, standing, until = self.held.get(source, ("", 0, 0.0))
        if (holder, standing) == (worker, fence) and until > self.now:
            self.held[source] = worker, fence, 0.0


class Knowing:
    """A worker: what it has heard, and its side of holds."""

    def __init__(self):
        self.subscriptions, self.living = (), ()
        self.holds = {}


FILTERS = ("storm", "rain", "storm OR rain", "snow", "snow wind")
CHANNELS = {"whole": False, "filtering": True}
FATES = st.sampled_from(["done", "done", "done", "lost", "doubled", "unanswered"])


class Readers(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.subscriptions, self.workers = {}, {}
        self.holds = Holds()

    def sources(self, subscriptions):
        return planned(subscriptions, CHANNELS)

    @rule(
        name=st.sampled_from("abcd"),
        channel=st.sampled_from(sorted(CHANNELS)),
        text=st.sampled_from(FILTERS),
    )
    def subscribe(self, name, channel, text):
        self.subscriptions[name] = subscription(name, channel, text)

    @rule(name=st.sampled_from("abcd"))
    def unsubscribe(self, name):
        self.subscriptions.pop(name, None)

    @rule(worker=st.sampled_from("123"))
    def start(self, worker):
        # One that comes again has forgotten all.
        self.workers[worker] = Knowing()

    @rule(worker=st.sampled_from("123"))
    def kill(self, worker):
        self.workers.pop(worker, None)

    @rule(worker=st.sampled_from("123"))
    def hear_of_subscriptions(self, worker):
        if worker in self.workers:
            self.workers[worker].subscriptions = tuple(self.subscriptions.values())

    @rule(worker=st.sampled_from("123"))
    def hear_of_workers(self, worker):
        if worker in self.workers:
            self.workers[worker].living = tuple(self.workers)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.9, 4.0]))
    def wait(self, seconds):
        self.holds.now += seconds

    @rule(worker=st.sampled_from("123"), fates=st.lists(FATES, min_size=12, max_size=12))
    def work(self, worker, fates):
        if worker in self.workers:
            self._work(worker, iter(fates))

    def _work(self, worker, fates):
        """Do as SourceReader does: release what is not its own, keep what is, take the rest."""
        one, now = self.workers[worker], self.holds.now
        mine = owned(self.sources(one.subscriptions), worker, one.living)
        for source in list(one.holds):
            if source not in mine:
                hold = one.holds.pop(source)
                if hold.fence is not None:
                    self._said(fates, self.holds.release, source, worker, hold.fence)
        for source in sorted(mine):
            hold = one.holds.setdefault(source, ReaderHold())
            if hold.fence is None:
                fence = self._said(fates, self.holds.take, source, worker)
                if fence is not None:
                    hold.offered(fence)
            if hold.is_due(now) and (fence := hold.ask(now)) is not None:
                kept = self._said(fates, self.holds.keep, source, worker, fence)
                if kept is not None:
                    hold.answered(fence, now, is_kept=kept)

    def _said(self, fates, call, *arguments):
        """Send a message; None where no answer comes."""
        fate = next(fates, "done")
        if fate == "lost":
            return None
        answer = call(*arguments)
        if fate == "doubled":
            call(*arguments)
        return None if fate == "unanswered" else answer

    def reading(self):
        return [
            source
            for one in self.workers.values()
            for source, hold in one.holds.items()
            if hold.may_read(self.holds.now)
        ]

    @invariant()
    def never_two_read_a_source(self):
        assert len(self.reading()) == len(set(self.reading()))

    def teardown(self):
        """Let all be heard, and time pass: what is read then is what is needed."""
        for _ in range(12):
            for worker in self.workers:
                self.hear_of_subscriptions(worker)
                self.hear_of_workers(worker)
                self._work(worker, iter(()))
                self.never_two_read_a_source()
            self.holds.now += KEEP_SECONDS
        for worker in self.workers:
            self._work(worker, iter(()))
        needed = set(self.sources(self.subscriptions.values())) if self.workers else set()
        assert set(self.reading()) == needed


def test_what_is_read_is_what_is_needed_and_by_one_reader_whatever_is_lost_or_doubled():
    run_state_machine_as_test(Readers, settings=examples(1.0, steps=40))
