"""The shapes that the API and its client share."""

import msgspec
import pytest

from crawlfleet.sdk import DeadLetter, Standing
from tests.kit.requests import FINAL_STATES, OWN, OWN_FINAL, State, is_final
from tests.kit.sdk import RequestStatus


def test_the_client_takes_the_states_for_final_that_the_platform_ends_requests_in():
    final = {state for state in State if RequestStatus(id="1", state=state.label, url="u").final}

    assert final == FINAL_STATES


@pytest.mark.parametrize("flag", [OWN, OWN_FINAL - 1, OWN_FINAL, OWN_FINAL + 1])
def test_the_client_knows_which_of_a_bizs_own_states_are_final(flag):
    status = RequestStatus(id="1", state="mine", url="u", flag=flag)

    assert status.final is is_final(flag)


@pytest.mark.parametrize(
    ("shape", "field"), [(RequestStatus, "meta"), (DeadLetter, "meta"), (Standing, "facts")]
)
def test_the_client_reads_values_of_a_newer_api_that_are_no_scalars(shape, field):
    values = {"depth": 1, "tags": ["a", {"b": None}]}
    answer = {"id": "1", "state": "done", "url": "u", "sentence": "It is done.", field: values}

    assert getattr(msgspec.convert(answer, shape), field) == values
