"""Names tests use of explanations of requests and URLs."""

from crawlfleet.flows.explaining import JOURNAL_LINES, KEPT_EVENTS, ExplainingPorts, explain
from crawlfleet.flows.explaining_urls import UrlPorts, explain_url
from crawlfleet.model.explanation import Explanation, Standing, Step, StepKind, UrlExplanation
