"""Spark, and what is asked of it in more than one package.

``session`` starts it or finds it, with the ``jars`` it needs and in a ``jvm`` that is ended with the command;
``warmup`` does so once for an installation, ``lookups`` spares questions to the JVM. ``frames``, ``columns``,
``regexes`` and ``sqltext`` make what Spark has no word for, ``staging`` keeps a frame that is read several times,
``parallel`` has several queries at work.
"""
