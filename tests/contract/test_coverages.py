"""ports.Coverages over memory and a real Redis."""

from concurrent.futures import ThreadPoolExecutor

from tests.kit.extract import LONGEST_NAME, MOST_FIELDS, MOST_VERSIONS, coverage_of
from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane
from tests.kit.queue import lane_keys
from tests.kit.records import Coverages, RedisCoverages
from tests.kit.requests import Coverage

coverages = fixture_over(Coverages)


def test_counts_of_one_version_are_added_up(coverages, lane):
    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=2, fields={"a": 2, "b": 1}))
    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=1, fields={"b": 1, "c.d": 1}))
    coverages.add(lane, "detail", "v1", Coverage(pages=1))

    assert coverages.of(lane) == {
        ("detail", "v1"): Coverage(pages=3, records=3, fields={"a": 2, "b": 2, "c.d": 1})
    }


def test_records_that_were_not_stored_are_counted_beside(coverages, lane):
    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=2, rejected=1, fields={"a": 2}))
    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=2))
    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=2, rejected=2))

    (found,) = coverages.of(lane).values()
    assert found == Coverage(pages=3, records=6, rejected=3, fields={"a": 2})


def test_counts_from_before_rejected_ones_were_counted_go_on(redis_connection, lane):
    coverages = RedisCoverages(redis_connection)
    redis_connection.together(
        ("HSET", lane_keys(lane).coverage, "detail v1", "1 2 3\n=a 3\n"),
    )
    (before,) = coverages.of(lane).values()

    coverages.add(lane, "detail", "v1", Coverage(pages=1, records=1, rejected=1))

    (found,) = coverages.of(lane).values()
    assert before == Coverage(pages=2, records=3, fields={"a": 3})
    assert found == Coverage(pages=3, records=4, rejected=1, fields={"a": 3})


def test_versions_rules_bizs_and_tenants_are_counted_apart(coverages, lane):
    for rule, version in (("detail", "v1"), ("detail", "v2"), ("list-1.x", "v1"), ("bare", "")):
        coverages.add(lane, rule, version, Coverage(pages=1))
    coverages.add(Lane(lane.tenant, "news", "main"), "detail", "v1", Coverage(pages=5))
    coverages.add(Lane(lane.tenant + "b", "docs", "main"), "detail", "v1", Coverage(pages=7))

    found = coverages.of(lane)

    assert set(found) == {("detail", "v1"), ("detail", "v2"), ("list-1.x", "v1"), ("bare", "")}
    assert {coverage.pages for coverage in found.values()} == {1}
    assert coverages.of(Lane(lane.tenant, "none", "main")) == {}


def test_any_name_of_a_field_is_counted_as_it_is(coverages, lane):
    names = ["", "1", "é\U0001f600", "a b", 'quo"te', "new\nline", "\ud800", "__proto__", "null"]

    for _ in range(2):
        coverages.add(lane, "detail", "v1", Coverage(fields=dict.fromkeys(names, 1)))

    (found,) = coverages.of(lane).values()
    assert found.fields == {name.replace("\ud800", "?"): 2 for name in names}


def test_fields_are_bounded_in_number_and_length(coverages, lane):
    coverages.add(lane, "r", "v", Coverage(fields={f"f{n}": 1 for n in range(MOST_FIELDS - 1)}))
    coverages.add(lane, "r", "v", Coverage(fields={f"g{n}": 1 for n in range(MOST_FIELDS)}))
    coverages.add(lane, "r", "w", Coverage(fields={"n" * 500: 1, "n" * 600: 2}))

    found = coverages.of(lane)

    assert len(found["r", "v"].fields) == MOST_FIELDS
    assert found["r", "w"].fields == {"n" * LONGEST_NAME: 3}


def test_the_version_that_was_silent_for_longest_makes_room(coverages, lane):
    for number in range(MOST_VERSIONS):
        coverages.add(lane, "r", f"v{number}", Coverage(pages=1))

    coverages.add(lane, "r", "v0", Coverage(pages=1))
    for number in range(3):
        coverages.add(lane, "r", f"new{number}", Coverage(pages=1))

    found = coverages.of(lane)
    assert len(found) == MOST_VERSIONS
    assert {("r", f"new{n}") for n in range(3)} < set(found)
    assert found["r", "v0"].pages == 2


def test_many_workers_count_at_once_and_nothing_is_lost(coverages, lane):
    one = Coverage(pages=1, records=3, fields={"a": 2})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: coverages.add(lane, "r", "v", one), range(200)))

    assert coverages.of(lane) == {("r", "v"): Coverage(pages=200, records=600, fields={"a": 400})}


def test_large_counts_stay_exact(coverages, lane):
    for _ in range(2):
        coverages.add(lane, "r", "v", Coverage(pages=4 * 10**12, records=4 * 10**12))

    assert coverages.of(lane)["r", "v"].pages == 8 * 10**12


def test_counts_that_something_else_has_spoilt_begin_anew(redis_connection, lane):
    coverages = RedisCoverages(redis_connection)
    redis_connection.client.hset(lane_keys(lane).coverage, "r v", "nonsense")

    coverages.add(lane, "r", "v", Coverage(pages=1))

    assert coverages.of(lane) == {("r", "v"): Coverage(pages=1)}


def test_a_field_counts_where_it_has_a_value():
    records = [{"a": 0, "b": "", "c": None}, {"a": False, "b": " ", "d": []}]

    assert coverage_of(records, pages=1) == Coverage(pages=1, records=2, fields={"a": 2, "b": 1})
