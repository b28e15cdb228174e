"""The local Lambda behaves as the real one where the platform relies on it."""

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from infra.local.lambda_service import (
    LambdaService,
    NothingToReserveError,
    ThrottledError,
    UnknownFunctionError,
)
from tests.infra_local.sample_functions import function, holding, is_alive


def run(folder, scenario, *functions, **options):
    """Run a scenario against a service that is stopped at the end."""

    async def whole():
        service = LambdaService(functions, folder, **options)
        try:
            return await asyncio.wait_for(scenario(service), 60)
        finally:
            pids = [pid for pool in service.pools.values() for pid in pool.pids]
            await service.stop()
            for pid in pids:
                assert not is_alive(pid)

    return asyncio.run(whole())


async def begun(path):
    """Wait for a file by which a handler says that it runs."""
    while not path.exists():  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.01)


def test_a_handler_is_reported_what_lambda_reports(tmp_path):
    async def scenario(service):
        return await service.invoke("local-echo", '{"a":\n 1}', "req-1")

    result = run(tmp_path, scenario, function("echo"))

    answer = json.loads(result.payload)
    remaining = answer.pop("remaining")
    assert not result.failed
    assert 25_000 < remaining <= 30_000
    assert answer == {
        "event": {"a": 1},
        "function_name": "local-echo",
        "request_id": "req-1",
        "memory": 256,
        "log_group": "/aws/lambda/local-echo",
        "arn": "arn:aws:lambda:us-east-1:123456789012:function:local-echo",
        "variable": "from the fleet",
    }
    assert (tmp_path / "logs" / "local-echo.log").read_text() == "echo was here\n"


def test_a_free_environment_is_used_again(tmp_path):
    async def scenario(service):
        return [json.loads((await service.invoke("local-count", "{}")).payload) for _ in range(3)]

    answers = run(tmp_path, scenario, function("count"))

    assert [answer["seen"] for answer in answers] == [1, 2, 3]
    assert len({answer["pid"] for answer in answers}) == 1


def test_a_busy_environment_makes_a_second_one_start_and_then_callers_are_throttled(tmp_path):
    first, second = holding(tmp_path, "first"), holding(tmp_path, "second")

    async def scenario(service):
        held = [
            asyncio.create_task(service.invoke("local-hold", json.dumps(event)))
            for event in (first, second)
        ]
        await begun(Path(first["begun"]))
        await begun(Path(second["begun"]))
        pids = set(service.pools["local-hold"].pids)
        with pytest.raises(ThrottledError):
            await service.invoke("local-hold", json.dumps(first))
        for event in (first, second):
            await asyncio.to_thread(Path(event["pipe"]).write_text, "go")
        return pids, [json.loads((await task).payload) for task in held]

    pids, answers = run(tmp_path, scenario, function("hold", limit=2, throttles=True))

    assert len(pids) == 2
    assert answers == ["go", "go"]


def test_callers_of_a_function_without_reserved_concurrency_wait_for_a_process(tmp_path):
    event = holding(tmp_path, "one")

    async def scenario(service):
        held = asyncio.create_task(service.invoke("local-hold", json.dumps(event)))
        await begun(Path(event["begun"]))
        waiting = asyncio.create_task(service.invoke("local-hold", json.dumps(event)))
        await asyncio.to_thread(Path(event["pipe"]).write_text, "first")
        first = await held
        await asyncio.to_thread(Path(event["pipe"]).write_text, "second")
        return json.loads(first.payload), json.loads((await waiting).payload)

    assert run(tmp_path, scenario, function("hold", limit=1)) == ("first", "second")


def test_a_handler_that_raises_is_reported_in_lambdas_words_and_its_environment_lives_on(tmp_path):
    async def scenario(service):
        event = json.dumps({"tries": str(tmp_path / "tries")})
        result = await service.invoke("local-fail", event, "req-2")
        return result, len(service.pools["local-fail"].pids)

    result, environments = run(tmp_path, scenario, function("fail"))

    error = json.loads(result.payload)
    assert result.failed
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "no such page")
    assert error["requestId"] == "req-2"
    assert "in fail" in error["stackTrace"][-1]
    assert environments == 1
    assert "ValueError: no such page" in (tmp_path / "logs" / "local-fail.log").read_text()


