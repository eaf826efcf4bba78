"""`portico doctor`: what a client will meet at a URL, step by step, and what to do where it is not well.

`probe` talks, `examination` says what is asked in which order, and everything else is pure: observations in,
findings out.
"""

from portico.cli.doctor.examination import Target
from portico.cli.doctor.report import run

__all__ = ["Target", "run"]
