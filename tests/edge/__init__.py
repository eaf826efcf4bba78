"""Portico behind edges that are others' programs."""
