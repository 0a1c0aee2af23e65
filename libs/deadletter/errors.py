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


def first_line(error: Exception) -> str:
    """An error's first line, at most 300 characters: what a person reads first.

    >>> first_line(ValueError("no such file\\nat java..."))
    'no such file'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
