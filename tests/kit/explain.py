"""Names tests use of explanations of requests and URLs."""

from crawlfleet.monitoring.explain import urls as explaining_urls
from crawlfleet.monitoring.explain.limits import QuotaExplainer
from crawlfleet.monitoring.explain.service import (
    JOURNAL_LINES,
    KEPT_EVENTS,
    Explanation,
    RequestExplainer,
    Step,
    StepKind,
    UrlExplanation,
)
from crawlfleet.monitoring.explain.standing import Standing
from crawlfleet.monitoring.explain.urls import UrlExplainer
