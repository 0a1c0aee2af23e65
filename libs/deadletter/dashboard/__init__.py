"""The Databricks dashboard drawn on this machine: its data sets run on Spark, its widgets become charts. ``definition``
reads its file, ``queries`` asks, ``draw`` and ``page`` show, ``server`` serves; ``assemble`` puts the SQL in."""
