"""Seeds of a world, in states that only a worker brings about."""

from tests.functions.http import ask
from tests.kit.worlds.functions import World


def failed_seed(world: World, url: str = "https://example.org/failed") -> tuple[str, str]:
    """Offer a URL, and have its seed fail; its segment and key."""
    answer = ask(world, "POST", "/v1/docs/seeds", {"seeds": [{"url": url}]})
    assert answer.status == 200, answer.text
    [entry] = answer.json["seeds"]
    database = world.mongo[f"cf_{world.tenants['acme']}_db"]
    changed = database["docs.requests_seeds"].update_one(
        {"_id": f"{entry['segment']}/{entry['key']}"}, {"$set": {"state": 3, "why": "404"}}
    )
    assert changed.modified_count == 1
    return entry["segment"], entry["key"]
