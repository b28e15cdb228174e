"""Which known incidents a look could not see: they are neither confirmed nor over (SPEC.md A11).

A look finds hosts by who asks for them, and the nodes of a Redis cluster by asking the cluster. So
what it does not have may be well, or just not have been met: only those who know of an incident can
tell that it was not looked at.
"""

from collections.abc import Iterable

from crawlfleet.model.incident import Incident, Life, Look
from crawlfleet.model.sample import Sample
from crawlfleet.policy.host_findings import KINDS, host_place
from crawlfleet.policy.part_findings import REDIS, part_place


def unseen(known: Iterable[Incident], sample: Sample, look: Look) -> frozenset[str]:
    """Keys of incidents that are not over, as far as the look can tell.

    Args:
        known: The incidents before the look.
        sample: What was seen.
        look: What was made of it.
    """
    hosts = {host_place(host.host) for host in sample.hosts}
    redis = [part for part in sample.parts if part.part == REDIS]
    nodes = {part_place(part) for part in redis}
    # While one does not answer, the others may be missing only because nobody could name them.
    all_named = bool(redis) and all(part.up for part in redis)
    found = {finding.key for finding in look.findings}
    return frozenset(
        each.key
        for each in known
        if each.life is not Life.OVER
        and each.key not in found
        and (
            (each.kind in KINDS and each.place not in hosts)
            or (each.place.part == REDIS and each.place not in nodes and not all_named)
        )
    )


def hosts_to_watch(known: Iterable[Incident]) -> list[str]:
    """Hosts that the next look is to ask for by name, as they have incidents that may end."""
    return sorted(
        {each.place.name for each in known if each.kind in KINDS and each.life is not Life.OVER}
    )
