"""All that anybody may do in a stage, as text: one paragraph a role, one line an action.

Names stand where templates have references, ``STAGE`` where they have the stage's name, and an ARN
is told by its service and resource alone, since account, region and partition are the stack's own.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.infra.assembly import Assembly

_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "REGION", "AWS::AccountId": "ACCOUNT"}
#: Where a resource of a type has the name that people know it by.
_NAMED = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::SecretsManager::Secret": "Name",
    "AWS::ApiGateway::Stage": "StageName",
}


class Rights:
    """The rights in one stage's templates."""

    def __init__(self, assembly: Assembly) -> None:
        self._stage = assembly.stage
        self._templates = {name: assembly.template(name) for name in assembly.stacks()}
        self._exports = {
            output["Export"]["Name"]: (stack, output["Value"])
            for stack, template in self._templates.items()
            for output in template.get("Outputs", {}).values()
            if "Export" in output
        }

    def text(self) -> str:
        """What roles may do, and then what resources let others do."""
        paragraphs = [*self._of_roles(), *self._of_resources()]
        return "\n\n".join(paragraphs).replace(self._stage, "STAGE") + "\n"

    def _of_roles(self) -> Iterator[str]:
        found: dict[str, set[str]] = {}
        for stack, template in self._templates.items():
            for key, resource in template["Resources"].items():
                if resource["Type"] == "AWS::IAM::Role":
                    found[self._holder(stack, key)] = set(self._of_role(stack, key, resource))
        for holder in sorted(found):
            yield "\n".join([holder, *sorted(found[holder])])

    def _of_role(self, stack: str, key: str, role: dict[str, Any]) -> Iterator[str]:
        properties = role["Properties"]
        for statement in properties["AssumeRolePolicyDocument"]["Statement"]:
            yield f"  is taken on by {self._who(stack, statement['Principal'])}"
        for managed in properties.get("ManagedPolicyArns", []):
            yield f"  has the policy {self._say(stack, managed)}"
        for policy in properties.get("Policies", []):
            yield from self._lines(stack, policy["PolicyDocument"])
        for resource in self._templates[stack]["Resources"].values():
            about = resource["Properties"] if resource["Type"] == "AWS::IAM::Policy" else {}
            if {"Ref": key} in about.get("Roles", []):
                yield from self._lines(stack, about["PolicyDocument"])

    def _of_resources(self) -> Iterator[str]:
        found: dict[str, set[str]] = {}
        for stack, template in self._templates.items():
            for key, resource in template["Resources"].items():
                properties = resource.get("Properties", {})
                if resource["Type"] == "AWS::Lambda::Permission":
                    at = self._say(stack, properties["FunctionName"])
                    source = self._say(stack, properties["SourceArn"])
                    line = f"  {properties['Action']} by {properties['Principal']} from {source}"
                    found.setdefault(f"at {at}", set()).add(line)
                elif "KeyPolicy" in properties:
                    lines = self._lines(stack, properties["KeyPolicy"])
                    found.setdefault(f"at {self._name(stack, key)}", set()).update(lines)
                elif "PolicyDocument" in properties and "Roles" not in properties:
                    lines = self._lines(stack, properties["PolicyDocument"])
                    found.setdefault(f"at {self._held(stack, properties)}", set()).update(lines)
        for place in sorted(found):
            yield "\n".join([place, *sorted(found[place])])

    def _held(self, stack: str, properties: dict[str, Any]) -> str:
        (references,) = (
            properties[key] for key in ("Queues", "Bucket", "Topics") if key in properties
        )
        return ", ".join(sorted(self._say(stack, one) for one in _listed(references)))

    def _lines(self, stack: str, document: dict[str, Any]) -> Iterator[str]:
        for statement in document["Statement"]:
            word = {"Allow": "", "Deny": "NOT "}[statement["Effect"]]
            who = (
                f" by {self._who(stack, statement['Principal'])}"
                if "Principal" in statement
                else ""
            )
            condition = "".join(
                f" if {test} {key} {self._say(stack, value)}"
                for test, pairs in statement.get("Condition", {}).items()
                for key, value in pairs.items()
            )
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield f"  {word}{action} on {self._say(stack, resource)}{who}{condition}"

    def _who(self, stack: str, principal: Any) -> str:
        if isinstance(principal, str):
            return principal
        return ", ".join(
            self._say(stack, one) for each in principal.values() for one in _listed(each)
        )

    def _holder(self, stack: str, key: str) -> str:
        """The functions that have a role; else what the role is called in the template."""
        functions = [
            self._say(stack, {"Ref": name})
            for name, resource in self._templates[stack]["Resources"].items()
            if resource["Type"] == "AWS::Lambda::Function"
            and resource["Properties"]["Role"] == {"Fn::GetAtt": [key, "Arn"]}
        ]
        return ", ".join(functions) or f"{stack}: {_bare(key)}"

    def _say(self, stack: str, value: Any) -> str:
        return re.sub(r"arn:aws:([a-z0-9-]+):[^:]*:[^:]*:", r"\1 ", self._resolve(stack, value))

    def _resolve(self, stack: str, value: Any) -> str:
        match value:
            case str():
                return value
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self._resolve(stack, part) for part in parts)
            case {"Ref": pseudo} if pseudo in _PSEUDO:
                return _PSEUDO[pseudo]
            case {"Ref": key} | {"Fn::GetAtt": [key, _]}:
                return self._name(stack, key)
            case {"Fn::ImportValue": export}:
                return self._resolve(*self._exports[export])
            case {"Fn::Sub": pattern}:
                return pattern
        raise AssertionError(f"unknown reference {value}")

    def _name(self, stack: str, key: str) -> str:
        resource = self._templates[stack]["Resources"][key]
        named = _NAMED.get(resource["Type"])
        if named is None:
            return f"<{_bare(key)}>"
        return self._resolve(stack, resource["Properties"][named])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _bare(logical_id: str) -> str:
    """A logical id without the hash that CDK puts behind it."""
    return re.sub(r"[0-9A-F]{8}(?=$|\.)", "", logical_id)
