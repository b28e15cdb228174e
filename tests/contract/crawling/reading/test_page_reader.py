"""Pages are read in a process of their own: what it has, what ends it, and who is to blame."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.kit.config import (
    Cast,
    DateFormats,
    Field,
    ReadingLimits,
    Rule,
    Spider,
    Step,
)
from tests.kit.executors import Executor
from tests.kit.extract import RuleExtractor
from tests.kit.kernel import ExtractError, Mask, NoReaderError, ReaderKilledError
from tests.kit.reading import (
    ARENA_BYTES,
    PAGE_READER,
    SLICE,
    PageReader,
    Spawner,
    WorkerExecutors,
    spawning_side,
)
from tests.kit.requests import Body, Link, Page, State
from tests.kit.worker import Worker
from tests.kit.worlds.memory import World
from tests.kit.worlds.worker import submitted, tracked
from tests.waiting import eventually, in_time

MODULE = "tests.contract.crawling.reading.poisonous"
URL = "https://example.org/"
BODY = Body(url=URL, rule="page", rule_version="1", depth=2)
RULE = Rule(fields={"title": Field(css="h1")})
LONG = Spider(executor="long", parameters={})
NOTHING = Mask(())
TIGHT = ReadingLimits(cpu_seconds=1, memory_mb=200)


def page(body=b"<h1>Nuts</h1>"):
    return Page(url=URL, status=200, headers={"content-type": "text/html"}, body=body)


def lines(count, *hostile):
    return b"\n".join([*(b"line" for _ in range(count)), *hostile])


@pytest.fixture(scope="module")
def spawner():
    made = Spawner(MODULE, {"AWS_SECRET_ACCESS_KEY": "s3cr3t", **os.environ}, manner=["honest"])
    yield made
    made.close()


@pytest.fixture(scope="module")
def liar():
    made = Spawner(MODULE, manner=["lies"])
    yield made
    made.close()


@pytest.fixture
def broken():
    made = []

    def of(manner):
        made.append(Spawner(MODULE, manner=[manner]))
        return made[-1]

    yield of
    for each in made:
        each.close()


def run(spawner, work, limits=TIGHT, wall_seconds=60.0):
    async def go():
        async with PageReader(spawner, lambda: limits, wall_seconds=wall_seconds) as reader:
            return await work(reader)

    return asyncio.run(go())


async def taken(reader, body, mask=NOTHING, seconds=5.0):
    found, more = [], True
    async with reader.begin(LONG, page(body), BODY, mask, ("acme", "shop")) as begun:
        while more:
            some, more, _ = await begun.next(seconds)
            found += some
    return found


def children(pid):
    """The processes that a process has started and not waited for."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return [
            int(child)
            for task in tasks.iterdir()
            for child in (task / "children").read_text().split()
        ]
    except FileNotFoundError:
        return []


# ---- what is read --------------------------------------------------------------------------------


def test_a_page_gives_in_another_process_what_it_gives_in_this_one(spawner):
    rule = Rule(
        items={"css": "li"},
        fields={
            "big": Field(css="b", type="integer"),
            "at": Field(css="time", type="date"),
            "json": Field(css="code", type="json"),
            "inner": Field(css="i", list=True),
        },
        follow=({"css": "a"},),
    )
    rule = msgspec.convert(msgspec.to_builtins(rule), Rule)
    content = (
        b'<ul><li><b>7</b><time>2024-03-05</time><code>{"n": [1.5, null]}</code><i>x</i><i>y</i>'
        b"<a href='/next'>n</a></ul>"
    )
    expected = RuleExtractor().harvest(rule, page(content), 2, {})

    found, seconds = run(spawner, lambda reader: reader.harvest(rule, page(content), BODY))

    assert found == expected
    assert [link.url for link in found.links] == [f"{URL}next"]
    assert 0 < seconds < 5


def test_links_of_pages_that_lie_deep_come_back(spawner):
    rule = msgspec.convert({"fields": {}, "follow": [{"css": "a", "max_depth": 1_000}]}, Rule)
    content = b"<a href='/next'>n</a>"
    deep = msgspec.structs.replace(BODY, depth=999)

    found, _ = run(spawner, lambda reader: reader.harvest(rule, page(content), deep))

    assert [(link.url, link.depth) for link in found.links] == [(f"{URL}next", 1_000)]


