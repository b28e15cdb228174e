"""The server ``api_server`` answers of seeds, which it keeps in memory by what they are called."""

import json
from hashlib import blake2b
from typing import Any

SEGMENT = "2026-03-01"


def seed_id(url: str) -> str:
    return f"{SEGMENT}/{blake2b(url.encode(), digest_size=16).hexdigest()}"


class SeedDesk:
    """Seeds of one biz. ``most`` is how many one call changes."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.most = 2

    def keep(self, url: str, **changes: Any) -> str:
        """Keep a seed; what it is called."""
        name = seed_id(url)
        seed = {
            "id": name,
            "segment": SEGMENT,
            "key": name.rpartition("/")[2],
            "state": "ready",
            "url": url,
            "rule": "article",
            "depth": 0,
            "meta": {},
            "headers": {},
            "job": None,
            "found_by": None,
            "method": "GET",
            "body": None,
            "offered_at": "2026-03-01T00:00:00.000Z",
            "due_at": "2026-03-01T00:00:00.000Z",
            "request_id": None,
            "handed_at": None,
            "tries": 0,
            "why": None,
            **changes,
        }
        self.kept[name] = seed
        return name

    def offer(self, body: bytes) -> tuple[int, Any]:
        answers = [self.offer_one(i, one) for i, one in enumerate(json.loads(body)["seeds"])]
        if all("error" in answer for answer in answers):
            errors = [error for answer in answers for error in answer["error"]["errors"]]
            return 400, {
                "type": "urn:crawlfleet:problem:invalid-request",
                "title": "The request is not valid",
                "status": 400,
                "detail": "",
                "errors": errors,
            }
        rejected = sum("error" in answer for answer in answers)
        accepted = sum(answer["accepted"] for answer in answers)
        return 200, {
            "accepted": accepted,
            "duplicates": len(answers) - accepted - rejected,
            "rejected": rejected,
            "seeds": answers,
        }

    def offer_one(self, index: int, entry: dict[str, Any]) -> dict[str, Any]:
        url = entry["url"]
        if not url.startswith("http"):
            error = {"field": f"seeds[{index}].url", "message": "must be an http or https URL"}
            problem = {
                "type": "urn:crawlfleet:problem:invalid-request",
                "title": "The request is not valid",
                "status": 400,
                "detail": f"{error['field']}: {error['message']}",
                "errors": [error],
            }
            return {"accepted": False, "error": problem}
        name = seed_id(url)
        known = name in self.kept
        if not known:
            given = {n: entry[n] for n in ("rule", "job") if n in entry}
            self.keep(url, **given, due_at=entry.get("starts_at", "2026-03-01T00:00:00.000Z"))
        key = name.rpartition("/")[2]
        why = f"known in segment {SEGMENT}" if known else None
        return {"accepted": not known, "segment": SEGMENT, "key": key, "why": why}

    def meant(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        fields = ("segment", "state")
        wanted = {name: given[name] for name in fields if name in given}
        found = sorted(self.kept.items())
        return [
            seed for _, seed in found if all(seed[name] == value for name, value in wanted.items())
        ]

    def totals(self) -> list[dict[str, Any]]:
        counts = {"segment": SEGMENT, "waiting": 0, "filter_bytes": 13_312}
        for state in ("ready", "handed", "finished", "failed"):
            counts[state] = len(self.meant({"state": state}))
        return [counts] if self.kept else []

    def change(self, verb: str, body: bytes) -> tuple[int, Any]:
        given = json.loads(body)
        if named := given.get("seeds"):
            chosen = [self.kept[name] for name in named if name in self.kept]
        else:
            chosen = self.meant(given.get("filter", {}))
        if verb == "release":
            chosen = [seed for seed in chosen if seed["state"] in {"failed", "finished"}]
        taken = chosen if named else chosen[: min(self.most, given["limit"])]
        for seed in taken:
            if verb == "release":
                seed["state"] = "ready"
            else:
                del self.kept[seed["id"]]
        more = len(taken) < len(chosen)
        cursor = taken[-1]["id"] if taken and not named else None
        return 200, {"count": len(taken), "cursor": cursor, "more": more}
