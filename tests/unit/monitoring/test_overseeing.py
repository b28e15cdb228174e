"""Workers by tenant, and what a tenant is shown of hosts that it shares with others."""

from tests.kit.fleet import WorkerHeartbeats, WorkerStatus
from tests.kit.monitoring import at_work


def heartbeats_of(worker, *hosts):
    return WorkerHeartbeats(
        worker=worker, silent_ms=3, worker_status=WorkerStatus(done=5, hosts=hosts)
    )


def test_each_tenant_has_the_workers_that_are_at_its_hosts_and_nothing_of_others():
    shared = heartbeats_of(
        "w1", ("a.example", "acme"), ("b.example", "bolt"), ("c.example", "acme")
    )
    idle = heartbeats_of("w2")
    other = heartbeats_of("w3", ("a.example", "bolt"))

    found = at_work([shared, idle, other])

    assert {
        tenant: [(beats.worker, beats.worker_status.hosts) for beats in heartbeats]
        for tenant, heartbeats in found.items()
    } == {
        "acme": [("w1", (("a.example", "acme"), ("c.example", "acme")))],
        "bolt": [("w1", (("b.example", "bolt"),)), ("w3", (("a.example", "bolt"),))],
    }
    assert found["acme"][0].silent_ms == 3
