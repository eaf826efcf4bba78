"""portico login: a token for a gateway that asks for one, and its keeping. An OAuth client as MCP has it."""

from portico.cli.login.flow import login, logout
from portico.cli.login.kept import Login
from portico.cli.login.tokens import token

__all__ = ["Login", "login", "logout", "token"]
