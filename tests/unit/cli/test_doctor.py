import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.config_documents import texts
from tests.kit.api import incident_view
from tests.kit.api_server import BIZ, KEY, ApiServer, Fault, biz, host, proxy_pool
from tests.kit.broken_servers import broken_server, closed_port
from tests.kit.cli import knock
from tests.kit.config import adopt, digest_of, unchecked
from tests.kit.incidents import HandledIncident, Kind, Place
from tests.kit.sdk import Address
from tests.kit.tls import Authority
from tests.kit.worlds.incidents import START, an_incident


def checks(done) -> dict[str, list[str]]:
    """Return the doctor's messages, by check."""
    found: dict[str, list[str]] = {}
    for each in done.json()["checks"]:
        found.setdefault(each["check"], []).append(f"{each['level']}: {each['said']}")
    return found


def said(done, check: str, level: str) -> str:
    """The one sentence of a check, which is of that level."""
    [line] = checks(done)[check]
    assert line.startswith(f"{level}: "), line
    return line


def test_a_deployment_that_is_well_is_reported_so_in_words(crawlfleet, api):
    done = crawlfleet("doctor")

    assert done.code == 0
    assert "all is well" in done.err
    assert [line.split()[:2] for line in done.lines] == [
        ["ok", "address"],
        ["ok", "reach"],
        ["ok", "clock"],
        ["ok", "health"],
        ["ok", "running"],
        ["ok", "workers"],
        ["ok", "scheduler"],
        ["ok", "key"],
        ["ok", "incidents"],
    ]


def test_a_key_that_a_call_which_died_has_left_is_told(crawlfleet, api):
    made_at = "2026-03-01T12:00:00.000Z"
    api.leftovers = [{"tenant": "acme", "key": "acme.1", "made_at": made_at}]

    done = crawlfleet("doctor", "--json")

    assert "1 key was made for acme" in said(done, "tenants", "look")


def test_scripts_get_the_same_as_json(crawlfleet, api):
    done = crawlfleet("doctor", "--json")

    assert (done.code, done.json()["level"]) == (0, "ok")
    assert "operator" in said(done, "key", "ok")


