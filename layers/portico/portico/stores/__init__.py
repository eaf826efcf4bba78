"""Where Portico's state lives: `open_store` turns the setting into a store."""

from portico.stores.base import Store

EXPECTED = "expected sqlite:PATH, memory or dynamodb:TABLE"


def open_store(spec: str) -> Store:
    """Each kind is imported only when asked for, so that boto3 costs nobody else its start-up time."""
    kind, _, place = spec.partition(":")
    if kind == "sqlite" and place:
        from portico.stores.sqlite import SqliteStore  # noqa: PLC0415

        return SqliteStore(place)
    if spec == "memory":
        from portico.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if kind == "dynamodb" and place:
        from portico.stores.dynamodb import DynamoStore  # noqa: PLC0415

        return DynamoStore(place)
    raise ValueError(f"unknown store {spec!r}: {EXPECTED}")
