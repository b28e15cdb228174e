"""Coverage of rules over memory and a real Redis."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from tests.kit.extract import LONGEST_NAME, MOST_FIELDS, MOST_VERSIONS, coverage_of
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import redis_keys
from tests.kit.records import HOURS, MOST_OF_HOURS, RedisCoverages
from tests.kit.requests import Coverage

coverages = fixture_over(RedisCoverages)


def test_counts_of_one_version_are_added_up(coverages, queue_key):
    coverages.add(queue_key, "detail", "v1", Coverage(pages=1, records=2, fields={"a": 2, "b": 1}))
    coverages.add(
        queue_key, "detail", "v1", Coverage(pages=1, records=1, fields={"b": 1, "c.d": 1})
    )
    coverages.add(queue_key, "detail", "v1", Coverage(pages=1))

    assert coverages.of(queue_key) == {
        ("detail", "v1"): Coverage(pages=3, records=3, fields={"a": 2, "b": 2, "c.d": 1})
    }


def test_records_that_were_not_stored_are_counted_beside(coverages, queue_key):
    coverages.add(
        queue_key, "detail", "v1", Coverage(pages=1, records=2, rejected=1, fields={"a": 2})
    )
    coverages.add(queue_key, "detail", "v1", Coverage(pages=1, records=2))
    coverages.add(queue_key, "detail", "v1", Coverage(pages=1, records=2, rejected=2))

    (found,) = coverages.of(queue_key).values()
    assert found == Coverage(pages=3, records=6, rejected=3, fields={"a": 2})


def test_counts_from_before_rejected_ones_were_counted_go_on(redis_connection, queue_key):
    coverages = RedisCoverages(redis_connection)
    redis_connection.together(
        ("HSET", redis_keys(queue_key).coverage, "detail v1", "1 2 3\n=a 3\n"),
    )
    (before,) = coverages.of(queue_key).values()

    coverages.add(queue_key, "detail", "v1", Coverage(pages=1, records=1, rejected=1))

    (found,) = coverages.of(queue_key).values()
    assert before == Coverage(pages=2, records=3, fields={"a": 3})
    assert found == Coverage(pages=3, records=4, rejected=1, fields={"a": 3})


def test_versions_rules_bizs_and_tenants_are_counted_apart(coverages, queue_key):
    for rule, version in (("detail", "v1"), ("detail", "v2"), ("list-1.x", "v1"), ("bare", "")):
        coverages.add(queue_key, rule, version, Coverage(pages=1))
    coverages.add(QueueKey(queue_key.tenant, "news", "main"), "detail", "v1", Coverage(pages=5))
    coverages.add(
        QueueKey(queue_key.tenant + "b", "docs", "main"), "detail", "v1", Coverage(pages=7)
    )

    found = coverages.of(queue_key)

    assert set(found) == {("detail", "v1"), ("detail", "v2"), ("list-1.x", "v1"), ("bare", "")}
    assert {coverage.pages for coverage in found.values()} == {1}
    assert coverages.of(QueueKey(queue_key.tenant, "none", "main")) == {}


def test_any_name_of_a_field_is_counted_as_it_is(coverages, queue_key):
    names = ["", "1", "é\U0001f600", "a b", 'quo"te', "new\nline", "\ud800", "__proto__", "null"]

    for _ in range(2):
        coverages.add(queue_key, "detail", "v1", Coverage(fields=dict.fromkeys(names, 1)))

    (found,) = coverages.of(queue_key).values()
    assert found.fields == {name.replace("\ud800", "?"): 2 for name in names}


def test_fields_are_bounded_in_number_and_length(coverages, queue_key):
    coverages.add(
        queue_key, "r", "v", Coverage(fields={f"f{n}": 1 for n in range(MOST_FIELDS - 1)})
    )
    coverages.add(queue_key, "r", "v", Coverage(fields={f"g{n}": 1 for n in range(MOST_FIELDS)}))
    coverages.add(queue_key, "r", "w", Coverage(fields={"n" * 500: 1, "n" * 600: 2}))

    found = coverages.of(queue_key)

    assert len(found["r", "v"].fields) == MOST_FIELDS
    assert found["r", "w"].fields == {"n" * LONGEST_NAME: 3}


def test_the_version_that_was_silent_for_longest_makes_room(coverages, queue_key):
    for number in range(MOST_VERSIONS):
        coverages.add(queue_key, "r", f"v{number}", Coverage(pages=1))

    coverages.add(queue_key, "r", "v0", Coverage(pages=1))
    for number in range(3):
        coverages.add(queue_key, "r", f"new{number}", Coverage(pages=1))

    found = coverages.of(queue_key)
    assert len(found) == MOST_VERSIONS
    assert {("r", f"new{n}") for n in range(3)} < set(found)
    assert found["r", "v0"].pages == 2


def test_many_workers_count_at_once_and_nothing_is_lost(coverages, queue_key):
    one = Coverage(pages=1, records=3, fields={"a": 2})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: coverages.add(queue_key, "r", "v", one), range(200)))

    assert coverages.of(queue_key) == {
        ("r", "v"): Coverage(pages=200, records=600, fields={"a": 400})
    }


def test_large_counts_stay_exact(coverages, queue_key):
    for _ in range(2):
        coverages.add(queue_key, "r", "v", Coverage(pages=4 * 10**12, records=4 * 10**12))

    assert coverages.of(queue_key)["r", "v"].pages == 8 * 10**12


def test_counts_that_something_else_has_spoilt_begin_anew(redis_connection, queue_key):
    coverages = RedisCoverages(redis_connection)
    redis_connection.client.hset(redis_keys(queue_key).coverage, "r v", "nonsense")

    coverages.add(queue_key, "r", "v", Coverage(pages=1))

    assert coverages.of(queue_key) == {("r", "v"): Coverage(pages=1)}


def test_a_field_counts_where_it_has_a_value():
    records = [{"a": 0, "b": "", "c": None}, {"a": False, "b": " ", "d": []}]

    assert coverage_of(records, pages=1) == Coverage(pages=1, records=2, fields={"a": 2, "b": 1})


def test_each_hour_is_counted_beside_the_whole(coverages, queue_key):
    counted = Coverage(pages=1, records=2, rejected=1, fields={"a": 2, "b c": 1})
    for _ in range(2):
        coverages.add(queue_key, "detail", "v1", counted)
    coverages.add(queue_key, "list", "v1", Coverage(pages=1))

    detail, listed = coverages.by_hour(queue_key)

    twice = Coverage(pages=2, records=4, rejected=2, fields={"a": 4, "b c": 2})
    assert (detail.rule, detail.version, detail.coverage) == ("detail", "v1", twice)
    assert (listed.rule, listed.coverage) == ("list", Coverage(pages=1))
    assert (detail.started_at.minute, detail.started_at.second) == (0, 0)
    assert abs(datetime.now(UTC) - detail.started_at) <= timedelta(hours=1, minutes=5)


def test_hours_that_are_old_go_with_the_next_one_and_all_of_them_with_silence(
    redis_connection, queue_key
):
    coverages, key = RedisCoverages(redis_connection), redis_keys(queue_key).coverage_hours
    now = int(datetime.now(UTC).timestamp()) // 3600
    for hour in (now - HOURS - 3, now - HOURS + 2, now - 1):
        redis_connection.client.hset(key, f"{hour} r v", "1 2 3 0\n=a 3\n")

    coverages.add(queue_key, "r", "v", Coverage(pages=1, records=1))

    kept = [int(each.started_at.timestamp()) // 3600 for each in coverages.by_hour(queue_key)]
    assert kept == [now - HOURS + 2, now - 1, now]
    assert 0 < redis_connection.client.pttl(key) <= (HOURS + 1) * 3_600_000


def test_more_versions_than_are_kept_of_the_hours_leave_the_whole_as_it_is(
    redis_connection, queue_key
):
    coverages, key = RedisCoverages(redis_connection), redis_keys(queue_key).coverage_hours
    now = int(datetime.now(UTC).timestamp()) // 3600
    full = {f"{now} r{number} v": "1 1 1 0\n" for number in range(MOST_OF_HOURS)}
    redis_connection.client.hset(key, mapping=full)

    coverages.add(queue_key, "new", "v", Coverage(pages=1))

    assert redis_connection.client.hlen(key) == MOST_OF_HOURS
    assert coverages.of(queue_key) == {("new", "v"): Coverage(pages=1)}
