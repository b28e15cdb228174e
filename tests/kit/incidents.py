"""Names tests use of incidents: detectors, lifecycle, notifications."""

from crawlfleet.monitoring.incidents.capacity_checks import (
    IN_A_ROW,
    KINDS,
    MOST_FIRES,
    SCHEDULER,
    capacity_findings,
    faults_in_words,
    host_findings,
    host_place,
    tick_findings,
    unknown_of_capacity,
    unknown_of_host,
    unknown_of_unplaced,
    unplaced_findings,
)
from crawlfleet.monitoring.incidents.detectors import evaluate, found_kinds, hosts_to_watch, unseen
from crawlfleet.monitoring.incidents.handling import (
    Acknowledgement,
    HandledIncident,
    Handling,
    Silence,
)
from crawlfleet.monitoring.incidents.kinds import (
    ADVICE,
    RISING,
    Kind,
    Severity,
    evaluations_required,
)
from crawlfleet.monitoring.incidents.lifecycle import (
    MOST,
    ROOM,
    Room,
    calm_wanted,
    latest,
    left_out,
    let_go,
    notified,
    pause,
    step,
    tried,
)
from crawlfleet.monitoring.incidents.models import (
    Book,
    Bulletin,
    Desk,
    Evaluation,
    Finding,
    Incident,
    Life,
    Listener,
    Notification,
    NotificationState,
    Place,
    Sent,
    Word,
    key_of,
)
from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
from crawlfleet.monitoring.incidents.notifications import (
    CHUNK,
    DOCUMENT_BYTES,
    NAMED,
    after_notification,
    bare_bulletin,
    bare_notification,
    bulletin,
    notification,
    summary,
)
from crawlfleet.monitoring.incidents.notifications import bulletins as bulletins_of_incidents
from crawlfleet.monitoring.incidents.notifications import owed_bulletins as bulletins
from crawlfleet.monitoring.incidents.notifications import owed_notifications as notifications
from crawlfleet.monitoring.incidents.service import (
    PATIENCE,
    IncidentMonitor,
    acknowledge,
    list_incidents,
    silence,
    unsilence,
)
from crawlfleet.monitoring.incidents.sns import SnsNotifier
from crawlfleet.monitoring.incidents.store_checks import (
    judged_figures,
    part_findings,
    part_place,
    unknown_of_part,
)
from crawlfleet.monitoring.incidents.stream_checks import KINDS as STREAM_KINDS
