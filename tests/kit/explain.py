"""Names tests use of explanations of requests and URLs."""

from crawlfleet.monitoring.explain.service import (
    JOURNAL_LINES,
    KEPT_EVENTS,
    ExplainingPorts,
    Explanation,
    Standing,
    Step,
    StepKind,
    UrlExplanation,
    explain,
)
from crawlfleet.monitoring.explain.urls import UrlPorts, explain_url
