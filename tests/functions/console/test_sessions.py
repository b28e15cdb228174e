"""Sessions of the console at the API's door: signing in, what a session may, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.functions.door import Door, a_door
from tests.kit.console import HEADER, TERM, session_key
from tests.kit.worlds.functions import World

OURS = {HEADER: "1"}


@pytest.fixture
def door(world: World, tmp_path: Path) -> Iterator[Door]:
    """A door of the test's own: its keys may be taken away."""
    with a_door(world, tmp_path) as door:
        yield door
        assert door.drifts == []


@pytest.fixture
def browser() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers.update(OURS)
        yield session


def sign_in(door: Door, browser: requests.Session, first: str = "acme") -> requests.Response:
    return browser.post(
        f"{door.url}/console/session", headers={"x-api-key": door.keys[first]}, timeout=60
    )


def names_of(world: World) -> list[str]:
    return [key.decode() for key in world.redis.keys(session_key("*"))]


def test_who_signs_in_calls_the_api_as_the_keys_tenant(door: Door, browser):
    signed_in = sign_in(door, browser)
    bizs = browser.get(f"{door.url}/console/api/bizs", timeout=60)
    by_key = requests.get(
        f"{door.url}/v1/bizs", headers={"x-api-key": door.keys["acme"]}, timeout=60
    )

    assert signed_in.status_code == 201
    assert (
        signed_in.json()["tenant"]
        == browser.get(f"{door.url}/console/session", timeout=60).json()["tenant"]
    )
    assert bizs.status_code == 200
    assert bizs.json() == by_key.json()


def test_a_tenant_sees_nothing_of_another_one(door: Door, browser):
    sign_in(door, browser, "rival")
    own = browser.get(f"{door.url}/console/api/bizs", timeout=60).json()
    tenant = browser.get(f"{door.url}/console/session", timeout=60).json()["tenant"]

    with requests.Session() as other:
        other.headers.update(OURS)
        sign_in(door, other, "acme")
        seen = other.get(f"{door.url}/console/session", timeout=60).json()["tenant"]

    assert tenant != seen
    assert own.keys() == {"bizs"}


def test_the_cookie_is_for_this_site_alone_and_out_of_reach_of_scripts(door: Door, browser):
    cookie = sign_in(door, browser).headers["Set-Cookie"]

    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={TERM.seconds}"} <= {
        part.strip() for part in cookie.split(";")
    }
    assert "Secure" not in cookie  # over http a browser would not keep it
    assert door.keys["acme"] not in cookie


def test_over_https_the_cookie_belongs_to_the_host_and_is_secure(door: Door, world: World):
    event = {
        "httpMethod": "POST",
        "path": "/console/session",
        "headers": {
            HEADER: "1",
            "x-api-key": door.keys["acme"],
            "X-Forwarded-Proto": "https",
            "Host": "abc.execute-api.eu-central-1.amazonaws.com",
        },
        "requestContext": {"identity": {"apiKeyId": "key-acme"}},
    }
    answer = world.call("router", event)

    cookie = answer["headers"]["Set-Cookie"]
    assert cookie.startswith("__Host-crawlfleet-")
    assert cookie.endswith("; Secure")


def test_no_answer_and_no_entry_of_redis_has_the_key(door: Door, browser, world: World):
    signed_in = sign_in(door, browser)
    shown = browser.get(f"{door.url}/console/session", timeout=60)

    [name] = names_of(world)
    stored = world.redis.get(name)
    for text in (signed_in.text, str(signed_in.headers), shown.text, stored.decode("latin-1")):
        assert door.keys["acme"] not in text


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_without_the_header_of_our_own_nothing_is_done(
    door: Door, browser, verb: str, world: World
):
    sign_in(door, browser)
    before = names_of(world)

    del browser.headers[HEADER]
    answer = browser.request(
        verb, f"{door.url}/console/session", headers={"x-api-key": door.keys["acme"]}, timeout=60
    )
    called = browser.get(f"{door.url}/console/api/bizs", timeout=60)

    assert (answer.status_code, called.status_code) == (403, 401)
    assert names_of(world) == before


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_call_that_another_site_has_made_is_refused(door: Door, browser, site: str):
    sign_in(door, browser)

    answer = browser.post(
        f"{door.url}/console/api/shop/jobs", headers={"Sec-Fetch-Site": site}, timeout=60
    )

    assert answer.status_code == 401


