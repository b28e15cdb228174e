"""Delivery as a state machine: kills anywhere, and nothing is lost; repeats have the same ids."""

from contextlib import suppress
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.contract.streams.delivery_cases import (
    QUEUE,
    STREAM,
    Died,
    Receivers,
    Time,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.examples import examples
from tests.kit.kernel import StoreUnavailableError
from tests.kit.streams import (
    Deliverer,
    Fault,
    MongoAccepting,
    MongoLeasing,
    TargetKind,
    Withdrawn,
    delivery_key,
    item_key,
)

NUMBERS = count()
TARGETS = [QUEUE, STREAM]
#: The steps of an outbox after which a deliverer may be killed.
STEPS = ["lease", "due", "settle", "retry", "bury", "rest", "back_off"]


class Mortal:
    """An outbox whose user is killed before or after one of its steps."""

    def __init__(self, outbox, step, before):
        self._outbox, self._step, self._before = outbox, step, before

    def __getattr__(self, name):
        real = getattr(self._outbox, name)

        def call(*arguments, **options):
            if name == self._step and self._before:
                raise Died
            answer = real(*arguments, **options)
            if name == self._step:
                raise Died
            return answer

        return call


class Delivering(RuleBasedStateMachine):
    """Readers, deliverers that die, receivers that go and come back, over a real MongoDB."""

    def __init__(self, nodes):
        super().__init__()
        self.number = next(NUMBERS)
        self.time = Time()
        self.accepting = MongoAccepting(nodes)
        self.leasing = MongoLeasing(nodes)
        self.receivers = Receivers()
        self.tenant = f"t{self.number}"
        self.expected = {target.address: set() for target in TARGETS}
        self.withdrawn = set()
        self.nodes = nodes
        nodes.empty_control()

    ids = st.integers(0, 30).map(str)
    wanted = st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(TARGETS)),
        min_size=1,
        max_size=3,
        unique_by=lambda one: one[0],
    )

    def subscriber(self, name, target):
        # A subscription goes where it goes: in the model it has one target for good.
        return a_subscriber(f"{name}-{target.kind}", target=target, tenant=self.tenant)

    @rule(id_=ids, wanted=wanted, repeated=st.booleans())
    def an_item_is_accepted(self, id_, wanted, repeated):
        subscribers = [self.subscriber(*one) for one in wanted]
        item = an_item(id_, channel=self.tenant)
        for _ in range(1 + repeated):
            self.accepting.accept([addressed(item, *subscribers)], self.time())
        if id_ not in self.withdrawn:
            for one in subscribers:
                key = delivery_key(item_key(self.tenant, id_), one)
                self.expected[one.target.address].add(key.hex())

    @rule(id_=ids)
    def an_item_is_withdrawn(self, id_):
        self.withdrawn.add(id_)
        gone = Withdrawn(id=id_, channel=self.tenant, at=self.time())
        self.accepting.withdraw([gone], self.time())

    @rule(receiver=st.sampled_from(TARGETS), how=st.sampled_from(["well", "away", "partly"]))
    def a_receiver_changes(self, receiver, how):
        def away(_batch):
            raise StoreUnavailableError("sqs", "away")

        def partly(batch):
            return [Fault(text="busy") if number % 3 else None for number in range(len(batch))]

        answers = {"well": None, "away": away, "partly": partly}
        self.receivers.answers[receiver.address] = answers[how]

    @rule(seconds=st.sampled_from([1, 30, 61, 400]))
    def time_passes(self, seconds):
        self.time.passes(seconds)

    @rule(by=st.sampled_from(["d1", "d2"]))
    def one_delivers(self, by):
        self.deliver(self.leasing, by)

    @rule(by=st.sampled_from(["d1", "d2"]), step=st.sampled_from(STEPS), before=st.booleans())
    def one_is_killed(self, by, step, before):
        with suppress(Died):
            self.deliver(Mortal(self.leasing, step, before), by)

    def deliver(self, outbox, by):
        return Deliverer(
            outbox=outbox,
            pushers=dict.fromkeys(TargetKind, self.receivers),
            is_allowed=lambda _tenant, _target: True,
            by=by,
            clock=self.time,
            steady=lambda: 0.0,
        ).deliver_next()

    def teardown(self):
        """At rest everybody has all: each id that was accepted, or that it is withdrawn."""
        self.receivers.answers.clear()
        for _ in range(40):
            self.time.passes(400)
            while self.deliver(self.leasing, "last"):
                pass
        deliveries = self.nodes.control("stream_deliveries")
        dead = {one["_id"].hex() for one in deliveries.find({"state": 2})}
        keys = {item_key(self.tenant, id_).hex() for id_ in self.withdrawn}
        for address, expected in self.expected.items():
            got = set(self.receivers.got.get(address, ()))
            told = {id_.removesuffix("-withdrawn") for id_ in got if id_.endswith("-withdrawn")}
            items = {id_ for id_ in got if not id_.endswith("-withdrawn")}
            gone = {id_ for id_ in expected if id_[:32] in keys}
            assert told == gone
            assert expected - gone - dead <= items <= expected
        assert deliveries.count_documents({"state": 0}) == 0


def test_nothing_is_lost_whoever_dies_when(mongo_connection):
    run_state_machine_as_test(
        lambda: Delivering(mongo_connection), settings=examples(0.3, steps=25, most=100)
    )
