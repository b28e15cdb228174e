"""The board of jobs in Redis: its keys, its room, and a Redis that is full or away."""

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.contract.board_cases import NOW, SOON, WAIT, WINDOW, a_listing, lacks, list_jobs, won
from tests.kit.bidding import BoardBounds, ListingResult, RedisBoard, applications_key, board_keys
from tests.kit.bidding import board_keys_module as dictionary
from tests.kit.kernel import StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.redis import RedisConnection


def test_every_key_is_in_the_dictionary_has_its_type_and_no_ttl(redis_connection, tenant):
    board = RedisBoard(redis_connection, fleet=tenant)
    list_jobs(board, "a", "b", "c", "d")
    board.decline("main", {("acme", "docs", "a"): lacks("no")}, NOW)
    board.apply("w1", ("acme", "docs", "a"), b"", NOW, WINDOW)
    award = won(board, ("acme", "docs", "b"), "w2")
    board.acknowledge("w2", ("acme", "docs", "b"), award.number, NOW)
    won(board, ("acme", "docs", "d"), "w3")
    keys = [*board_keys(tenant), applications_key("acme/docs/a", tenant)]
    client = redis_connection.client

    assert {key.decode() for key in client.scan_iter(f"cf:{{{tenant}}}:*")} == set(keys)
    assert {client.ttl(key) for key in keys} == {-1}
    for key in keys:
        name = key.partition("}:")[2].partition(":")[0]
        row = next(line for line in dictionary.__doc__.splitlines() if f":{name}" in line)
        assert client.type(key).decode().upper() in row.split()


def test_a_board_on_which_nothing_is_left_takes_no_room(redis_connection, tenant):
    board = RedisBoard(redis_connection, fleet=tenant)
    list_jobs(board, "a", "b", pool="eu")
    board.apply("w1", ("acme", "docs", "a"), b"", NOW, WINDOW)
    won(board, ("acme", "docs", "b"), "w2")
    board.drop("acme", "docs", 9)

    left = {key.decode() for key in redis_connection.client.scan_iter(f"cf:{{{tenant}}}:*")}

    assert {key.rpartition("_")[2] for key in left} <= {"serial", "passes"}


@pytest.fixture
def full(monkeypatch):
    """A Redis of one's own, and what fills it."""
    monkeypatch.delenv(ENV_URL, raising=False)
    with RedisServer() as server, RedisConnection(patient(server.url)) as connection:
        yield connection


def test_a_full_redis_takes_no_listings_but_lets_listed_jobs_go_on(full):
    board = RedisBoard(full)
    list_jobs(board, *"abcdef")
    won(board, ("acme", "docs", "b"), "w2")
    full.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailableError):
            board.add(a_listing("g"), NOW, WAIT)
        award = won(board, ("acme", "docs", "a"), "w1")
        assert board.held("w1") == award
        assert board.acknowledge("w1", ("acme", "docs", "a"), award.number, NOW)
        assert board.lapse(SOON + WAIT, WAIT, 9) == [(("acme", "docs", "b"), "w2")]
        assert board.lower(("acme", "docs", "c"), 0, SOON, WAIT)
        won(board, ("acme", "docs", "d"), "w3")
        assert board.retract("w3", NOW, WAIT)
        assert board.withdraw(("acme", "docs", "e"))
        assert len(board.head("main", 9)) == len(board.stands("acme", None, None, 9)) == 4
    finally:
        full.client.config_set("maxmemory", 0)


@pytest.mark.long
def test_a_board_of_the_largest_size_is_read_in_milliseconds(full):
    board = RedisBoard(full)
    list_jobs(board, "rare", tenant="bolt")
    for n in range(BoardBounds().tenant_listings):
        board.add(a_listing(f"j{n:05}", document=b"x" * 400), NOW, WAIT)
    assert board.add(a_listing("more"), NOW, WAIT) is ListingResult.FULL
    before = full.client.info("commandstats")["cmdstat_evalsha"]
    for _ in range(50):
        assert len(board.head("main", 20)) == 20
    after = full.client.info("commandstats")["cmdstat_evalsha"]

    assert (after["usec"] - before["usec"]) / 50 < 5_000
    assert full.client.info("memory")["used_memory"] < 40_000_000


def test_nobody_there_is_said_so():
    board = RedisBoard(RedisConnection("redis://127.0.0.1:1", connect_seconds=0.2))

    for question in (
        lambda: board.head("main", 1),
        lambda: board.add(a_listing("a"), NOW, WAIT),
        lambda: board.retract("w1", NOW, WAIT),
        lambda: board.due_waits(NOW, 1),
        lambda: board.lapse(NOW, WAIT, 1),
    ):
        with pytest.raises(StoreUnavailableError):
            question()
