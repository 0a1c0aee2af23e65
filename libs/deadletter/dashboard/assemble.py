"""Put the data sets' SQL files into a dashboard file: ``python -m deadletter.dashboard.assemble FILE``.

The SQL is written in ``sql/<data set>.sql`` beside the dashboard file and nowhere else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def assembled(path: str | Path) -> str:
    """The dashboard file's text with every data set's query as its SQL file has it."""
    dashboard = json.loads(Path(path).read_text(encoding="utf-8"))
    for data in dashboard["datasets"]:
        sql = Path(path).parent / "sql" / f"{data['name']}.sql"
        data["queryLines"] = sql.read_text(encoding="utf-8").splitlines(keepends=True)
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(assembled(sys.argv[1]), encoding="utf-8")
