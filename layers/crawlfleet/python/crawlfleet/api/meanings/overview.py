"""Meanings of the fields of the overview, for the OpenAPI document."""

from typing import Final

OVERVIEW_MEANINGS: Final[dict[str, str]] = {
    "OverviewView.of_fleet": "Whether it is of all tenants, as operators see it.",
    "OverviewView.late": "Up to 100 things that are late, bizs first; null: not all are known.",
    "OverviewView.late_count": "How many things are late; null: not all are known.",
    "OverviewView.incidents": "Up to 20 open incidents, the newest first; null: not known.",
    "OverviewView.incident_counts": "Open incidents by severity; null: not known.",
    "OverviewView.cost": "What work has cost since the day of UTC began; null: not known.",
    "OverviewView.workers": "The workers; null where they could not be read.",
    "LateItemView.kind": "biz, schedule or job.",
    "LateItemView.name": "The schedule's or the job's; empty of a biz.",
    "LateItemView.since": "Since when it is due; null where that is not known.",
}
