"""Facts, policies and ``as_of`` to gold tables: pure functions from DataFrame to DataFrame.

``facts`` are those of silver that count, ``scope`` and ``kept`` tell which are looked at, ``uneventful`` which need no
judging. ``zaqar``, ``rabbitmq`` and ``pulsar`` find what died, ``dead_letters`` unites them with ``payload`` and
``removal``. ``healthy``, ``profile``, ``traits``, ``dead_letter_counts``, ``contrast``, ``identity``, ``decisions`` and
``patterns`` make patterns of them. The other modules are named like their table.
"""
