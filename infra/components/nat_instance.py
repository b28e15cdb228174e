"""The first boot of a NAT instance: a service that makes a NAT of it and keeps it one.

CDK's own commands install the packet filter once, and CloudFormation calls the instance complete
whatever comes of it: where the installation fails, the VPC has no way out and nobody is told. Ours
is repeated until it is right (``nat_instance.sh``).

CloudFormation is not made to wait for it: a signal takes a helper of the image and a way to AWS,
and a deployment that is rolled back for want of either is worse than one that heals. Who is told is
written in docs/guides/deploy.md, "Egress".
"""

from pathlib import Path
from typing import Final

from aws_cdk import aws_ec2 as ec2

SCRIPT: Final = Path(__file__).with_name("nat_instance.sh")
_PROGRAM: Final = "/usr/local/sbin/crawlfleet-nat"
#: Ends the script within the user data; no line of the script may be this.
_END: Final = "END-OF-CRAWLFLEET-NAT"

#: Its words are on the console too, which is read without a way into the instance.
_UNIT: Final = f"""\
[Unit]
Description=Forwards and masquerades what private subnets send out
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={_PROGRAM}
Restart=always
RestartSec=5
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=multi-user.target
"""


def user_data() -> ec2.UserData:
    """The commands that cloud-init runs once: they write the service and start it."""
    commands = ec2.UserData.for_linux()
    commands.add_commands(
        f"cat > {_PROGRAM} <<'{_END}'\n{SCRIPT.read_text()}{_END}",
        f"chmod 755 {_PROGRAM}",
        f"cat > /etc/systemd/system/crawlfleet-nat.service <<'{_END}'\n{_UNIT}{_END}",
        "systemctl daemon-reload",
        "systemctl enable crawlfleet-nat.service",
        # Not waited for: cloud-init goes on, and so do its own uses of dnf.
        "systemctl start --no-block crawlfleet-nat.service",
    )
    return commands
