"""What is deployed, and what it costs."""

import base64
import itertools
import re

import yaml

from authz import fetching
from portico.aws.failures import METRIC
from tests.bench.coldstart import BUDGETS, LAYER_MB
from tests.infrastructure import tools
from tests.infrastructure.stack import Stack

# Billed by use alone, storage of what they are given included.
FREE_AT_REST = {
    "AWS::ApiGateway::Deployment",
    "AWS::ApiGateway::RestApi",
    "AWS::ApiGateway::Stage",
    "AWS::DynamoDB::Table",
    "AWS::Events::Rule",
    "AWS::IAM::Role",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
}
FUNCTIONS = {
    "Edge",
    "Initialize",
    "ToolsList",
    "ToolsCall",
    "Stream",
    "Metadata",
    "Consent",
    "Control",
    "Discovery",
    "Reaper",
}


def test_the_template_and_its_translation_pass_the_linters(deployment_tools):
    assert "is a valid SAM Template" in tools.run("make", "deploy-check")


def test_whatever_is_referred_to_is_there_with_every_combination_of_parameters(template):
    choices = {
        name: about["AllowedValues"]
        for name, about in template["Parameters"].items()
        if len(about.get("AllowedValues", ())) == 2
    }
    assert {"AuthMode", "Architecture", "DispatchMode", "MethodRouting", "Hosts", "NatGateway"} == set(
        choices
    )
    choices |= {"PublicBaseUrl": ["", "https://mcp.example.com"], "AlarmEmail": ["", "operator@example.com"]}
    for values in itertools.product(*choices.values()):
        chosen = dict(zip(choices, values, strict=True))
        assert not Stack(template, **chosen).missing(), chosen


def test_the_smallest_stack_costs_nothing_at_rest(smallest):
    assert {resource["Type"] for resource in smallest.resources.values()} - FREE_AT_REST == set()
    (table,) = smallest.of_type("AWS::DynamoDB::Table").values()
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert "ProvisionedThroughput" not in table
    assert "KMSMasterKeyId" not in table["SSESpecification"], "a key of one's own is paid by the month"
    assert table.get("TableClass", "STANDARD") == "STANDARD"
    assert not {"GlobalSecondaryIndexes", "KinesisStreamSpecification"} & set(table)
    (stage,) = smallest.of_type("AWS::ApiGateway::Stage").values()
    assert not stage.get("CacheClusterEnabled")
    for function in smallest.of_type("AWS::Lambda::Function").values():
        assert not {"SnapStart", "EphemeralStorage", "VpcConfig"} & set(function)


def test_what_costs_comes_only_when_asked_for(template, largest):
    here = {
        resource["Type"] for resource in Stack(template, Hosts="fargate", NatGateway="no").resources.values()
    }
    assert {"AWS::EC2::VPC", "AWS::ECS::Cluster", "AWS::ECS::TaskDefinition"} <= here
    assert not {"AWS::EC2::NatGateway", "AWS::EC2::EIP", "AWS::CloudFront::Distribution"} & here
    assert {"AWS::EC2::NatGateway", "AWS::CloudFront::Distribution", "AWS::CloudFront::Function"} <= {
        resource["Type"] for resource in largest.resources.values()
    }


def test_nobody_but_the_functions_reaches_a_host(largest):
    groups = largest.of_type("AWS::EC2::SecurityGroup")
    assert "SecurityGroupIngress" not in groups["FunctionSecurityGroup"]
    (rule,) = groups["HostSecurityGroup"]["SecurityGroupIngress"]
    assert rule["SourceSecurityGroupId"] == "FunctionSecurityGroup"
    assert "CidrIp" not in rule
    assert "TaskRoleArn" not in largest.resources["HostTask"]["Properties"]


