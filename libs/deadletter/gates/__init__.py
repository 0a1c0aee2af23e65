"""Data quality gates between the layers: rules from ``expectations/``, judged in Spark, reported by GX.

``suites`` reads the rules, ``rows`` splits a batch by them, ``tablerules`` judges a batch or table,
``refused`` makes quarantine rows of bad ones, ``gate`` puts these together for a run.
"""
