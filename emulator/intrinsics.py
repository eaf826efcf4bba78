"""CloudFormation's functions (Ref, Fn::Sub, Fn::If …), worked out as if the stack were called "local"."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

REGION = "us-east-1"
ACCOUNT = "123456789012"
PSEUDO = {
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "local",
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/local/0",
    "AWS::NotificationARNs": [],
}
NAMED_BY = {
    "AWS::Lambda::Function": "FunctionName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::ApiGateway::Stage": "StageName",
    "AWS::Events::Rule": "Name",
    "AWS::Logs::LogGroup": "LogGroupName",
}
ARNS = {
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{{}}",
    "AWS::Events::Rule": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{{}}",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/{{}}",
}
NOTHING = object()  # AWS::NoValue


class Unresolved(ValueError):
    """The template refers to what it does not declare."""


class Resolver:
    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, str]) -> None:
        self._resources = template.get("Resources", {})
        self._mappings = template.get("Mappings", {})
        self._conditions = template.get("Conditions", {})
        declared = template.get("Parameters", {})
        self._values: dict[str, Any] = {**PSEUDO, **_parameter_values(declared, parameters)}
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._ref,
            "Condition": self.holds,
            "Fn::Sub": self._sub,
            "Fn::GetAtt": self._get_att,
            "Fn::If": lambda a: self.resolve(a[1] if self.holds(a[0]) else a[2]),
            "Fn::Equals": lambda a: str(self.resolve(a[0])) == str(self.resolve(a[1])),
            "Fn::Not": lambda a: not self.resolve(a[0]),
            "Fn::And": lambda a: all(self.resolve(each) for each in a),
            "Fn::Or": lambda a: any(self.resolve(each) for each in a),
            "Fn::Join": lambda a: str(a[0]).join(str(each) for each in self.resolve(a[1])),
            "Fn::Split": lambda a: str(self.resolve(a[1])).split(a[0]),
            "Fn::Select": lambda a: self.resolve(a[1])[int(self.resolve(a[0]))],
            "Fn::FindInMap": self._find_in_map,
            "Fn::Base64": lambda a: base64.b64encode(str(self.resolve(a)).encode()).decode(),
            "Fn::GetAZs": lambda _: [f"{REGION}{zone}" for zone in "abc"],
            "Fn::Cidr": lambda a: [f"10.0.{number}.0/24" for number in range(int(self.resolve(a)[1]))],
            "Fn::ImportValue": lambda a: str(self.resolve(a)),
        }

    def resolve(self, value: Any) -> Any:
        if isinstance(value, dict):
            if len(value) == 1 and (name := next(iter(value))) in self._functions:
                return self._functions[name](value[name])
            return {k: r for k, v in value.items() if (r := self.resolve(v)) is not NOTHING}
        if isinstance(value, list):
            return [r for each in value if (r := self.resolve(each)) is not NOTHING]
        return value

    def holds(self, condition: str) -> bool:
        if condition not in self._conditions:
            raise Unresolved(f"the template has no condition {condition}")
        return bool(self.resolve(self._conditions[condition]))

    def resources(self) -> dict[str, dict[str, Any]]:
        """Those whose condition holds, by logical id, resolved."""
        return {
            name: {**resource, "Properties": self.resolve(resource.get("Properties", {}))}
            for name, resource in self._resources.items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NOTHING
        if name in self._values:
            return self._values[name]
        return self._physical_name(name)

    def _physical_name(self, name: str) -> str:
        resource = self._resource(name)
        given = resource.get("Properties", {}).get(NAMED_BY.get(resource["Type"], ""))
        if resource["Type"] in {"AWS::Lambda::Alias", "AWS::Lambda::Version"}:
            target = str(self.resolve(resource["Properties"]["FunctionName"]))
            return target if ":function:" in target else ARNS["AWS::Lambda::Function"].format(target)
        return str(self.resolve(given)) if given is not None else name

    def _resource(self, name: str) -> dict[str, Any]:
        if name not in self._resources:
            raise Unresolved(f"the template has neither a parameter nor a resource {name}")
        resource: dict[str, Any] = self._resources[name]
        return resource

    def _get_att(self, argument: str | list[str]) -> str:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        resource = self._resource(name)
        if attribute == "Arn" and resource["Type"] in ARNS:
            return ARNS[resource["Type"]].format(self._physical_name(name))
        return f"{name}.{attribute}"

    def _sub(self, argument: str | list[Any]) -> str:
        text, given = (argument, {}) if isinstance(argument, str) else argument
        known = self.resolve(given)

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in known:
                return str(known[name])
            return str(self._get_att(name) if "." in name else self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", value, text)

    def _find_in_map(self, argument: list[Any]) -> Any:
        name, first, second = (self.resolve(each) for each in argument[:3])
        try:
            return self.resolve(self._mappings[name][first][second])
        except KeyError:
            raise Unresolved(f"the template has no mapping {name}.{first}.{second}") from None


def _parameter_values(declared: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    if unknown := sorted(given.keys() - declared.keys()):
        raise Unresolved(f"the template has no parameter {unknown[0]}; it has {', '.join(sorted(declared))}")
    if missing := sorted(n for n, p in declared.items() if "Default" not in p and n not in given):
        raise Unresolved(f"parameter {missing[0]} has no default: say --parameter {missing[0]}=VALUE")
    return {name: _typed(p, str(given.get(name, p.get("Default")))) for name, p in declared.items()}


def _typed(parameter: Mapping[str, Any], value: str) -> Any:
    listed = parameter.get("Type") == "CommaDelimitedList" or str(parameter.get("Type")).startswith("List<")
    return [each.strip() for each in value.split(",")] if listed else value
