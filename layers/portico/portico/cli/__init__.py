"""The `portico` command."""

from portico.cli.commands import main

__all__ = ["main"]
