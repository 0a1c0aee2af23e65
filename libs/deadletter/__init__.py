"""Dead Letter Office: the exact, replayable state of every message of your queues.

``tables`` says what every table holds, ``lake`` is the only package that reads and writes them, ``spark`` starts Spark.
``sources`` tells where raw events come from, ``parsing`` turns them into facts, ``rules`` holds what the brokers'
documents say, ``bronze``, ``silver`` and ``gold`` are the transforms that make the layers, ``patterns`` finds what
poison messages share, ``gates`` judge what is written, ``steps`` runs all in order. ``snapshot`` is the lake as of a
time, ``triage`` what people decide, ``tracking`` a run in MLflow; ``cli``, ``explain``, ``whatif``, ``report``,
``dashboard`` and ``notebook`` show what came out, of what ``pages`` has.
"""

__version__ = "0.1.0"
RULES_VERSION = "25"
"""Raised whenever a rule changes what is called dead, so that gold says which rules judged a row."""
