"""What poison messages share: texts to templates, payloads to what is wrong with them.

``masks`` is the table of what counts as a value, ``codes`` tells what does not; ``masking`` and ``signature`` apply
them, ``mining`` finds the templates of the distinct signatures, ``grouping`` does all of it in Spark and ``cluster``
for a file;
``shape``, ``profile`` and ``deviation`` do the same for JSON payloads; ``linking`` combines the two.
"""
