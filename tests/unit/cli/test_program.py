import contextlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.kit.cli import COMMANDS, find_checkout, judge, program, state_folder
from tests.kit.kernel import VERSION, CrawlfleetError, LeaseLostError

ROOT = Path(__file__).parents[3]
HEAVY = "{'rich', 'requests', 'boto3', 'pymongo', 'redis', 'aiohttp', 'lxml', 'infra'}"


def in_process(program_text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program_text],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose local cloud is a few lines that show how they were called."""
    (tmp_path / "layers/crawlfleet/python/crawlfleet").mkdir(parents=True)
    local = tmp_path / "infra/local"
    local.mkdir(parents=True)
    (tmp_path / "infra/__init__.py").touch()
    (local / "__init__.py").touch()
    body = """
        import json, os, pathlib, sys
        print(json.dumps({"cwd": os.getcwd(), "module": __spec__.name, "arguments": sys.argv[1:]}))
        if "--state" in sys.argv and "up" in sys.argv:
            state = pathlib.Path(sys.argv[sys.argv.index("--state") + 1])
            state.mkdir(exist_ok=True)
            (state / "local.json").write_text('{"api_url": "http://127.0.0.1:1", "api_key": "k"}')
        sys.exit(7 if "--fail" in sys.argv else 0)
    """
    text = "\n".join(line[8:] for line in body.splitlines())
    (local / "__main__.py").write_text(text)
    (local / "demo.py").write_text(text)
    return tmp_path


def test_help_names_every_command_and_every_exit_code(crawlfleet):
    done = crawlfleet("--help")

    assert done.code == 0
    assert all(f"\n  {name} " in done.out for name in COMMANDS)
    assert all(f"\n    {code}  " in done.out for code in range(6))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says_and_is_what_it_says(name, crawlfleet):
    command = program.get_command(None, name)

    assert command.name == name
    first = " ".join(command.help.split("\n\n")[0].split())
    assert first.startswith(COMMANDS[name].summary.split("; ")[0].rstrip("."))
    assert crawlfleet(name, "--help").code == 0


def test_help_imports_no_command():
    done = in_process(
        "import sys; from crawlfleet.cli.main import run; run(['--help']);"
        f"print(sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
    )

    assert done.stderr.strip() == "[]"


def test_an_unknown_command_is_a_error_of_usage(crawlfleet):
    done = crawlfleet("sumbit")

    assert done.code == 2
    assert "sumbit" in done.err


@pytest.mark.parametrize(
    ("words", "meant"), [(("jobs",), "job"), (("job", "lst"), "list"), (("config", "pul"), "pull")]
)
def test_an_unknown_command_is_told_those_there_are_the_closest_first(crawlfleet, words, meant):
    done = crawlfleet(*words)

    assert done.code == 2
    assert f"No such command {words[-1]!r}; there are {meant}, " in done.err


def test_the_version_is_reported(crawlfleet):
    assert crawlfleet("version", "--json").json()["crawlfleet"] == VERSION
    assert VERSION in crawlfleet("version").out
    assert crawlfleet("--version").out == f"crawlfleet {VERSION}\n"


def test_without_an_address_it_says_what_to_do(crawlfleet, monkeypatch, tmp_path):
    monkeypatch.delenv("CRAWLFLEET_API_URL", raising=False)
    monkeypatch.delenv("CRAWLFLEET_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)

    done = crawlfleet("stats", "news")

    assert done.code == 2
    assert len(done.err.splitlines()) == 1  # one export mends both
    assert "crawlfleet up" in done.err


def test_outside_the_checkout_of_a_local_cloud_the_one_command_that_helps_is_named(
    crawlfleet, monkeypatch, tmp_path
):
    monkeypatch.delenv("CRAWLFLEET_API_URL", raising=False)
    monkeypatch.delenv("CRAWLFLEET_API_KEY", raising=False)
    state = tmp_path / "a checkout" / ".crawlfleet"
    state.mkdir(parents=True)
    (state / "local.json").write_text('{"api_url": "http://127.0.0.1:9", "api_key": "k"}')
    monkeypatch.setattr("crawlfleet.sdk.address._PACKAGE", state.parent / "layers" / "sdk")
    monkeypatch.chdir(tmp_path)

    done = crawlfleet("stats", "news")

    assert done.code == 2
    [command] = set(re.findall("`(.*?)`", done.err))
    assert command == f"export CRAWLFLEET_STATE='{state}'"
    name, _, value = command.removeprefix("export ").partition("=")
    monkeypatch.setenv(name, shlex.split(value)[0])
    assert crawlfleet("stats", "news").code == 3


def test_a_reader_that_has_seen_enough_is_no_error(api):
    for n in range(2000):
        api.records.append({"id": str(n), "request_id": "1", "url": "x" * 100, "fields": {}})

    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m crawlfleet.cli records news | head -1"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert json.loads(done.stdout)["id"] == "0"
    assert done.stderr == ""


def test_every_other_error_fails_without_a_hint():
    assert judge(LeaseLostError("x")) == (1, "")
    assert judge(CrawlfleetError()) == (1, "")


# ---- the local cloud -----------------------------------------------------------------------------


def test_the_local_cloud_is_started_from_the_checkout_above(crawlfleet, checkout, monkeypatch):
    below = checkout / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    up = crawlfleet("up", "--port", "4000").json()
    down = crawlfleet("down").json()

    state = ["--state", str(checkout / ".crawlfleet")]
    assert up["cwd"] == str(checkout)
    assert up["arguments"] == ["up", *state, "--port", "4000"]
    assert down["arguments"] == ["down", *state]


def test_a_state_folder_may_be_chosen(crawlfleet, checkout, monkeypatch):
    monkeypatch.chdir(checkout)

    called = crawlfleet("up", "--state", "mine").json()

    assert called["arguments"] == ["up", "--state", str(checkout / "mine")]
    monkeypatch.setenv("CRAWLFLEET_STATE", "theirs")
    assert crawlfleet("down").json()["arguments"] == ["down", "--state", str(checkout / "theirs")]


def test_scripts_get_the_addresses(crawlfleet, checkout, monkeypatch):
    monkeypatch.chdir(checkout)

    done = crawlfleet("up", "--json")

    assert done.json()["api_url"] == "http://127.0.0.1:1"
    assert crawlfleet("down", "--json").json()["running"] is False


def test_the_demo_gets_its_options_and_its_exit_code_comes_back(crawlfleet, checkout, monkeypatch):
    monkeypatch.chdir(checkout)

    done = crawlfleet("demo", "--url", "https://example.org", "--json", "--pages", "5")

    assert done.json()["module"].endswith("demo") or done.json()["module"] == "__main__"
    assert done.json()["arguments"] == ["--url", "https://example.org", "--json", "--pages", "5"]
    assert crawlfleet("demo", "--stream").json()["arguments"] == ["--stream"]
    assert crawlfleet("demo", "--fail").code == 7


def test_without_a_checkout_it_says_what_to_do(capsys, tmp_path):
    with pytest.raises(click.exceptions.Exit) as caught:
        find_checkout("down", [tmp_path])

    said = capsys.readouterr().err
    assert caught.value.exit_code == 4
    assert "`make down`" in said
    assert "make up" not in said
    assert "CRAWLFLEET_API_URL" in said


def test_outside_any_checkout_the_package_finds_its_own(crawlfleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert find_checkout("up") == ROOT
    assert state_folder(None, ROOT) == tmp_path / ".crawlfleet"


def test_a_request_to_end_reaches_the_local_cloud(checkout):
    (checkout / "infra/local/demo.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )

    with subprocess.Popen(
        [sys.executable, "-m", "crawlfleet.cli", "demo"],
        cwd=checkout,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as running:
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 9


def on_a_terminal(*arguments: str) -> bytes:
    """Run the program on a terminal 120 columns wide, in its own process; return its output."""
    main, terminal = pty.openpty()
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COLUMNS": "120",
        "LINES": "40",
        "TERM": "xterm",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "crawlfleet.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        env=environ,
    ) as running:
        os.close(terminal)
        drawn = b""
        # A terminal whose last program has ended answers with an error, not with an end.
        with contextlib.suppress(OSError):
            while part := os.read(main, 65_536):
                drawn += part
        assert running.wait(60) == 0
    os.close(main)
    return drawn


def test_people_see_progress_while_scripts_do_not(api):
    api.done_after = 2

    drawn = on_a_terminal("submit", "news", "https://example.org/1", "--wait")

    assert b"submitted" in drawn
    assert b"finished" in drawn
    assert b"1/1" in drawn


def test_watching_on_a_terminal_draws_in_place(api):
    drawn = on_a_terminal("stats", "news", "--watch", "--interval", "0.01", "--times", "3")

    assert drawn.count(b"news: totals") >= 3
    assert b"\x1b[1A" in drawn


def completed(*words: str) -> str:
    """The program's answer to a shell that asks how the last word goes on."""
    asked = {
        "_CRAWLFLEET_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("crawlfleet", *words)),
        "COMP_CWORD": str(len(words)),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-X", "importtime", "-m", "crawlfleet.cli"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | asked, check=False
    )
    assert "crawlfleet.cli.submission" not in done.stderr
    return done.stdout


