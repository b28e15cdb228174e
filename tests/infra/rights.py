"""All IAM rights of a stage, as data: by holder, one right for each action.

Names stand where templates have references, ``STAGE`` where they have the stage's name. An ARN is
told by its kind, such as ``lambda function``, and its name, since account, region and partition are
the stack's own. The lists beside this module have a right a line:

    {"allow": "ssm:GetParameters", "kind": "ssm parameter", "on": "/crawlfleet/STAGE/revision"}

``deny`` stands in the place of ``allow`` in what is refused, ``by`` names others who may, and
``if`` the condition. ``role`` is what a role has: who takes it on, or a policy of AWS's own.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
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


#: What one holder may do, to what: its fields are those of the lists.
Right = dict[str, str]
_ARN = re.compile(r"arn:aws:(?P<service>[a-z0-9-]+):[^:]*:[^:]*:(?P<resource>.*)")


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

    def held(self) -> dict[str, list[Right]]:
        """Return the rights by holder: those of roles, then those that resources grant."""
        found: dict[str, list[Right]] = {}
        for holder, right in [*self._of_roles(), *self._of_resources()]:
            rights = found.setdefault(holder.replace(self._stage, "STAGE"), [])
            reported = {key: value.replace(self._stage, "STAGE") for key, value in right.items()}
            if reported not in rights:
                rights.append(reported)
        return {holder: sorted(found[holder], key=json.dumps) for holder in sorted(found)}

    def _of_roles(self) -> Iterator[tuple[str, Right]]:
        for stack, template in self._templates.items():
            for key, resource in template["Resources"].items():
                if resource["Type"] == "AWS::IAM::Role":
                    holder = self._holder(stack, key)
                    for right in self._of_role(stack, key, resource):
                        yield holder, right

    def _of_role(self, stack: str, key: str, role: dict[str, Any]) -> Iterator[Right]:
        properties = role["Properties"]
        for statement in properties["AssumeRolePolicyDocument"]["Statement"]:
            yield {"role": "taken on", "by": self._who(stack, statement["Principal"])}
        for managed in properties.get("ManagedPolicyArns", []):
            yield {"role": "has the policy"} | self._on(stack, managed)
        for policy in properties.get("Policies", []):
            yield from self._rights(stack, policy["PolicyDocument"])
        for other, template in self._templates.items():
            for resource in template["Resources"].values():
                about = resource["Properties"] if resource["Type"] == "AWS::IAM::Policy" else {}
                if (stack, key) in {self._where(other, one) for one in about.get("Roles", [])}:
                    yield from self._rights(other, about["PolicyDocument"])

    def _where(self, stack: str, reference: dict[str, str]) -> tuple[str, str]:
        """The stack and the logical id that a reference leads to."""
        if "Fn::ImportValue" in reference:
            stack, reference = self._exports[reference["Fn::ImportValue"]]
        return stack, reference["Ref"]

    def _of_resources(self) -> Iterator[tuple[str, Right]]:
        for stack, template in self._templates.items():
            for key, resource in template["Resources"].items():
                properties = resource.get("Properties", {})
                if resource["Type"] == "AWS::Lambda::Permission":
                    source = self._say(stack, properties["SourceArn"])
                    by = {"by": properties["Principal"], "if": f"from {source}"}
                    at = self._say(stack, properties["FunctionName"])
                    yield f"at {at}", {"allow": properties["Action"]} | by
                elif "KeyPolicy" in properties:
                    for right in self._rights(stack, properties["KeyPolicy"]):
                        yield f"at {self._name(stack, key)}", right
                elif resource["Type"] == "AWS::EC2::VPCEndpoint":
                    for right in self._rights(stack, properties["PolicyDocument"]):
                        yield f"at {self._name(stack, key)}", right
                elif "PolicyDocument" in properties and "Roles" not in properties:
                    for right in self._rights(stack, properties["PolicyDocument"]):
                        yield f"at {self._held(stack, properties)}", right

    def _held(self, stack: str, properties: dict[str, Any]) -> str:
        (references,) = (
            properties[key] for key in ("Queues", "Bucket", "Topics") if key in properties
        )
        return ", ".join(sorted(self._say(stack, one) for one in _listed(references)))

    def _rights(self, stack: str, document: dict[str, Any]) -> Iterator[Right]:
        for statement in document["Statement"]:
            further = {}
            if "Principal" in statement:
                further["by"] = self._who(stack, statement["Principal"])
            conditions = [
                f"{test} {key} {self._say(stack, value)}"
                for test, pairs in statement.get("Condition", {}).items()
                for key, value in pairs.items()
            ]
            if conditions:
                further["if"] = ", ".join(conditions)
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    right = {statement["Effect"].lower(): action}
                    yield right | self._on(stack, resource) | further

    def _on(self, stack: str, resource: Any) -> Right:
        """The subject of a right: a name, and of an ARN its kind."""
        reported = self._resolve(stack, resource)
        if not (arn := _ARN.fullmatch(reported)):
            return {"on": reported}
        kind, name = kind_and_name(arn["resource"])
        return {"kind": " ".join(filter(None, (arn["service"], kind))), "on": name}

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
        return _ARN.sub(r"\g<service> \g<resource>", self._resolve(stack, value))

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


def kind_and_name(resource: str) -> tuple[str, str]:
    """A function or a secret by its name, a parameter by its path, anything else as it is.

    >>> kind_and_name("function:a"), kind_and_name("parameter/a/b"), kind_and_name("b:c")
    (('function', 'a'), ('parameter', '/a/b'), ('', 'b:c'))
    """
    for kind in ("function:", "secret:", "parameter"):
        if resource.startswith(kind):
            return kind.rstrip(":"), resource.removeprefix(kind)
    return "", resource


def read(stage: str) -> dict[str, list[Right]]:
    """The list of a stage."""
    found: dict[str, list[Right]] = json.loads(_path(stage).read_text())
    return found


def written(held: dict[str, list[Right]]) -> str:
    """A list as it stands in its file: a right a line, for people to read a change of it."""
    paragraphs = [
        f"{json.dumps(holder)}: [\n" + ",\n".join(f"  {json.dumps(one)}" for one in rights) + "\n]"
        for holder, rights in held.items()
    ]
    return "{\n" + ",\n\n".join(paragraphs) + "\n}\n"


def _path(stage: str) -> Path:
    return Path(__file__).with_name(f"rights_{stage}.json")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _bare(logical_id: str) -> str:
    """A logical id without the hash that CDK puts behind it."""
    return re.sub(r"[0-9A-F]{8}(?=$|\.)", "", logical_id)
