"""Names tests use of the command line's parts that are tried below its commands."""

from crawlfleet.cli import diagnosis
from crawlfleet.cli import doctor_fleet as fleet_diagnosis
from crawlfleet.cli.config import push_folder, stage_client, validate_folder
from crawlfleet.cli.config_folder import (
    parse,
    read_file,
    read_folder,
    render,
    scan_folder,
    write_folder,
)
from crawlfleet.cli.console import Exit, progress
from crawlfleet.cli.diagnosis import EXITS, NAMES, Level, Reach, Saying, worst
from crawlfleet.cli.doctor import knock
from crawlfleet.cli.failures import judge
from crawlfleet.cli.local import find_checkout, state_folder
from crawlfleet.cli.main import COMMANDS, program, run
from crawlfleet.cli.rule_input import ask, choose
