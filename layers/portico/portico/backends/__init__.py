"""What is behind the gateway. A backend speaks MCP over HTTP, or a host makes it do so."""