def test_the_places_of_errors_come_back_as_they_were(spawner):
    rule = Rule(fields={"price": Field(css="h1", type="number")})

    with pytest.raises(ExtractError, match=r"^price: 'Nuts' is not a number") as caught:
        run(spawner, lambda reader: reader.harvest(rule, page(), BODY))

    assert caught.value.field == "price"


def test_a_page_that_takes_long_keeps_no_other_tenants_pages_waiting(spawner):
    """Its tenant's further pages wait for it, in a reader that no other has anything to do with."""

    async def work(reader):
        long = asyncio.create_task(reader.harvest(RULE, page(b"hang"), BODY, "greedy"))
        await asyncio.sleep(0)
        found = [await reader.harvest(RULE, page(), BODY, "small")]
        next_one = asyncio.create_task(reader.harvest(RULE, page(), BODY, "greedy"))
        await asyncio.sleep(0)
        found.append(await reader.harvest(RULE, page(), BODY, "small"))
        waiting = not long.done(), not next_one.done()
        for one in (long, next_one):
            one.cancel()
        return [harvest.records for harvest, _ in found], waiting

    found, waiting = run(spawner, work)

    assert found == [({"title": "Nuts"},)] * 2
    assert waiting == (True, True)


def test_a_page_of_a_spider_goes_on_elsewhere_where_another_tenants_takes_long(spawner):
    """It loses nothing and repeats nothing; so do those that are only begun then."""

    async def work(reader):
        owner, found = ("small", "shop"), []
        async with reader.begin(LONG, page(lines(3 * SLICE)), BODY, owner=owner) as begun:
            some, more, _ = await begun.next(5.0)
            found += some
            hanging = asyncio.create_task(reader.harvest(RULE, page(b"hang"), BODY, "greedy"))
            await asyncio.sleep(0)
            async with reader.begin(LONG, page(lines(1)), BODY, owner=owner) as another:
                later, is_more = [], True
                while is_more:
                    part, is_more, _ = await another.next(5.0)
                    later += part
            while more:
                some, more, _ = await begun.next(5.0)
                found += some
        waiting = not hanging.done()
        hanging.cancel()
        return found, later, waiting

    found, later, waiting = run(spawner, work)

    assert [one["number"] for one in found] == list(range(3 * SLICE))
    assert len(later) == 1
    assert waiting


def test_a_page_of_a_spider_that_takes_long_keeps_no_other_tenants_waiting(spawner):
    async def work(reader):
        async with reader.begin(LONG, page(b"hang"), BODY, owner=("greedy", "shop")) as begun:
            hanging = asyncio.create_task(begun.next(5.0))
            await asyncio.sleep(0)
            found, _ = await reader.harvest(RULE, page(), BODY, "small")
            waiting = not hanging.done()
            hanging.cancel()
            await asyncio.wait((hanging,))
        return found.records, waiting

    assert run(spawner, work) == (({"title": "Nuts"},), True)


def test_a_long_page_comes_in_slices_and_others_are_read_meanwhile(spawner):
    async def work(reader):
        async with reader.begin(LONG, page(lines(3 * SLICE)), BODY) as begun:
            first, more, _ = await begun.next(5.0)
            between, _ = await reader.harvest(RULE, page(), BODY)
            found = [*first]
            while more:
                some, more, _ = await begun.next(5.0)
                found += some
            return len(first), between.records, found

    size, between, found = run(spawner, work)

    assert (size, between) == (SLICE, ({"title": "Nuts"},))
    assert [one["number"] for one in found] == list(range(3 * SLICE))
    assert (found[0]["of"], found[0]["half"]) == (str(2**70), "\ufffd")


def test_secrets_are_masked_by_the_worker(spawner):
    found = run(spawner, lambda reader: taken(reader, b"my sesame-open", Mask(["sesame-open"])))

    assert found[0]["line"] == "my ***"


# ---- what a reader has ---------------------------------------------------------------------------


