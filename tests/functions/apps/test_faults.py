"""Parts that die while the router is at work, and what clients see of it."""

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.functions.http import ask, submit
from tests.functions.open_api import Document
from tests.functions.refusals import refused_for_now
from tests.kit.kernel import names
from tests.kit.worlds.functions import throttled

PAGE = {"url": "https://example.org/"}


#: One that the client tells and one that the function told; tests of the adapter have the rest.
FAULTS = {
    "slow": ReadTimeoutError(endpoint_url="https://lambda.test"),
    "failed": b'{"errorType": "StoreUnavailableError", "errorMessage": "redis://10.0.0.7 refuses"}',
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_id_issuer_that_issues_nothing_means_503_and_nothing_stored(world, fault):
    world.end_environments()
    world.lambdas.faults[names.ID_ISSUER] = fault

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))

    assert world.stored() == 0
    assert world.redis_keys() == []
    world.lambdas.faults.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_a_consumer_that_cannot_be_woken_does_not_fail_the_submission(world):
    world.lambdas.faults[names.CONSUMER] = throttled()

    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert (world.stored(), world.queued()) == (1, 1)


def test_ssm_dead_at_a_cold_start_means_503_until_it_answers(world):
    world.end_environments()
    world.dead.add("ssm")

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
    health = ask(world, "GET", "/health", key=None)
    assert (health.status, health.json["status"]) == (503, "down")
    assert ask(world, "GET", "/openapi.json", key=None).status == 200

    world.dead.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_ssm_dead_when_warm_leaves_the_last_good_configuration_in_force(world):
    submit(world, "https://example.org/")
    world.dead.add("ssm")

    for _ in range(3):
        assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert ask(world, "GET", "/health", key=None).json["status"] == "ok"


def test_secrets_manager_dead_at_a_cold_start_means_503_until_it_answers(world):
    world.end_environments()
    world.dead.add("secretsmanager")

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
    assert ask(world, "GET", "/health", key=None).status == 503

    world.dead.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_an_environment_that_lacks_a_variable_says_503_and_logs_which(world, monkeypatch, caplog):
    world.end_environments()
    monkeypatch.delenv(names.ENV_REDIS_URL)

    answer = ask(world, "GET", "/health", key=None)

    refused_for_now(answer)
    assert names.ENV_REDIS_URL not in answer.text
    assert names.ENV_REDIS_URL in caplog.text
    Document.of(world).check("GET", "/health", answer)


def test_a_fault_nobody_foresaw_is_a_500_that_shows_nothing(world, caplog):
    world.end_environments()
    world.lambdas.faults[names.ID_ISSUER] = RuntimeError("the inner secret")

    answer = ask(world, "POST", "/v1/docs/requests", PAGE)

    assert (answer.status, answer.json["title"]) == (500, "Internal error")
    assert "inner secret" not in answer.text
    assert "inner secret" in caplog.text


@pytest.mark.parametrize("event", [{}, {"httpMethod": "GET"}, {"httpMethod": 1, "path": None}])
def test_an_event_that_is_none_is_answered_all_the_same(world, event):
    assert world.call(names.ROUTER, event)["statusCode"] in {404, 500}
