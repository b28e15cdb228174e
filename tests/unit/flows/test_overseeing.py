"""Who is where, by tenant, and what a tenant is shown of hosts that it shares with others."""

from tests.kit.fleet import Card, Pulse
from tests.kit.monitoring import at_work


def a_pulse(worker, *hosts):
    return Pulse(worker=worker, silent_ms=3, card=Card(done=5, hosts=hosts))


def test_each_tenant_has_the_workers_that_are_at_its_hosts_and_nothing_of_others():
    shared = a_pulse("w1", ("a.example", "acme"), ("b.example", "bolt"), ("c.example", "acme"))
    idle = a_pulse("w2")
    other = a_pulse("w3", ("a.example", "bolt"))

    found = at_work([shared, idle, other])

    assert {
        tenant: [(pulse.worker, pulse.card.hosts) for pulse in pulses]
        for tenant, pulses in found.items()
    } == {
        "acme": [("w1", (("a.example", "acme"), ("c.example", "acme")))],
        "bolt": [("w1", (("b.example", "bolt"),)), ("w3", (("a.example", "bolt"),))],
    }
    assert found["acme"][0].silent_ms == 3
