"""The config centre over SSM as moto keeps it: what readers see, and when."""

import json
import logging
import threading

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tests.config_documents import biz, texts
from tests.contract.ssm_cases import (
    ROOT,
    Clock,
    CountedSsm,
    forget_snapshot,
    large,
    names_below,
    push,
    put,
    reader,
)
from tests.kit.config import (
    MAX_PARAMETER_BYTES,
    MAX_POLL_SECONDS,
    POLL_SECONDS,
    SsmConfig,
    read_documents,
    write_tree,
)
from tests.kit.kernel import ConfigError, StoreUnavailableError


@pytest.fixture
def ssm(aws):
    return CountedSsm(boto3.client("ssm"))


@pytest.fixture
def clock():
    return Clock()


def test_what_is_pushed_is_read(ssm, clock):
    done = push(ssm, texts(tenants__acme={"api_keys": ["k"]}, bizs__acme__shop=biz(queue="q")))

    tree = reader(ssm, clock).current()

    assert tree.revision == done.revision
    assert done.written == ("stage", "bizs/acme/shop", "tenants/acme")
    assert tree.bizs["acme"]["shop"].queue == "q"
    assert tree.stage.nodes == ("main", "east")


def test_one_small_read_per_poll_interval_and_none_in_between(ssm, clock):
    push(ssm, texts(bizs__default__shop=biz()))
    config = reader(ssm, clock)
    config.current()
    ssm.calls.clear()

    for _ in range(1000):
        config.current()
    assert ssm.calls == {}

    for _ in range(5):
        clock.now += POLL_SECONDS
        for _ in range(100):
            config.current()
    assert ssm.calls == {"get_parameters": 5}


def test_a_push_is_in_force_one_poll_later(ssm, clock):
    push(ssm, texts(bizs__default__shop=biz(queue="old")))
    config = reader(ssm, clock)
    config.current()

    push(ssm, texts(bizs__default__shop=biz(queue="new")))
    clock.now += POLL_SECONDS - 0.01
    assert config.current().bizs["default"]["shop"].queue == "old"
    clock.now += 0.01
    assert config.current().bizs["default"]["shop"].queue == "new"


def test_a_clock_set_back_does_not_put_off_the_next_look(ssm, clock):
    push(ssm, texts())
    config = reader(ssm, clock)
    config.current()
    push(ssm, texts(bizs__default__shop=biz()))

    clock.now -= 3600

    assert "default" in config.current().bizs


def test_a_tree_of_many_pages_is_read_whole(ssm, clock):
    documents = texts(
        **{f"bizs__default__b{number}": biz(collection=f"c{number}") for number in range(35)}
    )
    push(ssm, documents)

    assert len(reader(ssm, clock).current().bizs["default"]) == 35


def test_a_document_larger_than_one_parameter_is_cut_and_read(ssm, clock):
    document = large()
    push(ssm, texts(bizs__default__shop=document))

    parts = names_below(ssm, "bizs/default/shop/parts")
    for name in parts | {"bizs/default/shop"}:
        value = ssm.client.get_parameter(Name=f"{ROOT}/{name}", WithDecryption=True)["Parameter"][
            "Value"
        ]
        assert len(value.encode()) <= MAX_PARAMETER_BYTES
    assert len(parts) >= 2
    assert set(reader(ssm, clock).current().bizs["default"]["shop"].rules) == set(document["rules"])


def test_a_new_version_leaves_no_parts_of_the_old_one(ssm, clock):
    push(ssm, texts(bizs__default__shop=large(mark="a")))
    before = names_below(ssm, "bizs/default/shop/parts")

    push(ssm, texts(bizs__default__shop=large(mark="b")))
    after = names_below(ssm, "bizs/default/shop/parts")
    push(ssm, texts(bizs__default__shop=biz()))

    assert before
    assert after
    assert not before & after
    assert names_below(ssm, "bizs/default/shop/parts") == set()


