"""An event of the scheduler: the minute's tick, or alarms that SNS brings (SPEC.md A12)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

#: What is kept of a name that stands in a log.
_LONGEST: Final = 200
_SOURCE: Final = "aws:sns"


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A CloudWatch alarm's change of state, as far as it is told apart. All of it is for the log.

    What is done is decided by what is seen then, not by what an alarm says: it may come twice, or
    late, and is only the reason for looking at once.
    """

    name: str
    state: str
    at: datetime | None = None


class _Message(msgspec.Struct, frozen=True):
    """What CloudWatch publishes; more fields come with it."""

    AlarmName: str
    NewStateValue: str
    StateChangeTime: str = ""


_decode = msgspec.json.Decoder(_Message).decode


def alarms_in(event: Mapping[str, Any]) -> list[Alarm] | None:
    """The alarms that an event carries; None where it is no message of SNS, but a tick.

    A message that is no alarm's is left out: somebody published by hand.

    >>> alarms_in({"source": "aws.events"}) is None, alarms_in({"Records": []})
    (True, [])
    """
    records = event.get("Records")
    if not isinstance(records, list):
        return None
    found = []
    for record in records:
        if not isinstance(record, Mapping) or record.get("EventSource") != _SOURCE:
            continue
        sns = record.get("Sns")
        message = sns.get("Message") if isinstance(sns, Mapping) else None
        try:
            read = _decode(message if isinstance(message, str) else "")
        except (msgspec.MsgspecError, UnicodeError):
            continue
        found.append(
            Alarm(
                name=read.AlarmName[:_LONGEST],
                state=read.NewStateValue[:_LONGEST],
                at=_time(read.StateChangeTime),
            )
        )
    return found


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
