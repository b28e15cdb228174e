"""The alarms that may ring at the end of the journey: those that it provokes itself.

LocalStack judges an alarm when it is made, and anew each time that its periods are over. So what
the journey made ring may ring still; and an alarm that takes silence for a fault rings from the
moment in which it was made, when nothing could have spoken yet, until it is judged anew, which may
take longer than the journey does. That is told from a silence that came later by when it began.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from crawlfleet.monitoring.incidents.kinds import Kind
from infra import alarm_names
from infra.steps import StepError

#: The disk that is taken to be full, the backlog that waits while no worker may run, the ticks that
#: do not come meanwhile, and work without a worker: a look may fall between what an idle fleet is
#: given and its first worker, and where other looks are missing LocalStack lets an alarm of two
#: periods ring by one.
PROVOKED: Final = frozenset(
    {
        alarm_names.finding(Kind.STORAGE),
        alarm_names.finding(Kind.BACKLOG),
        alarm_names.finding(Kind.NO_WORKERS),
        alarm_names.SCHEDULER_SILENT,
    }
)
#: Those that take silence for a fault, and that the journey lets nobody silence.
BORN_RINGING: Final = frozenset({alarm_names.MONITOR_SILENT})
#: An alarm is judged within this of being made; those for silence not again for three minutes.
_FIRST_JUDGED: Final = timedelta(minutes=2)


def verdict(alarms: Mapping[str, Mapping[str, Any]]) -> str:
    """Judge the alarms, by the last words of their names.

    Raises:
        StepError: one rings that nothing of the journey makes ring.
    """
    ringing = {name: one for name, one in alarms.items() if one["StateValue"] == "ALARM"}
    for name, one in sorted(ringing.items()):
        if not _is_expected(name, one):
            raise StepError(
                f"the alarm {name} rings, which the journey does not provoke:"
                f" {one.get('StateReason', '')}",
                str(one.get("AlarmDescription", "")),
            )
    return f"{len(alarms)}, ringing are {', '.join(sorted(ringing)) or 'none'}, as they should"


def _is_expected(name: str, alarm: Mapping[str, Any]) -> bool:
    if name in PROVOKED:
        return True
    began = alarm.get("StateTransitionedTimestamp") or alarm["StateUpdatedTimestamp"]
    made = alarm["AlarmConfigurationUpdatedTimestamp"]
    return name in BORN_RINGING and began - made <= _FIRST_JUDGED
