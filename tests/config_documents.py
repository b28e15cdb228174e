"""Documents of the config centre as tests want them: small, valid, and changed in one place."""

import json
from typing import Any

STAGE: dict[str, Any] = {"home_node": "main", "nodes": ["main", "east"]}


def generation(starts_at: str = "2026-01-01T00:00:00Z", **changes: Any) -> dict[str, Any]:
    return {"starts_at": starts_at, "nodes": ["main"], "databases": ["shop"], **changes}


def biz(**changes: Any) -> dict[str, Any]:
    rules = {"page": {"fields": {"title": {"css": "title"}}}}
    return {"generations": [generation()], "rules": rules, **changes}


def texts(**documents: dict[str, Any]) -> dict[str, str]:
    """Documents by path; ``bizs__acme__shop=`` is ``bizs/acme/shop``; a stage is always there."""
    return {
        name.replace("__", "/"): json.dumps(document, separators=(",", ":"))
        for name, document in {"stage": STAGE, **documents}.items()
    }