#: Defences that every system has, and what each of the others refuses where it holds.
EVERYWHERE = ("cpu", "memory", "files", "environment", "capabilities")
REFUSED = {
    "other_processes": (
        "worker's environment",
        "worker's memory",
        "spawner's environment",
        "device",
        "new file",
        "file cut off",
    ),
    "system_calls": ("worker's limits", "signal", "socket", "program", "another process"),
    "capabilities": ("more limits",),
}


def test_a_reader_has_no_environment_and_no_descriptor_but_what_it_is_fed_by(spawner):
    async def work(reader):
        await reader.ready()
        [pid] = children(spawner.pid)
        at = Path(f"/proc/{pid}")
        files = [str(one.readlink()) for one in (at / "fd").iterdir()]
        harvest, _ = await reader.harvest(RULE, page(b"look"), BODY)
        return harvest.records[0]["seen"], (at / "environ").read_bytes(), files

    seen, started_with, files = run(spawner, work)

    assert seen["environment"] == {}
    assert b"s3cr3t" not in started_with
    assert sorted(one.partition(":")[0] for one in files) == (
        ["/dev/null"] * 3 + ["/memfd", "socket"]
    )


def test_a_reader_can_do_nothing_to_its_worker_or_its_machine_that_a_defence_refuses(spawner):
    async def work(reader):
        harvest, _ = await reader.harvest(RULE, page(b"look"), BODY)
        return harvest.records[0]["seen"], reader.defences

    seen, defences = run(spawner, work)

    assert {name: defences[name] for name in EVERYWHERE} == dict.fromkeys(EVERYWHERE, "ok")
    held = [name for name in REFUSED if defences[name] == "ok"]
    assert [harm for name in held for harm in REFUSED[name] if seen[harm] == "done"] == []
    assert seen["file read"] == "done"


def test_what_a_reader_prints_is_no_answer(spawner):
    found, _ = run(spawner, lambda reader: reader.harvest(RULE, page(b"print\n<h1>A</h1>"), BODY))

    assert found.records == ({"title": "A"},)


def test_where_the_system_refuses_defences_the_others_hold_and_a_log_line_names_them(
    broken, caplog
):
    caplog.set_level("INFO", logger="crawlfleet")

    async def work(reader):
        harvest, _ = await reader.harvest(RULE, page(), BODY)
        return harvest.records, reader.defences

    records, found = run(broken("Lambda"), work)

    assert records == ({"title": "Nuts"},)
    refused = {"orphans", "privileges", "other_processes", "system_calls"}
    assert {name for name, state in found.items() if state != "ok"} == refused
    [line] = [one for one in caplog.records if "lack" in one.getMessage()]
    assert line.missing.keys() == refused
    assert "not permitted" in line.missing["system_calls"]


# ---- what ends one -------------------------------------------------------------------------------

LIMITS = [("spin", "cpu"), ("memory", "memory"), ("crash", "crash"), ("hang", "time")]


@pytest.mark.parametrize(("poison", "limit"), LIMITS)
def test_of_fifty_pages_at_once_the_poisonous_one_alone_is_to_blame(spawner, poison, limit):
    async def work(reader):
        bodies = [b"<h1>Nuts</h1>"] * 49
        bodies.insert(20, poison.encode())
        reading = (reader.harvest(RULE, page(body), BODY) for body in bodies)
        return await asyncio.gather(*reading, return_exceptions=True)

    found = run(spawner, work, wall_seconds=2.0 if poison == "hang" else 60.0)

    blamed = found.pop(20)
    assert isinstance(blamed, ReaderKilledError), blamed
    assert blamed.limit == limit
    said = {"cpu": "1 CPU seconds", "memory": "200 MB", "crash": "SIGSEGV", "time": "2 seconds"}
    assert said[limit] in str(blamed)
    assert [harvest.records for harvest, _ in found] == [({"title": "Nuts"},)] * 49


