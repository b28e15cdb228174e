"""An incident where all proxies of a pool are left out (SPEC.md C9)."""

from msgspec.structs import replace

from tests.kit.config import ProxyPool
from tests.kit.fetching import ProxyPoolState, ProxyState
from tests.kit.incidents import Kind, evaluate, key_of
from tests.kit.worlds.incidents import START
from tests.kit.worlds.samples import a_sample, a_tree, kinds, the


def a_pool(size: int | None, *faults: str) -> ProxyPoolState:
    proxies = tuple(
        ProxyState(place=f"http://10.0.0.{number}:1", until=START, cool_downs=1, fault=fault)
        for number, fault in enumerate(faults)
    )
    return ProxyPoolState(name="eu", size=size, away=len(faults), proxies=proxies)


def judged(pools):
    tree = a_tree()
    stage = replace(tree.stage, proxies={"eu": ProxyPool(secret="s")})
    return evaluate(a_sample(proxies=pools), None, replace(tree, stage=stage))


def test_a_pool_whose_proxies_are_all_left_out_is_a_finding_that_names_their_faults():
    finding = the(judged((a_pool(3, "silent", "credentials", "silent"),)), Kind.PROXIES_AWAY)

    assert str(finding.place) == "proxies eu"
    assert finding.said == "all 3 proxies are left out: silent (2), credentials (1)"
    assert finding.value == 3


def test_while_one_proxy_is_left_there_is_no_finding_and_it_is_known_that_there_is_none():
    found = judged((a_pool(3, "silent", "silent"),))

    assert Kind.PROXIES_AWAY not in kinds(found)
    assert key_of(Kind.PROXIES_AWAY, the_place()) not in found.unknown


def test_of_a_pool_that_could_not_be_read_or_that_nobody_uses_nothing_is_known():
    for pools in (None, (), (a_pool(None),)):
        found = judged(pools)

        assert Kind.PROXIES_AWAY not in kinds(found)
        assert key_of(Kind.PROXIES_AWAY, the_place()) in found.unknown


def the_place():
    return the(judged((a_pool(1, "silent"),)), Kind.PROXIES_AWAY).place
