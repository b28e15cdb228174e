"""Name what a removed stage has kept, as ``cdk import`` wants it.

Names are fixed, so a new deployment of the stage would be refused: "already exists". An import
takes what is kept into the new stack as it is. CloudFormation could find by itself only what its
own identifier is in the template of, and that is none of these: AWS chooses ARNs and ids.

Policies of topics are not imported, which CloudFormation cannot; a deployment writes them anew.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from infra.aws_access import Access, asked
from infra.steps import StepError

#: Of which type each identifier is, as CloudFormation's schemas have it; a test compares.
IDENTIFIERS: Final = {
    "AWS::SecretsManager::Secret": "Id",
    "AWS::SNS::Topic": "TopicArn",
    "AWS::SNS::Subscription": "Arn",
    "AWS::KMS::Key": "KeyId",
    "AWS::ApiGateway::ApiKey": "APIKeyId",
    "AWS::S3::Bucket": "BucketName",
    "AWS::S3::BucketPolicy": "Bucket",
}
#: Kept, and written anew by the deployment that follows.
REWRITTEN: Final = frozenset({"AWS::SNS::TopicPolicy"})

Resource = Mapping[str, Any]


class Adoption:
    """Looks for what the template of a state stack keeps.

    Args:
        stack: Name of the stack.
        template: Its template.
        access: AWS.
    """

    def __init__(self, stack: str, template: Mapping[str, Any], access: Access) -> None:
        self._stack = stack
        self._access = access
        self._kept: dict[str, Resource] = {
            key: resource
            for key, resource in template["Resources"].items()
            if resource.get("DeletionPolicy") == "RetainExceptOnCreate"
        }
        self._finders: dict[str, Callable[[str, Resource], str | None]] = {
            "AWS::SecretsManager::Secret": self._secret,
            "AWS::SNS::Topic": self._topic,
            "AWS::SNS::Subscription": self._subscription,
            "AWS::KMS::Key": self._key,
            "AWS::ApiGateway::ApiKey": self._api_key,
            "AWS::S3::Bucket": self._bucket,
            "AWS::S3::BucketPolicy": self._bucket_policy,
        }

    def strangers(self) -> list[str]:
        """Logical ids of what is kept and cannot be found here: clusters of MongoDB Atlas."""
        known = self._finders.keys() | REWRITTEN
        return [key for key, resource in self._kept.items() if resource["Type"] not in known]

    def mapping(self) -> dict[str, dict[str, str]]:
        """Identifier of each resource that stands, by its logical id.

        Raises:
            StepError: AWS refused, several could be meant, or a secret is about to be deleted.
        """
        return {
            key: {IDENTIFIERS[resource["Type"]]: found}
            for key, resource in self._kept.items()
            if resource["Type"] in self._finders
            and (found := self._find(key, resource)) is not None
        }

    def _find(self, logical_id: str, resource: Resource) -> str | None:
        return self._finders[resource["Type"]](logical_id, resource)

    def _referred(self, reference: Mapping[str, Any]) -> str | None:
        """Return the resource of the template that a property refers to."""
        return self._find(reference["Ref"], self._kept[reference["Ref"]])

    def _secret(self, _: str, resource: Resource) -> str | None:
        name = resource["Properties"]["Name"]
        secrets = self._all(
            "secretsmanager",
            "list_secrets",
            "SecretList",
            IncludePlannedDeletion=True,
            Filters=[{"Key": "name", "Values": [name]}],
        )
        # The filter knows beginnings only.
        for secret in (one for one in secrets if one["Name"] == name):
            if "DeletedDate" in secret:
                raise StepError(
                    f"the secret {name} is about to be deleted",
                    f"aws secretsmanager restore-secret --secret-id {name}",
                )
            return str(secret["ARN"])
        return None

    def _topic(self, _: str, resource: Resource) -> str | None:
        ending = f":{resource['Properties']['TopicName']}"
        arns = (str(one["TopicArn"]) for one in self._all("sns", "list_topics", "Topics"))
        return next((arn for arn in arns if arn.endswith(ending)), None)

    def _subscription(self, _: str, resource: Resource) -> str | None:
        wanted = resource["Properties"]
        topic = self._referred(wanted["TopicArn"])
        if topic is None:
            return None
        known = self._all("sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic)
        for one in known:
            alike = (one["Protocol"], one["Endpoint"]) == (wanted["Protocol"], wanted["Endpoint"])
            # Who has not confirmed has no ARN yet: the deployment asks again.
            if alike and one["SubscriptionArn"].startswith("arn:"):
                return str(one["SubscriptionArn"])
        return None

    def _key(self, logical_id: str, _: Resource) -> str | None:
        """A key has no name: it is the one that a topic is encrypted with."""
        encrypted = {"Fn::GetAtt": [logical_id, "Arn"]}
        for key, topic in self._kept.items():
            if topic.get("Properties", {}).get("KmsMasterKeyId") != encrypted:
                continue
            arn = self._find(key, topic)
            if arn is not None:
                about = asked(
                    f"reading the topic {arn}",
                    self._access.client("sns").get_topic_attributes,
                    TopicArn=arn,
                )
                return str(about["Attributes"]["KmsMasterKeyId"]).rpartition("/")[2]
        return None

    def _api_key(self, _: str, resource: Resource) -> str | None:
        name = resource["Properties"]["Name"]
        keys = self._all("apigateway", "get_api_keys", "items", nameQuery=name)
        return _the_one(f"API keys called {name}", (k["id"] for k in keys if k["name"] == name))

    def _bucket(self, logical_id: str, _: Resource) -> str | None:
        beginning = f"{self._stack}-{logical_id}-".lower()
        buckets = self._all("s3", "list_buckets", "Buckets")
        found = (one["Name"] for one in buckets if one["Name"].startswith(beginning))
        return _the_one(f"buckets {beginning}...", found)

    def _bucket_policy(self, _: str, resource: Resource) -> str | None:
        bucket = self._referred(resource["Properties"]["Bucket"])
        if bucket is None:
            return None
        client = self._access.client("s3")
        try:
            client.get_bucket_policy(Bucket=bucket)
        except client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchBucketPolicy":
                return None
            raise StepError(
                f"reading the policy of {bucket}: AWS answers {error.response['Error']['Code']}",
                "Look whether these credentials may read it.",
            ) from error
        return bucket

    def _all(self, service: str, operation: str, key: str, **arguments: Any) -> list[Any]:
        found: list[Any] = asked(
            f"listing what {service} has", self._access.all, service, operation, key, **arguments
        )
        return found


def _the_one(what: str, found: Iterator[str]) -> str | None:
    """The only one, or none.

    Raises:
        StepError: there are several.
    """
    several = list(found)
    if len(several) > 1:
        raise StepError(
            f"there are {len(several)} {what}: {', '.join(several)}",
            "Delete those that are not the stage's, or name the right one in the mapping yourself.",
        )
    return several[0] if several else None