def test_who_signs_out_is_out_with_every_copy_of_the_cookie(door: Door, browser, world: World):
    sign_in(door, browser)
    copy = dict(browser.cookies)
    out = browser.delete(f"{door.url}/console/session", timeout=60)

    assert out.status_code == 204
    assert not browser.cookies
    assert names_of(world) == []
    again = requests.get(f"{door.url}/console/api/bizs", headers=OURS, cookies=copy, timeout=60)
    assert again.status_code == 401


def test_a_session_ends_with_its_time(door: Door, browser, world: World):
    sign_in(door, browser)
    [name] = names_of(world)
    assert 0 < world.redis.pttl(name) <= TERM.total_seconds() * 1000

    world.redis.delete(name)  # as Redis does when the time is over

    assert browser.get(f"{door.url}/console/api/bizs", timeout=60).status_code == 401
    assert browser.get(f"{door.url}/console/session", timeout=60).status_code == 401


def test_a_session_is_worth_nothing_once_its_key_is_gone(door: Door, browser, tmp_path: Path):
    sign_in(door, browser)
    keys = tmp_path / "keys.json"
    left = {
        key: key_id for key, key_id in json.loads(keys.read_text()).items() if key_id != "key-acme"
    }
    fresh = tmp_path / "keys.new"
    fresh.write_text(json.dumps(left))
    fresh.replace(keys)

    assert browser.get(f"{door.url}/console/api/bizs", timeout=60).status_code == 403


@pytest.mark.parametrize("first", ["nobody"])
def test_a_key_of_no_tenant_begins_no_session(door: Door, browser, first: str, world: World):
    assert sign_in(door, browser, first).status_code == 403
    assert names_of(world) == []


def test_a_key_that_there_is_not_is_refused_and_many_of_them_have_to_wait(door: Door, browser):
    statuses = [
        browser.post(
            f"{door.url}/console/session", headers={"x-api-key": f"guess-{number}"}, timeout=60
        ).status_code
        for number in range(22)
    ]

    assert statuses[:20] == [403] * 20
    assert statuses[20:] == [429] * 2
    assert sign_in(door, browser).status_code == 201  # who has a key is let in all the same


def test_signing_in_anew_leaves_no_session_behind(door: Door, browser, world: World):
    sign_in(door, browser)
    sign_in(door, browser)

    assert len(names_of(world)) == 1


def test_another_session_under_the_stored_name_is_refused_as_nonsense(
    door: Door, browser, world: World
):
    sign_in(door, browser)
    [name] = names_of(world)
    world.redis.set(name, b"no session")

    shown = browser.get(f"{door.url}/console/session", timeout=60)
    called = browser.get(f"{door.url}/console/api/bizs", timeout=60)

    assert (shown.status_code, called.status_code) == (503, 401)


def test_the_page_is_asked_for_by_anybody_and_not_sent_twice(door: Door):
    for path in ("/console", "/console/", "/console/index.html"):
        first = requests.get(f"{door.url}{path}", timeout=60)
        again = requests.get(
            f"{door.url}{path}", headers={"If-None-Match": first.headers["ETag"]}, timeout=60
        )

        assert first.status_code == 200
        assert "frame-ancestors 'none'" in first.headers["Content-Security-Policy"]
        assert (again.status_code, again.content) == (304, b"")


def test_there_is_no_other_file(door: Door):
    for path in ("/console/handler.py", "/console/..%2Fhandler.py", "/console/nothing"):
        assert requests.get(f"{door.url}{path}", timeout=60).status_code == 404
