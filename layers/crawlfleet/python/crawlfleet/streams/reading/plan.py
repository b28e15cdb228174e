"""Plan which sources are read, by which filters, and which of them are this worker's.

A channel that filters by itself has a source for each filter that no other one covers; any other is
one source, of which each item is matched against the filters of all. What is planned follows from
the subscriptions and the workers alone, so that all workers plan the same.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from crawlfleet.streams.filters import Filter
from crawlfleet.streams.sources import Source, Subscription, needed, worker_of

#: The digest of a source that is all of its channel.
WHOLE: Final = ""


class Planned(msgspec.Struct, frozen=True):
    """A source that is to be read: the filter that its channel is asked for, and whom it serves."""

    source: Source
    filter_text: str
    filters: Mapping[str, Filter]


def planned(
    subscriptions: Iterable[Subscription], filtering: Mapping[str, bool]
) -> dict[Source, Planned]:
    """Plan the sources of channels; ``filtering`` says of each whether it filters by itself.

    Subscriptions to other channels have no source.
    """
    whole: dict[str, dict[str, Filter]] = {}
    apart: list[Subscription] = []
    for one in subscriptions:
        if one.channel not in filtering:
            continue
        if filtering[one.channel]:
            apart.append(one)
        else:
            whole.setdefault(one.channel, {})[one.id] = one.filter
    found = {
        (source := Source(channel, WHOLE)): Planned(source, "", filters)
        for channel, filters in whole.items()
    }
    served: dict[Source, dict[str, Filter]] = {}
    asked = needed(apart)
    for one in apart:
        served.setdefault(asked.serving[one.id], {})[one.id] = one.filter
    for source, filters in served.items():
        found[source] = Planned(source, asked.filters[source].text, filters)
    return found


def owned(sources: Iterable[Source], worker: str, workers: Iterable[str]) -> frozenset[Source]:
    """Return the sources that are a worker's; none where it does not count as living.

    >>> every = [Source(f"c{n}", "") for n in range(9)]
    >>> parts = [owned(every, worker, ["a", "b"]) for worker in ("a", "b")]
    >>> parts[0] | parts[1] == set(every), parts[0] & parts[1]
    (True, frozenset())
    """
    living = list(workers)
    return frozenset(one for one in sources if worker_of(one, living) == worker)