def test_a_reader_that_comes_between_two_versions_reads_again(ssm, clock):
    # Ten parameters make a page: the stage, eight bizs, the head of the large one; then its parts.
    small = {f"bizs__default__a{number}": biz(collection=f"c{number}") for number in range(8)}
    push(ssm, texts(**small, bizs__default__shop=large(mark="a")))
    config = reader(ssm, clock)
    config.current()

    def push_without_snapshot(mark):
        push(ssm, texts(bizs__default__shop=large(mark=mark)))
        forget_snapshot(ssm)

    push_without_snapshot("b")
    clock.now += POLL_SECONDS
    ssm.calls.clear()

    # Between the head's page and the parts' page, the next push goes through.
    def after_the_first_page():
        ssm.before["get_parameters_by_path"] = lambda: push_without_snapshot("c")

    ssm.before["get_parameters_by_path"] = after_the_first_page
    tree = config.current()

    newest = large(mark="c")["rules"]["rule-0"]["fields"]["f"]["css"]
    assert tree.bizs["default"]["shop"].rules["rule-0"].fields["f"].css == newest
    assert config.refused is None
    pages = -(-len(names_below(ssm, "")) // 10)
    assert ssm.calls["get_parameters_by_path"] == 2 * pages


def test_damaged_parts_leave_the_last_good_version_and_say_so(ssm, clock):
    push(ssm, texts(bizs__default__shop=large()))
    config = reader(ssm, clock)
    good = config.current()
    part = min(names_below(ssm, "bizs/default/shop/parts"))
    ssm.client.delete_parameter(Name=f"{ROOT}/{part}")
    put(ssm, "revision", "by-hand")
    clock.now += POLL_SECONDS

    tree = config.current()

    assert tree.bizs == good.bizs
    assert [str(problem) for problem in config.refused.problems] == [
        "bizs/default/shop: its parts are incomplete or damaged; push it again"
    ]


def test_pushing_a_damaged_document_again_heals_it(ssm, clock):
    documents = texts(bizs__default__shop=large())
    push(ssm, documents)
    part = min(names_below(ssm, "bizs/default/shop/parts"))
    put(ssm, part, "AAAA")

    with pytest.raises(ConfigError):
        read_documents(ssm.client, "test")
    push(ssm, documents)

    assert read_documents(ssm.client, "test") == documents


def test_an_invalid_document_keeps_its_last_good_version_logs_once_and_is_reported(
    ssm, clock, caplog
):
    push(ssm, texts(bizs__default__shop=biz(queue="old"), bizs__default__docs=biz(collection="d")))
    config = reader(ssm, clock)
    config.current()
    put(ssm, "bizs/default/shop", json.dumps(biz(queue="NO", ttl_seconds=1)))
    put(ssm, "bizs/default/docs", json.dumps(biz(collection="d", queue="new")))
    put(ssm, "revision", "by-hand")

    with caplog.at_level(logging.INFO):
        for _ in range(5):
            clock.now += POLL_SECONDS
            tree = config.current()

    assert tree.bizs["default"]["shop"].queue == "old"
    assert tree.bizs["default"]["docs"].queue == "new"
    assert config.refused.revision == "by-hand"
    assert [problem.field for problem in config.refused.problems] == [
        "bizs/default/shop: queue",
        "bizs/default/shop: ttl_seconds",
    ]
    assert len(caplog.records) == 1
    assert len(caplog.records[0].problems) == 2

    put(ssm, "bizs/default/shop", json.dumps(biz(queue="mended")))
    put(ssm, "revision", "by-hand-2")
    clock.now += POLL_SECONDS
    assert config.current().bizs["default"]["shop"].queue == "mended"
    assert config.refused is None


def test_a_first_tree_without_a_valid_stage_is_an_error_with_every_error(ssm, clock):
    put(ssm, "stage", '{"nodes": [], "home": 1}')
    put(ssm, "bizs/default/shop", '{"generations": []}')
    put(ssm, "revision", "r")
    config = reader(ssm, clock)

    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            config.current()

    assert {problem.field for problem in caught.value.problems} == {
        "stage: nodes",
        "stage: home",
        "bizs/default/shop: generations",
        "bizs/default/shop: rules",
    }
    push(ssm, texts(bizs__default__shop=biz()))
    clock.now += POLL_SECONDS
    assert "shop" in config.current().bizs["default"]


def test_a_stage_that_was_never_pushed_says_so_and_asks_once_per_interval(ssm, clock):
    config = reader(ssm, clock)

    for _ in range(10):
        with pytest.raises(ConfigError, match=f"push a configuration below {ROOT}"):
            config.current()

    assert ssm.calls == {"get_parameters": 1}


def test_a_failing_ssm_leaves_the_last_good_tree_and_is_asked_less_and_less(ssm, clock, caplog):
    push(ssm, texts(bizs__default__shop=biz()))
    config = reader(ssm, clock)
    good = config.current()
    ssm.calls.clear()
    ssm.failure = EndpointConnectionError(endpoint_url="http://ssm")

    with caplog.at_level(logging.WARNING):
        for _ in range(300):
            clock.now += 1
            assert config.current() is good
    assert ssm.calls["get_parameters"] < 300 / MAX_POLL_SECONDS + 5
    assert len(caplog.records) == 1
    assert "EndpointConnectionError" in config.failing

    ssm.failure = None
    push(ssm, texts(bizs__default__shop=biz(queue="new")))
    clock.now += MAX_POLL_SECONDS
    assert config.current().bizs["default"]["shop"].queue == "new"
    assert config.failing is None


def test_a_failure_while_reading_the_tree_is_tried_again_at_the_next_poll(ssm, clock):
    push(ssm, texts())
    config = reader(ssm, clock)
    config.current()
    push(ssm, texts(bizs__default__shop=biz()))
    clock.now += POLL_SECONDS

    def fail():
        raise EndpointConnectionError(endpoint_url="http://ssm")

    # The revision is read, and what it stands for is not.
    ssm.before["get_parameters"] = lambda: ssm.before.update(get_parameters=fail)
    assert config.current().bizs == {}
    clock.now += MAX_POLL_SECONDS
    assert "shop" in config.current().bizs["default"]


def test_a_cold_start_without_ssm_is_unavailable_not_misconfigured(ssm, clock):
    ssm.failure = EndpointConnectionError(endpoint_url="http://ssm")
    config = reader(ssm, clock)

    for _ in range(2):
        with pytest.raises(StoreUnavailableError) as caught:
            config.current()
        assert str(caught.value).startswith("ssm: EndpointConnectionError")

    ssm.failure = None
    push(ssm, texts())
    clock.now += POLL_SECONDS
    assert config.current().stage.nodes == ("main", "east")


def test_one_thread_looks_while_the_others_go_on(ssm, clock):
    push(ssm, texts())
    config = reader(ssm, clock)
    good = config.current()
    push(ssm, texts(bizs__default__shop=biz()))
    clock.now += POLL_SECONDS
    looking, go_on = threading.Event(), threading.Event()
    ssm.before["get_parameters"] = lambda: (looking.set(), go_on.wait(60))

    slow = threading.Thread(target=config.current)
    slow.start()
    assert looking.wait(60)
    assert config.current() is good
    go_on.set()
    slow.join(60)

    assert config.current() is not good


def test_many_threads_at_a_cold_start_read_once(ssm, clock):
    push(ssm, texts(bizs__default__shop=biz()))
    config = reader(ssm, clock)
    trees = []
    threads = [threading.Thread(target=lambda: trees.append(config.current())) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(trees) == 8
    assert ssm.calls == {"get_parameters": 1}


def test_two_stages_do_not_see_each_other(ssm, clock):
    push(ssm, texts(bizs__default__shop=biz()))
    write_tree(ssm.client, "test2", texts())

    assert "default" in reader(ssm, clock).current().bizs
    assert SsmConfig(ssm, "test2", clock=clock).current().bizs == {}
