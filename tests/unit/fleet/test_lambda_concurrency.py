"""The reserved concurrency: what is asked of Lambda, and what becomes of its refusals."""

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.stub import Stubber

from tests.kit.fleet import LambdaConcurrency
from tests.kit.kernel import LimitRefusedError, StoreError, StoreUnavailableError

UNRESERVED = (
    "Specified ReservedConcurrentExecutions for function decreases account's "
    "UnreservedConcurrentExecution below its minimum value of [100]."
)


class Lambda:
    """Lambda's two calls; ``fault`` is what comes instead of an answer."""

    def __init__(self, reserved=None, fault=None) -> None:
        self.reserved, self.fault = reserved, fault
        self.calls = []

    def get_function_concurrency(self, **call):
        self.calls.append(call)
        if self.fault:
            raise self.fault
        return {} if self.reserved is None else {"ReservedConcurrentExecutions": self.reserved}

    def put_function_concurrency(self, **call):
        self.calls.append(call)
        if self.fault:
            raise self.fault
        self.reserved = call["ReservedConcurrentExecutions"]
        return {"ReservedConcurrentExecutions": self.reserved}


def refusal(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "PutFunctionConcurrency")


def test_it_is_reported_and_changed_by_the_functions_name():
    api = Lambda()
    limit = LambdaConcurrency("consumer", 10, api)

    assert limit.current() is None
    limit.change(7)
    assert limit.current() == 7
    assert {call["FunctionName"] for call in api.calls} == {"consumer"}
    assert limit.ceiling == 10


def test_the_calls_are_those_that_boto3_makes():
    client = boto3.client(
        "lambda",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    with Stubber(client) as stub:
        stub.add_response(
            "get_function_concurrency",
            {"ReservedConcurrentExecutions": 5},
            {"FunctionName": "consumer"},
        )
        stub.add_response(
            "put_function_concurrency",
            {"ReservedConcurrentExecutions": 7},
            {"FunctionName": "consumer", "ReservedConcurrentExecutions": 7},
        )
        limit = LambdaConcurrency("consumer", 10, client)
        assert limit.current() == 5
        limit.change(7)
        stub.assert_no_pending_responses()


def test_what_the_account_has_not_to_give_is_a_refusal_and_no_fault():
    limit = LambdaConcurrency(
        "consumer", 10, Lambda(3, refusal("InvalidParameterValueException", UNRESERVED))
    )

    with pytest.raises(LimitRefusedError, match="minimum value"):
        limit.change(9)


@pytest.mark.parametrize(
    "fault",
    [
        refusal("TooManyRequestsException"),
        refusal("ResourceConflictException"),
        refusal("AccessDeniedException"),
        EndpointConnectionError(endpoint_url="https://lambda.example"),
        ReadTimeoutError(endpoint_url="https://lambda.example"),
        ConnectionResetError(),
    ],
    ids=["throttled", "conflict", "denied", "no connection", "no answer", "reset"],
)
@pytest.mark.parametrize("call", ["current", "change"])
def test_lambda_throttled_slow_or_away_is_a_part_that_cannot_be_used(fault, call):
    limit = LambdaConcurrency("consumer", 10, Lambda(3, fault))

    with pytest.raises(StoreUnavailableError):
        limit.current() if call == "current" else limit.change(5)


def test_an_answer_that_is_none_is_reported_as_that():
    with pytest.raises(StoreError, match="is not what Lambda answers"):
        LambdaConcurrency("consumer", 10, Lambda("many")).current()


@pytest.mark.parametrize("count", [0, -1, 11])
def test_nothing_beyond_the_ceiling_and_no_standstill_is_ever_asked_for(count):
    api = Lambda(5)

    with pytest.raises(ValueError, match="not within 1 to 10"):
        LambdaConcurrency("consumer", 10, api).change(count)
    assert api.calls == []


def test_its_client_waits_for_seconds_and_tries_twice():
    made = []

    def client(*arguments, **options):
        made.append((arguments, options))
        return Lambda(4)

    limit = LambdaConcurrency("consumer", 10, connect=client)

    assert limit.current() == limit.current() == 4
    assert made == [(("consumer",), {})], "one client, with the time-outs of all of them"
