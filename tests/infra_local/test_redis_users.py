"""Redis users of the local cloud, against a real Redis that has read their file."""

import stat

import pytest
import redis

from infra.local.cloud import serve_arguments
from infra.local.parts import PartError
from infra.local.redis_server import RedisServer
from infra.local.server import redis_access
from infra.redis_users import AclFile, rules_of_tenant
from tests.kit.patience import patient
from tests.kit.redis import RedisConnection
from tests.scrapy_project.crawls import crawls
from tests.scrapy_project.site import PAGES, LinkedSite

#: A key of each kind, of two tenants and of the fleet.
THEIRS = (
    "cf:{scrapy:bolt:pages}:queue",
    "cf:{scrapy:acme-two:pages}:queue",
    "cf:{bolt:docs}:items",
    "bolt:start_urls",
    "cf:{acme:docs}:leases:main",
    "cf:{host:shop.example}:host",
    "cf:{fleet}:workers",
    "cf:{https://shop.example}:robots",
)
OWN = ("cf:{scrapy:acme:pages}:queue", "cf:{acme:docs}:items", "cf:{acme:shop}:items", "acme:x")


@pytest.fixture
def acl_file(tmp_path):
    return tmp_path / "redis-users.acl"


def test_a_tenants_user_sees_the_keys_of_its_tenant_and_no_other(acl_file):
    options = redis_access(acl_file, ["acme", "bolt"])
    password = AclFile(acl_file).write(["acme", "bolt"])["acme"]

    with RedisServer(own=True, options=options) as server:
        with redis.Redis.from_url(server.url) as everything:
            for key in (*THEIRS, *OWN):
                everything.set(key, "x")
        with redis.Redis.from_url(server.url, username="scrapy-acme", password=password) as acme:
            assert [acme.get(key) for key in OWN] == [b"x"] * len(OWN)
            for key in THEIRS:
                for call in (acme.get, acme.delete, acme.type):
                    with pytest.raises(redis.exceptions.NoPermissionError):
                        call(key)
            for command in ("KEYS", "SCAN", "FLUSHALL", "INFO", "CONFIG", "ACL", "MONITOR"):
                with pytest.raises(redis.ResponseError):
                    acme.execute_command(command, "*")


def test_on_a_cluster_it_sees_start_urls_in_transit_besides_and_nothing_else():
    rules = rules_of_tenant("acme", cluster=True).split()
    taking = "cf:{acme:x}:taking:acme:pages"

    with RedisServer(own=True) as server, redis.Redis.from_url(server.url) as everything:
        everything.execute_command("ACL", "SETUSER", "acme", "on", "nopass", *rules)
        for key in (*THEIRS, *OWN, taking):
            everything.set(key, "x")
        with redis.Redis.from_url(server.url, username="acme", password="any") as acme:
            assert [acme.get(key) for key in (*OWN, taking)] == [b"x"] * (len(OWN) + 1)
            for key in THEIRS:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    acme.get(key)


def test_a_crawl_runs_whole_as_the_user_of_its_tenant(acl_file, tmp_path, monkeypatch):
    options = redis_access(acl_file, ["acme"])
    monkeypatch.setenv("CRAWLFLEET_REDIS_PASSWORD", AclFile(acl_file).write(["acme"])["acme"])

    with (
        RedisServer(own=True, options=options) as server,
        RedisConnection(patient(server.url)) as everything,
        LinkedSite() as site,
    ):
        address = patient(server.url.replace("redis://", "redis://scrapy-acme@"))
        with crawls(everything, address, "acme", tmp_path) as project:
            stats = ("-s", "STATS_KEY=acme:stats", "-s", "REDIS_ITEMS_KEY=acme:items")
            more = ("-s", "STATS_CLASS=scrapy_redis.stats.RedisStatsCollector")
            log = project.run("pages", "-a", f"site={site.url}/0", *stats, *more)

            assert project.pages() == set(range(PAGES)), log[-3000:]
            assert everything.client.llen("acme:items") == PAGES + 1
            assert "NoPermission" not in log


def test_passwords_last_and_the_file_is_its_owners(acl_file):
    first = AclFile(acl_file).write(["acme"])
    second = AclFile(acl_file).write(["acme", "bolt"])

    assert second["acme"] == first["acme"] != second["bolt"]
    assert stat.S_IMODE(acl_file.stat().st_mode) == 0o600


def test_without_tenants_redis_has_no_users(acl_file):
    assert redis_access(acl_file, []) == ()
    assert not acl_file.exists()


def test_a_tenant_whose_user_would_see_everything_is_refused(acl_file):
    with pytest.raises(PartError, match="'cf' would see all keys"):
        redis_access(acl_file, ["cf"])


def test_the_serving_process_is_told_the_tenants(tmp_path):
    assert "--scrapy-user=acme" in serve_arguments(tmp_path, scrapy_users=["acme"])
