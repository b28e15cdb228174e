"""Helpers of the config centre's tests: SSM with counted calls, a clock, a large document."""

import hashlib
from collections import Counter

from tests.config_documents import biz
from tests.kit.config import SsmConfig, write_tree
from tests.kit.kernel import names

ROOT = "/crawlfleet/test"
CONFIG_SNAPSHOT = names.CONFIG_SNAPSHOT


class CountedSsm:
    """Passes every call on. ``before[name]`` is called once, before the next call of that name."""

    def __init__(self, client):
        self.client = client
        self.calls = Counter()
        self.before = {}
        self.failure = None

    def __getattr__(self, name):
        def call(**arguments):
            self.calls[name] += 1
            step = self.before.pop(name, None)
            if step is not None:
                step()
            if self.failure is not None:
                raise self.failure
            return getattr(self.client, name)(**arguments)

        return call


class Clock:
    """Epoch seconds that a test moves."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


def reader(ssm, clock, **options):
    return SsmConfig(ssm, "test", clock=clock, pause=lambda seconds: None, **options)


def push(ssm, documents, **options):
    return write_tree(ssm.client, "test", documents, **options)


def put(ssm, path, value):
    ssm.client.put_parameter(Name=f"{ROOT}/{path}", Value=value, Type="String", Overwrite=True)


def names_below(ssm, path):
    pages = ssm.client.get_paginator("get_parameters_by_path")
    found = pages.paginate(Path=f"{ROOT}/{path}", Recursive=True, WithDecryption=True)
    names = {each["Name"].removeprefix(f"{ROOT}/") for page in found for each in page["Parameters"]}
    return {name for name in names if not name.startswith(f"{CONFIG_SNAPSHOT}/")}


def slots(ssm):
    """The snapshot's slots, by name below the root."""
    pages = ssm.client.get_paginator("get_parameters_by_path")
    found = pages.paginate(Path=f"{ROOT}/{CONFIG_SNAPSHOT}", WithDecryption=True)
    every = [each for page in found for each in page["Parameters"]]
    return {each["Name"].removeprefix(f"{ROOT}/"): each["Value"] for each in every}


def forget_snapshot(ssm):
    """Leave the stage as it was published before there were snapshots."""
    for name in slots(ssm):
        ssm.client.delete_parameter(Name=f"{ROOT}/{name}")


def large(rules=200, mark="a"):
    """A biz of several parameters: every rule differs, so that it does not compress to nothing."""
    digests = [hashlib.sha256(f"{mark}{number}".encode()).hexdigest() for number in range(rules)]
    return biz(
        description="\N{SNOWMAN}" * 10,
        rules={
            f"rule-{number}": {"fields": {"f": {"css": f"#x{digest}"}}}
            for number, digest in enumerate(digests)
        },
    )
