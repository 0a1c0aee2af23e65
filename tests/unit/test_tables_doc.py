"""docs/tables.md says what the tables hold."""

from pathlib import Path

from deadletter.tables import ALL_TABLES
from deadletter.tables_doc import document

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == document(), "run `make tables` and commit docs/tables.md"


def test_every_column_has_a_meaning():
    unnamed = [f"{table.full_name}.{c.name}" for table in ALL_TABLES for c in table.columns if len(c.comment) < 5]
    assert unnamed == []
