"""Names tests use of the command line's parts that are tried below its commands."""

from crawlfleet.cli import config, diagnosis, fleet_diagnosis
from crawlfleet.cli.asking import ask
from crawlfleet.cli.choosing import choose
from crawlfleet.cli.config import push_folder, stage_client, validate_folder
from crawlfleet.cli.console import progress
from crawlfleet.cli.diagnosis import EXITS, NAMES, Level, Reach, Saying, worst
from crawlfleet.cli.examining import knock
from crawlfleet.cli.failures import Exit, judge
from crawlfleet.cli.folder import parse, read_file, read_folder, render, scan_folder, write_folder
from crawlfleet.cli.local import find_checkout, state_folder
from crawlfleet.cli.main import COMMANDS, program, run
