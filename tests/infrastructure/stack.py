"""What CloudFormation makes of a translated template, given parameters: conditions decided, functions resolved."""

import re
from typing import Any

PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": "123456789012",
    "AWS::StackName": "portico",
    "AWS::URLSuffix": "amazonaws.com",
}
NOTHING = object()


class Stack:
    """A resource's reference is its logical id, an attribute `id.attribute`."""

    def __init__(self, template: dict[str, Any], **parameters: str) -> None:
        declared = {name: str(about["Default"]) for name, about in template["Parameters"].items()}
        unknown = set(parameters) - set(declared) - set(PSEUDO)
        assert not unknown, f"no such parameters: {unknown}"
        self._values = PSEUDO | declared | parameters
        self._conditions = template["Conditions"]
        self.referred: set[str] = set()
        """Whatever is named by a reference, an attribute or in a text."""
        self.resources: dict[str, dict[str, Any]] = {
            name: self._resolved(resource)
            for name, resource in template["Resources"].items()
            if "Condition" not in resource or self._holds(resource["Condition"])
        }
        self.outputs: dict[str, str] = {
            name: self._resolved(output["Value"])
            for name, output in template["Outputs"].items()
            if "Condition" not in output or self._holds(output["Condition"])
        }

    def missing(self) -> set[str]:
        """What is referred to, and not there with these parameters."""
        return self.referred - set(self.resources) - set(self._values) - {"AWS::NoValue"}

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        """Properties by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == type_
        }

    def statements(self, function: str) -> list[dict[str, Any]]:
        """Of the policies of a function's own role."""
        role = self.of_type("AWS::Lambda::Function")[function]["Role"].removesuffix(".Arn")
        policies = self.of_type("AWS::IAM::Role")[role].get("Policies", [])
        return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]

    def granted(self, function: str) -> set[tuple[str, str]]:
        """Pairs of an action and a resource."""
        return {
            (action, resource)
            for statement in self.statements(function)
            for action in _listed(statement["Action"])
            for resource in _listed(statement["Resource"])
        }

    def api(self) -> dict[str, Any]:
        (rest_api,) = self.of_type("AWS::ApiGateway::RestApi").values()
        return rest_api["Body"]

    def routes(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {
            (verb.upper(), path): operation
            for path, operations in self.api()["paths"].items()
            for verb, operation in operations.items()
        }

    def _holds(self, name: str) -> bool:
        return self._resolved(self._conditions[name])

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, list):
            resolved = [self._resolved(item) for item in value]
            return [item for item in resolved if item is not NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((function, argument),) = value.items()
            if function in ("Ref", "Condition") or function.startswith("Fn::"):
                return self._called(function, argument)
        members = {name: self._resolved(item) for name, item in value.items()}
        return {name: item for name, item in members.items() if item is not NOTHING}

    def _called(self, function: str, argument: Any) -> Any:
        if function == "Ref":
            self.referred.add(argument)
            return NOTHING if argument == "AWS::NoValue" else self._values.get(argument, argument)
        if function == "Condition":
            return self._holds(argument)
        if function == "Fn::If":
            condition, then, otherwise = argument
            return self._resolved(then if self._holds(condition) else otherwise)
        if function == "Fn::Sub":
            text, names = argument if isinstance(argument, list) else (argument, {})
            known = self._values | self._resolved(names)
            named = set(re.findall(r"\$\{([^!}.]+)", text)) - set(names)
            self.referred |= named
            return re.sub(r"\$\{([^}]+)\}", lambda found: known.get(found[1], found[1]), text)
        arguments = self._resolved(argument)
        if function == "Fn::GetAtt":
            self.referred.add(arguments[0])
            return ".".join(arguments)
        if function == "Fn::Equals":
            return str(arguments[0]) == str(arguments[1])
        if function == "Fn::Not":
            return not arguments[0]
        if function == "Fn::And":
            return all(arguments)
        return {function: arguments}


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
