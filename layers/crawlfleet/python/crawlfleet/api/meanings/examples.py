"""Examples of bodies by operation, for the OpenAPI document."""

from typing import Any, Final

_URL: Final = "https://shop.example/item/1"
_PAGES: Final = {
    "pattern": "https://shop.example/{kind}?page={page}",
    "values": {"page": {"first": 1, "last": 50}},
}
#: Each under a name of its own.
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "submitRequests": {
        "one": {"url": _URL, "rule": "item"},
        "many": {
            "requests": [
                {"url": _URL, "client_id": "item-1", "job": "spring"},
                {"url": "https://shop.example/item/2", "priority": 8},
            ]
        },
    },
    "startJob": {
        "pages": {"rule": "item", "urls": [_URL], "name": "spring"},
        "pattern": {"rule": "list", "start": _PAGES, "values": {"kind": ["tools", "garden"]}},
        "spider": {"spider": "catalogue", "values": {"kind": "tools"}},
    },
    "addTenant": {
        "acme": {
            "name": "acme",
            "settings": {
                "share": 2,
                "needs": {"workers": 1},
                "ceilings": {"in_flight": 500},
                "quotas": [{"unit": "requests", "most": 100_000, "per": "day"}],
            },
        }
    },
    "changeConfig": {
        "a rule": {
            "changes": [
                {
                    "path": "bizs/acme/shop/rules/item",
                    "content": {"fields": {"title": {"css": "h1"}}},
                }
            ],
            "why": "Their pages have a new head.",
        },
        "tried": {
            "changes": [{"path": "stage/fleet/max_consumers", "content": 20}],
            "dry_run": True,
        },
    },
    "rollBackConfig": {
        "one biz": {"to": "20260301T120000.000Z-0a1b2c3d", "path": "bizs/acme/shop"}
    },
    "setTenant": {"no ceiling": {"settings": {"ceilings": {"in_flight": None}}}},
    "forecastJob": {"spider": {"spider": "catalogue", "values": {"kind": "tools"}}},
    "setJobQuotas": {
        "a day": {"quotas": [{"unit": "requests", "most": 5000, "per": "day"}]},
        "unlimited": {"quotas": []},
    },
    "putSchedule": {
        "nightly": {
            "cron": "0 3 * * *",
            "time_zone": "Europe/Berlin",
            "spider": "catalogue",
            "values": {"kind": "tools"},
            "overlap": "skip",
        }
    },
    "putSpider": {"catalogue": {"rule": "list", "start": _PAGES, "description": "All lists."}},
    "putSubscription": {
        "feeds": {
            "kind": "rss",
            "filter": 'climate ("green deal" OR #cop31) -sport',
            "feeds": ["https://news.example/feed.xml"],
        }
    },
    "tryFilter": {
        "two items": {
            "filter": 'climate ("green deal" OR #cop31) -sport',
            "items": [
                {"id": "1", "text": "Climate talks: all eyes on #COP31"},
                {"id": "2", "text": "The green deal of climate sport"},
            ],
        }
    },
    "redeliverMany": {"of a subscription": {"subscription": "climate"}, "all": {"all": True}},
    "offerSeeds": {"one": {"seeds": [{"url": _URL, "rule": "item"}]}},
    "tryRule": {"by name": {"rule": "item", "url": _URL}},
    "changeRequestState": {
        "seen by people": {"from_state": "done", "to_state": "reviewed", "why": "by Ann"}
    },
    "replayDeadLetters": {"of one reason": {"filter": {"reason": "PageGone"}, "rule": "current"}},
}
