"""Notifications of incidents (SPEC.md A11): which messages go out when, and their texts.

People get a message for each incident while those are few. More than ``singly`` at once, or than
``messages_an_hour`` in an hour, become one message that sums them up, at most one every
``digest_seconds``; until then what is owed waits. So however much goes wrong, people get at most
``messages_an_hour`` and ``3600 / digest_seconds`` messages in an hour, and nothing is left out.
Phones have the same measure, by themselves: only what is critical counts there. Machines get
everything after the next evaluation, each tenant's by itself, so that a subscription may be
filtered to one tenant.

An e-mail's subject is ASCII, one line and shorter than 100 characters, as SNS wants it; an SMS is
one of 140 characters at most, as longer ones are cut into several. Texts of others (errors) have
been cleaned before, by who quotes them; here everything is made one line and bounded.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from crawlfleet.config.documents.stage import AlarmLimits
from crawlfleet.kernel.advice import filled
from crawlfleet.kernel.redaction import one_line
from crawlfleet.kernel.time import span
from crawlfleet.monitoring.incidents import models
from crawlfleet.monitoring.incidents.kinds import ADVICE, Severity
from crawlfleet.monitoring.incidents.lifecycle import pause
from crawlfleet.monitoring.incidents.models import Incident, Listener, Word

_HOUR: Final = timedelta(hours=1)
#: Incidents in one message for machines, of about 1 KB each; longer ones are halved (wording).
CHUNK: Final = 100
#: SNS: "less than 100 characters".
SUBJECT_CHARACTERS: Final = 99
SHORT_CHARACTERS: Final = 140
#: Incidents that a message which sums up has a line for.
NAMED: Final = 20
#: Of a message to machines. SNS takes 256 KB with the attributes, and counts bytes.
DOCUMENT_BYTES: Final = 200_000
_LINE_CHARACTERS: Final = 200
_SAID_CHARACTERS: Final = 500
TEXT_CHARACTERS: Final = 8_000
_SHOWN: Final = {Severity.CRITICAL: "CRITICAL", Severity.WARNING: "warning"}
_COUNTED: Final = {Word.OPENED: "new", Word.REMINDER: "still open", Word.RECOVERED: "over"}
#: Of one that is over, and of one that there was no room for.
_ENDED: Final = {
    False: "It is over.",
    True: "It is not followed any longer, as too much else is wrong.",
}
_TO_DO_AFTERWARDS: Final = {
    False: "There is nothing to do, unless it comes back: then this is the same incident.",
    True: "See to what is graver first. If it lasts you are notified anew, as of another incident.",
}


def advised(incident: Incident) -> str:
    """Return the kind's advice for this biz, node or host."""
    place = incident.place
    return filled(
        ADVICE[incident.kind].do, {"BIZ": place.biz, "NODE": str(place), "HOST": place.name}
    )


class Sending(NamedTuple):
    """A message to people or phones: of which incidents, and whether it sums up too many."""

    incidents: tuple[Incident, ...]
    sums_up: bool


def owed_notifications(
    incidents: Iterable[Incident],
    sent: models.Sent,
    now: datetime,
    limits: AlarmLimits,
    to: Listener = Listener.PEOPLE,
) -> list[Sending]:
    """List what people, or phones, are to be sent now, the gravest first."""
    owed = sorted((each for each in incidents if each.notification_state(to).owed), key=gravity)
    if not owed:
        return []
    if len(owed) <= min(limits.singly, limits.messages_an_hour - len(_lately(sent, now))):
        return [Sending((each,), sums_up=False) for each in owed]
    pause = timedelta(seconds=limits.digest_seconds)
    if sent.summed_at is not None and now - sent.summed_at < pause:
        return []
    return [Sending(tuple(owed), sums_up=True)]


def after_notification(sent: models.Sent, now: datetime, *, sums_up: bool) -> models.Sent:
    """Return what was sent, after one message more."""
    if sums_up:
        return models.Sent(sent_at=_lately(sent, now), summed_at=now)
    return models.Sent(sent_at=(*_lately(sent, now), now), summed_at=sent.summed_at)


def owed_bulletins(incidents: Iterable[Incident]) -> Iterator[tuple[Incident, ...]]:
    """Yield the incidents of each message to machines, of one tenant each."""
    owed: dict[str, list[Incident]] = defaultdict(list)
    for each in sorted(incidents, key=gravity):
        if each.machines.owed:
            owed[each.place.tenant].append(each)
    for theirs in owed.values():
        for start in range(0, len(theirs), CHUNK):
            yield tuple(theirs[start : start + CHUNK])


def gravity(incident: Incident) -> tuple[bool, datetime, str]:
    """Sort the gravest first, of these the oldest."""
    return incident.severity is not Severity.CRITICAL, incident.since, incident.key


