"""Names that the platform gives are its own: no client has one before."""

from datetime import UTC, datetime

import pytest

from tests.kit.jobs import key_name
from tests.kit.submission import event_name, fire_name, is_reserved, job_name, run_now_name

AT = datetime(2026, 11, 21, 3, tzinfo=UTC)

GIVEN = [
    job_name("shop", AT),
    fire_name("nightly", AT),
    run_now_name("nightly", None, AT),
    run_now_name("nightly", "a key", AT),
    event_name("shop", "53dc4d37", {"values": {"page": "1"}}),
    key_name("order-1"),
]


# Some end by chance: names of tests are the same in every process.
@pytest.mark.parametrize("name", GIVEN, ids=range(len(GIVEN)))
def test_a_name_that_is_given_is_reserved(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize(
    "name", ["june", "nightly", "nightly.20261121", "key", "key.1", "shop.event", "2026-11-21T03"]
)
def test_a_name_of_a_clients_own_is_not(name: str) -> None:
    assert not is_reserved(name)
