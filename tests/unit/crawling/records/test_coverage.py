"""Coverage of rules: how often their fields find a value."""

import pytest

from tests.fakes.records import MemoryCoverages
from tests.kit.config import biz_of
from tests.kit.kernel import UnknownBizError
from tests.kit.records import coverage
from tests.kit.requests import Coverage
from tests.kit.worlds.memory import make_tree


@pytest.fixture
def counted():
    return MemoryCoverages()


def look(counted, tenant="default"):
    return coverage(counted, make_tree(), tenant, "docs")


def test_the_version_in_force_comes_first_with_fields_that_never_had_a_value(counted):
    queue_key, biz = biz_of(make_tree(), "default", "docs")
    name, rule = next(iter(biz.rules.items()))
    field, *_ = rule.fields
    counted.add(queue_key, name, "000000000000", Coverage(pages=1, records=1, fields={"old": 1}))
    counted.add(queue_key, name, rule.version, Coverage(pages=2, records=5, fields={"more": 5}))
    counted.add(queue_key, "a-scrapy-project", "", Coverage(records=1))

    other, now, before = look(counted)

    assert (other.rule, other.version, other.current) == ("a-scrapy-project", "", False)
    assert (now.version, now.current, before.current) == (rule.version, True, False)
    assert now.coverage.fields == {**dict.fromkeys(rule.fields, 0), "more": 5}
    assert now.coverage.fields[field] == 0
    assert before.coverage == Coverage(pages=1, records=1, fields={"old": 1})


def test_nothing_is_reported_of_other_tenants(counted):
    queue_key, _ = biz_of(make_tree(), "default", "docs")
    counted.add(queue_key, "detail", "v", Coverage(pages=1))

    assert look(counted, "acme") == []


def test_a_biz_that_is_not_there_is_reported(counted):
    with pytest.raises(UnknownBizError):
        coverage(counted, make_tree(), "default", "nothing")
