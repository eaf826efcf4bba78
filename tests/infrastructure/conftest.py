import pytest

from tests.infrastructure import tools
from tests.infrastructure.stack import Stack


@pytest.fixture(scope="session")
def deployment_tools():
    tools.ensure()


@pytest.fixture(scope="session")
def template(deployment_tools):
    return tools.translated()


@pytest.fixture(scope="session")
def smallest(template):
    """What is there if all parameters keep their defaults."""
    return Stack(template)


@pytest.fixture(scope="session")
def largest(template):
    return Stack(
        template,
        AuthMode="jwt",
        PublicBaseUrl="https://mcp.example.com",
        AlarmEmail="operator@example.com",
        MethodRouting="cloudfront",
        Hosts="fargate",
        HostImage="example/host",
    )
