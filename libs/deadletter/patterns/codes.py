r"""Codes: numbers in a text that say what happened, and names of exceptions with a digit in them. They are no values.

``ORA-00060`` is a deadlock and ``ORA-00001`` a duplicate, ``HTTP 503`` will pass and ``HTTP 422`` will not. What is
kept is put between two control characters before a text's digits become one, and its digits are letters while values
are looked for. Rows keep to what :mod:`deadletter.patterns.masks` asks of a regular expression.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.patterns.masks import END, START, Mask

OPEN, CLOSE = "\x02", "\x03"
LONGEST = 128
"""Characters of a code that are kept."""
TO_END = f"[^{OPEN}{CLOSE}]{{0,{LONGEST}}}{CLOSE}"
"""What follows a character of a code, or stands before it."""
DIGITS = "0123456789"
LETTERS = "".join(chr(0xE000 + n) for n in range(len(DIGITS)))
"""What stands for digits of codes: letters of private use, which no mask takes for anything."""
SEPARATOR = r"[\"']?(?: (?:is|of|was|with))?[ :=(\[#]{1,3}[\"']?"


@dataclass(frozen=True)
class Code:
    """What stands ``before`` a code, and the ``code``: two regular expressions. A text has codes of the kind only where
    it has one of ``needs``."""

    name: str
    before: str
    code: str
    why: str
    needs: tuple[str, ...]


CODES = (
    Code("oracle", "(?:ORA|TNS|PLS|RMAN)-", "[0-9]{4,5}", "ORA-00060", ("ORA-", "TNS-", "PLS-", "RMAN-")),
    Code("sqlstate", "(?i:sqlstate)" + SEPARATOR, "[0-9A-Z]{5}", "SQLSTATE[23000], sqlstate: 40P01", ("tate", "TATE")),
    Code("mysql", "ERROR ", r"[0-9]{4} \([0-9A-Z]{5}\)", "ERROR 1205 (HY000)", ("ERROR ",)),
    Code("sql_server", "Msg ", "[0-9]{1,6}, Level", "Msg 1205, Level 13", ("Msg ",)),
    Code("active_directory", "AADSTS", "[0-9]{4,7}", "AADSTS50011", ("AADSTS",)),
    Code(
        "http",
        r"(?:HTTP(?:/[0-9](?:\.[0-9])?)?(?:[ _-]?(?:[Ee]rror!?|[Ss]tatus|[Cc]ode|[Rr]esponse)){0,3}"
        # "http response: 150 bytes" is no status
        r"|(?i:http(?:[ _-]?(?:error!?|status|code)){1,3}))" + SEPARATOR,
        "[1-5][0-9]{2}",
        "HTTP 503, HTTP/1.1 404, HTTP status code: 429, HTTP error! status: 503, httpStatus: 503",
        ("HTTP", "http", "Http"),
    ),
    Code(
        "status",
        # "status: 200" of a log of requests is one figure of several
        "(?:(?i:(?:status|response)[ _-]?code|with status)" + SEPARATOR + r"|(?i:status)(?:=|[\"'] ?[=:] ?)[\"']?)",
        "[1-5][0-9]{2}",
        "status code 503, statusCode=404, response code: 502, status=503, failed with status 503",
        ("tatus", "TATUS", "ode", "ODE"),
    ),
    Code(
        "number",
        "(?i:(?:err|error|sql|vendor)[ _-]?(?:code|no|number)|errno|sqlcode)" + SEPARATOR + "-?",
        "[0-9]{1,6}",
        "error code: 1062, [Errno 111], SQLCODE=-803",
        # most texts speak of an error: few of its number
        ("ode", "ODE", "umber", "UMBER", "rrno", "rrNo", "RRNO", "rNo", *(f"r{mark}no" for mark in " _-")),
    ),
    Code(
        "own",
        # a vendor's code can be its name
        "(?i:err(?:or)?[ _-]?code)" + SEPARATOR,
        "[A-Z]{1,4}[0-9]{1,6}",
        "error_code=E1001",
        ("ode", "ODE"),
    ),
    Code(
        "exit",
        "(?i:exit[ _-]?(?:code|status)|exited with(?: code| status)?|(?:killed|terminated) by signal)"
        + SEPARATOR
        + "-?",
        "(?:0[xX][0-9A-Fa-f]{8}|[0-9]{1,3}|[0-9]{10})",
        "exit code 137, exited with -9, killed by signal 9, exit code 0xC0000005",
        ("xit", "XIT", "ignal"),
    ),
    Code("windows", "(?i:hresult|ntstatus)" + SEPARATOR, "0x[0-9A-Fa-f]{8}", "HRESULT: 0x80070005", ("0x",)),
)
MARKS = (
    Mask(
        "exception",
        # a word with a digit in it would be masked, and its packages with it
        START + r"((?=[A-Za-z_.$]{0,128}[0-9])(?:[A-Za-z_$][A-Za-z0-9_$]{0,63}\.){0,12}"
        r"(?:[A-Z][A-Za-z0-9_$]{0,63}(?:Error|Exception|Fault|Failure|Violation|Timeout)|"
        r"(?:errors|exceptions)\.[A-Z][A-Za-z0-9_$]{0,63}))" + END,
        f"{OPEN}$1{CLOSE}",
        "urllib3.exceptions.MaxRetryError, Base64DecodeError",
        needs=("Error", "Exception", "Fault", "Failure", "Violation", "Timeout", "errors.", "exceptions."),
    ),
    Mask(
        "code",
        # one search for all kinds; what another row keeps is marked already
        f"({START}(?:{'|'.join(f'{kind.before}(?={kind.code}{END})' for kind in CODES)}))([0-9A-Za-z]++)(?!{TO_END})",
        f"$1{OPEN}$2{CLOSE}",
        "a number that says what happened",
        needs=tuple(dict.fromkeys(need for kind in CODES for need in kind.needs)),
    ),
)
"""What puts the marks around exceptions' names and :data:`CODES`."""


def spelt_in_letters(text: Column) -> Column:
    """A text whose codes are marked, with letters for their digits and without the marks."""

    def spelt(part: Column) -> Column:
        code = F.substring_index(part, CLOSE, 1)
        rest = F.substr(part, F.length(code) + 2)
        letters = F.concat(F.translate(code, DIGITS, LETTERS), rest)
        return F.when(F.contains(part, F.lit(CLOSE)), letters).otherwise(part)

    return F.when(has_codes(text), F.array_join(F.transform(F.split(text, OPEN), spelt), "")).otherwise(text)


def has_codes(text: Column) -> Column:
    """Whether any code of a text is marked."""
    return F.contains(text, F.lit(CLOSE))


def spelt_in_letters_text(text: str) -> str:
    """Do what :func:`spelt_in_letters` does, for one Python string."""
    parts = [part.partition(CLOSE) for part in text.split(OPEN)]
    to_letters = str.maketrans(DIGITS, LETTERS)
    return "".join((code.translate(to_letters) if close else code) + rest for code, close, rest in parts)
