"""Read the embedded metric format as CloudWatch does, and LocalStack does not.

On AWS a line of a function's log that carries ``_aws`` becomes metrics by itself. LocalStack keeps
the line and makes nothing of it, so no alarm on such a metric would ever ring there. This reads the
lines as CloudWatch would, and puts in what they say.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

from infra.aws_access import Access

#: CloudWatch takes so many in one call.
_CALL: Final = 1_000
_PAUSE_SECONDS: Final = 1.0
#: A line is in the log this much later than it says, at most.
_LATE_MS: Final = 30_000


def metric_data(line: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The namespace and the datum of each metric and set of dimensions in a line.

    >>> line = (
    ...     '{"_aws": {"Timestamp": 1000, "CloudWatchMetrics": [{"Namespace": "N", '
    ...     '"Dimensions": [["stage"]], "Metrics": [{"Name": "Looks", "Unit": "Count"}]}]}, '
    ...     '"stage": "a", "Looks": [1.0]}'
    ... )
    >>> [(space, one["MetricName"], one["Values"]) for space, one in metric_data(line)]
    [('N', 'Looks', [1.0])]
    >>> list(metric_data("no JSON")), list(metric_data('{"message": "other"}'))
    ([], [])
    """
    try:
        document = json.loads(line)
        reported = document["_aws"]
    except (ValueError, KeyError, TypeError):
        return
    at = datetime.fromtimestamp(reported["Timestamp"] / 1000, UTC)
    for directive in reported["CloudWatchMetrics"]:
        for dimensions in directive["Dimensions"]:
            for metric in directive["Metrics"]:
                value = document[metric["Name"]]
                yield (
                    directive["Namespace"],
                    {
                        "MetricName": metric["Name"],
                        "Dimensions": [
                            {"Name": name, "Value": document[name]} for name in dimensions
                        ],
                        "Timestamp": at,
                        "Values": [
                            float(one) for one in (value if isinstance(value, list) else [value])
                        ],
                        "Unit": metric.get("Unit", "None"),
                        "StorageResolution": metric.get("StorageResolution", 60),
                    },
                )


class EmbeddedMetrics:
    """Reads the logs of some functions as long as the block lasts.

    Args:
        access: LocalStack.
        groups: Their log groups.
    """

    def __init__(self, access: Access, groups: Sequence[str]) -> None:
        self._access = access
        self._groups = groups
        self._seen: set[str] = set()
        self._since_ms = int(time.time() * 1000)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="embedded metrics", daemon=True)
        self.values = 0
        self.problem = ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(30)

    def _work(self) -> None:
        while not self._ended.wait(_PAUSE_SECONDS):
            try:
                for group in self._groups:
                    self._read(group)
                self.problem = ""
            except Exception as error:  # noqa: BLE001  it comes back, and whoever waits is told
                self.problem = f"{type(error).__name__}: {error}"

    def _read(self, group: str) -> None:
        events = self._access.all(
            "logs", "filter_log_events", "events", logGroupName=group, startTime=self._since_ms
        )
        found: dict[str, list[dict[str, Any]]] = {}
        fresh = [event for event in events if event["eventId"] not in self._seen]
        for event in fresh:
            for namespace, datum in metric_data(event["message"]):
                found.setdefault(namespace, []).append(datum)
        self._put(found)
        self._seen.update(event["eventId"] for event in fresh)

    def _put(self, found: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        for namespace, data in found.items():
            for start in range(0, len(data), _CALL):
                part = list(data[start : start + _CALL])
                self._access.client("cloudwatch").put_metric_data(
                    Namespace=namespace, MetricData=part
                )
                self.values += len(part)
