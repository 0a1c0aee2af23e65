"""The steps of a run: read, call, write. Each can be killed and started again.

``bronze`` takes in files, ``silver`` merges facts, ``gold`` derives tables, ``quality`` holds the gates between
them, ``run`` does all in turn.
"""

from deadletter.steps.run import run
from deadletter.steps.summary import Summary

__all__ = ["Summary", "run"]
