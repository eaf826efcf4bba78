"""MCP as it is on the wire: values in, values out. No I/O, no clock, no environment."""
