"""``crawlfleet shares`` against an API that answers with its own views."""

import json
import re

import msgspec
import pytest

from tests.kit.api import share_view
from tests.kit.ceilings import CeilingState
from tests.kit.monitoring import TenantState

ACME = TenantState(
    tenant="acme",
    share=3,
    part=0.75,
    ready=40,
    in_flight=12,
    ceilings=(
        CeilingState(limit="ceilings.in_flight", used=12, allowed=500),
        CeilingState(limit="ceilings.leases_per_second", allowed=2.5),
        CeilingState(limit="tenant_redis_ratio", used=1_500, allowed=425_000_000),
        CeilingState(limit="ceilings.documents", used=77),
    ),
)


@pytest.fixture
def known(api):
    states = (ACME, TenantState(tenant="small", part=0.25))
    api.shares = [msgspec.to_builtins(share_view(one)) for one in states]


def test_each_tenant_is_a_row_with_its_part_and_what_it_has_of_each_ceiling(crawlfleet, known):
    done = crawlfleet("shares")

    assert done.code == 0
    assert re.search(r"acme +3 +75% +40 +12 +12 / 500 +2\.5 +1,500 / 425,000,000 +77", done.out)
    assert re.search(r"small +1 +25% +0 +0", done.out)


def test_scripts_get_the_answer_as_it_is(crawlfleet, known):
    done = crawlfleet("shares", "--json")

    [acme, _] = json.loads(done.out)["tenants"]
    assert (acme["tenant"], acme["part"], acme["ceilings"][0]["allowed"]) == ("acme", 0.75, 500)