def test_without_an_address_it_says_where_to_get_one(crawlfleet, monkeypatch, tmp_path):
    monkeypatch.delenv("CRAWLFLEET_API_URL", raising=False)
    monkeypatch.delenv("CRAWLFLEET_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)

    done = crawlfleet("doctor")

    assert done.code == 2
    assert "yours" in done.lines[0]
    assert "CRAWLFLEET_API_URL" in done.out


def test_where_nobody_listens_it_ends_with_3(crawlfleet, api):
    with closed_port() as address:
        done = crawlfleet("doctor", "--json", "--api-url", f"http://{address}")

    assert done.code == 3
    assert address in said(done, "reach", "broken")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b'HTTP/1.1 404 No\r\ncontent-length: 22\r\n\r\n{"message": "missing"}',
        b"HTTP/1.1 302 No\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_what_is_no_crawlfleet_is_reported_so(crawlfleet, api, answer):
    with broken_server(answer) as address:
        done = crawlfleet("doctor", "--json", "--api-url", f"http://{address}")

    assert done.code == 2
    assert address in said(done, "reach", "yours")


def test_a_server_that_says_nothing_or_drips_is_left_in_time(api):
    with broken_server(None) as address:
        silent, _ = knock(Address(f"http://{address}", KEY), answer_seconds=0.2)
    api.faults.append(Fault(drip=True))
    dripping, _ = knock(Address(api.url, KEY), answer_seconds=0.2)

    for reach in (silent, dripping):
        assert "in time" in reach.failure
        assert not reach.untrusted


def test_the_key_is_not_sent_until_it_is_known_who_listens(crawlfleet, api):
    crawlfleet("doctor")

    first, *rest = api.calls
    assert first.path == "/health"
    assert "x-api-key" not in first.headers
    assert all(call.headers["x-api-key"] == KEY for call in rest)


def test_a_wrong_key_is_reported_and_never_shown(crawlfleet, api):
    done = crawlfleet("doctor", "--api-key", "another-key-1", "--json")

    assert done.code == 2
    assert api.url in said(done, "key", "yours")
    assert "another-key-1" not in done.out + done.err


def test_a_tenants_key_is_enough_for_its_own_biz(crawlfleet, api):
    api.platform.operator = False

    done = crawlfleet("doctor", "--json", "--biz", BIZ)

    assert done.code == 0
    assert "no operator" in said(done, "key", "note")
    assert [line.partition(":")[0] for line in checks(done)[BIZ]] == ["ok"] * 3


def test_rules_that_cannot_be_tried_are_reported_and_nothing_of_a_site_is_asked(crawlfleet, api):
    fine = crawlfleet("doctor", "--json", "--biz", BIZ)
    api.trials.mistakes = [{"field": "rule", "message": "nobody tries it"}]
    broken = crawlfleet("doctor", "--json", "--biz", BIZ)

    assert "ok: rules can be tried" in checks(fine)[BIZ]
    [line] = [line for line in checks(broken)[BIZ] if "cannot be tried" in line]
    assert line.startswith("look: ")
    assert "nobody tries it" in line
    assert broken.code == 1
    assert all("page" in asked and "url" not in asked for asked in api.trials.asked)


@pytest.mark.parametrize(("mostly", "level", "code"), [(True, "look", 1), (False, "note", 0)])
def test_a_rule_whose_fields_have_no_value_is_reported_with_the_numbers(
    crawlfleet, api, mostly, level, code
):
    fields = [{"name": "price", "count": 2, "share": 0.0159}]
    found = {"rule": "page", "version": "a" * 12, "current": True, "records": 126}
    api.findings.coverage = [
        {**found, "fields": fields, "empty": ["price"], "mostly_empty": mostly},
        {**found, "fields": fields, "version": "b" * 12, "current": False},
    ]

    done = crawlfleet("doctor", "--json", "--biz", BIZ)

    assert done.code == code
    [line] = [line for line in checks(done)[BIZ] if "rule page" in line]
    assert line.startswith(f"{level}: ")
    assert "of 126 records have one: price 2" in line


@pytest.mark.parametrize("named", [(), ("--biz", BIZ)])
def test_a_schedule_whose_fire_failed_is_reported_with_its_rule_and_when_it_is_tried_again(
    crawlfleet, api, named
):
    options = ("--cron", "0 3 * * *", "--rule", "article", "--url", "https://example.org/")
    crawlfleet("schedule", "put", BIZ, "nightly", *options)
    api.bizs = [{"name": BIZ, "description": "", "rules": [], "spiders": []}]
    api.schedules["nightly"] |= {
        "next_at": "2026-01-02T00:05:00Z",
        "last_outcome": {
            "outcome": "failed",
            "fire_at": "2026-01-02T00:00:00Z",
            "at": "2026-01-02T00:00:01Z",
            "job": None,
            "why": "this biz has no rule 'article'",
        },
    }

    done = crawlfleet("doctor", "--json", *named)

    assert done.code == 1
    [line] = [line for line in checks(done)[BIZ] if "schedule nightly" in line]
    assert "rule article, could not start its job: this biz has no rule" in line
    assert "tried again at 2026-01-02 00:05:00Z" in line


def test_what_is_open_is_reported_instead_of_all_is_well(crawlfleet, api):
    found = an_incident(1, "", kind=Kind.STORAGE, place=Place(part="mongodb", name="main"))
    api.incidents = [msgspec.to_builtins(incident_view(START, HandledIncident(found)))]

    done = crawlfleet("doctor")

    assert done.code == 1
    assert "all is well" not in done.err
    [line] = [line for line in done.lines if "incidents" in line]
    assert line.split()[:4] == ["look", "incidents", "critical:", "mongodb"]
    assert "a larger disk" in done.out


def test_what_is_wrong_is_told_once(crawlfleet, api):
    """A full disk is an incident and a part's problem; a biz's dead letters are the fleet's."""
    crawlfleet("submit", BIZ, "https://example.org/1")
    for one in api.requests.values():
        one["state"] = "dead"
    found = an_incident(1, "", kind=Kind.STORAGE, place=Place(part="mongodb", name="main"))
    api.incidents = [msgspec.to_builtins(incident_view(START, HandledIncident(found)))]
    part = {"part": "mongodb", "up": True, "figures": {}, "missing": {}}
    full = part | {"name": "main", "problem": "97% of its disk is used"}
    away = part | {"name": "east", "problem": "no primary"}
    speeds = {"1s": 0.0, "5s": 0.0, "60s": 0.0}
    nothing = dict.fromkeys(("queued", "leased", "delayed", "expired", "oldest_seconds"), 0)
    more = {"planned_seconds": None, "finish_seconds": 0.0, "late": False}
    more["rates"] = {"submitted": speeds, "processed": speeds}
    biz = {"biz": BIZ, "tenant": "acme", "dead": 1} | nothing | more
    api.platform.fleet = {"parts": [full, away], "bizs": [biz, biz | {"biz": "other", "dead": 7}]}

    done = crawlfleet("doctor", "--json", "--biz", BIZ)

    found = checks(done)
    assert len(found["incidents"]) == 1
    [line] = found["parts"]
    assert "east" in line
    [dead] = found["dead letters"]
    assert "7 requests were given up on: acme/other 7" in dead
    assert len([line for line in found[BIZ] if "1 request was given up on" in line]) == 1


def test_a_tenants_key_is_reported_what_is_open_of_its_own(crawlfleet, api):
    api.platform.operator = False

    done = crawlfleet("doctor", "--json")

    assert "its bizs" in said(done, "incidents", "ok")


def test_a_biz_that_there_is_not_is_reported(crawlfleet, api):
    done = crawlfleet("doctor", "--json", "--biz", "nosuch")

    assert done.code == 2
    assert "no such biz" in said(done, "nosuch", "yours")


def test_sick_parts_dead_workers_and_a_refused_configuration_are_reported(crawlfleet, api):
    api.platform.parts["redis"] = "does not answer"
    api.platform.status = "degraded"
    api.platform.running["config_refused"] = True
    api.platform.workers["dead"] = 2

    done = crawlfleet("doctor", "--json")

    assert (done.code, done.json()["level"]) == (1, "look")
    assert "redis" in said(done, "health", "look")
    assert "2 workers are dead" in said(done, "workers", "look")
    assert "configuration" in checks(done)
    assert "`crawlfleet workers BIZ`" in crawlfleet("doctor").out
    assert "`crawlfleet workers news`" in crawlfleet("doctor", "--biz", "news").out


def test_a_platform_that_is_down_is_examined_as_far_as_it_goes(crawlfleet, api):
    api.platform.parts = {"config": "cannot be read"}
    api.platform.running["revision"] = ""
    api.platform.status, api.platform.workers = "down", None

    done = crawlfleet("doctor", "--json")

    assert done.code == 3
    assert any(line.startswith("broken: ") for line in checks(done)["health"])


def test_work_that_nobody_does_is_the_worst(crawlfleet, api):
    api.platform.workers |= {"alive": 0, "present": 0}
    api.platform.fleet["bizs"] = [biz("docs", queued=9, late=True, dead=4)]
    api.platform.fleet["totals"] = {"queued": 9, "late": 1}
    api.held = False  # of a total the doctor reads no more
    api.platform.hosts = [host("bad.example", throttled=True)]

    done = crawlfleet("doctor", "--json")

    assert done.code == 3
    assert "9 requests" in said(done, "backlog", "broken")
    assert said(done, "lateness", "look").endswith(": acme/docs")
    assert said(done, "dead letters", "note").endswith(": acme/docs 4")
    assert said(done, "hosts", "note").endswith(": bad.example")


def test_a_call_that_fails_does_not_end_the_examination(crawlfleet, api):
    api.faults.append(Fault(status=200, body=b'{"status": "ok", "parts": {}}'))
    api.faults.append(Fault(status=500, body=b"{}"))

    done = crawlfleet("doctor", "--json", "--biz", BIZ)

    assert done.code == 1
    assert "not be examined" in said(done, "running", "look")
    assert BIZ in checks(done)


def test_clocks_are_compared_by_the_answers_date(crawlfleet, api):
    long_ago = datetime.now(UTC) - timedelta(minutes=10)
    date = long_ago.strftime("%a, %d %b %Y %H:%M:%S GMT")
    body = b'{"status": "ok", "parts": {"config": "ok"}}'
    with broken_server(
        b"HTTP/1.1 200 OK\r\nDate: %s\r\ncontent-length: %d\r\n\r\n%s"
        % (date.encode(), len(body), body)
    ) as address:
        reach, health = knock(Address(f"http://{address}", KEY))

    assert health is not None
    assert reach.skew_seconds == pytest.approx(-600, abs=60)


# ---- TLS -----------------------------------------------------------------------------------------


class Elsewhere(Address, frozen=True):
    """Stands for another machine: of the loopback the environment is not asked."""

    on_this_machine = False


@pytest.fixture
def secure(tmp_path):
    """The server behind a certificate that somebody signed for an hour."""
    authority = Authority(tmp_path)
    server = ApiServer(authority.server_context("127.0.0.1"))
    yield server, authority.file
    server.close()


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(crawlfleet, api, secure):
    server, _ = secure

    done = crawlfleet("doctor", "--json", "--api-url", server.url)

    assert done.code == 2
    assert server.url in said(done, "reach", "yours")
    assert server.calls == []


def test_a_certificate_that_ends_soon_is_reported(secure, monkeypatch):
    server, trusted = secure
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(trusted))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    reach, health = knock(Elsewhere(server.url, KEY))

    assert health is not None, reach
    assert 0 < reach.certificate_days < 1


