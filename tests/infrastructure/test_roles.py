"""Every function may do what its code does, and nothing more."""

import ast
from pathlib import Path

import pytest

import portico
from portico.stores import dynamodb
from tests.infrastructure.stack import Stack

PACKAGE = Path(portico.__file__).parent
BASIC = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
NETWORK = "arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole"

READ = {"get", "query", "versions"}
GATEWAY = READ | {"put", "delete", "drop"}
# Which of the store's methods a function gets to.
USED = {
    "Edge": set(),
    "Initialize": GATEWAY,
    "ToolsList": GATEWAY,
    "ToolsCall": GATEWAY,
    "Stream": READ | {"put", "delete"},
    "Metadata": READ,  # asked by GET alone, and no session begins here
    "Consent": READ | {"put", "delete"},
    "Control": GATEWAY,
    "Discovery": GATEWAY,
    "Reaper": {"sweep"},
}
# What an authorization server says is smaller than the largest piece of a record.
NEVER = {"Consent": {"dynamodb:BatchWriteItem"}}


def _methods(tree, name):
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {
        node.name: node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _attributes_of(node, *owner):
    """Names of what is used of `self.<owner>`, or of `self`."""
    for found in ast.walk(node):
        if isinstance(found, ast.Attribute) and ast.unparse(found.value) == ".".join(("self", *owner)):
            yield found.attr


def store_actions():
    """IAM's names for what each method of the store has DynamoDB do, as its source has it."""
    tree = ast.parse(Path(dynamodb.__file__).read_text())
    table = _methods(tree, "_Table")

    def operations(name, seen):
        if name not in table or name in seen:
            return set()
        seen.add(name)
        own = {name for name in _attributes_of(table[name], "_client") if name != "exceptions"}
        return own.union(*(operations(used, seen) for used in _attributes_of(table[name])))

    return {
        name: {
            f"dynamodb:{operation.title().replace('_', '')}"
            for used in _attributes_of(method, "_table")
            for operation in operations(used, set())
        }
        for name, method in _methods(tree, "DynamoStore").items()
    }


def test_the_source_tells_what_the_store_does():
    actions = store_actions()
    assert actions["get"] == {"dynamodb:GetItem", "dynamodb:Query"}
    assert actions["sweep"] == {"dynamodb:Scan", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"}
    assert {name for name, found in actions.items() if found} == GATEWAY | {"sweep"}


def _calls():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path, node


def test_the_package_calls_every_method_that_is_granted_for():
    called = {
        node.func.attr
        for path, node in _calls()
        if path.parent.name != "stores"
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value).endswith("store")
    }
    assert called & set(store_actions()) - {"close", "stamp"} == GATEWAY | {"sweep"}


def test_the_package_speaks_to_no_other_service_of_aws():
    clients = {
        (path.relative_to(PACKAGE).as_posix(), ast.literal_eval(node.args[0]))
        for path, node in _calls()
        if isinstance(node.func, ast.Attribute)
        and node.func.attr in ("client", "resource")
        and "boto3" in ast.unparse(node.func)
    }
    assert clients == {("stores/dynamodb.py", "dynamodb")}
    signed = {
        (path.relative_to(PACKAGE).as_posix(), found.value)
        for path, node in _calls()
        if ast.unparse(node.func) == "signed"
        for found in ast.walk(node)
        if isinstance(found, ast.Constant) and found.value != "/"
    }
    assert signed == {("aws/edge.py", "lambda"), ("stores/dynamodb_client.py", "dynamodb")}


@pytest.mark.parametrize("function", sorted(set(USED) - {"Edge"}))
def test_a_function_has_the_rights_that_its_code_uses_and_no_more(smallest, function):
    actions = store_actions()
    needed = {(action, "Table.Arn") for method in USED[function] for action in actions[method]}
    needed -= {(action, "Table.Arn") for action in NEVER.get(function, ())}
    assert smallest.granted(f"{function}Function") == needed


def test_the_edge_hands_over_and_does_nothing_else(smallest):
    assert smallest.granted("EdgeFunction") == {
        ("lambda:InvokeFunction", f"{name}Function.Arn") for name in ("Initialize", "ToolsList", "ToolsCall")
    }


def test_the_edge_is_told_the_names_of_those_it_may_call(smallest):
    told = smallest.of_type("AWS::Lambda::Function")["EdgeFunction"]["Environment"]["Variables"]
    names = {value for name, value in told.items() if name.endswith("_FUNCTION")}
    assert {f"{name}.Arn" for name in names} == {resource for _, resource in smallest.granted("EdgeFunction")}


def test_an_edge_that_serves_itself_calls_nobody(template):
    stack = Stack(template, DispatchMode="inline")
    actions = store_actions()
    assert stack.granted("EdgeFunction") == {
        (action, "Table.Arn") for method in GATEWAY for action in actions[method]
    }


def test_the_authorizer_has_no_rights(largest):
    assert largest.granted("AuthorizerFunction") == set()


def test_every_function_has_a_role_of_its_own(largest):
    roles = [function["Role"] for function in largest.of_type("AWS::Lambda::Function").values()]
    assert len(set(roles)) == len(roles)


def test_beyond_that_functions_write_logs_and_join_the_network_only_if_there_is_one(smallest, largest):
    for stack in (smallest, largest):
        for name, function in stack.of_type("AWS::Lambda::Function").items():
            role = stack.of_type("AWS::IAM::Role")[function["Role"].removesuffix(".Arn")]
            joins = [NETWORK] if "VpcConfig" in function else []
            assert role["ManagedPolicyArns"] == [BASIC, *joins], name


def test_no_right_is_for_everything(largest):
    for name in largest.of_type("AWS::Lambda::Function"):
        for statement in largest.statements(name):
            assert statement["Effect"] == "Allow"
            assert "*" not in str(statement["Action"]) + str(statement["Resource"]), name
