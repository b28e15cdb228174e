"""Names tests use of the command line's parts that are tried below its commands."""

from crawlfleet.cli.config.command import push_folder, stage_client, validate_folder
from crawlfleet.cli.config_folder import (
    parse,
    read_file,
    read_folder,
    render,
    scan_folder,
    write_folder,
)
from crawlfleet.cli.console import Exit, progress
from crawlfleet.cli.doctor import diagnosis
from crawlfleet.cli.doctor import fleet as fleet_diagnosis
from crawlfleet.cli.doctor import tenants as tenant_diagnosis
from crawlfleet.cli.doctor.command import knock
from crawlfleet.cli.doctor.diagnosis import EXITS, NAMES, Level, Reach, Saying, worst
from crawlfleet.cli.failures import judge, report
from crawlfleet.cli.local import find_checkout, state_folder
from crawlfleet.cli.main import COMMANDS, program, run
from crawlfleet.cli.rules.input import ask, choose
from crawlfleet.cli.tenants.command import settings_of
