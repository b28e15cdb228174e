"""Names tests use of incidents: detectors, lifecycle, notifications."""

from crawlfleet.adapters.mongo.incidents import MongoIncidentBook
from crawlfleet.adapters.sns_notifier import SnsNotifier
from crawlfleet.finding_kinds import ADVICE, RISING, Kind, Severity, looks_wanted
from crawlfleet.flows.alarming import PATIENCE, AlarmingPorts, Memory, alarm
from crawlfleet.flows.incidents import list_incidents
from crawlfleet.model.incident import (
    Bulletin,
    Desk,
    Finding,
    Incident,
    Letter,
    Life,
    Listener,
    Look,
    Place,
    Sent,
    Telling,
    Word,
    key_of,
)
from crawlfleet.policy.capacity_findings import capacity_findings, unknown_of_capacity
from crawlfleet.policy.findings import judge, seen
from crawlfleet.policy.host_findings import (
    IN_A_ROW,
    KINDS,
    host_findings,
    host_place,
    unknown_of_host,
)
from crawlfleet.policy.incident_room import MOST, ROOM, Room, let_go
from crawlfleet.policy.incidents import calm_wanted, latest, left_out, pause, step, told, tried
from crawlfleet.policy.part_findings import (
    judged_figures,
    part_findings,
    part_place,
    unknown_of_part,
)
from crawlfleet.policy.telling import CHUNK, after_letter, bulletins, letters
from crawlfleet.policy.tick_findings import SCHEDULER, faults_in_words, tick_findings
from crawlfleet.policy.unplaced_findings import unknown_of_unplaced, unplaced_findings
from crawlfleet.policy.unseen import hosts_to_watch, unseen
from crawlfleet.policy.wording import (
    DOCUMENT_BYTES,
    NAMED,
    bare_bulletin,
    bare_letter,
    bulletin,
    letter,
    summary,
)
from crawlfleet.policy.wording import bulletins as bulletins_of_incidents
from crawlfleet.ports import IncidentBook
from crawlfleet.ports.incidents import Book
