"""The packages of spiders: who may be named, and when Python learns where they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.config import Spider
from tests.kit.executors import (
    Registry,
    ScrapyParameters,
    allow_spiders,
    allowed,
    carry_spiders,
    is_allowed,
)
from tests.kit.kernel import ConfigError, Settings, names, scrapy_packages

ROOT = Path(__file__).parents[4]
SPIDERS = ROOT / "samplesconfig" / "scrapy" / "project" / "spiders"

#: A consumer's environment as it starts, and as it reads its first page by a spider.
PROGRAM = f"""
import sys
HEAVY = set("scrapy twisted cryptography OpenSSL parsel shop".split())
# Drivers take what they find of these, in whatever environment the tests run.
for name in ("cryptography", "OpenSSL"):
    sys.modules[name] = None
import functions.consumer.handler
from {Settings.__module__} import Settings
from {Registry.__module__} import REGISTRY
from {carry_spiders.__module__} import carry_spiders, check_reader
from {Spider.__module__} import Spider
carry_spiders(Settings.from_environment().scrapy_packages)
spider = Spider(executor="scrapy", parameters=dict(spider="shop.tools:ToolsSpider"))
assert check_reader(spider) == []
loaded = sorted(name for name in HEAVY if sys.modules.get(name))
print(loaded, sys.path[-1].endswith("consumer/scrapy"))
for name in ("cryptography", "OpenSSL"):
    del sys.modules[name]
made = REGISTRY.find("scrapy")
from {ScrapyParameters.__module__} import ScrapyParameters
spider = made(ScrapyParameters(spider="shop.tools:ToolsSpider"), None)._spider()
print(spider.name, sys.path[-1], "twisted.internet.reactor" in sys.modules)
"""


def test_a_cold_start_imports_nothing_of_scrapy_and_no_spider_starts_a_reactor(tmp_path):
    carried = tmp_path / "functions" / "consumer" / "scrapy"
    carried.mkdir(parents=True)
    (carried / "shop").symlink_to(SPIDERS)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={
            "PYTHONPATH": ":".join([str(ROOT), *(path for path in sys.path if path)]),
            "AWS_DEFAULT_REGION": "eu-central-1",
            names.ENV_STAGE: "aws-large",
            names.ENV_SCRAPY_PACKAGES: "shop",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[] False", f"tools {carried} False"]


def test_only_whole_names_are_allowed():
    allow_spiders("acme_shop")

    assert is_allowed("acme_shop")
    assert is_allowed("acme_shop.spiders.tools")
    assert not is_allowed("acme_shops")
    assert not is_allowed("acme")
    assert not is_allowed("os.acme_shop")
    assert "acme_shop" in allowed()


def test_the_environment_names_the_packages():
    said = {names.ENV_STAGE: "aws-large", names.ENV_SCRAPY_PACKAGES: "shop, spiders"}

    assert Settings.from_environment(said).scrapy_packages == ("shop", "spiders")
    assert scrapy_packages(said) == ("shop", "spiders")
    assert scrapy_packages({}) == ()


@pytest.mark.parametrize("value", ["shop.spiders", "shop,", "../shop", "a b", ",", "shop,,x"])
def test_what_names_no_package_is_refused_by_the_variables_name(value):
    with pytest.raises(ConfigError, match=f"^{names.ENV_SCRAPY_PACKAGES}: "):
        scrapy_packages({names.ENV_SCRAPY_PACKAGES: value})
    with pytest.raises(ConfigError, match=f"^{names.ENV_SCRAPY_PACKAGES}: "):
        Settings.from_environment({names.ENV_STAGE: "x", names.ENV_SCRAPY_PACKAGES: value})
