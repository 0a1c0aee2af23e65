"""Facts, policies and ``as_of`` to gold tables: functions from DataFrame to DataFrame that read no table and no clock;
some look at a few rows to choose a plan.

``facts`` are those of silver that count, ``scope`` and ``kept`` tell which are looked at, ``uneventful`` which need no
judging. ``zaqar``, ``rabbitmq`` and ``pulsar`` find what died, ``dead_letters`` unites them with ``payload`` and
``removal``. ``healthy``, ``profile``, ``traits``, ``dead_letter_counts``, ``contrast``, ``identity``, ``decisions`` and
``patterns`` make patterns of them. ``status`` says where each message stands, ``outlook`` when that changes next,
``difference`` and ``rabbitmq_discrepancies`` belong to ``discrepancies``, ``health`` and ``survival`` to the tables
that end so. The other modules are named like their table.
"""
