"""A missing account or stage is named at once, before anything is synthesised."""

import dataclasses

import pytest
from moto import mock_aws

from infra import account
from infra.bundle import ROOT
from infra.removal.__main__ import main as removal
from infra.smoke.__main__ import main as smoke
from infra.stages import AWS_SMALL

COMMANDS = {
    "deploy": account.main,
    "smoke": smoke,
    "destroy": lambda arguments: removal(["obstacles", *arguments]),
    "adopt": lambda arguments: removal(["ready", *arguments]),
}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("COLUMNS", "300")


def stderr_of(captured: pytest.CaptureFixture[str]) -> str:
    said = captured.readouterr()
    return said.out + said.err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_stage_is_refused_with_the_known_ones(command, capsys):
    assert COMMANDS[command](["--stage", "aws-smal"]) == 1
    assert (
        stderr_of(capsys)
        == "no stage 'aws-smal'; the stages are aws-small, aws-large, localstack\n"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_without_credentials_one_is_asked_to_set_them(command, capsys):
    assert COMMANDS[command](["--stage", "aws-large"]) == 1
    assert "AWS_PROFILE" in stderr_of(capsys)


@pytest.mark.parametrize("command", ["deploy", "smoke", "destroy"])
def test_a_stage_of_this_machine_wants_a_localstack(command, capsys):
    assert COMMANDS[command](["--stage", "localstack"]) == 1
    said = stderr_of(capsys)
    assert "AWS_ENDPOINT_URL" in said
    assert "`make localstack`" in said
    assert "AWS_PROFILE" not in said


@pytest.mark.parametrize("stage", ["aws-small", "localstack"])
def test_a_stage_that_keeps_nothing_is_not_adopted(stage, capsys):
    assert COMMANDS["adopt"](["--stage", stage]) == 1
    said = stderr_of(capsys)
    assert said.startswith(f"{stage} ")
    assert "keep_state" in said


def test_whoever_has_an_account_deploys_with_whatever_else_cdk_is_given(monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    monkeypatch.setenv("CRAWLFLEET_NOTIFY", "ops@example.org")

    with mock_aws():
        assert account.main(["--stage", "aws-small", "--require-approval", "never", "-v"]) == 0
    assert stderr_of(capsys) == ""


@pytest.mark.parametrize("stage", ["aws-small", "aws-large"])
def test_a_stage_that_would_notify_nobody_is_refused_before_anything_is_built(
    stage, monkeypatch, capsys
):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")

    with mock_aws():
        assert account.main(["--stage", stage]) == 1
    said = stderr_of(capsys)
    assert "obody would be notified" in said
    assert "make deploy NOTIFY=" in said


def test_a_stage_that_says_where_it_stands_is_deployed_from_there_alone(monkeypatch, capsys):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("CRAWLFLEET_NOTIFY", "ops@example.org")
    elsewhere = dataclasses.replace(AWS_SMALL, region="ap-southeast-1")

    def main() -> int:
        return account.main([], find=lambda _: elsewhere)

    with mock_aws():
        assert main() == 1
        assert "ap-southeast-1" in (said := stderr_of(capsys))
        assert "AWS_DEFAULT_REGION=ap-southeast-1" in said
        monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-southeast-1")
        assert main() == 0


def test_the_profile_of_the_command_line_is_the_one_that_is_looked_for(monkeypatch, capsys):
    monkeypatch.setenv("AWS_PROFILE", "put back afterwards")

    assert account.main(["--profile", "nobody-has-it"]) == 1
    assert "nobody-has-it" in stderr_of(capsys)


@pytest.mark.parametrize(
    ("target", "look"), [("deploy", "infra.account"), ("adopt", "infra.removal ready")]
)
def test_make_looks_before_it_synthesises(target: str, look: str):
    recipe = (ROOT / "Makefile").read_text().partition(f"\n{target}:")[2].partition("\n\n")[0]

    assert recipe.splitlines()[1].startswith(f"\t@$(BIN)/python -m {look} --stage")
