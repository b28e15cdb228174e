"""Unseen things: what an evaluation did not meet is neither over nor confirmed."""

from tests.kit.incidents import (
    Evaluation,
    Finding,
    Kind,
    Life,
    Place,
    evaluate,
    hosts_to_watch,
    unseen,
)
from tests.kit.monitoring import HostSample, Sample
from tests.kit.queue import NodeHealth
from tests.kit.worlds.incidents import START, Story, a_finding, an_evaluation
from tests.kit.worlds.samples import a_sample, a_tree

SHOP = a_finding(Kind.HOST_THROTTLED, Place(part="host", name="shop.example"))
NODE = a_finding(Kind.REDIS_MEMORY, Place(part="redis", name="10.0.0.1:6379"))
DOWN = a_finding(Kind.PART_DOWN, Place(part="redis", name="10.0.0.2:6379"))
MONGODB = a_finding(Kind.LATENCY, Place(part="mongodb", name="main"))
WELL = NodeHealth(part="redis", name="10.0.0.1:6379", up=True)
ALSO_WELL = NodeHealth(part="redis", name="10.0.0.2:6379", up=True)
UNLISTED = NodeHealth(part="redis", name="redis", up=False, error="no node answers")


def opened(*findings: Finding) -> Story:
    return Story().evaluate(*[an_evaluation(*findings)] * 5)


def blind(story: Story, sample: Sample) -> frozenset[str]:
    return unseen(story.known.values(), sample, evaluate(sample, None, a_tree()))


def test_a_host_that_was_not_met_is_unknown_and_one_that_was_is_not():
    story = opened(SHOP)

    crowded = a_sample(parts=(WELL,), hosts=(HostSample(host="other.example"),))
    met = a_sample(parts=(WELL,), hosts=(HostSample(host="shop.example"),))

    assert blind(story, crowded) == {SHOP.key}
    assert blind(story, met) == frozenset()


def test_nodes_of_a_cluster_that_cannot_be_listed_are_unknown():
    story = opened(NODE, DOWN, MONGODB)

    assert blind(story, a_sample(parts=(UNLISTED,))) == {NODE.key, DOWN.key}
    assert blind(story, a_sample()) == {NODE.key, DOWN.key}
    assert blind(story, a_sample(parts=(WELL, ALSO_WELL))) == frozenset()


def test_of_a_cluster_that_is_partly_there_the_nodes_that_answer_are_known():
    story = opened(NODE, DOWN)
    gone = NodeHealth(part="redis", name="10.0.0.3:6379", up=False)

    assert blind(story, a_sample(parts=(WELL, gone))) == {DOWN.key}


def test_nothing_is_both_found_and_unknown_and_what_is_over_may_be_forgotten():
    story = opened(NODE)
    assert unseen(story.known.values(), Sample(at=START), an_evaluation(NODE)) == frozenset()

    story.evaluate(*[an_evaluation()] * 5)

    assert story.one.life is Life.OVER
    assert unseen(story.known.values(), Sample(at=START), Evaluation()) == frozenset()


def test_hosts_with_incidents_are_asked_for_by_name_until_these_are_over():
    story = opened(SHOP, NODE)
    assert hosts_to_watch(story.known.values()) == ["shop.example"]

    story.evaluate(*[an_evaluation(NODE)] * 5)

    assert hosts_to_watch(story.known.values()) == []


def test_a_host_that_failed_and_was_slow_is_asked_for_by_name_once_and_unknown_where_not_met():
    failing = a_finding(Kind.HOST_FAILING, SHOP.place)
    slow = a_finding(Kind.HOST_SLOW, SHOP.place)
    story = opened(failing, slow)

    assert hosts_to_watch(story.known.values()) == ["shop.example"]
    assert blind(story, a_sample(parts=(WELL,))) == {failing.key, slow.key}
    met = a_sample(parts=(WELL,), hosts=(HostSample(host="shop.example"),))
    assert blind(story, met) == frozenset()
