"""``crawlfleet config validate|push|pull|diff``: the config centre and a folder of files.

Exit codes, as everywhere in this program: 0 all is well; 1 the folder differs from the stage
(``diff``), or somebody else pushed meanwhile; 2 something is wrong with the configuration, every
mistake is printed, and nothing was changed; 3 the config centre does not answer.

Where a stage's configuration is kept: in AWS, or in a local cloud on this machine.
"""

import ipaddress
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from crawlfleet.cli.config.changes import (
    differences,
    different,
    listed,
    report_managed,
    report_others,
    stage_changes,
    tenants_elsewhere,
    warn_of_readers_that_go,
    warn_of_resolvers,
    with_remedies,
)
from crawlfleet.cli.config.versions import COMMANDS
from crawlfleet.cli.config_folder import file_of, read_folder, scan_folder, write_folder
from crawlfleet.cli.console import Exit, counted, note
from crawlfleet.cli.failures import NamingGroup
from crawlfleet.cli.terminal import say
from crawlfleet.config import publishing
from crawlfleet.config.loading import adopt
from crawlfleet.config.ssm import SsmApi
from crawlfleet.config.validation import ReaderCheck
from crawlfleet.kernel.aws import clients as aws
from crawlfleet.kernel.errors import ConfigError, Problem, StoreConflictError, StoreError
from crawlfleet.kernel.names import (
    CONFIG_STAGE,
    ENV_EXTRA_PACKAGES,
    ENV_STAGE,
    ENV_STATE,
)
from crawlfleet.sdk.address import LOCAL_FILE, local_file

#: The stage on one's own machine.
LOCAL_STAGE: Final = "local"
#: Variables with which one says oneself where AWS is.
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SSM")


class UnknownPlaceError(ConfigError):
    """The address of the stage is unknown; nothing is wrong with what was to be put there."""


