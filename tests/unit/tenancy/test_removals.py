"""The steps of a removal by the clock, and the inventory of secrets."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.kit.tenancy import IN_FORCE_SECONDS, SecretInventory, begun, state_of

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
BEGUN = begun(NOW, 60.0)
WITHDRAWN = replace(BEGUN, withdrawn_at=NOW + timedelta(minutes=5))


@pytest.mark.parametrize(
    ("removing", "in_flight", "seconds", "state"),
    [
        (BEGUN, 0, 0, "settling"),
        (BEGUN, 0, IN_FORCE_SECONDS + 59, "settling"),
        (BEGUN, 0, IN_FORCE_SECONDS + 60, "settled"),
        (BEGUN, 1, IN_FORCE_SECONDS + 600, "settling"),
        (WITHDRAWN, 0, 300, "withdrawn"),
        (WITHDRAWN, 0, 300 + IN_FORCE_SECONDS + 59, "withdrawn"),
        (WITHDRAWN, 0, 300 + IN_FORCE_SECONDS + 60, "deleting"),
        (WITHDRAWN, 9, 300 + IN_FORCE_SECONDS + 60, "deleting"),
    ],
)
def test_each_step_waits_for_what_others_may_still_do(removing, in_flight, seconds, state):
    assert state_of(removing, in_flight, NOW + timedelta(seconds=seconds)) == state


class Secrets:
    """Secrets Manager's two calls, two secrets a page; a filter finds more than was meant."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def list_secrets(self, *, NextToken: str = "0", **_: object) -> dict:  # noqa: N803
        first = int(NextToken)
        page = {"SecretList": [{"Name": name} for name in self.names[first : first + 2]]}
        return page | ({"NextToken": str(first + 2)} if first + 2 < len(self.names) else {})

    def delete_secret(self, *, SecretId: str, ForceDeleteWithoutRecovery: bool) -> None:  # noqa: N803
        assert ForceDeleteWithoutRecovery
        self.names.remove(SecretId)


def test_the_secrets_of_a_tenant_are_found_on_every_page_and_nobody_elses_go():
    below = "crawlfleet/prod/tenants"
    client = Secrets(*(f"{below}/acme/{n}" for n in range(3)), f"{below}/acme-2/a", "other")
    inventory = SecretInventory(client, "prod")

    before = inventory.count("acme")
    left = iter([1.0, 0.0])
    inventory.clear("acme", lambda: next(left))
    half_way = inventory.count("acme")
    inventory.clear("acme", lambda: 1.0)

    assert (before, half_way) == ({"secrets": 3}, {"secrets": 2})
    assert inventory.count("acme") == {}
    assert client.names == [f"{below}/acme-2/a", "other"]
