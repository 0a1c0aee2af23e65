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


class BusyError(DeadletterError):
    """Another command writes to the lake; nothing was done (exit code 4)."""

    exit_code = 4


class SchemaError(DeadletterError):
    """A table's rows do not have the shape that :mod:`deadletter.tables` promises."""


def first_line(error: Exception) -> str:
    """An error's first line, at most 300 characters: what a person reads first.

    >>> first_line(ValueError("no such file\\nat java..."))
    'no such file'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


STORAGE_FAULTS = ("No space left on device", "Disk quota exceeded", "Read-only file system", "Permission denied")


def storage_fault(error: BaseException | None) -> str | None:
    """What the storage said, if it is behind ``error``.

    >>> storage_fault(ValueError("java.io.IOException: No space left on device"))
    'No space left on device'
    """
    while error is not None:
        found = [fault for fault in STORAGE_FAULTS if fault in str(error)]
        if found:
            return found[0]
        error = error.__cause__ or error.__context__
    return None
