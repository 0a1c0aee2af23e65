"""Raw events to facts: one module a broker, each from ``bronze.queue_events`` rows to
:class:`~deadletter.parsing.facts.Facts`.
"""

PARSER_VERSION = 17
"""Raised whenever a parser says something else of the same line, so that silver is made of all events again."""
