"""Dead Letter Office: the exact, replayable state of every message of your queues.

``tables`` says what every table holds, ``lake`` is the only package that reads and writes them,
``parsing`` turns raw events into facts, ``rules`` holds what the brokers' documents say,
``silver`` and ``gold`` are the transforms between the layers, ``steps`` runs them in order.
"""

__version__ = "0.1.0"
RULES_VERSION = "14"
"""Raised whenever a rule changes what is called dead, so that gold says which rules judged a row."""
