"""``python -m infra.local up | down | status | event``: the local cloud from the command line.

``status`` ends with 0 where it runs and every part answers, with 1 where one does not, and with 3
where nothing runs; ``event`` with 0 where a job is started, with 1 where none is, and also with 3;
``down`` with 4 where there is no state folder.
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from crawlfleet.cli.terminal import printable
from infra.local.cloud import down, up
from infra.local.events import event_for, find_rule, hand_over, input_of, read_event
from infra.local.health import advice, look
from infra.local.notifications import latest
from infra.local.parts import PartError
from infra.local.pools import SHAPE, parse_pools
from infra.local.server import Options, serve
from infra.local.state import Addresses, StateFolder, export_hint, hint

#: Notifications that ``status`` shows.
_NOTIFICATIONS: Final = 5
#: Exit status of ``status`` where nothing runs, as that of init scripts.
NOT_RUNNING: Final = 3
#: Exit status of ``down`` where there is no state folder, as that of commands which find nothing.
NO_STATE: Final = 4


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port: 0 to 65535")
    return int(text)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no time such as 2026-03-10T12:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.local",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    starting = argparse.ArgumentParser(add_help=False)
    starting.add_argument("--consumers", type=int, default=2, help="most consumers at once")
    starting.add_argument("--port", type=_port, default=0, help="port of the API; 0 chooses one")
    starting.add_argument(
        "--scrapy",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a package with Scrapy spiders that consumers run, as a stage's scrapy_packages",
    )
    starting.add_argument(
        "--extra",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a package with executors or resolvers of your own, as a stage's extra_packages",
    )
    starting.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME:KEY=VALUE,...",
        help=f"a further kind of worker: {SHAPE}; the stage document's `pools` says how many",
    )
    starting.add_argument(
        "--scrapy-user",
        action="append",
        default=[],
        metavar="TENANT",
        help="a Redis user for Scrapy processes of a tenant, which sees its keys alone; its"
        " password is in STATE/redis-users.acl",
    )
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument("--state", type=Path, default=Path(".crawlfleet"), help="state folder")

    start = commands.add_parser("up", parents=[folder, starting], help="start it")
    start.add_argument("--foreground", action="store_true", help="serve until interrupted")
    serving = commands.add_parser("serve", parents=[folder, starting], help="what `up` starts")
    serving.add_argument("--no-ticks", action="store_true", help="clocks fire only when told to")
    serving.add_argument("--no-seed", action="store_true", help="leave the config centre empty")
    serving.add_argument("--env", action="append", default=[], help="NAME=value for the functions")
    serving.add_argument("--stream-readers", type=int, default=1, help="readers of streams")
    commands.add_parser("down", parents=[folder], help="stop it; data stays")
    commands.add_parser("status", parents=[folder], help="tell whether it runs, where, and how")
    event = commands.add_parser(
        "event", parents=[folder], help="try a stage's rule that starts a spider on what runs here"
    )
    event.add_argument("--stage", required=True, help="the stage of infra/stages.py that has it")
    event.add_argument("--rule", required=True, help="the name of one of its spider_rules")
    event.add_argument(
        "--event",
        type=Path,
        metavar="FILE",
        help="the event as EventBridge has it, for a rule with a pattern: source, detail-type and"
        " detail; its id is made up where the file has none",
    )
    event.add_argument(
        "--at", type=_time, default=None, metavar="TIME", help="when a rule with a clock fires; now"
    )
    event.add_argument("--json", action="store_true", help="print what was handed over, and back")
    return parser


def _pools(addresses: Addresses) -> str:
    """The further kinds of worker, a line each."""
    return "".join(f"\n  pool      {pool}" for pool in addresses.pools)


def _show(addresses: Addresses) -> None:
    print(
        f"""  API       {addresses.api_url}
  console   {addresses.api_url}/console/
  API key   {addresses.api_key}
  Redis     {addresses.redis_url}
  MongoDB   {addresses.mongo_uri}
  AWS       {addresses.aws_endpoint_url}
  Lambda    {addresses.lambda_endpoint_url}
  logs      {addresses.log_dir}{_pools(addresses)}

  curl -H 'x-api-key: {addresses.api_key}' {addresses.api_url}/health"""
    )


def _status(running: Addresses, notifications: Path) -> int:
    """Show what runs and how each part of it is; return the exit status."""
    print(f"running, process {running.pid}\n")
    _show(running)
    parts = look(running)
    print("\n" + "\n".join(f"  {health}" for health in parts))
    if reported := latest(notifications, _NOTIFICATIONS):
        print(f"\nthe latest notifications, whole in {notifications}:")
        print("\n".join(f"  {each.at}  {printable(each.subject)}" for each in reported))
    said = advice(parts, running.log_dir)
    if said:
        print(f"\nerror: {said}", file=sys.stderr)
    return 1 if said else 0


def _try_rule(running: Addresses, options: argparse.Namespace) -> int:
    """Hand over what a rule makes of an event; return the exit status."""
    rule = find_rule(options.stage, options.rule)
    given = None if options.event is None else read_event(options.event)
    at = options.at or datetime.now(UTC)
    said = input_of(rule, event_for(rule, options.stage, given, at))
    handed = hand_over(running, said)
    if options.json:
        print(json.dumps({"input": handed.input, "answer": handed.answer}))
    else:
        print(f"  the scheduler gets  {printable(json.dumps(handed.input))}")
        print(f"  and answers         {printable(json.dumps(handed.answer))}")
    if not rule.enabled:
        print(f"note: {rule.name} is disabled in {options.stage}", file=sys.stderr)
    if not handed.started:
        print("error: it starts nothing", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Run one command; return its exit status."""
    options = _parser().parse_args(arguments)
    folder = StateFolder(options.state)
    try:
        # What is said wrongly is told here, and not by the log of what it would start.
        parse_pools(getattr(options, "pool", ()))
        match options.command:
            case "serve":
                serve(
                    Options(
                        state=options.state,
                        consumers=options.consumers,
                        ticking=not options.no_ticks,
                        seed=not options.no_seed,
                        api_port=options.port,
                        scrapy=options.scrapy,
                        extra=options.extra,
                        pools=options.pool,
                        scrapy_users=options.scrapy_user,
                        stream_readers=options.stream_readers,
                        variables=dict(pair.split("=", 1) for pair in options.env),
                    )
                )
            case "up" if options.foreground:
                print(f"serving; addresses will be in {folder.addresses_path}; Ctrl-C stops it")
                serve(
                    Options(
                        state=options.state,
                        consumers=options.consumers,
                        api_port=options.port,
                        scrapy=options.scrapy,
                        extra=options.extra,
                        pools=options.pool,
                        scrapy_users=options.scrapy_user,
                    )
                )
            case "up":
                addresses = up(
                    options.state,
                    consumers=options.consumers,
                    api_port=options.port,
                    scrapy=options.scrapy,
                    extra=options.extra,
                    pools=options.pool,
                    scrapy_users=options.scrapy_user,
                )
                print(f"Crawlfleet is up; `{hint('down', folder.path)}` stops it.")
                print(export_hint(folder.path))
                _show(addresses)
            case "down" if not folder.path.is_dir():
                print(
                    f"nothing to stop: there is no folder {folder.path}, so no local cloud was "
                    f"started with it; `{hint('up', folder.path)}` starts one",
                    file=sys.stderr,
                )
                return NO_STATE
            case "down":
                stopped = down(options.state)
                print(
                    f"stopped; data stays in {folder.path}"
                    if stopped
                    else f"nothing was running in {folder.path}"
                )
            case command:
                running = folder.read() if folder.is_served() else None
                if running is None:
                    print(f"not running; `{hint('up', folder.path)}` starts it")
                    return NOT_RUNNING
                if command == "event":
                    return _try_rule(running, options)
                return _status(running, folder.notifications_dir)
    except PartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