def test_a_crashed_environment_is_a_function_error_and_the_next_event_gets_a_new_one(tmp_path):
    async def scenario(service):
        stayed = await service.invoke("local-leave", '{"stay": true}')
        crashed = await service.invoke("local-leave", "{}", "req-3")
        again = await service.invoke("local-leave", '{"stay": true}')
        return stayed, crashed, again

    stayed, crashed, again = run(tmp_path, scenario, function("leave"))

    assert json.loads(crashed.payload) == {
        "errorType": "Runtime.ExitError",
        "errorMessage": "RequestId: req-3 Error: Runtime exited with error: exit status 3",
    }
    assert crashed.failed
    assert json.loads(stayed.payload) != json.loads(again.payload)


def test_an_environment_that_was_killed_while_it_was_idle_costs_no_event(tmp_path):
    async def scenario(service):
        first = await service.invoke("local-leave", '{"stay": true}')
        [killed] = service.pools["local-leave"].pids
        os.kill(killed, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # the event loop was quicker
            await asyncio.to_thread(os.waitid, os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        again = await service.invoke("local-leave", '{"stay": true}')
        return first, again, killed, service.pools["local-leave"].pids

    first, again, killed, pids = run(tmp_path, scenario, function("leave"))

    assert (first.failed, again.failed) == (False, False), again.payload
    assert len(pids) == 1
    assert killed not in pids


def test_an_event_that_takes_too_long_ends_with_its_environment(tmp_path):
    async def scenario(service):
        result = await service.invoke("local-hang", "{}", "req-4")
        return result, service.pools["local-hang"].pids, service.pools["local-hang"].busy

    result, pids, busy = run(tmp_path, scenario, function("hang", timeout_seconds=0.3))

    assert json.loads(result.payload) == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": "RequestId: req-4 Error: Task timed out after 0.30 seconds",
    }
    assert (pids, busy) == ([], 0)


@pytest.mark.parametrize(
    ("handler", "kind"),
    [("unserialisable", "Runtime.MarshalError"), ("nonesuch", "Runtime.ImportModuleError")],
)
def test_what_the_runtime_cannot_do_is_reported(tmp_path, handler, kind):
    async def scenario(service):
        return await service.invoke(f"local-{handler}", "{}")

    result = run(tmp_path, scenario, function(handler))

    assert result.failed
    assert json.loads(result.payload)["errorType"] == kind


def test_an_event_nobody_waits_for_is_tried_again_and_then_kept_as_a_dead_letter(tmp_path):
    tries = tmp_path / "tries"

    async def scenario(service):
        request_id = service.send("local-fail", json.dumps({"tries": str(tries)}))
        await begun(tmp_path / "dead-letters" / "local-fail.jsonl")
        return request_id

    request_id = run(
        tmp_path, scenario, function("fail", retry_attempts=2), retry_pauses=(0.01, 0.01)
    )

    (line,) = (tmp_path / "dead-letters" / "local-fail.jsonl").read_text().splitlines()
    dead_letter = json.loads(line)
    assert tries.read_text() == "try\n" * 3
    assert (dead_letter["requestId"], dead_letter["tries"]) == (request_id, 3)
    assert dead_letter["event"] == {"tries": str(tries)}
    assert dead_letter["error"]["errorType"] == "ValueError"


def test_an_event_nobody_waits_for_is_given_up_when_it_grew_too_old(tmp_path):
    event = holding(tmp_path, "one")

    async def scenario(service):
        held = asyncio.create_task(service.invoke("local-hold", json.dumps(event)))
        await begun(Path(event["begun"]))
        service.send("local-hold", json.dumps(event))
        await begun(tmp_path / "dead-letters" / "local-hold.jsonl")
        await asyncio.to_thread(Path(event["pipe"]).write_text, "go")
        await held

    run(
        tmp_path,
        scenario,
        function("hold", limit=1, throttles=True, max_event_age_seconds=0.2),
    )

    dead_letter = json.loads((tmp_path / "dead-letters" / "local-hold.jsonl").read_text())
    assert dead_letter["error"]["errorType"] == "EventAgeExceeded"
    assert dead_letter["tries"] == 0


def test_functions_are_found_by_name_and_arn(tmp_path):
    async def scenario(service):
        arn = "arn:aws:lambda:us-east-1:123456789012:function:local-count"
        result = await service.invoke(arn, "{}")
        with pytest.raises(UnknownFunctionError, match="local-nonesuch"):
            await service.invoke("local-nonesuch", "{}")
        return json.loads(result.payload)["seen"]

    assert run(tmp_path, scenario, function("count")) == 1


def test_reserved_concurrency_may_be_changed_and_is_honoured_at_once(tmp_path):
    first, second = holding(tmp_path, "first"), holding(tmp_path, "second")

    async def scenario(service):
        await service.reserve("local-hold", 1)
        held = [asyncio.create_task(service.invoke("local-hold", json.dumps(first)))]
        await begun(Path(first["begun"]))
        with pytest.raises(ThrottledError):
            await service.invoke("local-hold", json.dumps(second))
        await service.reserve("local-hold", 2)
        held.append(asyncio.create_task(service.invoke("local-hold", json.dumps(second))))
        await begun(Path(second["begun"]))
        await service.reserve("local-hold", 1)
        running = service.pools["local-hold"].busy
        for event in (first, second):
            await asyncio.to_thread(Path(event["pipe"]).write_text, "go")
        return running, [json.loads((await task).payload) for task in held]

    running, answers = run(tmp_path, scenario, function("hold", limit=2, throttles=True, ceiling=2))

    assert running == 2, "what runs is not cut short"
    assert answers == ["go", "go"]


def test_an_event_nobody_waits_for_starts_when_more_is_reserved(tmp_path):
    event = holding(tmp_path, "one")

    async def scenario(service):
        await service.reserve("local-hold", 0)
        service.send("local-hold", json.dumps(event))
        await asyncio.sleep(0)
        busy = service.pools["local-hold"].busy
        await service.reserve("local-hold", 1)
        await begun(Path(event["begun"]))
        await asyncio.to_thread(Path(event["pipe"]).write_text, "go")
        return busy

    assert run(tmp_path, scenario, function("hold", limit=2, throttles=True, ceiling=2)) == 0


def test_environments_that_idle_beyond_what_is_reserved_are_ended(tmp_path):
    first, second = holding(tmp_path, "first"), holding(tmp_path, "second")

    async def scenario(service):
        held = []
        for event in (first, second):
            held.append(asyncio.create_task(service.invoke("local-hold", json.dumps(event))))
            await begun(Path(event["begun"]))
        for event in (first, second):
            await asyncio.to_thread(Path(event["pipe"]).write_text, "go")
        await asyncio.gather(*held)
        pids = service.pools["local-hold"].pids
        await service.reserve("local-hold", 1)
        return pids, service.pools["local-hold"].pids, [pid for pid in pids if is_alive(pid)]

    before, after, alive = run(
        tmp_path, scenario, function("hold", limit=2, throttles=True, ceiling=2)
    )

    assert len(before) == 2
    assert after == alive
    assert len(after) == 1


@pytest.mark.parametrize(("ceiling", "count"), [(2, 3), (2, -1), (None, 1)])
def test_no_more_can_be_reserved_than_there_is_to_give(tmp_path, ceiling, count):
    async def scenario(service):
        with pytest.raises(NothingToReserveError):
            await service.reserve("local-count", count)
        return service.pools["local-count"].limit

    assert run(tmp_path, scenario, function("count", limit=2, ceiling=ceiling)) == 2
