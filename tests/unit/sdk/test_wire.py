"""The shapes that the API and its client share."""

from tests.kit.requests import FINAL_STATES, State
from tests.kit.sdk import RequestStatus


def test_the_client_takes_the_states_for_final_that_the_platform_ends_requests_in():
    final = {state for state in State if RequestStatus(id="1", state=state.label, url="u").final}

    assert final == FINAL_STATES
