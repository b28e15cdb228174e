import inspect

import msgspec
import pytest

from tests.kit.api import (
    MethodNotAllowedError,
    ProblemDocument,
    TooLargeBodyError,
    document_of,
    is_fault,
    status_of,
)
from tests.kit.kernel import CrawlfleetError, Problem, errors

ERRORS = (Problem("url", "must be an http or https URL"), Problem("rule", "is missing"))

#: An error of every class, and what the API says of it.
TABLE: list[tuple[CrawlfleetError, int, str]] = [
    (errors.RejectedError("no"), 400, "rejected"),
    (errors.InvalidRequestError(ERRORS), 400, "invalid-request"),
    (errors.UnknownBizError("no biz"), 404, "unknown-biz"),
    (errors.UnknownTenantError("no tenant"), 403, "unknown-tenant"),
    (errors.NotOperatorError("not yours"), 403, "not-operator"),
    (errors.UnknownRuleError("no rule"), 400, "unknown-rule"),
    (errors.NotFoundError("none"), 404, "not-found"),
    (errors.ConflictError("it is done"), 409, "conflict"),
    (errors.KeyReusedError("key k stands for another"), 422, "key-reused"),
    (errors.BacklogFullError("full", retry_after_seconds=7.2), 429, "backlog-full"),
    (errors.TenantSuspendedError("not now"), 403, "tenant-suspended"),
    (errors.QuotaExceededError("used up"), 429, "quota-exceeded"),
    (TooLargeBodyError("too large"), 413, "too-large-body"),
    (MethodNotAllowedError("not here", ("GET",)), 405, "method-not-allowed"),
    (errors.StoreUnavailableError("mongodb", "10.0.0.7 refuses"), 503, "store-unavailable"),
    (errors.TrialsBusyError(5.0), 503, "trials-busy"),
    (errors.TrialLateError(26.0), 503, "trial-late"),
    (errors.IdsError("redis://10.0.0.7 refuses"), 503, "ids"),
    (errors.WorkerNumbersExhaustedError("10.0.0.7"), 503, "worker-numbers-exhausted"),
    (errors.ClockSteppedBackError("10.0.0.7"), 503, "clock-stepped-back"),
    (errors.ConfigError([Problem("secret x", "10.0.0.7")]), 503, "config"),
    (errors.NoConfigurationError([Problem("secret x", "10.0.0.7")]), 503, "no-configuration"),
    # What no call of the API may raise: a fault of ours, whatever it is.
    (CrawlfleetError("10.0.0.7"), 500, "internal"),
    (errors.StoreError("10.0.0.7"), 500, "internal"),
    (errors.StoreConflictError("10.0.0.7"), 500, "internal"),
    (errors.LimitRefusedError("10.0.0.7"), 500, "internal"),
    (errors.MessageRefusedError("10.0.0.7"), 500, "internal"),
    (errors.LeaseLostError("10.0.0.7"), 500, "internal"),
    (errors.ExtractError("title", "10.0.0.7"), 500, "internal"),
    (errors.ReaderKilledError("cpu", "10.0.0.7"), 500, "internal"),
    (errors.FetchError("10.0.0.7"), 500, "internal"),
    (errors.FetchTimeoutError("10.0.0.7"), 500, "internal"),
    (errors.ConnectFailedError("10.0.0.7"), 500, "internal"),
    (errors.ThrottledError("10.0.0.7"), 500, "internal"),
    (errors.ServerFaultError("10.0.0.7"), 500, "internal"),
    (errors.PageGoneError("10.0.0.7"), 500, "internal"),
    (errors.RobotsDeniedError("10.0.0.7"), 500, "internal"),
    (errors.RobotsUnknownError("10.0.0.7"), 500, "internal"),
    (errors.NoProxyError("10.0.0.7", again_seconds=1.0), 500, "internal"),
    (errors.NotReadyError("10.0.0.7", again_seconds=1.0), 500, "internal"),
    (errors.NoReaderError("10.0.0.7", again_seconds=1.0), 500, "internal"),
    (errors.NoSecretError("10.0.0.7", again_seconds=1.0), 500, "internal"),
    (errors.UnwantedTypeError("10.0.0.7"), 500, "internal"),
    (errors.AddressRefusedError("10.0.0.7"), 500, "internal"),
    (errors.TooLargeError("10.0.0.7"), 500, "internal"),
]


@pytest.mark.parametrize(
    ("error", "status", "name"), TABLE, ids=[type(error).__name__ for error, _, _ in TABLE]
)
def test_every_error_has_one_status_and_one_type(error, status, name):
    document = document_of(error)

    assert status_of(error) == document.status == status
    assert document.type == f"urn:crawlfleet:problem:{name}"
    assert document.title
    assert document.detail


def test_the_table_has_every_class_of_the_error_tree():
    classes = {
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, CrawlfleetError)
    }

    assert {type(error) for error, _, _ in TABLE} == classes | {
        TooLargeBodyError,
        MethodNotAllowedError,
    }


@pytest.mark.parametrize(
    "error", [error for error, status, _ in TABLE if status >= 500], ids=lambda e: type(e).__name__
)
def test_nothing_from_inside_is_shown(error):
    assert b"10.0.0.7" not in msgspec.json.encode(document_of(error))


def test_an_error_of_a_class_made_later_has_its_parents_status():
    class LaterError(errors.ConflictError):
        pass

    assert document_of(LaterError("x")).status == 409
    assert document_of(LaterError("x")).type == "urn:crawlfleet:problem:later"


def test_errors_that_are_not_ours_are_internal():
    document = document_of(KeyError("the password"))

    assert (document.status, document.type) == (500, "urn:crawlfleet:problem:internal")
    assert "password" not in document.detail


def test_every_error_is_named():
    document = document_of(errors.InvalidRequestError(ERRORS))

    assert document.errors == ERRORS
    written = msgspec.json.decode(msgspec.json.encode(document), type=ProblemDocument)
    assert written == document


def test_an_unavailable_part_is_named_and_nothing_more():
    document = document_of(errors.StoreUnavailableError("mongodb", "rs0/10.0.0.7:27017"))

    said = "mongodb cannot be used now: the call was not done, or not in whole; try again."
    assert document.detail == said


def test_too_many_trials_are_no_fault_and_the_caller_is_reported_what_else_there_is():
    document = document_of(errors.TrialsBusyError(5.0))

    assert "come back in 5 s" in document.detail
    assert "without --remote" in document.detail
    assert not is_fault(errors.TrialsBusyError(5.0))
    assert is_fault(errors.StoreUnavailableError("mongodb", "away"))