# ---- a folder ------------------------------------------------------------------------------------

BIZ_DOCUMENT = {
    "generations": [{"starts_at": "2026-01-01T00:00:00Z", "nodes": ["main"], "databases": ["db"]}],
    "rules": {"page": {"fields": {"title": {"css": "title"}}}},
}


@pytest.fixture
def folder(tmp_path):
    """A configuration, and its digest."""
    documents = texts(stage={"home_node": "main"}, bizs__default__docs=BIZ_DOCUMENT)
    for name, text in documents.items():
        file = tmp_path / "config" / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    tree = adopt("", documents, None, {}, unchecked).tree
    assert tree is not None
    return tmp_path / "config", digest_of(tree)


def test_a_folder_that_is_in_force_is_reported_so(crawlfleet, api, folder):
    path, digest = folder
    api.platform.running["config_digest"] = digest

    done = crawlfleet("doctor", "--json", "--folder", str(path))

    assert done.code == 0
    assert "in force" in said(done, "folder", "ok")


def test_a_folder_that_differs_is_reported(crawlfleet, api, folder):
    path, digest = folder
    api.platform.running["config_digest"] = digest
    (path / "stage.json").write_text('{"home_node": "main", "redis_memory_ratio": 0.5}')

    done = crawlfleet("doctor", "--json", "--folder", str(path))

    assert done.code == 1
    assert "differs" in said(done, "folder", "look")


