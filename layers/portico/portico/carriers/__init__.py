"""Carrying a call to a backend and its answer back: one carrier for each pair of eras."""