@pytest.mark.parametrize("poison", ["crash", "spin"])
def test_long_pages_lose_and_repeat_nothing_when_their_reader_dies_of_another(spawner, poison):
    async def work(reader):
        async with reader.begin(LONG, page(lines(3 * SLICE)), BODY) as begun:
            found, more, _ = await begun.next(5.0)
            killed = await asyncio.gather(
                reader.harvest(RULE, page(poison.encode()), BODY), return_exceptions=True
            )
            while more:
                some, more, _ = await begun.next(5.0)
                found += some
            return found, killed

    found, [killed] = run(spawner, work)

    assert isinstance(killed, ReaderKilledError)
    assert [one["number"] for one in found] == list(range(3 * SLICE))


@pytest.mark.parametrize(("poison", "limit"), LIMITS)
def test_a_long_page_that_ends_its_reader_half_way_is_to_blame(spawner, poison, limit):
    async def work(reader):
        return await asyncio.gather(
            taken(reader, lines(SLICE + 5, poison.encode())),
            taken(reader, lines(2 * SLICE)),
            return_exceptions=True,
        )

    killed, other = run(spawner, work, wall_seconds=2.0 if poison == "hang" else 60.0)

    assert isinstance(killed, ReaderKilledError), killed
    assert (killed.limit, len(other)) == (limit, 2 * SLICE)


def test_a_reader_that_somebody_kills_while_it_reads_is_replaced(spawner):
    async def work(reader):
        await reader.harvest(RULE, page(), BODY)
        reading = asyncio.ensure_future(taken(reader, lines(20 * SLICE), seconds=0.0))
        await asyncio.sleep(0)
        [pid] = children(spawner.pid)
        os.kill(pid, signal.SIGKILL)
        return await reading, pid, children(spawner.pid)

    found, pid, after = run(spawner, work)

    assert len(found) == 20 * SLICE
    assert pid not in after


@pytest.mark.parametrize(
    "manner", ["garbage", "too long", "another", "of another kind", "twice", "half"]
)
def test_a_reader_that_lies_is_ended_and_believed_nothing(liar, manner):
    async def work(reader):
        return await asyncio.gather(
            *(reader.harvest(RULE, page(manner.encode()), BODY) for _ in range(2)),
            return_exceptions=True,
        )

    found = run(liar, work)

    kinds = {type(one) for one in found}
    assert kinds <= {ReaderKilledError, ExtractError}
    # The first of two answers is what was asked for; the second one is nobody's.
    assert (ReaderKilledError in kinds) == (manner != "twice")


# ---- none can be had -----------------------------------------------------------------------------


@pytest.mark.parametrize("manner", ["forks nothing", "dies"])
def test_where_no_reader_can_be_started_nothing_is_read(broken, manner):
    async def work(reader):
        with pytest.raises(NoReaderError, match="no reader of pages") as caught:
            await reader.ready()
        with pytest.raises(NoReaderError):
            await reader.harvest(RULE, page(), BODY)
        return caught.value.again_seconds

    assert run(broken(manner), work) > 0


@pytest.mark.parametrize("manner", ["is slow", "starts slowly", "answers nonsense"])
def test_a_spawner_that_is_late_or_talks_nonsense_is_ended_and_nothing_is_read(
    broken, monkeypatch, manner
):
    for name in ("START_SECONDS", "FORK_SECONDS", "END_SECONDS"):
        monkeypatch.setattr(spawning_side, name, 0.5)
    spawner = broken(manner)
    began = []

    async def work(reader):
        for _ in range(2):
            began.append(spawner.pid)
            with pytest.raises(NoReaderError, match="no reader of pages"):
                await reader.ready()
        began.append(spawner.pid)

    monkeypatch.setattr(spawning_side, "START_SECONDS", 5.0 if manner == "is slow" else 0.5)
    with in_time(15.0):
        run(spawner, work)

    assert began[-1] is None, "whoever is late is ended"
    assert [one for one in began if one is not None and Path(f"/proc/{one}").exists()] == []


def test_where_the_system_gives_no_process_nothing_is_read(monkeypatch):
    def refused(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)

    with pytest.raises(NoReaderError, match="temporarily unavailable"):
        run(Spawner(MODULE, manner=[]), lambda reader: reader.ready())


