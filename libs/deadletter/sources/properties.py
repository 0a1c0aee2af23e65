"""Files of properties, as ``java.util.Properties`` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

LINE_END = re.compile(r"\r\n|\r|\n")
BLANK = " \t\f"
PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
"""The name ends at the first ``=``, ``:`` or blank without a backslash before it; the rest is the value, to its end."""
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties(text: str) -> dict[str, str]:
    r"""The names in ``text`` with their values; without one it is empty.

    ``ValueError`` says which line names no property, or has a ``\u`` that is no character.

    >>> properties("# where C:\\\nuser = ann\\\n   &bob\npath: C\\:\\\\keys\nname Z\\u00fcrich\nempty")
    {'user': 'ann&bob', 'path': 'C:\\keys', 'name': 'Zürich', 'empty': ''}
    >>> properties("a=1\n\n =2")
    Traceback (most recent call last):
    ValueError: line 3 names no property. Write key=value.
    >>> properties("password=\\users")
    Traceback (most recent call last):
    ValueError: line 1 has a \u that is no character. Write \\ for a backslash.
    """
    found = {}
    for number, line in _lines(text):
        try:
            name, value = map(_unescaped, PAIR.fullmatch(line).groups())  # type: ignore[union-attr]  # any line matches
        except ValueError:
            raise ValueError(rf"line {number} has a \u that is no character. Write \\ for a backslash.") from None
        if not name:
            raise ValueError(f"line {number} names no property. Write key=value.")
        found[name] = value
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank and no comment, each with its number and those that it goes on in."""
    lines = enumerate(LINE_END.split(text), 1)
    for number, line in lines:
        whole = line.lstrip(BLANK)
        if whole.startswith(("#", "!")):  # which never goes on
            continue
        while (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1] + next(lines, (0, ""))[1].lstrip(BLANK)
        if whole:
            yield number, whole


def _unescaped(text: str) -> str:
    def meant(escape: re.Match) -> str:
        told = escape[1]
        return chr(int(told[1:], 16)) if told[0] == "u" else CONTROLS.get(told, told)

    # Java's characters are UTF-16, in which some are a pair
    return ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass").decode("utf-16")
