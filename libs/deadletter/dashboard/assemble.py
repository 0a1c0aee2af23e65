"""Put the data sets' SQL files into a dashboard file: ``python -m deadletter.dashboard.assemble FILE``.

The SQL is written in ``sql/<data set>.sql`` beside the dashboard file and nowhere else. What several data sets say
alike is in ``sql/parts/<name>.sql`` and stands as ``{name}`` in them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path


def assembled(path: str | Path) -> str:
    """The dashboard file's text with every data set's query as its SQL file has it."""
    dashboard = json.loads(Path(path).read_text(encoding="utf-8"))
    for data in dashboard["datasets"]:
        data["queryLines"] = _query(Path(path).parent / "sql", data["name"]).splitlines(keepends=True)
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _query(folder: Path, name: str) -> str:
    query = (folder / f"{name}.sql").read_text(encoding="utf-8")
    for part in sorted(folder.glob("parts/*.sql")):
        query = _put_in(query, part.stem, part.read_text(encoding="utf-8").rstrip())
    return query


def _put_in(query: str, name: str, text: str) -> str:
    r"""The query with ``text`` for ``{name}``, indented as the line that it stands in.

    >>> print(_put_in("SELECT\n  {x} AS y", "x", "max(\n  z\n)"))
    SELECT
      max(
        z
      ) AS y
    """
    return re.sub(rf"(?m)^( *)(.*)\{{{name}\}}", lambda at: at[1] + at[2] + text.replace("\n", "\n" + at[1]), query)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(assembled(sys.argv[1]), encoding="utf-8")
