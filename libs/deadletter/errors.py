"""The errors a person can act on. Each message says what is wrong, where, and what to do."""

import re


class DeadletterError(Exception):
    """Anything that ends a command with one clear message instead of a stack trace."""

    exit_code = 1


class UsageError(DeadletterError):
    """The command was called with something that cannot work (exit code 2)."""

    exit_code = 2


class MissingTableError(UsageError):
    """The lake has no such ``table`` as ``layer.name``."""

    def __init__(self, lake: str, table: str) -> None:
        super().__init__(f"{lake} holds no table {table}. Is it a lake? `deadletter run` makes one.")
        self.table = table


class GateError(DeadletterError):
    """A data quality gate stopped the run (exit code 3)."""

    exit_code = 3


class BusyError(DeadletterError):
    """Another command writes to the lake; nothing was done (exit code 4)."""

    exit_code = 4


class SchemaError(DeadletterError):
    """A table's rows do not have the shape that :mod:`deadletter.tables` promises."""


TRACEBACK = "Traceback (most recent call last):"
JAVA = re.compile(r"\n\s*(?:at \S+\(|(?:JVM|Driver) stacktrace:)")
"""Where a Python worker's traceback ends and the JVM's begins."""
CAUSE = re.compile(r"^(?:Caused by)?: (?:[A-Za-z.$]+Exception: )?(\S.*)", re.MULTILINE)
"""A cause without its class, but for an error of the JVM itself: "Java heap space" alone says little."""


def first_line(error: Exception) -> str:
    """An error's first line, at most 300 characters: what a person reads first.

    Of a Python worker's traceback it is the last line: what comes before says only where.

    >>> first_line(ValueError("no such file\\nat java..."))
    'no such file'
    >>> first_line(ValueError(f"Job aborted: {TRACEBACK}\\n  File x\\nKeyError: 'y'\\n\\n\\tat a.B.c(D.java)"))
    "KeyError: 'y'"
    """
    text = str(error)
    raised = JAVA.split(text.rpartition(TRACEBACK)[2])[0] if TRACEBACK in text else ""
    lines = raised.strip().splitlines()[-1:] or text.strip().splitlines() or [type(error).__name__]
    return lines[0].strip()[:300]


def last_cause(error: Exception) -> str:
    """The last cause in a Java stack trace, which says most; the first line where none is told.

    >>> last_cause(ValueError("calling o1.x\\n: a.B: aborted\\n\\tat a.B\\nCaused by: java.io.IOException: it is gone"))
    'it is gone'
    >>> last_cause(ValueError("calling o1.x\\n: java.lang.OutOfMemoryError: Java heap\\n\\tat a.B"))
    'java.lang.OutOfMemoryError: Java heap'
    """
    causes = [] if TRACEBACK in str(error) else CAUSE.findall(str(error))
    return causes[-1][:300] if causes else first_line(error)


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
