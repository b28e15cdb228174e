"""Each kind of harm by itself, so that a failure names its cause."""

from pathlib import Path

import pytest

from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.runs import Plan, Servers, run, servers
from benchmarks.chaos.stored import StoredRequests
from tests.turns import taken, turn

#: How many kinds each `make test` has; `make proofs` has all.
BY_TURN = 3
REQUESTS = 1_500
HARMS = 3
#: What is left of a consumer's work is in other hands after seconds, whatever it died of. Counted
#: from the last harm on: how long servers take to be killed and to come back is not the product's.
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def used():
    with servers() as found:
        yield found


@pytest.mark.early
@pytest.mark.parametrize("kind", taken(list(Kind), BY_TURN, turn()), ids=str)
def test_no_harm_whose_turn_it_is_loses_doubles_or_wastes_anything(
    used: Servers, kind: Kind, seed: int, log: Path
):
    do_harm(used, kind, seed, log)


@pytest.mark.long(part="kinds")
@pytest.mark.parametrize("kind", list(Kind), ids=str)
def test_no_harm_by_itself_loses_doubles_or_wastes_anything(
    used: Servers, kind: Kind, seed: int, log: Path
):
    do_harm(used, kind, seed, log)


def do_harm(used: Servers, kind: Kind, seed: int, log: Path) -> None:
    plan = Plan(
        requests=REQUESTS,
        harms=HARMS,
        seed=seed,
        kinds=(kind,),
        # One freeze is past the lease. Otherwise no lease ends but of the dead: a machine that
        # stands still for some seconds is none of the harm that is done here.
        lease_seconds=12.0 if kind is Kind.FREEZE else 30.0,
        freezes=(7.0, 14.0),
        # Long enough that harm meets work: each consumer has requests in its hands.
        pause_seconds=0.15,
        # Whoever is to die at a step finds work at once: there is more than the others get done.
        window=REQUESTS if kind.step else None,
        concurrency=4 if kind.step else 32,
    )

    report = run(plan, used, log=log)

    assert not report.problems, report.reported()
    assert report.done == REQUESTS
    assert report.harms == {kind: HARMS}
    assert report.recovered_seconds < PATIENCE_SECONDS, report
    if kind.step is not None:
        assert report.died_at.get(kind, 0) >= 1, f"nobody got as far as this step: {report}"


def spoil(stored: StoredRequests) -> None:
    """Lose a request with its records, and store the records of another one twice."""
    lost, doubled = list(stored.requests())[:2]
    for requests, records in stored.shards:
        requests.delete_one({"_id": lost["_id"]})
        records.delete_many({"_id.r": lost["_id"]})
        for record in list(records.find({"_id.r": doubled["_id"]})):
            records.insert_one({**record, "_id": {"r": 1, "i": record["_id"]["i"]}})


def test_the_audit_finds_what_is_lost_and_what_is_doubled(used: Servers, capfd):
    plan = Plan(requests=200, harms=1, seed=1, kinds=(Kind.TWO_TICKS,))

    report = run(plan, used, before_audit=spoil)

    assert report.lost == 1
    assert report.stored_twice >= 1
    found = [problem.partition(":")[0] for problem in report.problems]
    assert found == ["lost", "records missing", "records too many"]
    assert report.ticks["ticks"] > 0
    assert "_aws" not in capfd.readouterr().out, "metrics are between what a run tells"
