"""What a lake was derived with is known by version numbers: whoever changes the code looks whether they go up."""

import ast
import hashlib
from itertools import chain
from pathlib import Path

import pytest

import deadletter
from deadletter import parsing

ROOT = Path(deadletter.__file__).parent
PARSES = (
    "parsing/*.py",
    "spark/columns.py",
    "spark/regexes.py",
    "spark/sqltext.py",
    "rules/pulsar.py",
    "rules/rabbitmq.py",
    "rules/zaqar.py",
    "silver/*.py",
    "queues.py",
)
JUDGES = (
    "rules/*.py",
    "gold/*.py",
    "patterns/*.py",
    "spark/columns.py",
    "silver/days.py",
    "steps/gold.py",
    "snapshot.py",
)


def says_nothing(node):
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def fingerprint(patterns):
    """Of the code alone: neither comments nor docstrings nor imports nor its layout count."""
    known, found = hashlib.sha256(), [sorted(ROOT.glob(pattern)) for pattern in patterns]
    assert all(found), "a pattern names no module"
    for path in sorted(chain.from_iterable(found)):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(getattr(node, "body", None), list):
                node.body = [part for part in node.body if not says_nothing(part)] or [ast.Pass()]
        known.update(f"{path.name}\n{ast.unparse(tree)}\n".encode())
    return known.hexdigest()[:16]


@pytest.mark.parametrize(
    ("patterns", "version", "known"),
    [
        (PARSES, parsing.PARSER_VERSION, (17, "33ee45a827f8d345")),
        (JUDGES, deadletter.RULES_VERSION, ("25", "46b52cd9ec59ede3")),
    ],
    ids=["PARSER_VERSION", "RULES_VERSION"],
)
def test_the_code_and_its_version_go_together(patterns, version, known):
    """Where this fails: does the change make another fact of a line, or another verdict of the facts? Then raise the
    version, or lakes keep what they have. Note the new fingerprint here in any case."""
    assert (version, fingerprint(patterns)) == known