def _lately(sent: models.Sent, now: datetime) -> tuple[datetime, ...]:
    return tuple(at for at in sent.sent_at if at > now - _HOUR)


def notification(
    stage: str,
    incident: Incident,
    limits: AlarmLimits,
    now: datetime,
    to: Listener = Listener.PEOPLE,
) -> models.Notification:
    """Write the message to people, or to phones, about one incident."""
    notification_state = incident.notification_state(to)
    word = _owed(notification_state)
    advice = ADVICE[incident.kind]
    head = f"crawlfleet {stage}"
    what = f"{_capital(str(incident.place))}: {advice.title}"
    subject = f"{head} {_label(incident, word)}: {incident.place}: {advice.title}"
    said = one_line(incident.said, _SAID_CHARACTERS)
    if word is Word.RECOVERED:
        over_at = incident.over_at or now
        lines = [
            f"{what}. {_ENDED[incident.displaced]}",
            "",
            f"Since:     {_moment(incident.since)}",
            f"Until:     {_moment(over_at)}, after {_lasted(incident.since, over_at)}",
            f"Last seen: {said}",
            *_unheard(notification_state),
            "",
            _TO_DO_AFTERWARDS[incident.displaced],
        ]
        short = f"{subject}, after {_lasted(incident.since, over_at)}"
    else:
        reminders = notification_state.reminders + (word is Word.REMINDER)
        next_one = pause(reminders, limits).total_seconds()
        lines = [
            f"{what}.",
            "",
            f"How bad:   {said}" + _worst(incident),
            f"Since:     {_moment(incident.since)}, for {_lasted(incident.since, now)}"
            + _returned(incident),
            f"Severity:  {incident.severity}",
            f"What next: {advised(incident)}",
            "",
            f"You will be reminded in {span(next_one)} if it lasts, and notified when it is over.",
            "What it is measured by are thresholds and alarms of the stage document.",
        ]
        short = f"{subject}: {said}"
    lines += ["", f"Incident {incident.id}. All that are open: crawlfleet incidents"]
    return models.Notification(
        subject=_ascii(subject, SUBJECT_CHARACTERS),
        text="\n".join(lines)[:TEXT_CHARACTERS],
        short=_ascii(short, SHORT_CHARACTERS),
        severity=incident.severity,
        words=(word,),
    )


def summary(
    stage: str, incidents: Sequence[Incident], now: datetime, to: Listener = Listener.PEOPLE
) -> models.Notification:
    """Write one message to people, or to phones, about many incidents."""
    words = Counter(_owed(each.notification_state(to)) for each in incidents)
    counted = ", ".join(f"{words[word]:,} {_COUNTED[word]}" for word in Word if words[word])
    severity = max_severity(incidents)
    subject = f"crawlfleet {stage} {_SHOWN[severity]}: {counted}"
    kinds = Counter((each.kind, _owed(each.notification_state(to))) for each in incidents)
    lines = [f"Much has changed at once, so this is one message: {counted}.", ""]
    for (kind, word), count in sorted(kinds.items(), key=lambda each: (-each[1], each[0])):
        lines.append(f"{count:>6,} x {ADVICE[kind].title} ({_COUNTED[word]})")
    lines += ["", "The gravest of them:" if len(incidents) > NAMED else "These are:", ""]
    for each in incidents[:NAMED]:
        word = _owed(each.notification_state(to))
        line = f"{_label(each, word)}: {each.place}: {ADVICE[each.kind].title}"
        lines.append("- " + one_line(f"{line}: {each.said}", _LINE_CHARACTERS))
    if len(incidents) > NAMED:
        lines.append(f"- and {len(incidents) - NAMED:,} more")
    lines += [
        "",
        "What next: begin with parts that do not answer, as much of the rest follows from them.",
        f"All that are open, with what to do about each: crawlfleet incidents ({_moment(now)})",
    ]
    return models.Notification(
        subject=_ascii(subject, SUBJECT_CHARACTERS),
        text="\n".join(lines)[:TEXT_CHARACTERS],
        short=_ascii(
            f"{subject}; first: {incidents[0].place}: {ADVICE[incidents[0].kind].title}",
            SHORT_CHARACTERS,
        ),
        severity=severity,
        words=tuple(word for word in Word if words[word]),
    )


