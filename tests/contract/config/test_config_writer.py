"""Pushing to the config centre over SSM as moto keeps it: what is refused, what is written."""

import json
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tests.config_documents import STAGE, biz, generation, texts
from tests.contract.ssm_cases import ROOT, Clock, CountedSsm, large, names_below, push, reader
from tests.kit.config import POLL_SECONDS, carry_out, plan, read_documents, unchecked, write_tree
from tests.kit.kernel import ConfigError, StoreConflictError, StoreUnavailableError


@pytest.fixture
def ssm(aws):
    return CountedSsm(boto3.client("ssm"))


@pytest.fixture
def clock():
    return Clock()


def test_one_error_refuses_the_whole_push(ssm):
    push(ssm, texts(bizs__default__shop=biz(queue="old")))
    before = read_documents(ssm.client, "test"), names_below(ssm, "")

    with pytest.raises(ConfigError) as caught:
        push(
            ssm,
            texts(
                bizs__default__shop=biz(queue="new"),
                bizs__default__docs=biz(queue=""),
                tenants__acme={"keys": 1},
            ),
        )

    assert {problem.field for problem in caught.value.problems} == {
        "bizs/default/docs: queue",
        "tenants/acme: keys",
    }
    assert (read_documents(ssm.client, "test"), names_below(ssm, "")) == before


def test_only_documents_that_differ_are_written_and_the_revision_last(ssm):
    documents = texts(bizs__default__shop=biz(), bizs__default__docs=biz(collection="d"))
    first = push(ssm, documents)
    written = []
    put_parameter = ssm.client.put_parameter
    ssm.client.put_parameter = lambda **arguments: (
        written.append(arguments["Name"].removeprefix(f"{ROOT}/")),
        put_parameter(**arguments),
    )

    again = push(
        ssm, {path: json.dumps(json.loads(text), indent=4) for path, text in documents.items()}
    )
    changed = push(ssm, texts(bizs__default__shop=biz(queue="q")))

    assert again.revision == first.revision
    assert again.written == ()
    assert changed.written == ("bizs/default/shop",)
    assert written == ["stage/parts/snapshot/1", "bizs/default/shop", "revision"]


def test_documents_that_are_not_given_stay_unless_they_are_to_go(ssm):
    push(ssm, texts(bizs__default__shop=large(), bizs__default__docs=biz(collection="d")))

    kept = push(ssm, texts(bizs__default__docs=biz(collection="d", queue="q")))
    assert kept.deleted == ()
    gone = push(ssm, texts(bizs__default__docs=biz(collection="d")), delete=True)

    assert gone.deleted == ("bizs/default/shop",)
    assert names_below(ssm, "") == {"revision", "stage", "bizs/default/docs"}


def test_what_is_pushed_is_judged_beside_what_stays(ssm):
    push(ssm, texts(tenants__a={"api_keys": ["k"]}))

    with pytest.raises(ConfigError, match=r"\bk\b.*tenants/a\b"):
        push(ssm, {"tenants/b": '{"api_keys": ["k"]}'})


def test_a_push_that_rewrites_history_is_refused(ssm):
    now = datetime.now(UTC)
    push(ssm, texts(bizs__default__shop=biz()))

    with pytest.raises(ConfigError, match="2026-01-01T00:00:00Z"):
        push(ssm, texts(bizs__default__shop=biz(generations=[generation(shards=3)])), now=now)

    later = (now + timedelta(seconds=31)).isoformat()
    longer = biz(generations=[generation(), generation(later, nodes=["main", "east"])])
    push(ssm, texts(bizs__default__shop=longer), now=now)


def test_two_pushes_at_once_are_distinguished(ssm):
    push(ssm, texts())
    now = datetime.now(UTC)
    wanted = texts(bizs__default__shop=biz())
    prepared = plan(ssm.client, "test", wanted, check_reader=unchecked, now=now)
    push(ssm, texts(tenants__acme={}))

    with pytest.raises(StoreConflictError):
        carry_out(ssm.client, "test", prepared, now=now)

    assert "bizs/default/shop" not in names_below(ssm, "")


def test_a_stage_gives_up_a_node_after_the_bizs_that_used_it(ssm):
    now = datetime.now(UTC)
    later = (now + timedelta(days=1)).isoformat()
    both = biz(generations=[generation(), generation(later, nodes=["main", "east"])])
    push(ssm, texts(bizs__default__shop=both), now=now)

    smaller = STAGE | {"nodes": ["main"]}
    shrunk = push(ssm, texts(stage=smaller, bizs__default__shop=biz()), now=now)
    grown = push(ssm, texts(bizs__default__shop=both), now=now)

    assert shrunk.written == ("bizs/default/shop", "stage")
    assert grown.written == ("stage", "bizs/default/shop")


def test_a_writer_that_dies_half_way_has_announced_nothing(ssm, clock):
    push(ssm, texts(bizs__default__shop=large(mark="a")))
    config = reader(ssm, clock)
    good = config.current()
    failing = CountedSsm(ssm.client)

    def die():
        raise EndpointConnectionError(endpoint_url="http://ssm")

    failing.before["delete_parameters"] = die
    with pytest.raises(StoreUnavailableError):
        write_tree(failing, "test", texts(bizs__default__shop=large(mark="b")))
    clock.now += POLL_SECONDS

    assert config.current() is good
    push(ssm, texts(bizs__default__shop=large(mark="c")))
    clock.now += POLL_SECONDS
    assert config.current() is not good
    assert len({name.split("/")[4] for name in names_below(ssm, "bizs/default/shop/parts")}) == 1


def test_a_document_without_bounds_is_refused(ssm):
    document = json.dumps(biz(description="x" * 2_000_001))

    with pytest.raises(ConfigError, match="larger than 2000000 bytes"):
        push(ssm, texts() | {"bizs/default/shop": document})


def test_a_push_that_died_before_its_revision_is_announced_by_the_next_one(ssm):
    first = push(ssm, texts(bizs__default__shop=biz()))
    put_parameter = ssm.client.put_parameter

    def dying(**arguments):
        if arguments["Name"].endswith("/revision"):
            raise EndpointConnectionError(endpoint_url="https://ssm.test")
        return put_parameter(**arguments)

    ssm.client.put_parameter = dying
    with pytest.raises(StoreUnavailableError):
        push(ssm, texts(bizs__default__shop=biz(queue="q")))
    ssm.client.put_parameter = put_parameter

    again = push(ssm, texts(bizs__default__shop=biz(queue="q")))

    assert again.revision != first.revision
    assert push(ssm, texts(bizs__default__shop=biz(queue="q"))).revision == again.revision
