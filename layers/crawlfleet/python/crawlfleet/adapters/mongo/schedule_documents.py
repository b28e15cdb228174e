"""Schedules as MongoDB's documents, those of older versions too (SPEC.md B1)."""

from typing import Any

import msgspec

from crawlfleet.adapters.mongo.connection import Document
from crawlfleet.model.schedule import (
    USUAL_TOLERANCE_SECONDS,
    Missed,
    Outcome,
    OutcomeKind,
    Overlap,
    Schedule,
)
from crawlfleet.model.start import Start


def key_of(tenant: str, biz: str, name: str) -> str:
    """The ``_id`` of a schedule."""
    return f"{tenant}/{biz}/{name}"


def content_document(schedule: Schedule) -> Document:
    """What a client said: the document of a version."""
    return {
        "tenant": schedule.tenant,
        "biz": schedule.biz,
        "name": schedule.name,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "rule": schedule.rule,
        "urls": list(schedule.urls),
        "start": None if schedule.start is None else msgspec.to_builtins(schedule.start),
        "spider": schedule.spider,
        "spider_version": schedule.spider_version,
        "values": dict(schedule.values),
        "priority": schedule.priority,
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "tolerance_seconds": schedule.tolerance_seconds,
        "jitter_seconds": schedule.jitter_seconds,
        "enabled": schedule.enabled,
        "version": schedule.version,
        "put_at": schedule.put_at,
    }


def progress_document(schedule: Schedule) -> Document:
    """How far it has come. ``fire`` says for which ``next_at`` its fire time holds.

    A scheduler of an older version moves ``next_at`` alone: that is the fire time then.
    """
    outcome = schedule.last_outcome
    return {
        "next_at": schedule.next_at,
        "fire": {"at": schedule.fire_at, "next_at": schedule.next_at},
        "last_fired_at": schedule.last_fired_at,
        "last_outcome": None
        if outcome is None
        else {
            "kind": outcome.kind.value,
            "fire_at": outcome.fire_at,
            "at": outcome.at,
            "job": outcome.job,
            "why": outcome.why,
        },
    }


def as_read(read: Schedule) -> Document:
    """What matches a schedule that stands at the version and the fire time that were read."""
    return {
        "_id": key_of(*read.key),
        "version": {"$in": [1, None]} if read.version == 1 else read.version,
        "$or": [
            {"fire.at": read.fire_at, "$expr": {"$eq": ["$fire.next_at", "$next_at"]}},
            {"next_at": read.fire_at, "$expr": {"$ne": ["$fire.next_at", "$next_at"]}},
        ],
    }


def schedule_of(document: dict[str, Any]) -> Schedule:
    """The schedule of a document, or of a version's."""
    next_at, fire = document.get("next_at"), document.get("fire") or {}
    start, outcome = document.get("start"), document.get("last_outcome")
    return Schedule(
        tenant=document["tenant"],
        biz=document["biz"],
        name=document["name"],
        cron=document["cron"],
        time_zone=document["time_zone"],
        rule=document["rule"],
        urls=tuple(document["urls"]),
        start=None if start is None else msgspec.convert(start, Start),
        spider=document.get("spider"),
        spider_version=document.get("spider_version"),
        values=document.get("values") or {},
        priority=document.get("priority"),
        overlap=Overlap(document.get("overlap", Overlap.ALLOW)),
        missed=Missed(document["missed"]),
        tolerance_seconds=document.get("tolerance_seconds", USUAL_TOLERANCE_SECONDS),
        jitter_seconds=document.get("jitter_seconds", 0),
        enabled=document["enabled"],
        version=document.get("version", 1),
        put_at=document.get("put_at"),
        fire_at=fire["at"] if fire and fire["next_at"] == next_at else next_at,
        next_at=next_at,
        last_fired_at=document.get("last_fired_at"),
        last_outcome=None if outcome is None else _outcome(outcome),
    )


def _outcome(document: dict[str, Any]) -> Outcome:
    return Outcome(
        kind=OutcomeKind(document["kind"]),
        fire_at=document["fire_at"],
        at=document["at"],
        job=document["job"],
        why=document["why"],
    )
