"""Some workers ask of the fleet's keys as a whole fleet does."""

import pytest

from benchmarks.fleet_load import in_names, load_of, name_of
from benchmarks.fleet_workers import Asked, commands_in


def beat(worker: int) -> tuple[str, list[bytes]]:
    return "beat", [b"EVALSHA", b"1f", b"1", b"cf:{fleet}:workers", name_of(worker).encode()]


READ = "heartbeats", [b"EVALSHA", b"2e", b"1", b"cf:{fleet}:pulses", b"5"]


def test_every_worker_of_the_fleet_does_in_a_second_what_one_has_done_in_one():
    each_second = Asked(seconds=5.0, redis=[beat(worker) for worker in (0, 1) for _ in range(5)])

    found = list(in_names(each_second, 2, 10))

    assert sorted(worker for worker, _ in found) == list(range(10))
    assert {call[-1].decode() for _, call in found} == {name_of(number) for number in range(10)}


def test_what_whoever_has_a_lock_asks_is_asked_by_one_of_all():
    found = list(in_names(Asked(seconds=5.0, redis=[READ] * 10), 2, 1_000))

    assert len(found) == 2


def test_a_load_is_a_workers_but_the_home_nodes_is_that_of_all():
    asked = Asked(seconds=2.0, redis=[beat(0), beat(1), READ, READ], home={"find rules": 8})

    load = load_of(asked, 2, 1_000)

    assert load.redis == {"beat": 0.5, "heartbeats": 0.5}
    assert (load.calls, load.home_calls) == (1.0, 4.0)


@pytest.mark.parametrize("call", [[b"PING"], [b"SET", b"", b"a\r\nb"], [b"GET", b"\x00*1"]])
def test_commands_are_read_as_they_were_sent(call: list[bytes]):
    sent = b"*%d\r\n" % len(call) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in call)

    assert list(commands_in(sent * 2)) == [call, call]
