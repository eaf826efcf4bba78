"""Portico: one /mcp URL in front of everything an agent may use."""