def bulletin(stage: str, incidents: Sequence[Incident], now: datetime) -> models.Bulletin:
    """Write the message to machines about incidents of one tenant."""
    entries = [
        _names(each)
        | {
            "place": each.place,
            "title": ADVICE[each.kind].title,
            "said": one_line(each.said, _SAID_CHARACTERS),
            "value": each.value,
            "worst": each.worst,
            "threshold": each.threshold,
            "since": each.since,
            "over_at": each.over_at if each.machines.owed is Word.RECOVERED else None,
            "returns": each.returns,
            "do": advised(each),
        }
        for each in incidents
    ]
    tenant = incidents[0].place.tenant
    document = {"version": 1, "stage": stage, "at": now, "tenant": tenant, "incidents": entries}
    said = {_owed(each.machines) for each in incidents}
    words = tuple(word for word in Word if word in said)
    text = msgspec.json.encode(document).decode()
    return models.Bulletin(
        tenant=tenant, document=text, severity=max_severity(incidents), words=words
    )


def _names(incident: Incident) -> dict[str, object]:
    """Return what of an incident stands in a message to machines even where that was refused."""
    return {
        "id": incident.id,
        "event": _owed(incident.machines),
        "kind": incident.kind.value,
        "severity": incident.severity,
    }


def bulletins(
    stage: str, incidents: Sequence[Incident], now: datetime
) -> Iterator[tuple[tuple[Incident, ...], models.Bulletin]]:
    """Yield the messages to machines about incidents of one tenant, with the incidents of each.

    One as a rule: it is halved for as long as it is too long.
    """
    made = bulletin(stage, incidents, now)
    if len(made.document.encode()) <= DOCUMENT_BYTES or len(incidents) == 1:
        yield tuple(incidents), made
        return
    half = len(incidents) // 2
    yield from bulletins(stage, incidents[:half], now)
    yield from bulletins(stage, incidents[half:], now)


def bare_notification(
    stage: str, refused: models.Notification, incidents: Sequence[Incident]
) -> models.Notification:
    """Write what replaces a refused message: our own words alone, which nothing is wrong with.

    What others have written, names of hosts and bizs included, is left out.
    """
    shown = _SHOWN[refused.severity]
    subject = f"crawlfleet {stage} {shown}: {len(incidents):,} incidents"
    lines = [
        "The message about these incidents was refused, so this one has only their names:",
        "",
        *(f"- {each.id}: {ADVICE[each.kind].title}" for each in incidents[:NAMED]),
        *([f"- and {len(incidents) - NAMED:,} more"] if len(incidents) > NAMED else []),
        "",
        "All that are open, with what to do about each: crawlfleet incidents",
    ]
    return models.Notification(
        subject=_ascii(subject, SUBJECT_CHARACTERS),
        text="\n".join(_ascii(line, _LINE_CHARACTERS) for line in lines),
        short=_ascii(f"{subject}. See: crawlfleet incidents", SHORT_CHARACTERS),
        severity=refused.severity,
        words=refused.words,
    )


def bare_bulletin(
    stage: str, refused: models.Bulletin, incidents: Sequence[Incident], now: datetime
) -> models.Bulletin:
    """Write what replaces a refused message to machines: the names of its incidents."""
    document = {
        "version": 1,
        "stage": _ascii(stage, _LINE_CHARACTERS),
        "at": now,
        "tenant": refused.tenant,
        "bare": True,
        "incidents": [_names(each) for each in incidents],
    }
    return models.Bulletin(
        tenant=refused.tenant,
        document=msgspec.json.encode(document).decode(),
        severity=refused.severity,
        words=refused.words,
    )


def max_severity(incidents: Sequence[Incident]) -> Severity:
    """Return critical if any is."""
    critical = any(each.severity is Severity.CRITICAL for each in incidents)
    return Severity.CRITICAL if critical else Severity.WARNING


def _label(incident: Incident, word: Word) -> str:
    severity = _SHOWN[incident.severity]
    if word is Word.OPENED:
        return severity
    if word is Word.RECOVERED:
        return "no longer followed" if incident.displaced else "over"
    return f"still {severity}"


def _owed(notification_state: models.NotificationState) -> Word:
    """Return the word that is owed; callers have checked that there is one."""
    return notification_state.owed or Word.REMINDER


def _unheard(notification_state: models.NotificationState) -> list[str]:
    if notification_state.notified in (Word.OPENED, Word.REMINDER):
        return []
    return ["Note:      it was over before the message about its beginning could be sent."]


def _worst(incident: Incident) -> str:
    if incident.worst <= incident.value or not incident.threshold:
        return ""
    return f" (at worst {incident.worst / incident.threshold:.1f} times the threshold)"


def _returned(incident: Incident) -> str:
    if not incident.returns:
        return ""
    return f"; it comes and goes, and has come back {incident.returns:,} times"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _lasted(since: datetime, until: datetime) -> str:
    return span(max(0.0, (until - since).total_seconds()))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _ascii(text: str, most: int) -> str:
    """Make one line of ASCII, cut to what fits."""
    return one_line(text, 10 * most).encode("ascii", "replace").decode()[:most].rstrip()