def test_a_shell_completes_commands_options_and_their_values():
    assert completed("rec") == "plain,records\n"
    assert completed("job", "st") == "plain,start\n"
    assert completed("records", "news", "--rule-v") == "plain,--rule-version\n"
    assert completed("records", "news", "--order", "n") == "plain,newest\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_completes_commands_is_printed_for_each_shell(crawlfleet, shell):
    done = crawlfleet("completion", shell)

    assert (done.code, "_CRAWLFLEET_COMPLETE" in done.out) == (0, True)


def test_states_have_a_colour_on_a_terminal_and_none_elsewhere(crawlfleet, api, monkeypatch):
    api.requests["7"] = {"id": "7", "url": "https://example.org/", "state": "dead"}

    def shown(**environ: str) -> bytes:
        """The list of requests as a terminal gets it."""
        ours, theirs = pty.openpty()
        subprocess.run(
            [sys.executable, "-m", "crawlfleet.cli", "requests", "news"],
            stdout=theirs,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), **environ},
            check=True,
        )
        os.close(theirs)
        with contextlib.closing(os.fdopen(ours, "rb", buffering=0)) as stream:
            return stream.read(10_000)

    assert b"\x1b[31mdead" in shown()
    assert b"\x1b" not in shown(NO_COLOR="1")
    assert "\x1b" not in crawlfleet("requests", "news").out


def test_tables_keep_the_width_that_columns_says_and_ids_whole(crawlfleet, api, monkeypatch):
    api.jobs.keep("nightly.20261121T030000Z", spider="a-spider-with-a-long-name-of-its-own")
    monkeypatch.setenv("COLUMNS", "70")

    narrow = crawlfleet("job", "list", "news")

    assert "nightly.20261121T030000Z" in narrow.out
    assert max(map(len, narrow.lines)) <= 70
    monkeypatch.delenv("COLUMNS")
    assert max(map(len, crawlfleet("job", "list", "news").lines)) <= 120
