"""Data quality gates between the layers: rules from ``expectations/``, judged in Spark, reported by GX.

``suites`` reads the rules, of the types in ``catalogue``, and ``checks`` and ``values`` find what is wrong with them.
``rows`` splits a batch by them, ``judging`` judges a batch or table, by the ``measures`` of a whole table and with
``examples``; ``outcomes`` are what it finds, ``gate`` puts these together for a run. ``history`` keeps them, ``drift``
compares them with it, ``docs`` makes Great Expectations' pages of them.
"""
