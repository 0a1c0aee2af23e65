"""How a function is told to keep a frame that it reads several times; a run gives ``Lake.stage``."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

Stage = Callable[[DataFrame], DataFrame]


def as_it_is(frame: DataFrame) -> DataFrame:
    """Keep nothing: what is read twice is made twice."""
    return frame
