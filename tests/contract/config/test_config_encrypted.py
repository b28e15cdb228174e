"""Configuration is encrypted under the stage's key; what was written before is read and moved."""

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.config_documents import biz, texts
from tests.contract.ssm_cases import CONFIG_SNAPSHOT, ROOT, Clock, CountedSsm, push, reader
from tests.kit.config import read_documents
from tests.kit.kernel import ConfigError, StoreUnavailableError


@pytest.fixture
def ssm(aws):
    return CountedSsm(boto3.client("ssm"))


def refusal(code, said="no"):
    return ClientError({"Error": {"Code": code, "Message": said}}, "PutParameter")


def kinds(ssm):
    found = ssm.client.describe_parameters(MaxResults=50)["Parameters"]
    return {p["Name"].removeprefix(f"{ROOT}/"): (p["Type"], p.get("KeyId")) for p in found}


DOCUMENTS = texts(bizs__default__shop=biz())
SECURE = ("SecureString", "alias/crawlfleet/test")


def test_all_but_the_revision_is_encrypted_under_the_stages_key(ssm):
    push(ssm, DOCUMENTS)

    found = kinds(ssm)

    assert found.pop("revision")[0] == "String"
    assert len(found) >= 3
    assert set(found.values()) == {SECURE}
    assert "shop" in reader(ssm, Clock()).current().bizs["default"]


class Strict:
    """SSM, which changes no parameter's type."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def put_parameter(self, **arguments):
        standing = self._client.get_parameters(Names=[arguments["Name"]])["Parameters"]
        if standing and standing[0]["Type"] != arguments["Type"]:
            raise refusal("HierarchyTypeMismatchException")
        return self._client.put_parameter(**arguments)


def push_without_a_key(ssm):
    """Leave the documents as a version did that knew of no key, nor of a snapshot."""
    push(ssm, DOCUMENTS)
    for name in kinds(ssm):
        place = f"{ROOT}/{name}"
        value = ssm.client.get_parameter(Name=place, WithDecryption=True)["Parameter"]["Value"]
        ssm.client.delete_parameter(Name=place)
        if not name.startswith(CONFIG_SNAPSHOT):
            ssm.client.put_parameter(Name=place, Value=value, Type="String")


def test_what_was_written_before_there_was_a_key_is_read_and_encrypted_with_its_next_change(ssm):
    push_without_a_key(ssm)
    ssm.client = Strict(ssm.client)
    assert "shop" in reader(ssm, Clock()).current().bizs["default"]

    push(ssm, texts(bizs__default__shop=biz(queue="q")))

    assert kinds(ssm)["bizs/default/shop"] == SECURE
    assert reader(ssm, Clock()).current().bizs["default"]["shop"].queue == "q"
    assert set(read_documents(ssm.client, "test")) == {"stage", "bizs/default/shop"}


@pytest.mark.parametrize(
    "fault",
    [
        refusal("InvalidKeyId"),
        refusal("KMSInvalidStateException"),
        refusal("AccessDeniedException", "not authorized to perform: kms:Encrypt"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_with_what_to_do(ssm, fault):
    class Refusing(Strict):
        def put_parameter(self, **_):
            raise fault

    ssm.client = Refusing(ssm.client)

    with pytest.raises(ConfigError) as caught:
        push(ssm, DOCUMENTS)

    (problem,) = caught.value.problems
    assert problem.field == "key alias/crawlfleet/test"
    assert "stack `state`" in problem.message


def test_a_key_that_cannot_be_used_costs_nothing_that_was_written_before_there_was_one(ssm):
    class Keyless(Strict):
        """SSM that looks at a parameter's type before it looks for the key."""

        def put_parameter(self, **arguments):
            answer = super().put_parameter(**arguments)
            if "KeyId" in arguments:
                self._client.delete_parameter(Name=arguments["Name"])
                raise refusal("InvalidKeyId")
            return answer

    push_without_a_key(ssm)
    ssm.client = Keyless(ssm.client)

    with pytest.raises(ConfigError, match="stack `state`"):
        push(ssm, texts(bizs__default__shop=biz(queue="q")))

    assert set(read_documents(ssm.client, "test")) == {"stage", "bizs/default/shop"}
    assert reader(ssm, Clock()).current().bizs["default"]["shop"].queue == "main"


def test_a_function_that_may_not_decrypt_keeps_the_last_good_configuration(ssm):
    clock = Clock()
    push(ssm, DOCUMENTS)
    config = reader(ssm, clock)
    config.current()

    ssm.failure = refusal("AccessDeniedException", "not authorized to perform: kms:Decrypt")
    clock.now += 60

    assert "shop" in config.current().bizs["default"]
    assert "kms:Decrypt" in config.failing
    with pytest.raises(StoreUnavailableError, match="kms:Decrypt"):
        reader(ssm, clock).current()