def test_what_speaks_to_backends_is_in_the_hosts_network(largest):
    functions = largest.of_type("AWS::Lambda::Function")
    inside = {
        name.removesuffix("Function") for name, function in functions.items() if "VpcConfig" in function
    }
    assert inside == FUNCTIONS - {"Edge", "Metadata", "Consent", "Reaper"}


def test_there_are_ten_functions_and_the_authorizer_with_tokens(smallest, largest):
    assert set(smallest.of_type("AWS::Lambda::Function")) == {f"{name}Function" for name in FUNCTIONS}
    more = set(largest.of_type("AWS::Lambda::Function")) - set(smallest.of_type("AWS::Lambda::Function"))
    assert more == {"AuthorizerFunction"}


def test_the_key_of_users_tokens_is_where_they_are_opened_and_nowhere_else(template):
    """Not where everybody is served from what is public, nor where backends are looked at on a schedule."""
    opening = {"Initialize", "ToolsList", "ToolsCall", "Stream", "Consent"}
    for mode, more in (("invoke", set()), ("inline", {"Edge"})):
        stack = Stack(template, AuthMode="jwt", DispatchMode=mode, EncryptionKey="k")
        told = {
            name.removesuffix("Function"): function["Environment"]["Variables"].get("PORTICO_ENCRYPTION_KEY")
            for name, function in stack.of_type("AWS::Lambda::Function").items()
        }
        assert {name for name, key in told.items() if key == "k"} == opening | more
        assert {told[name] for name in told.keys() - opening - more} == {None}
    about = template["Parameters"]["EncryptionKey"]
    assert about["NoEcho"] is True
    new, old = (base64.b64encode(bytes([number]) * 32).decode() for number in (250, 7))
    for good in ("", new, f"{new} {old}", new.rstrip("=").replace("+", "-").replace("/", "_")):
        assert re.search(about["AllowedPattern"], good), good
    for bad in (base64.b64encode(b"x" * 31).decode(), "a secret", f"{new},{old}", f" {new}", f"{new} "):
        assert not re.search(about["AllowedPattern"], bad), bad


def test_every_parameter_says_what_it_is_and_has_a_default(template):
    for name, about in template["Parameters"].items():
        assert "Default" in about, name
        assert len(about["Description"]) > 20, name
    (groups,) = template["Metadata"].values()
    grouped = [name for group in groups["ParameterGroups"] for name in group["Parameters"]]
    assert sorted(grouped) == sorted(template["Parameters"])


def test_addresses_that_would_break_the_challenge_are_refused(template):
    pattern = template["Parameters"]["PublicBaseUrl"]["AllowedPattern"]
    for good in ("", "https://mcp.example.com", "https://abc.execute-api.eu-west-1.amazonaws.com/prod"):
        assert re.search(pattern, good), good
    for bad in (
        "http://mcp.example.com",
        "https://mcp.example.com/",
        "https://a'b",
        'https://a/"b',
        "https://",
    ):
        assert not re.search(pattern, bad), bad


def test_the_output_is_the_url_for_clients(template, smallest, largest):
    assert smallest.outputs["McpUrl"] == "https://Api.execute-api.us-east-1.amazonaws.com/prod/mcp"
    assert largest.outputs["McpUrl"] == "https://mcp.example.com/mcp"
    assert (
        Stack(template, MethodRouting="cloudfront").outputs["McpUrl"] == "https://Distribution.DomainName/mcp"
    )


def test_the_table_is_what_the_store_expects(smallest):
    (table,) = smallest.of_type("AWS::DynamoDB::Table").values()
    assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [
        ("PK", "HASH"),
        ("SK", "RANGE"),
    ]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert table["SSESpecification"]["SSEEnabled"]


def test_every_function_logs_where_logs_are_cleared_in_time(largest):
    groups = largest.of_type("AWS::Logs::LogGroup")
    for name, function in largest.of_type("AWS::Lambda::Function").items():
        assert int(groups[function["LoggingConfig"]["LogGroup"]]["RetentionInDays"]) > 0, name


