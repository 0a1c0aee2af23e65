"""Where tables live, and the only package that reads and writes them.

A lake is a folder (``<lake>/<layer>/<table>`` is a Delta table) or, on Databricks, a catalog
(``<catalog>.<layer>.<table>``). Everything else in :mod:`deadletter` works on DataFrames.

``lake`` has the tables, by the ``statements`` that make and change them; ``progress`` notes how far each step has come,
``lock`` keeps a second writer out, ``masks`` has the lake's own masks.
"""

from deadletter.lake.lake import NO_FOLDER, WILDCARDS, Lake
from deadletter.lake.progress import Progress, digest

__all__ = ["NO_FOLDER", "WILDCARDS", "Lake", "Progress", "digest"]
