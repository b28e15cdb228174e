"""An incident where a field of a busy rule falls by a stated share (SPEC.md H8)."""

from datetime import timedelta

from tests.kit.config import BizThresholds, Field, Rule, Spider
from tests.kit.incidents import Evaluation, Kind, evaluate, unseen
from tests.kit.monitoring import BizCoverage
from tests.kit.requests import Coverage, HourCoverage
from tests.kit.worlds.incidents import DOCS, START, an_incident
from tests.kit.worlds.samples import QUEUE_KEY, a_queue_key, a_sample, a_tree, kinds, the

RULE = Rule(fields={"title": Field(css="h1")})


def hours(*titles: int, records: int = 400, rule: str = "page", field: str = "title"):
    counts = [Coverage(records=records, fields={field: count}) for count in titles]
    return tuple(
        HourCoverage(
            started_at=START + number * timedelta(hours=1),
            rule=rule,
            version="v1",
            coverage=counted,
        )
        for number, counted in enumerate(counts)
    )


def judged(*of_hours: HourCoverage, biz: dict | None = None, **thresholds: object) -> Evaluation:
    sample = a_sample(a_queue_key(), coverage=(BizCoverage(QUEUE_KEY, of_hours),))
    return evaluate(sample, None, a_tree({"rules": {"page": RULE}} | (biz or {}), **thresholds))


def test_a_field_of_a_busy_rule_that_falls_is_a_finding_that_says_from_what_to_what():
    finding = the(judged(*hours(400, 396, 40)), Kind.COVERAGE)

    assert (finding.place, round(finding.value, 2), finding.threshold) == (DOCS, 0.9, 0.5)
    assert finding.said == "title of page has a value in 10% of 400 records, 100% before"


def test_the_share_and_the_records_are_the_stages_and_the_share_the_bizs_own():
    fallen = hours(400, 240)

    assert kinds(judged(*fallen)) == set()
    assert kinds(judged(*fallen, coverage_fall=0.3)) == {Kind.COVERAGE}
    own = {"thresholds": BizThresholds(coverage_fall=0.3)}
    assert kinds(judged(*fallen, biz=own)) == {Kind.COVERAGE}
    assert kinds(judged(*hours(400, 40), coverage_records=500)) == set()


def test_fields_of_an_executors_spider_are_judged_as_its_pages_gave_them():
    biz = {"spiders": {"list": Spider(executor="detail")}}
    finding = the(judged(*hours(400, 0, rule="list", field="price"), biz=biz), Kind.COVERAGE)

    assert finding.said.startswith("price of list has a value in 0% of 400 records")


def test_a_field_that_the_rule_has_no_more_is_no_finding():
    evaluation = judged(*hours(400, 0, field="price"))

    assert (kinds(evaluation), evaluation.covered) == (set(), {DOCS})


def test_of_whom_reads_nothing_or_too_little_an_incident_does_not_end():
    fallen = the(judged(*hours(400, 40)), Kind.COVERAGE)
    incident = an_incident(1, kind=fallen.kind, place=fallen.place)

    def hidden(sample, tree):
        return unseen([incident], sample, evaluate(sample, None, tree))

    tree = a_tree({"rules": {"page": RULE}})
    few = (BizCoverage(QUEUE_KEY, hours(40, 4, records=50)),)
    well = (BizCoverage(QUEUE_KEY, hours(400, 400)),)
    assert hidden(a_sample(a_queue_key()), tree) == {incident.key}
    assert hidden(a_sample(a_queue_key(), coverage=few), tree) == {incident.key}
    assert hidden(a_sample(a_queue_key(), coverage=well), tree) == set()
    # With its biz an incident goes.
    assert hidden(a_sample(), tree) == set()


def test_many_fields_are_named_up_to_a_few():
    names = [f"f{number}" for number in range(8)]
    fields = {name: Field(css=name) for name in names}
    before = Coverage(records=400, fields=dict.fromkeys(names, 400))
    of_hours = [
        HourCoverage(started_at=at, rule="page", version="v1", coverage=counted)
        for at, counted in ((START, before), (START + timedelta(hours=1), Coverage(records=400)))
    ]

    finding = the(judged(*of_hours, biz={"rules": {"page": Rule(fields=fields)}}), Kind.COVERAGE)

    assert finding.said.endswith("; and 3 more")


WIDE = Rule(fields={name: Field(css=name) for name in ("a", "b", "c")} | {"url": Field(fact="url")})


def of_wide(*counts: dict[str, int], records: int = 20, version: str = WIDE.version):
    return tuple(
        HourCoverage(
            started_at=START + number * timedelta(hours=1),
            rule="page",
            version=version,
            coverage=Coverage(records=records, fields={"url": records, **fields}),
        )
        for number, fields in enumerate(counts)
    )


def test_a_rule_most_of_whose_fields_have_no_value_is_a_finding_from_its_first_hour_on():
    biz = {"rules": {"page": WIDE}}

    finding = the(judged(*of_wide({"a": 20, "b": 1, "c": 0}), biz=biz), Kind.EMPTY_FIELDS)

    assert finding.said == "b, c of page in next to none of 20 records"
    assert (finding.place, round(finding.value, 2), finding.threshold) == (DOCS, 0.67, 0.5)
    assert kinds(judged(*of_wide({"a": 20, "b": 20, "c": 0}), biz=biz)) == set()
    assert kinds(judged(*of_wide({"a": 9}, {"a": 9}, records=9), biz=biz)) == set()
    assert kinds(judged(*of_wide({"a": 9}, {"a": 9}, records=10), biz=biz)) == {Kind.EMPTY_FIELDS}
    assert kinds(judged(*of_wide({}, version="older"), biz=biz)) == set()


def test_an_incident_of_empty_fields_ends_when_the_mended_rule_has_read_enough():
    incident = an_incident(1, kind=Kind.EMPTY_FIELDS, place=DOCS)
    tree = a_tree({"rules": {"page": WIDE}})
    well = dict.fromkeys("abc", 9)

    def hidden(*of_hours: HourCoverage):
        sample = a_sample(a_queue_key(), coverage=(BizCoverage(QUEUE_KEY, of_hours),))
        return unseen([incident], sample, evaluate(sample, None, tree))

    assert hidden() == {incident.key}
    assert hidden(*of_wide(well, records=9)) == {incident.key}
    assert hidden(*of_wide(well, well, well, records=9)) == set()
