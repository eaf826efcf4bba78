"""The filter in authz/filter: in a small host of our own, which can be as hostile as it likes, and in Envoy."""
