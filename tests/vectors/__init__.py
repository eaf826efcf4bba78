"""Drives authz/vectors through every edge there is. authz/vectors/README.md has the format."""