def test_a_folder_with_errors_is_reported(crawlfleet, api, folder):
    path, _ = folder
    (path / "stage.json").write_text('{"home_node": 7}')

    done = crawlfleet("doctor", "--json", "--folder", str(path))

    assert done.code == 2
    assert "the first: stage" in checks(done)["folder"][0]


# ---- fleet, hosts --------------------------------------------------------------------------------


def test_the_fleet_is_shown_with_what_is_wrong_first(crawlfleet, api):
    api.platform.workers |= {"alive": 3, "suspected": 1, "dead": 1, "wanted": 6}
    api.platform.hosts = [host("bad.example", throttled=True, success_share=0.5)]
    api.platform.fleet["bizs"] = [biz("late", late=True, finish_seconds=None), biz("docs")]
    api.platform.fleet["unread"] = [{"what": "queues", "why": "no answer"}]

    done = crawlfleet("fleet")

    assert done.code == 0
    assert re.findall(r"\d \w+", done.lines[0]) == [
        "3 alive",
        "1 suspected",
        "1 dead",
        "1 present",
        "6 wanted",
    ]
    assert "acme/late" in done.out
    assert done.out.index("acme/late") < done.out.index("acme/docs")
    assert "never" in done.out
    assert "throttled" in done.out
    assert "0.4 ms" in done.out
    assert "queues: no answer" in done.err
    assert "SlowOperations: no right" in done.err
    assert crawlfleet("fleet", "--json").json()["hosts"][0]["host"] == "bad.example"


