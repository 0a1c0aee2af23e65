"""The steps of a run: read, call, write. Each can be killed and started again.

``bronze`` takes in files or records, ``silver`` merges facts, ``due`` tells which queues changed, ``gold`` derives
their tables, ``quality`` holds the gates between them, ``run`` does all in turn, ``summary`` is what it tells.
``release`` brings events back from quarantine, ``decide`` applies what people decide about patterns, ``maintenance``
tidies the tables' files.
"""

from deadletter.steps.run import run
from deadletter.steps.summary import Summary

__all__ = ["Summary", "run"]
