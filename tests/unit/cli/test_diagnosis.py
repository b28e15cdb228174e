"""Every sentence that `crawlfleet doctor` can say, and how bad each is."""

import ast
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.kit.cli import (
    EXITS,
    NAMES,
    Exit,
    Level,
    Reach,
    Saying,
    diagnosis,
    fleet_diagnosis,
    tenant_diagnosis,
    worst,
)
from tests.kit.kernel import PRODUCT, Problem
from tests.kit.sdk import (
    BizState,
    FieldCoverage,
    Fleet,
    FleetTotals,
    Headcount,
    Health,
    HostState,
    Incident,
    KeyLeftover,
    Ledger,
    Outcome,
    PartState,
    ProxyHealth,
    ProxyPoolHealth,
    Queue,
    RuleCoverage,
    Running,
    Schedule,
    Stats,
    TenantSummary,
    Tick,
    Unread,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "https://api.example/prod"
REACH = Reach(api_url=URL, status=200, seconds=0.2, skew_seconds=0.0, certificate_days=90.0)
MADE = datetime(2026, 3, 1, tzinfo=UTC)
RUNNING = Running(
    at=AT,
    version="1.0",
    stage="prod",
    revision="r1",
    config_digest="aa",
    workers=Headcount(alive=2),
)
FLEET = Fleet(at=AT, workers=Headcount(alive=1))


def reach(**changes):
    return msgspec.structs.replace(REACH, **changes)


def running(**changes):
    return msgspec.structs.replace(RUNNING, **changes)


def fleet(**changes):
    return msgspec.structs.replace(FLEET, **changes)


def health(**parts):
    return Health(status="down", parts={"config": "ok", "redis": "ok", **parts})


def part(name: str, problem: str) -> PartState:
    return PartState(part="mongodb", name=name, problem=problem)


BIZ = BizState(tenant="acme", biz="docs")
AWAY = ProxyHealth(place="http://10.0.0.1:3128", away=True, fault="credentials")


def incident(**changes) -> Incident:
    place = {} if "part" in changes else {"tenant": "acme", "biz": "docs"}
    facts = {"id": "i", "kind": "storage", "severity": "warning", "state": "open", "do": "Do it."}
    words = {"title": "the disk fills", "said": "9 bytes are stored, more than 5"}
    return Incident(**facts | words | place | changes, since=AT, found_at=AT)


D, F, T = diagnosis, fleet_diagnosis, tenant_diagnosis


#: What it sees, and the sentences that come of it: how bad, and some words of each.
def read_by(rule: str, *, current: bool = True, mostly_empty: bool = False) -> RuleCoverage:
    return RuleCoverage(
        rule=rule,
        version="a" * 12,
        current=current,
        records=9,
        fields=(FieldCoverage(name="price", count=1, share=0.1111),),
        empty=("price",),
        mostly_empty=mostly_empty,
    )


def fired(outcome: str | None, late: float = 0, **more: str) -> Schedule:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    found = at + timedelta(seconds=late)
    last = outcome and Outcome(outcome=outcome, fire_at=at, at=found, why="no such rule")
    of = {"name": "nightly", "cron": "0 3 * * *", "rule": "page", **more}
    return Schedule(**of, last_outcome=last or None)


def last_failed(schedule: Schedule) -> Schedule:
    return msgspec.structs.replace(schedule, last_failure=schedule.last_outcome)


CASES = {
    # ---- where it is, and whether it answers
    "no address": (
        lambda: D.of_settings([Problem("api_url", "is missing"), Problem("api_key", "is bad")]),
        [(Level.YOURS, "api_url: is missing"), (Level.YOURS, "api_key: is bad")],
    ),
    "https": (lambda: D.of_address(REACH), [(Level.FINE, URL)]),
    "local http": (
        lambda: D.of_address(reach(api_url="http://127.0.0.1:1", is_local=True)),
        [(Level.FINE, "http://127.0.0.1:1")],
    ),
    "plain http": (
        lambda: D.of_address(reach(api_url="http://api.example")),
        [(Level.LOOK, "the key travels in plain text")],
    ),
    "answers": (lambda: D.of_reach(REACH), [(Level.FINE, "answers in 0.20 s")]),
    "slow": (lambda: D.of_reach(reach(seconds=7)), [(Level.LOOK, "took 7.0 s")]),
    "nobody": (
        lambda: D.of_reach(reach(failure="connection refused")),
        [(Level.BROKEN, f"{URL}: connection refused")],
    ),
    "untrusted": (
        lambda: D.of_reach(reach(failure="no trusted TLS connection", untrusted=True)),
        [(Level.YOURS, "is not trusted")],
    ),
    "something else": (
        lambda: D.of_reach(reach(status=404, is_ours=False)),
        [(Level.YOURS, "answers with 404, but not as a Crawlfleet API")],
    ),
    # ---- certificate, clock
    "no certificate": (lambda: D.of_certificate(reach(certificate_days=None)), []),
    "certificate": (lambda: D.of_certificate(REACH), [(Level.FINE, "lasts for 90 days")]),
    "old certificate": (
        lambda: D.of_certificate(reach(certificate_days=3.4)),
        [(Level.LOOK, "ends in 3 days")],
    ),
    "no clock": (lambda: D.of_clock(reach(skew_seconds=None)), []),
    "same clock": (lambda: D.of_clock(reach(skew_seconds=-4)), [(Level.FINE, "clocks agree")]),
    "slow clock": (
        lambda: D.of_clock(reach(skew_seconds=60)),
        [(Level.NOTE, "this machine's clock is 60 s behind the platform's")],
    ),
    "fast clock": (
        lambda: D.of_clock(reach(skew_seconds=-600)),
        [(Level.YOURS, "600 s ahead of the platform's")],
    ),
    # ---- parts, what runs
    "well": (lambda: D.of_health(health()), [(Level.FINE, "2 parts are well")]),
    "no configuration": (
        lambda: D.of_health(Health(status="down", parts={"config": "cannot be read"})),
        [(Level.BROKEN, "no configuration that could be read")],
    ),
    "no redis": (
        lambda: D.of_health(health(redis="does not answer")),
        [(Level.LOOK, "redis does not answer")],
    ),
    "no node": (
        lambda: D.of_health(health(**{"mongodb:main": "is not set up"})),
        [(Level.BROKEN, "mongodb:main is not set up")],
    ),
    "runs": (
        lambda: D.of_running(RUNNING, "1.0"),
        [(Level.FINE, "version 1.0, stage prod, configuration r1")],
    ),
    "another version": (
        lambda: D.of_running(RUNNING, "1.1"),
        [(Level.FINE, "version 1.0"), (Level.NOTE, "this program is version 1.1")],
    ),
    "refused": (
        lambda: D.of_running(running(config_refused=True), "1.0"),
        [(Level.FINE, "version"), (Level.LOOK, "a newer configuration is refused")],
    ),
    "workers unknown": (
        lambda: D.of_running(running(workers=None), "1.0"),
        [(Level.FINE, "version"), (Level.LOOK, "nobody can say which workers live")],
    ),
    "nothing is known": (
        lambda: D.of_running(running(workers=None, revision="", config_refused=True), "1.0"),
        [(Level.FINE, "configuration none")],
    ),
    # ---- key
    "wrong key": (
        lambda: D.of_key(URL, accepted=False, operator=False),
        [(Level.YOURS, "does not take the key")],
    ),
    "operator": (
        lambda: D.of_key(URL, accepted=True, operator=True),
        [(Level.FINE, "accepted, of an operator")],
    ),
    "no operator": (
        lambda: D.of_key(URL, accepted=True, operator=False),
        [(Level.NOTE, "its tenant is no operator")],
    ),
    "a call failed": (
        lambda: D.of_failed("fleet", "no whole answer in time"),
        [(Level.LOOK, "could not be examined: no whole answer in time")],
    ),
    # ---- folder
    "mistakes": (
        lambda: D.of_folder([Problem("stage", "is missing")] * 2, "", RUNNING, "1.0"),
        [(Level.YOURS, "2 mistakes, the first: stage: is missing")],
    ),
    "one mistake": (
        lambda: D.of_folder([Problem("stage", "is missing")], "", RUNNING, "1.0"),
        [(Level.YOURS, "1 mistake, the first: stage: is missing")],
    ),
    "nothing to compare with": (
        lambda: D.of_folder([], "aa", running(config_digest=""), "1.0"),
        [(Level.NOTE, "nothing is known to be in force")],
    ),
    "same folder": (
        lambda: D.of_folder([], "aa", RUNNING, "1.1"),
        [(Level.FINE, "is what is in force")],
    ),
    "other version's folder": (
        lambda: D.of_folder([], "bb", RUNNING, "1.1"),
        [(Level.NOTE, "cannot be compared")],
    ),
    "other folder": (
        lambda: D.of_folder([], "bb", RUNNING, "1.0"),
        [(Level.LOOK, "differs from what is in force")],
    ),
    # ---- workers, work
    "alive": (lambda: F.of_workers(Headcount(alive=1)), [(Level.FINE, "1 worker is alive")]),
    "several": (lambda: F.of_workers(Headcount(alive=3)), [(Level.FINE, "3 workers are alive")]),
    "dead": (
        lambda: F.of_workers(Headcount(alive=1, dead=2)),
        [(Level.LOOK, "2 workers are dead and not reaped")],
    ),
    "doubtful": (
        lambda: F.of_workers(Headcount(suspected=1, unwatched=1)),
        [(Level.NOTE, "2 workers have been silent for long")],
    ),
    "a tick": (
        lambda: F.of_tick(Tick(seconds_ago=42.0, took_seconds=1.0)),
        [(Level.FINE, "its last tick ended 42 s ago")],
    ),
    "no tick": (
        lambda: F.of_tick(Tick()),
        [(Level.BROKEN, "no tick of it is known")],
    ),
    "a silent scheduler": (
        lambda: F.of_tick(Tick(seconds_ago=600.0, faults={"seeds": 1})),
        [(Level.BROKEN, "its last tick ended 10 min ago")],
    ),
    "a tick that half fails": (
        lambda: F.of_tick(Tick(seconds_ago=42.0, faults={"schedules": 3, "scaling": 1})),
        [(Level.LOOK, "of its last tick, 42 s ago, failed: schedules (3), scaling (1)")],
    ),
    "at work": (
        lambda: F.of_backlog(1_000, Headcount(present=1), " in docs"),
        [(Level.FINE, "1,000 requests waiting in docs, workers are at them")],
    ),
    "nobody works": (
        lambda: F.of_backlog(1, Headcount(dead=1)),
        [(Level.BROKEN, "1 request waiting, and no worker lives")],
    ),
    "no work": (lambda: F.of_backlog(0, Headcount()), []),
    "who knows": (lambda: F.of_backlog(5, None), []),
    # ---- the fleet
    "a fleet that is well": (lambda: F.of_fleet(FLEET), []),
    "a sick part": (
        lambda: F.of_fleet(
            fleet(parts=(part("main", "down"), PartState(part="redis", name="redis", problem="x")))
        ),
        [(Level.LOOK, "mongodb main: down"), (Level.LOOK, "redis: x")],
    ),
    "a late biz": (
        lambda: F.of_fleet(
            fleet(totals=FleetTotals(late=1), bizs=(msgspec.structs.replace(BIZ, late=True), BIZ))
        ),
        [(Level.LOOK, "1 biz is late: acme/docs")],
    ),
    "late bizs": (
        lambda: F.of_fleet(
            fleet(totals=FleetTotals(late=9), bizs=(msgspec.structs.replace(BIZ, late=True),) * 9)
        ),
        [(Level.LOOK, "9 bizs are late: acme/docs, acme/docs")],
    ),
    "dead letters": (
        lambda: F.of_fleet(fleet(bizs=(msgspec.structs.replace(BIZ, dead=1_200), BIZ))),
        [(Level.NOTE, "1,200 requests were given up on: acme/docs 1,200")],
    ),
    "throttled hosts": (
        lambda: F.of_fleet(fleet(hosts=(HostState(host="a.example", throttled=True),))),
        [(Level.NOTE, "1 host asks for fewer requests: a.example")],
    ),
    "a pool of proxies that works": (
        lambda: F.of_fleet(fleet(proxies=(ProxyPoolHealth(name="eu", size=3),))),
        [],
    ),
    "a proxy that is left out": (
        lambda: F.of_fleet(
            fleet(proxies=(ProxyPoolHealth(name="eu", size=3, away=1, proxies=(AWAY,)),))
        ),
        [(Level.NOTE, "1 of 3 of eu is left out: credentials")],
    ),
    "no proxy that works": (
        lambda: F.of_fleet(
            fleet(proxies=(ProxyPoolHealth(name="eu", size=1, away=1, proxies=(AWAY,)),))
        ),
        [(Level.BROKEN, "none of the 1 proxies of eu works: credentials")],
    ),
    "proxies that could not be read": (lambda: F.of_fleet(fleet(proxies=None)), []),
    "strays": (
        lambda: F.of_fleet(fleet(stray_items=2, stray_requests=3)),
        [(Level.LOOK, "5 items and requests wait for bizs that there are not")],
    ),
    "unread": (
        lambda: F.of_fleet(fleet(unread=(Unread(what="queues", why="no answer"),))),
        [(Level.LOOK, "could not be looked at: queues (no answer)")],
    ),
    "figures that nobody may read": (
        lambda: F.of_fleet(
            fleet(unread=(Unread(what="figures of mongodb main: LagSeconds", why="no right"),))
        ),
        [(Level.LOOK, "could not be looked at: figures of mongodb main: LagSeconds (no right)")],
    ),
    "nothing open": (
        lambda: F.of_incidents([], operator=True, more=False),
        [(Level.FINE, "none is open")],
    ),
    "nothing open of a tenant": (
        lambda: F.of_incidents([], operator=False, more=False),
        [(Level.FINE, "none is open of its bizs")],
    ),
    "incidents": (
        lambda: F.of_incidents(
            [incident(), incident(severity="critical", part="mongodb", name="main")],
            operator=True,
            more=False,
        ),
        [
            (Level.LOOK, "critical: mongodb main: the disk fills, since 2026-03-01 12:00:00Z: 9"),
            (Level.LOOK, "warning: biz acme/docs: the disk fills"),
        ],
    ),
    "many incidents": (
        lambda: F.of_incidents([incident()] * 8, operator=True, more=True),
        [(Level.LOOK, "warning: biz acme/docs")] * 5 + [(Level.LOOK, "3 more are open, at least")],
    ),
    "a fleet that stands still": (
        lambda: F.of_fleet(fleet(totals=FleetTotals(queued=7), workers=Headcount())),
        [(Level.BROKEN, "7 requests waiting, and no worker lives")],
    ),
    "keys that calls which died have left": (
        lambda: T.of_leftover_keys(
            [KeyLeftover(tenant="acme", key=one, made_at=MADE) for one in ("a", "b")]
        ),
        [(Level.LOOK, "2 keys were made for acme by a call that died")],
    ),
    "tenants that are well": (
        lambda: T.of_tenants(
            [
                TenantSummary(name="default"),
                TenantSummary(name="acme", keys=1, ready=5),
                TenantSummary(name="idle", keys=1, suspended=True),
                TenantSummary(name="old", keys=2, key_ends_at=AT + timedelta(days=2)),
            ],
            AT,
        ),
        [],
    ),
    "a suspended tenant with work": (
        lambda: T.of_tenants([TenantSummary(name="acme", keys=1, suspended=True, ready=2)], AT),
        [(Level.NOTE, "acme is suspended, and 2 requests of it cannot go on")],
    ),
    "a tenant without a key": (
        lambda: T.of_tenants([TenantSummary(name="acme")], AT),
        [(Level.NOTE, "acme has no key")],
    ),
    "a key that ends soon": (
        lambda: T.of_tenants(
            [TenantSummary(name="acme", keys=2, key_ends_at=AT + timedelta(hours=3))], AT
        ),
        [(Level.NOTE, "a key of acme that was replaced ends at")],
    ),
    "a removal under way": (
        lambda: T.of_tenants(
            [TenantSummary(name="acme", removing_since=AT - timedelta(minutes=3))], AT
        ),
        [(Level.NOTE, "acme is being removed since")],
    ),
    "a removal that was cut off": (
        lambda: T.of_tenants(
            [TenantSummary(name="acme", removing_since=AT - timedelta(hours=3))], AT
        ),
        [(Level.LOOK, "acme is half removed")],
    ),
    # ---- a biz
    "a biz that is well": (
        lambda: F.of_biz("docs", Stats(states={"pending": 3}, queue=Queue()), None),
        [(Level.FINE, "3 requests are open")],
    ),
    "a biz with dead letters": (
        lambda: F.of_biz("docs", Stats(states={"dead": 1}), timedelta(minutes=1)),
        [(Level.NOTE, "1 request was given up on")],
    ),
    "a biz that waits": (
        lambda: F.of_biz("docs", Stats(states={}), timedelta(hours=3)),
        [(Level.LOOK, "the oldest request has waited for 3.0 hours")],
    ),
    "balanced": (
        lambda: F.of_ledger("docs", Ledger(submitted=1, done=1)),
        [(Level.FINE, "the ledger balances")],
    ),
    "lost": (
        lambda: F.of_ledger("docs", Ledger(submitted=9, difference=2, balanced=False)),
        [(Level.BROKEN, "2 requests in no state")],
    ),
    "made up": (
        lambda: F.of_ledger("docs", Ledger(submitted=9, difference=-1, balanced=False)),
        [(Level.BROKEN, "1 request never submitted")],
    ),
    "mostly empty": (
        lambda: F.of_coverage("docs", [read_by("page", mostly_empty=True)]),
        [(Level.LOOK, "rule page: most fields have no value; of 9 records have one: price 1")],
    ),
    "a field is empty": (
        lambda: F.of_coverage("docs", [read_by("page"), read_by("old", current=False)]),
        [(Level.NOTE, "rule page: of 9 records have one: price 1")],
    ),
    "a fire failed": (
        lambda: F.of_schedules("docs", [fired("failed"), fired("started"), fired(None)]),
        [(Level.LOOK, "schedule nightly, of rule page, could not start its job: no such rule")],
    ),
    "a fire waits": (
        lambda: F.of_schedules(
            "docs",
            [
                fired("waiting", 299),
                fired("waiting", 300),
                fired("waiting", 900, overlap="queue"),
            ],
        ),
        [(Level.LOOK, "schedule nightly, of rule page, could not start its job: no such rule")],
    ),
    "a fire was left out": (
        lambda: F.of_schedules(
            "docs",
            [
                fired("skipped"),
                fired("skipped", overlap="skip"),
                fired("skipped", missed="skip"),
            ],
        ),
        [(Level.LOOK, "schedule nightly, of rule page, could not start its job: no such rule")],
    ),
    "a fire could not start in time": (
        lambda: F.of_schedules("docs", [last_failed(fired("skipped", missed="skip"))]),
        [(Level.LOOK, "schedule nightly, of rule page, could not start its job: no such rule")],
    ),
    "rules can be tried": (
        lambda: F.of_trial("docs"),
        [(Level.FINE, "rules can be tried")],
    ),
    "rules cannot be tried": (
        lambda: F.of_trial("docs", "the function does not answer"),
        [(Level.LOOK, "rules cannot be tried: the function does not answer")],
    ),
    "no such biz": (lambda: F.of_no_biz("shop"), [(Level.YOURS, "no such biz")]),
}


@pytest.mark.parametrize("case", CASES)
def test_each_sentence_is_said_when_it_is_true(case):
    look, expected = CASES[case]

    found = list(look())

    assert [saying.level for saying in found] == [level for level, _ in expected]
    for saying, (_, words) in zip(found, expected, strict=True):
        assert words in saying.said


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_comes_with_what_to_do(case):
    for saying in CASES[case][0]():
        reported_already = saying.check == "address" and saying.level is Level.YOURS
        nothing_to_do = saying.check == "folder" and saying.level is Level.NOTE
        if saying.level > Level.FINE and not reported_already and not nothing_to_do:
            assert saying.do, saying
        assert len(saying.do) < 250


def test_no_sentence_is_left_untried(monkeypatch):
    """A case above reaches each place in the source that makes a sentence of the diagnosis."""

    def recorded(level, check, *words):
        frame = sys._getframe(1)
        lines.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        return Saying(check, level, *words)

    lines: set[tuple[str, int]] = set()
    saying = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(PRODUCT) and vars(module).get("Saying") is Saying
    ]
    monkeypatch.setattr(Level, "saying", recorded)
    for look, _ in CASES.values():
        list(look())

    said = set()
    for module in saying:
        file = Path(module.__file__)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "saying":
                said.add((file.name, node.lineno, node.end_lineno))
    untried = [
        (name, first)
        for name, first, last in said
        if not any(file == name and first <= line <= last for file, line in lines)
    ]
    assert len(said) > 30
    assert untried == []


def test_the_worst_decides_the_exit_code():
    fine = Saying("a", Level.FINE, "x")

    assert EXITS[worst([])] == EXITS[worst([fine])] == Exit.FINE
    assert EXITS[worst([fine, Saying("a", Level.NOTE, "x", "y")])] == Exit.FINE
    levels = [Level.LOOK, Level.YOURS, Level.BROKEN]
    assert [EXITS[level] for level in levels] == [1, 2, 3]
    assert worst([Saying("a", level, "x") for level in levels]) is Level.BROKEN
    assert set(NAMES) == set(EXITS) == set(Level)


def test_what_to_do_about_dead_letters_names_the_biz_that_has_most():
    bizs = (msgspec.structs.replace(BIZ, biz="few", dead=1), msgspec.structs.replace(BIZ, dead=9))

    [said] = [one for one in F.of_fleet(fleet(bizs=bizs)) if one.level is Level.NOTE]

    assert "`crawlfleet dead list docs` says why" in said.do
    assert "BIZ" not in said.do
