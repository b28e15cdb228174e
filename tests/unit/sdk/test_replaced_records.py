"""Records that are replaced under their own key, as a reader meets them."""

import json

from tests.kit.api_server import BIZ, Fault

KEY = "ab" * 20


def a_record(identity, second):
    moment = f"2026-01-01T00:00:0{second}Z"
    return {"id": identity, "request_id": "1", "url": "u", "fields": {}, "stored_at": moment}


def test_one_that_was_replaced_comes_again_and_no_other_does(client, api):
    first = [a_record(KEY, 1), a_record("1-0", 1)]
    second = [a_record(KEY, 1), a_record("1-0", 2), a_record(KEY, 3)]
    for page in (
        {"records": first, "cursor": "c1", "more": True},
        {"records": second, "cursor": "c2", "more": False},
    ):
        api.faults.append(Fault(200, json.dumps(page).encode()))

    found = [(record.id, record.stored_at.second) for record in client.records(BIZ)]

    assert found == [(KEY, 1), ("1-0", 1), (KEY, 3)]