def test_errors_and_throttling_of_every_function_raise_an_alarm(smallest, largest):
    functions = largest.of_type("AWS::Lambda::Function")
    expected = {("AWS/Lambda", metric, name) for metric in ("Errors", "Throttles") for name in functions}
    # A 401 is an exception, too, and so one of Lambda's Errors.
    expected -= {("AWS/Lambda", "Errors", "AuthorizerFunction")}
    assert watched(largest) == expected | {("Portico", METRIC, "AuthorizerFunction")}
    for alarm in largest.of_type("AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == ["AlarmTopic"]
        assert len(alarm["Metrics"]) <= 10 + 1, "CloudWatch takes ten metrics and the expression"
    assert not smallest.of_type("AWS::CloudWatch::Alarm")


def watched(stack):
    metrics = [
        query["MetricStat"]["Metric"]
        for alarm in stack.of_type("AWS::CloudWatch::Alarm").values()
        for query in alarm["Metrics"]
        if "MetricStat" in query
    ]
    assert all(
        [each["Name"] for each in metric["Dimensions"]]
        == (["FunctionName"] if metric["Namespace"] == "AWS/Lambda" else ["function"])
        for metric in metrics
    )
    return {
        (metric["Namespace"], metric["MetricName"], metric["Dimensions"][0]["Value"]) for metric in metrics
    }


def test_an_authorizer_that_waits_for_an_issuer_lives_to_say_so(largest):
    """The issuer's metadata, then its keys."""
    function = largest.of_type("AWS::Lambda::Function")["AuthorizerFunction"]
    assert 2 * 2 * fetching.SECONDS < int(function["Timeout"]) <= 29


def test_the_first_cluster_of_an_account_can_be_made(largest):
    """With capacity providers ECS needs a role of its own at once, which it only makes for the first cluster."""
    (cluster,) = largest.of_type("AWS::ECS::Cluster").values()
    assert "CapacityProviders" not in cluster


def test_backends_are_looked_at_every_minute_by_default(smallest, template):
    rules = smallest.of_type("AWS::Events::Rule").values()
    assert {rule["Targets"][0]["Arn"]: rule["ScheduleExpression"] for rule in rules} == {
        "DiscoveryFunction.Arn": "rate(1 minute)",
        "ReaperFunction.Arn": "rate(5 minutes)",
    }
    rare = Stack(template, DiscoverySchedule="rate(1 hour)").of_type("AWS::Events::Rule").values()
    assert "rate(1 hour)" in {rule["ScheduleExpression"] for rule in rare}


def test_the_import_of_every_function_has_a_budget(largest):
    """Which `make coldstart` holds it to."""
    functions = largest.of_type("AWS::Lambda::Function").values()
    assert set(BUDGETS) == {function["Handler"].rpartition(".")[0] for function in functions}
    hot = {"edge": 10, "authorizer": 20, "initialize": 25, "tools_list": 25, "tools_call": 25}
    assert hot.items() <= BUDGETS.items()
    assert LAYER_MB == 50


def test_functions_and_layers_are_of_one_architecture(template):
    for architecture in ("arm64", "x86_64"):
        stack = Stack(template, Architecture=architecture)
        layers = stack.of_type("AWS::Lambda::LayerVersion")
        for function in stack.of_type("AWS::Lambda::Function").values():
            assert function["Architectures"] == [architecture]
            for layer in function["Layers"]:
                assert architecture in layers[layer]["CompatibleArchitectures"]


def test_a_build_leaves_no_stale_layer():
    """SAM's cache would overlook a change of authz/ or of the requirements."""
    assert "cached = false" in (tools.ROOT / "samconfig.toml").read_text()


def test_cloudformation_can_read_the_template():
    """It knows no aliases."""
    events = yaml.parse((tools.ROOT / "template.yaml").read_text())
    assert not [event for event in events if isinstance(event, yaml.AliasEvent)]
