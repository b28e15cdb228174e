"""Samples of hosts by tenant, where more are in trouble than a sample has places for."""

from datetime import timedelta

from msgspec.structs import replace

from tests.kit.monitoring import hosts
from tests.kit.politeness import HostReport
from tests.kit.worlds.memory import World
from tests.kit.worlds.monitoring import sampler


def announce(world: World, tenant: str, host: str, **seen: object) -> None:
    world.hosts.report(
        [HostReport(host=host, origin=f"https://{host}", tenant=tenant, running=0, **seen)], "w"
    )


def test_hosts_of_many_tenants_that_refuse_are_all_followed_in_the_end(world):
    tree = replace(world.tree, bizs={f"t{n:02}": {} for n in range(12)})
    names = [f"h{n:02}.t{tenant:02}" for tenant in range(12) for n in range(14)]
    for name in names:
        announce(world, name[4:], name, overloads=5)
    watched: set[str] = set()

    for minute in range(8):
        at = world.now + timedelta(minutes=minute)
        shown = sampler(world).sample(tree, at, watched=sorted(watched)).hosts
        assert {one.met_by for one in shown} == set(tree.bizs)
        assert all(one.host.endswith(one.met_by) for one in shown)
        watched |= {one.host for one in shown}

    assert watched == set(names)


def test_more_tenants_than_there_are_places_come_in_turn(world):
    tree = replace(world.tree, bizs={f"t{n:03}": {} for n in range(hosts.TROUBLED_PLACES + 50)})
    asked: set[str] = set()

    class Asked:
        def troubled(self, tenants, most):
            assert len(tenants) == hosts.TROUBLED_PLACES
            asked.update(tenants)
            return world.hosts.troubled(tenants, most)

    for minute in range(4):
        at = world.now + timedelta(minutes=minute)
        sampler(world, hosts=Asked()).sample(tree, at)

    assert asked == set(tree.bizs)