def stage_client(
    stage: str,
    state: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> SsmApi:
    """Open a client of the stage's Parameter Store, patient enough for its ration of writes.

    The address comes from the usual ``AWS_*`` variables; that of the local stage, unless they name
    one, from the file that `crawlfleet up` writes: in ``state``, the folder it was told to use, or
    else below the working directory or one above it.

    Raises:
        UnknownPlaceError: the local stage was never up, or its file leads away from this machine;
            or the environment does not say where AWS is.
    """
    environ = os.environ if environ is None else environ
    options: dict[str, Any] = {"timeout_seconds": 10.0, "attempts": 10}
    if stage == LOCAL_STAGE and not any(environ.get(name) for name in _ENDPOINTS):
        options |= {
            "endpoint_url": _local_endpoint(local_file(start or Path.cwd(), state) or LOCAL_FILE),
            "region_name": "us-east-1",
            "aws_access_key_id": "local",
            "aws_secret_access_key": "local",
        }
    from botocore.exceptions import BotoCoreError

    try:
        client: SsmApi = aws.client("ssm", **options)
    except BotoCoreError as error:
        remedy = "set AWS_PROFILE, or AWS_DEFAULT_REGION and credentials"
        said = f"{str(error).rstrip('.')} to reach the stage {stage[:64]!r}: {remedy}"
        if stage != LOCAL_STAGE:
            said += f"; the stage on this machine is called {LOCAL_STAGE!r}"
        raise UnknownPlaceError((Problem("AWS", said),)) from error
    return client


def _local_endpoint(file: Path) -> str:
    try:
        endpoint = json.loads(file.read_text(encoding="utf-8"))["aws_endpoint_url"]
        host = urlsplit(endpoint).hostname
        sound = host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except FileNotFoundError:
        message = (
            "is not here; run `crawlfleet up`, or name the folder that it was started with, "
            f"with --state FOLDER or {ENV_STATE}"
        )
        raise UnknownPlaceError((Problem(str(file), message),)) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        sound = False
    if not sound:
        message = "has no aws_endpoint_url on this machine; run `crawlfleet up`"
        raise UnknownPlaceError((Problem(str(file), message),))
    return str(endpoint)


def push_folder(
    path: str | Path,
    stage: str,
    ssm_client: SsmApi,
    *,
    check_reader: ReaderCheck | None = None,
    delete: bool = False,
) -> publishing.Written:
    """Push a folder to a stage, as ``crawlfleet config push --yes`` does.

    Raises:
        ConfigError: there are mistakes; nothing was written.
        StoreError: the config centre does not answer, or somebody else pushed meanwhile.
    """
    documents, check = read_folder(Path(path)), check_reader or reader_check()
    return publishing.write_tree(ssm_client, stage, documents, check_reader=check, delete=delete)


def validate_folder(
    path: str | Path, check_reader: ReaderCheck | None = None
) -> tuple[Problem, ...]:
    """Every mistake of a folder, as far as it can be told without the stage."""
    documents, problems = scan_folder(Path(path))
    if any(problem.field == str(path) for problem in problems):  # it is another folder altogether
        return tuple(problems)
    unread = {problem.field for problem in problems}
    readable = {name: text for name, text in documents.items() if name not in unread}
    # A folder may hold bizs alone: the stage that it is pushed to has settings then, and tenants.
    there = dict.fromkeys(tenants_elsewhere(documents), "{}")
    verdict = adopt("", readable | there, None, {}, check_reader or reader_check())
    missing_only_here = {name for name in documents if name in unread} | (
        {CONFIG_STAGE} - documents.keys()
    )
    found = [each for each in verdict.problems if each.field not in missing_only_here]
    return (*problems, *found)


def reader_check() -> ReaderCheck:
    """Return the check of rules and spiders; the first one brings in the parsers.

    Raises:
        ConfigError: the environment's names of Scrapy packages are none, or a folder of its extra
            packages is.
    """
    from crawlfleet.apps.readers import carry_spiders, check_reader
    from crawlfleet.kernel.settings import extra_packages, scrapy_packages

    carry_spiders(scrapy_packages())
    _carry_extras(extra_packages())
    return check_reader


@cache
def _carry_extras(folders: tuple[str, ...]) -> None:
    """Let this process find the executors and resolvers of these packages, as functions do."""
    if not folders:
        return
    # Beside the product, in its checkout: whoever has the product alone installs the packages.
    from infra.local.extra_packages import carry_extras
    from infra.local.parts import PartError

    try:
        carry_extras(folders, ENV_EXTRA_PACKAGES)
    except PartError as error:
        problems = (line.partition(": ") for line in str(error).splitlines())
        raise ConfigError([Problem(field, said) for field, _, said in problems]) from error


# ---- the commands ------------------------------------------------------------------------------

_folder = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
_stage_help = "Name of the stage, such as local or aws-small."
_stage = click.option("--stage", envvar=ENV_STAGE, required=True, help=_stage_help)
_state = click.option(
    "--state",
    envvar=ENV_STATE,
    type=click.Path(file_okay=False, path_type=Path),
    help=f"For the stage local: the folder that `crawlfleet up --state` was given, or {ENV_STATE}.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(cls=NamingGroup)
def config() -> None:
    """Check, push, pull, compare and take back the configuration."""


for _command in COMMANDS:
    config.add_command(_command)


@config.command()
@_folder
@_json
def validate(folder: Path, as_json: bool) -> None:
    """Check every file of FOLDER; needs no AWS."""
    with _reported(as_json, changes=False, folder=True):
        problems = validate_folder(folder)
        if problems:
            raise ConfigError(problems)
        texts = read_folder(folder)
        warn_of_resolvers(texts)
        for path in tenants_elsewhere(texts):
            note(f"{path} is not in {folder}: the stage that it is pushed to must have it")
        found = {"valid": True, "documents": sorted(texts)}
        _say(as_json, found, f"{counted(len(texts), 'document')}, valid")


@config.command()
@_folder
@_stage
@_state
@click.option("--delete", is_flag=True, help="Remove documents of the stage that FOLDER lacks.")
@_yes
@_json
def push(
    folder: Path, stage: str, state: Path | None, delete: bool, yes: bool, as_json: bool
) -> None:
    """Put FOLDER in force. All of it is checked first; one mistake refuses the whole."""
    with _reported(as_json, folder=True):
        documents, problems = scan_folder(folder)
        if problems:  # then say what is wrong with the files that can be read, too
            raise ConfigError(validate_folder(folder))
        check = reader_check()
        client = stage_client(stage, state)
        warn_of_resolvers(documents)

        def prepare() -> publishing.Plan:
            now = datetime.now(UTC)
            try:
                return publishing.plan(
                    client, stage, documents, check_reader=check, now=now, delete=delete
                )
            except ConfigError as error:
                raise ConfigError(with_remedies(error.problems, documents, delete)) from error

        prepared = prepare()
        warn_of_readers_that_go(prepared.before, prepared.after)
        for line in stage_changes(prepared):
            note(line)
        if not yes and (prepared.put or prepared.deleted):
            _show(differences(prepared.before, prepared.after, stage, str(folder)), err=True)
            _confirm(f"Put this in force on {stage}?")
            # Thinking takes time, and a new generation must still be far enough ahead.
            shown, prepared = prepared, prepare()
            if prepared.revision != shown.revision:
                raise StoreConflictError(f"{stage} was pushed to by somebody else; look again")
        now = datetime.now(UTC)
        shows = sys.stderr.isatty() and not as_json
        progress = (lambda path: note(f"  {path}")) if shows else None
        done = publishing.carry_out(client, stage, prepared, now=now, progress=progress)
        written = {"revision": done.revision, "written": done.written, "deleted": done.deleted}
        changed = len(done.written) + len(done.deleted)
        sentence = f"revision {done.revision}: {counted(changed, 'document')} changed"
        if done.deleted:
            sentence += f", removed {listed(done.deleted)}"
        after = f"{sentence}; in force within ten seconds"
        _say(as_json, written, after if changed else f"nothing to do; {sentence}")
        report_managed(prepared.stored.documents, documents, folder)
        if not delete:
            report_others(prepared.stored.documents, documents, folder)


@config.command()
@_folder
@_stage
@_state
@_yes
@_json
def pull(folder: Path, stage: str, state: Path | None, yes: bool, as_json: bool) -> None:
    """Write the documents of the stage into FOLDER, where they differ.

    Comments are not stored in the config centre: a file that is overwritten loses its own.
    """
    with _reported(as_json):
        stored = publishing.read_documents(stage_client(stage, state), stage)
        here = read_folder(folder) if folder.exists() else {}
        changed = {
            path: text
            for path, text in stored.items()
            if here.get(path) != publishing.compact(text)
        }
        lost = [str(file_of(folder, path)) for path in changed if path in here]
        if lost and not yes:
            say("\n".join(lost), err=True)
            _confirm("Overwrite these, with any comments in them?")
        files = [str(file) for file in write_folder(folder, changed)]
        _say(as_json, {"files": files}, "\n".join(files) or "nothing to do")


@config.command()
@_folder
@_stage
@_state
@_json
def diff(folder: Path, stage: str, state: Path | None, as_json: bool) -> None:
    """Show what pushing FOLDER (with --delete) would change. Exits with 1 when something would."""
    with _reported(as_json, changes=False):
        stored = publishing.read_documents(stage_client(stage, state), stage)
        wanted = publishing.wanted_of(stored, read_folder(folder), delete=True)
        lines = list(differences(stored, wanted, stage, str(folder)))
        if as_json:
            paths = different(stored, wanted)
            say(json.dumps({"different": paths, "diff": "\n".join(lines)}))
        else:
            _show(lines)
    if lines:
        click.get_current_context().exit(Exit.FAILED)


def _show(lines: Iterator[str] | list[str], *, err: bool = False) -> None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        say(line, fg=colours.get(line[:1]), err=err)


def _confirm(question: str) -> None:
    """Ask; whoever says no ends the command, having changed nothing.

    An input that is no terminal and ends without an answer is a usage error.
    """
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        note("")  # the question stands there without an answer
        message = "nothing was changed: where nobody answers this, --yes does"
        raise click.UsageError(message) from None
    if not agreed:
        note("nothing was changed")
        click.get_current_context().exit(Exit.FAILED)


def _say(as_json: bool, facts: Mapping[str, object], sentence: str) -> None:
    say(json.dumps(facts) if as_json else sentence)


@contextmanager
def _reported(as_json: bool, *, changes: bool = True, folder: bool = False) -> Iterator[None]:
    """Turn our errors into what is printed and the exit code.

    ``changes`` for those that write, ``folder`` for those that judge a whole folder.
    """
    try:
        yield
    except UnknownPlaceError as error:  # no mistake of the folder
        if as_json:
            say(json.dumps({"error": str(error)}))
        note(f"{error}; nothing was changed" if changes else str(error))
        click.get_current_context().exit(Exit.BAD_INPUT)
    except ConfigError as error:
        if as_json:
            problems = [{"field": each.field, "message": each.message} for each in error.problems]
            say(json.dumps({"valid": False, "problems": problems}))
        for problem in () if as_json else error.problems:
            note(str(problem))
        if folder and any(each.field.partition(": ")[0] == CONFIG_STAGE for each in error.problems):
            note("whether it has the nodes that bizs name is checked once stage.yaml is right")
        mistakes = counted(len(error.problems), "mistake")
        note(f"{mistakes}; nothing was changed" if changes else mistakes)
        click.get_current_context().exit(Exit.BAD_INPUT)
    except StoreError as error:
        if as_json:
            say(json.dumps({"error": str(error)}))
        note(str(error))
        conflict = isinstance(error, StoreConflictError)
        click.get_current_context().exit(Exit.FAILED if conflict else Exit.UNREACHABLE)