def test_a_spawner_that_was_killed_is_started_again(broken):
    spawner = broken("")

    async def work(reader):
        await reader.harvest(RULE, page(), BODY)
        os.kill(spawner.pid, signal.SIGKILL)
        try:
            found, _ = await reader.harvest(RULE, page(), BODY)
        except NoReaderError:
            found, _ = await reader.harvest(RULE, page(), BODY)
        return found.records

    assert run(spawner, work) == ({"title": "Nuts"},)


# ---- nothing is left -----------------------------------------------------------------------------


def test_a_hundred_readers_one_after_another_leave_no_descriptor_and_no_process(spawner):
    async def work(reader):
        await reader.ready()
        gc.collect()
        before = len([*Path("/proc/self/fd").iterdir()])
        pids = set()
        for _ in range(101):
            await asyncio.gather(*(reader.harvest(RULE, page(), BODY) for _ in range(4)))
            pids.update(children(spawner.pid))
        return before, len([*Path("/proc/self/fd").iterdir()]), len(pids)

    before, after, readers = run(spawner, work, ReadingLimits(pages=4))

    assert readers > 100
    assert after <= before + 1
    assert children(spawner.pid) == []


def test_a_worker_that_runs_out_of_time_waits_for_no_page(spawner):
    async def work(reader):
        reading = [asyncio.ensure_future(taken(reader, b"line\nhang"))]
        reading.append(asyncio.ensure_future(reader.harvest(RULE, page(b"hang"), BODY)))
        await asyncio.wait(reading, timeout=0.2)
        for one in reading:
            one.cancel()
        return await asyncio.gather(*reading, return_exceptions=True)

    with in_time(1.0):
        found = run(spawner, work)

    assert {type(one) for one in found} == {asyncio.CancelledError}
    assert children(spawner.pid) == []