def test_a_fleet_of_which_little_is_known_is_shown_all_the_same(crawlfleet, api):
    api.platform.workers = None
    api.platform.fleet |= {"config_refused": "stage: is wrong", "stray_items": 3}

    done = crawlfleet("fleet")

    assert done.lines[0].startswith("workers: nobody")
    assert "stage: is wrong" in done.out
    assert "3 items" in done.out


def test_who_is_no_operator_is_reported_what_to_ask_instead(crawlfleet, api):
    api.platform.operator = False

    done = crawlfleet("fleet")

    assert done.code == 2
    assert "crawlfleet hosts BIZ" in done.err


def test_hosts_of_a_biz_are_listed(crawlfleet, api):
    assert "nothing of this" in crawlfleet("hosts", BIZ).err
    until = "2026-03-01T12:00:00Z"
    api.platform.hosts = [
        host("bad.example", throttled=True, backing_off_until=until, success_share=0.25),
        host("new.example", success_share=None, latency_seconds=None, asked=0),
    ]

    done = crawlfleet("hosts", BIZ)

    assert done.code == 0
    assert "2026-03-01 12:00:00Z" in done.out
    assert "25%" in done.out
    assert [one["host"] for one in crawlfleet("hosts", BIZ, "--json").json()["hosts"]] == [
        "bad.example",
        "new.example",
    ]


UNUSED = {"name": "us", "size": None, "away": 0, "proxies": []}


def test_the_proxies_of_a_biz_are_listed_with_its_hosts_and_those_of_the_fleet_with_it(
    crawlfleet, api
):
    api.platform.proxies = [proxy_pool("eu", "http://10.0.0.1:3128"), UNUSED]

    for command in (("hosts", BIZ), ("fleet",)):
        done = crawlfleet(*command)
        assert done.code == 0
        assert "proxies eu (1 of 2 away)" in done.out
        for part in ("http://10.0.0.1:3128", "away", "2026-03-01 12:00:00Z", "50%", "silent"):
            assert part in done.out
        assert "proxies us: no worker has used them of late" in done.err
    found = crawlfleet("hosts", BIZ, "--json").json()["proxies"]
    assert [one["name"] for one in found] == ["eu", "us"]
    assert [one["away"] for one in found[0]["proxies"]] == [True, False]


@pytest.mark.parametrize(
    ("tick", "code", "said"),
    [
        ({"seconds_ago": 20.0, "took_seconds": 1.0, "faults": {}}, 0, "ok: its last tick ended"),
        ({"seconds_ago": None, "took_seconds": 0.0, "faults": {}}, 3, "broken: no tick of it"),
        ({"seconds_ago": 9.0, "took_seconds": 1.0, "faults": {"schedules": 2}}, 1, "look: of its"),
        (None, 0, None),
    ],
    ids=["well", "silent", "half fails", "an older version does not say"],
)
def test_a_scheduler_that_is_silent_or_half_fails_is_reported(crawlfleet, api, tick, code, said):
    if tick is None:
        api.held = False
        del api.platform.running["tick"]
    else:
        api.platform.running["tick"] = tick

    done = crawlfleet("doctor", "--json")

    assert done.code == code
    reported = checks(done).get("scheduler")
    assert (reported is None) if said is None else reported[0].startswith(said)
