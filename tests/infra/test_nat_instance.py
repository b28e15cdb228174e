"""The boot script of a NAT instance, from its first boot through each of its failures.

The script runs as it is, in a folder of commands that stand for those of the image.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from infra.bundle import ROOT
from tests.infra.assembly import Assembly

SCRIPT = ROOT / "infra" / "components" / "nat_instance.sh"
#: Amazon's limit, of the text before it is encoded.
_MOST_BYTES = 16 * 1024
#: Taken as they are.
_TOOLS = ("bash", "awk", "grep", "cat", "mv", "rm", "touch", "timeout")

#: Each notes that it was called; what it does is what the real one does to files of its own.
_STUBS = {
    "ip": 'n=$(grep -c "^ip " calls); [ "$n" -gt "$(cat routeless)" ] && '
    'echo "default via 10.0.0.1 dev ens5 proto dhcp src 10.0.0.9 metric 512"; true',
    "dnf": 'n=$(grep -c "^dnf " calls); [ "$n" -gt "$(cat failures)" ] || exit 1; '
    "mv iptables-to-be bin/iptables",
    "swapon": 'case "$1" in --show*) cat swaps ;; *) echo "$1" >> swaps ;; esac',
    "mkswap": 'grep -q zero "$1"',
    "dd": 'for a; do case "$a" in of=*) echo zero > "${a#of=}" ;; esac; done',
    "sysctl": 'case "$1" in -n) cat forwards ;; *) case "$3" in *ip_forward=1) echo 1 > forwards ;;'
    " esac ;; esac",
    # A minute of rest is what it takes when all is well: the script is then ended, or disturbed.
    "sleep": '[ "$1" = 60 ] || exit 0; d=$(cat disturbance); : > disturbance; '
    '[ -n "$d" ] || { kill "$PPID"; exit 0; }; eval "$d"',
    "iptables-to-be": 'a="$*"; case "$a" in *" -C "*) grep -qxF -- "${a#*-C }" rules ;; '
    '*" -A "*) echo "${a#*-A }" >> rules ;; esac',
}
_RULE = "POSTROUTING -o ens5 -j MASQUERADE"


class Instance:
    """An instance that has booted, and what was done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for tool in _TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (folder / "bin" / tool).symlink_to(found)
        for name, does in _STUBS.items():
            stub = folder / name if name.endswith("-to-be") else folder / "bin" / name
            called = name.removesuffix("-to-be")
            stub.write_text(f'#!/bin/bash\necho "{called} $*" >> calls\n{does}\n')
            stub.chmod(0o755)
        for name in ("calls", "swaps", "rules", "disturbance"):
            (folder / name).touch()
        self.put("forwards", "0")
        self.put("failures", "0")
        self.put("routeless", "0")

    def put(self, name: str, text: str) -> None:
        (self.folder / name).write_text(f"{text}\n")

    def lines(self, name: str) -> list[str]:
        return (self.folder / name).read_text().splitlines()

    def called(self, command: str) -> list[str]:
        """Arguments of each call of a command, in their order."""
        calls = self.lines("calls")
        return [one.partition(" ")[2] for one in calls if one.startswith(f"{command} ")]

    def run(self) -> str:
        """Runs the script until all has been well for a minute; what it said."""
        done = subprocess.run(
            [str(self.folder / "bin" / "bash"), str(SCRIPT)],
            cwd=self.folder,
            env={"PATH": str(self.folder / "bin"), "SWAP": str(self.folder / "swapfile")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance(tmp_path)


def test_a_new_instance_forwards_and_masquerades_by_its_default_route(instance: Instance):
    said = instance.run()

    assert said == "crawlfleet-nat: forwards and masquerades on ens5\n"
    assert instance.lines("rules") == [_RULE]
    assert instance.lines("forwards") == ["1"]
    assert "-q -w net.ipv4.conf.ens5.send_redirects=0" in instance.called("sysctl")


def test_nothing_is_forwarded_before_it_is_masqueraded(instance: Instance):
    instance.run()

    calls = instance.lines("calls")
    ruled = next(n for n, one in enumerate(calls) if one.startswith("iptables") and "-A" in one)
    forwarded = next(n for n, one in enumerate(calls) if one.endswith("ip_forward=1"))
    assert ruled < forwarded


def test_an_installation_that_fails_is_repeated_and_less_and_less_often(instance: Instance):
    # Each time both packages are tried.
    instance.put("failures", "16")

    said = instance.run()

    waited = [int(seconds) for seconds in instance.called("sleep")]
    assert waited == [5, 10, 20, 40, 80, 160, 300, 300, 60]
    assert said.count("no packet filter") == 8
    assert instance.lines("rules") == [_RULE]


def test_the_other_package_is_tried_where_the_first_is_not_to_be_had(instance: Instance):
    instance.put("failures", "1")

    instance.run()

    assert [one.rpartition(" ")[2] for one in instance.called("dnf")] == [
        "iptables-nft",
        "iptables-services",
    ]
    assert instance.called("sleep") == ["60"]


def test_swap_is_there_before_anything_is_installed(instance: Instance):
    instance.run()

    calls = instance.lines("calls")
    swapped = calls.index(f"swapon {instance.folder / 'swapfile'}")
    installed = next(n for n, one in enumerate(calls) if one.startswith("dnf"))
    assert swapped < installed
    assert instance.lines("swaps") == [str(instance.folder / "swapfile")]


def test_without_room_for_swap_it_goes_on_without(instance: Instance):
    (instance.folder / "bin" / "mkswap").write_text("#!/bin/bash\nexit 1\n")

    said = instance.run()

    assert "no swap file" in said
    assert instance.lines("swaps") == []
    assert not (instance.folder / "swapfile").exists()
    assert instance.lines("rules") == [_RULE]


def test_a_way_out_that_comes_later_is_waited_for(instance: Instance):
    instance.put("routeless", "4")

    said = instance.run()

    assert "no default route" in said
    assert instance.lines("rules") == [_RULE]


@pytest.mark.parametrize("lost", [": > rules", "echo 0 > forwards", ": > rules; : > swaps"])
def test_what_is_lost_is_put_back_within_a_minute(instance: Instance, lost: str):
    instance.put("disturbance", lost)

    said = instance.run()

    assert said.count("on ens5") == 2
    assert instance.lines("rules") == [_RULE]
    assert instance.lines("forwards") == ["1"]


def test_after_a_reboot_it_needs_no_download(instance: Instance):
    instance.run()
    instance.put("calls", "")
    for lost in ("rules", "swaps"):
        (instance.folder / lost).write_text("")
    instance.put("forwards", "0")

    instance.run()

    assert instance.called("dnf") == []
    assert instance.called("dd") == []
    assert instance.lines("rules") == [_RULE]
    assert instance.lines("swaps") == [str(instance.folder / "swapfile")]


def user_data() -> str:
    """Arguments of a NAT instance, of the CDK, which is imported when it is asked for."""
    from infra.components import nat_instance

    rendered: str = nat_instance.user_data().render()
    return rendered


def test_the_user_data_writes_the_script_whole_and_fits(tmp_path: Path):
    text = user_data()

    assert len(text.encode()) < _MOST_BYTES
    assert f"\n{SCRIPT.read_text()}END-OF-CRAWLFLEET-NAT\n" in text
    whole = tmp_path / "user-data"
    whole.write_text(text)
    subprocess.run(["bash", "-n", str(whole)], check=True)
    # Both documents end where they should: else one would have swallowed the commands behind it.
    assert text.splitlines().count("END-OF-CRAWLFLEET-NAT") == 2
    assert "Restart=always" in text
    assert "systemctl enable crawlfleet-nat.service" in text


def test_every_nat_instance_runs_it_and_another_script_is_another_instance(assembly: Assembly):
    instances = assembly.resources("network", "AWS::EC2::Instance")

    reported = [one["Properties"]["UserData"]["Fn::Base64"] for one in instances.values()]
    assert reported == [user_data()] * len(instances)
    # User data runs at the first boot only: what stands would go on with the old script.
    endings = {key[-8:] for key in instances}
    assert len(endings) == 1
    assert not [key for key in instances if "NatInstance" not in key[:-8]]