SCRIPT = """
import asyncio, sys
from tests.kit.reading import PageReader, Spawner
async def go():
    spawner = Spawner({module!r}, manner=[])
    reader = PageReader(spawner)
    await reader.ready()
    print(spawner.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(go())
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_with_its_worker_a_reader_ends_however_that_does(how):
    command = [sys.executable, "-c", SCRIPT.format(module=MODULE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
        spawner = int(worker.stdout.readline())
        [reader] = children(spawner)
        worker.send_signal(how)

    def gone():
        return not any(Path(f"/proc/{pid}/environ").exists() for pid in (spawner, reader))

    eventually(gone)


def test_the_first_reader_of_a_worker_loads_what_its_pages_need_and_those_after_it_have_it():
    """The first is ready sooner so, and behind its defences it can still load its own code."""
    fields = {
        "xpath": Field(xpath="//h1/text()"),
        "regex": Field(css="h1", regex="(N.)"),
        "date": Field(css="time", type=Cast.DATE),
        "at": Field(css="i", transforms=(Step(date=DateFormats(formats=("%d.%m.%Y",))),)),
    }
    body = b"<h1>Nuts</h1><time>2024-03-05</time><i>5.3.2024</i>"
    made, pages = Spawner(PAGE_READER, packages=[], executors=[]), 2

    async def work(reader):
        read = [await reader.harvest(Rule(fields=fields), page(body), BODY) for _ in range(pages)]
        return [harvest.records for harvest, _ in read]

    try:
        found = run(made, work, ReadingLimits(pages=1))
    finally:
        made.close()

    here = RuleExtractor().harvest(Rule(fields=fields), page(body), 2, {}).records
    assert found == [tuple(here)] * pages
    assert all(here[0][name] for name in fields)


def test_the_products_own_reader_reads_a_page_and_a_file():
    spawner = Spawner(PAGE_READER, packages=[], executors=[])
    urls = b"https://example.org/1\nhttps://example.org/2"

    async def work(reader):
        harvest, _ = await reader.harvest(RULE, page(), BODY)
        listed = Spider(executor="url_list", parameters={"rule": "page"})
        async with reader.begin(listed, page(urls), BODY) as begun:
            found, _, _ = await begun.next(5.0)
        trial = await reader.tried(RULE, page(), BODY)
        wrong = await reader.checked(Rule(fields={"a": Field(css="p[")}))
        return harvest.records, found, trial.records, wrong

    try:
        records, found, tried, [wrong] = run(spawner, work)
    finally:
        spawner.close()

    assert records == tried == ({"title": "Nuts"},)
    assert [(type(link), link.url[-1]) for link in found] == [(Link, "1"), (Link, "2")]
    assert wrong.field == "fields.a.css"


# ---- what a worker makes of it -------------------------------------------------------------------


def work(world, reader, **pages):
    async def go():
        async with reader:
            services = world.work(
                {f"{URL}{name}": body for name, body in pages.items()}, reader=reader
            )
            return await Worker(services, "w").run()

    return asyncio.run(go())


def test_a_poisonous_page_is_one_dead_letter_and_costs_no_other_request_an_attempt(spawner):
    world = World()
    names = [f"p{number}" for number in range(50)]
    ids = dict(zip(names, submitted(world, *(URL + name for name in names)), strict=True))
    pages = dict.fromkeys(names, b"<title>Nuts</title>") | {"p20": b"crash"}

    report = work(world, PageReader(spawner, lambda: TIGHT), **pages)

    assert (report.done, report.dead, report.retried) == (49, 1, 0)
    dead = tracked(world, ids["p20"])
    assert dead.reason == "ReaderKilled"
    assert "SIGSEGV" in dead.error
    assert dead.answer.sample == b"crash"
    assert {tracked(world, ids[name]).attempts for name in names} == {1}


def test_a_page_that_took_too_long_is_charged_to_its_tenant(spawner):
    world = World()
    submitted(world, f"{URL}a")

    report = work(world, PageReader(spawner, lambda: TIGHT, wall_seconds=60.0), a=b"spin")

    assert report.dead == 1
    assert report.phases["extract"] >= 1.0


def test_while_no_reader_can_be_started_no_site_is_asked_and_no_attempt_is_counted(broken):
    world = World()
    [an_id] = submitted(world, f"{URL}a")

    report = work(world, PageReader(broken("forks nothing")), a=b"<title>Nuts</title>")

    found = tracked(world, an_id)
    assert (report.done, report.dead, report.bytes) == (0, 0, 0)
    assert found.state == State.PENDING
    assert "no reader of pages" in found.timeline[-1].why


# ---- executors of an operator's own --------------------------------------------------------------


def test_an_executor_that_asks_for_it_reads_in_the_worker(spawner):
    class Kept(Executor):
        name = "kept"
        isolated = False

        def read(self, page, context):
            for _ in range(SLICE + 1):
                yield {"pid": os.getpid()}

    class Registry:
        def find(self, name):
            return Kept

    async def work():
        own = WorkerExecutors(Registry())
        async with PageReader(spawner, in_worker=own) as reader:
            kept = Spider(executor="kept", parameters={})
            async with reader.begin(kept, page(), BODY) as begun:
                return [await begun.next(5.0), await begun.next(5.0)]

    [(first, more, _), (last, more_yet, _)] = asyncio.run(work())

    assert (len(first), more, len(last), more_yet) == (SLICE, True, 1, False)
    assert {one["pid"] for one in first} == {os.getpid()}


def test_the_built_in_executors_and_those_that_say_nothing_read_apart():
    class Registry:
        def find(self, name):
            return Executor

    own = WorkerExecutors(Registry())

    assert not own.has(Spider(executor="csv", parameters={}))
    assert not own.has(Spider(executor="mine", parameters={}))


@pytest.mark.parametrize("has_arena", [True, False])
def test_bodies_of_any_size_arrive_whole_through_shared_memory_and_without_it(
    spawner, monkeypatch, has_arena
):
    if not has_arena:
        monkeypatch.delattr(os, "memfd_create")
    sizes = [0, 1, 70_000, 400_000, ARENA_BYTES // 4, ARENA_BYTES // 4 + 1, 3_000_000] * 2

    async def work(reader):
        reading = (taken(reader, b"%d" % n + b"x" * size) for n, size in enumerate(sizes))
        return await asyncio.gather(*reading)

    found = run(spawner, work)

    assert [len(one["line"]) for [one] in found] == [
        len(str(n)) + size for n, size in enumerate(sizes)
    ]
