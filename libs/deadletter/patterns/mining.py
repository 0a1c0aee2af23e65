"""Templates from the set of distinct signatures: which of the words that are left are values too.

Pure Python, and a function of the *set*: how often a signature occurs, in what order and on which
machine cannot matter, because nothing here sees it. Signatures of one shape (number of tokens, marks
at the same places) are taken apart by their root, the words that are equally common among them, and
then place by place, until every place either holds one word or so many that it must hold values.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deadletter.patterns.codes import DIGITS
from deadletter.patterns.signature import VALUE

MAX_SIGNATURES = 20_000
"""Distinct signatures that are mined; beyond it rare words count as values, then the rest is one group."""

EMPTY = "(empty)"
OVERFLOW = "(more kinds of text than are told apart)"
EVIDENCE = {0: 64, 1: 24, 2: 12, 3: 6}
"""Distinct words that make a place a value's place, by how many words beside it never change: the less
the sentence says, the more its other words are needed to tell it from other sentences."""
LEAST_EVIDENCE = 5

NAMING = frozenset(("column", "field", "property", "attribute", "parameter", "argument", "constraint"))
"""Words after which a name of a program's own stands: each tells of another fault, as codes do."""

Tokens = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Template:
    """A template, and its id: a hash of the template and of nothing else."""

    template_id: str
    template: str


def template_of(text: str) -> Template:
    """Give a template its id: the first 16 hexadecimal digits of its SHA-256.

    >>> template_of("connection to <*> refused")
    Template(template_id='7c56f63592db7612', template='connection to <*> refused')
    """
    return Template(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16], text)


def mine(signatures: Iterable[str], limit: int = MAX_SIGNATURES) -> dict[str, Template]:
    """Return the template of each distinct signature.

    >>> cities = "Bern Lyon Oslo Riga Rome".split()
    >>> found = mine([f"no route from depot {city} to customer" for city in cities] + ["no route"])
    >>> sorted({template.template for template in found.values()})
    ['no route', 'no route from depot <*> to customer']
    """
    distinct = sorted(set(signatures))
    spelt = {s: s for s in distinct} if len(distinct) <= limit else _generalised(distinct, limit)
    found = _mined(sorted(set(spelt.values()) - {OVERFLOW}))
    found[OVERFLOW] = template_of(OVERFLOW)
    return {signature: found[spelling] for signature, spelling in spelt.items()}


def _mined(signatures: list[str]) -> dict[str, Template]:
    shapes: dict[Tokens, list[Tokens]] = defaultdict(list)
    for signature in signatures:
        tokens = tuple(signature.split(" "))
        shapes[tuple(token if _is_mark(token) else "w" for token in tokens)].append(tokens)
    found: dict[str, Template] = {}
    for shape in shapes.values():
        for group in _by_root(shape):
            for members in _split(group):
                template = _template(members)
                found.update((" ".join(tokens), template) for tokens in members)
    return found


def _generalised(signatures: list[str], limit: int) -> dict[str, str]:
    """Spell rare words as values, so that a flood of names does not become a flood of templates."""
    seen = Counter(word for signature in signatures for word in set(signature.split(" ")))
    rare = max(2, len(signatures) // limit)
    spelt = {}
    for signature in signatures:
        words = [word if seen[word] > rare else VALUE for word in signature.split(" ")]
        spelt[signature] = " ".join(w for n, w in enumerate(words) if w != VALUE or not n or words[n - 1] != VALUE)
    # which ones are kept must not depend on the alphabet, or one queue's names would crowd out the others
    kept = set(sorted(set(spelt.values()), key=_digest)[:limit])
    return {signature: s if s in kept else OVERFLOW for signature, s in spelt.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _by_root(members: list[Tokens]) -> list[list[Tokens]]:
    seen = Counter((place, token) for tokens in members for place, token in enumerate(tokens))
    groups = defaultdict(list)
    for tokens in members:
        words = [(seen[at], *at) for at in enumerate(tokens) if at[1] != VALUE and not _is_mark(at[1])]
        classes = Counter(count for count, *_ in words)
        root = max(classes, key=lambda count: (classes[count], count), default=0)
        groups[tuple((place, word) for count, place, word in words if count == root)].append(tokens)
    return [groups[key] for key in sorted(groups)]


def _split(group: list[Tokens]) -> Iterator[list[Tokens]]:
    waiting = [group]
    while waiting:
        members = waiting.pop()
        columns = [set(column) for column in zip(*members, strict=True)]
        evidence = EVIDENCE.get(_constant(columns), LEAST_EVIDENCE)
        weighed = [(_weight(columns, place), place) for place, column in enumerate(columns) if len(column) > 1]
        telling = min((w for w in weighed if w[0] < evidence), default=None)
        if telling is None:
            yield members
            continue
        parts = defaultdict(list)
        for tokens in members:
            parts[tokens[telling[1]]].append(tokens)
        waiting.extend(parts[word] for word in sorted(parts, reverse=True))


def _constant(columns: list[set[str]]) -> int:
    return sum(len(column) == 1 and not any(map(_is_mark, column)) and VALUE not in column for column in columns)


def _weight(columns: list[set[str]], place: int) -> float:
    before = next((column for column in reversed(columns[:place]) if not any(map(_is_mark, column))), set())
    if len(before) == 1 and min(before).lower() in NAMING:
        return 0.1 * len(columns[place])
    return sum(map(_value_likeness, columns[place]))


def _value_likeness(word: str) -> float:
    """How much one word at a place speaks for values there.

    >>> [_value_likeness(word) for word in ("<*>", "com.shop.Cart", "Oslo", "RUNNING", "stopped", "503")]
    [3.0, 2.0, 1.0, 0.25, 0.25, 0.1]
    """
    if word == VALUE:
        return 3.0
    # only a code's digits are not masked: each tells another thing that happened, unless there is no end of them
    if any(digit in word for digit in DIGITS):
        return 0.1
    if "." in word:
        return 2.0
    # a program's own enumeration, or what has been done: that is what the text is about
    if (len(word) > 2 and word.isupper()) or word.endswith(("ed", "ing")):
        return 0.25
    return 1.0


def _is_mark(token: str) -> bool:
    return len(token) == 1 and not token.isalnum()


def _template(members: list[Tokens]) -> Template:
    columns = [set(column) for column in zip(*members, strict=True)]
    return template_of(" ".join(min(c) if len(c) == 1 else VALUE for c in columns) or EMPTY)
