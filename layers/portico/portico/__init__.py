"""Portico: one /mcp URL in front of everything an agent may use."""

__version__ = "0.1.0"
