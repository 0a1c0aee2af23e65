"""The errors a person can act on. Each message says what is wrong, where, and what to do."""


class DeadletterError(Exception):
    """Anything that ends a command with one clear message instead of a stack trace."""

    exit_code = 1


class UsageError(DeadletterError):
    """The command was called with something that cannot work (exit code 2)."""

    exit_code = 2


class GateError(DeadletterError):
    """A data quality gate stopped the run (exit code 3)."""

    exit_code = 3


class SchemaError(DeadletterError):
    """A table's rows do not have the shape that :mod:`deadletter.tables` promises."""
