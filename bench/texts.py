"""Scenario G: labelled error texts, and the two that group them.

python bench/texts.py generate COUNT FILE     texts and labels as JSON lines
python bench/texts.py ours FILE OUT           a group for each text, by the package's grouping in Spark
python bench/texts.py drain3 FILE OUT         by Drain3 with its defaults
python bench/texts.py masked FILE OUT         by Drain3 with the masks of its own example
"""

import json
import random
import re
import sys
import time
from functools import partial
from pathlib import Path

TEMPLATES = """
Connection to {host}:{port} refused after {ms} ms
Connection to {host}:{port} timed out after {ms} ms
Connection reset by peer {ip}:{port}
Failed to charge order {num}: card declined by {word}-gateway
Failed to charge order {num}: insufficient funds
Order {num} not found in table {word}_orders
ERROR: duplicate key value violates unique constraint "orders_pkey" DETAIL: Key (id)=({num}) already exists.
ERROR: deadlock detected while updating tuple ({num},{num}) in relation "{word}"
java.lang.NullPointerException: Cannot invoke "String.length()" because "customer" is null at Order.java:{num}
java.lang.NumberFormatException: For input string: "{num}x"
json: cannot unmarshal string into Go struct field Order.amount of type float64 at offset {num}
KeyError: 'customer' while handling message {uuid}
ValueError: amount {amount} is negative in message {uuid}
Message {uuid} exceeded {num} deliveries and was moved to {word}-dlq
Lease of message {uuid} expired after {num} seconds
Schema version {num} of event order.{word} is not supported by consumer {host}
Unable to open {path}: permission denied
Unable to open {path}: no such file or directory
Disk quota exceeded while writing {num} bytes to {path}
HTTP 503 from https://{host}/v2/{word}: upstream unavailable, retry in {num} s
HTTP 429 from https://{host}/v2/{word}: rate limit of {num} requests reached
HTTP 404 from https://{host}/v2/{word}/{num}
TLS handshake with {ip} failed: certificate has expired
DNS lookup of {host} failed: server misbehaving
User {word} is not authorized to perform action {word} on queue {word}-events
Worker {num} killed by signal 9 (out of memory, rss {num} kB)
GC pause of {ms} ms exceeded the limit in region {hex}
Checksum mismatch in block {hex}: expected {hex}, found {hex}
Session {uuid} of client {ip} closed: heartbeat missed {num} times
Cannot parse timestamp "{date}" in field created_at
Retry {num} of {num} for job {uuid} scheduled in {ms} ms
Transaction {num} rolled back: lock wait timeout exceeded
Producer {host} fenced by newer epoch {num}
Partition {num} of topic {word} has no leader
Payment {uuid} of {amount} EUR was refused by the issuer
Mail to {word}@{host} bounced: mailbox full
""".strip().splitlines()
NAMES = "orders payments emails refunds audit ledger stock search billing invoices carts users"
WORDS = NAMES.split()
NUMBER = re.compile(r"[0-9]{3,}")
MASKS = [
    (r"((?<=[^A-Za-z0-9])|^)(([0-9a-f]{2,}:){3,}([0-9a-f]{2,}))((?=[^A-Za-z0-9])|$)", "ID"),
    (r"((?<=[^A-Za-z0-9])|^)(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})((?=[^A-Za-z0-9])|$)", "IP"),
    (r"((?<=[^A-Za-z0-9])|^)([0-9a-f]{6,} ?){3,}((?=[^A-Za-z0-9])|$)", "SEQ"),
    (r"((?<=[^A-Za-z0-9])|^)([0-9A-F]{4} ?){4,}((?=[^A-Za-z0-9])|$)", "SEQ"),
    (r"((?<=[^A-Za-z0-9])|^)(0x[a-f0-9A-F]+)((?=[^A-Za-z0-9])|$)", "HEX"),
    (r"((?<=[^A-Za-z0-9])|^)([\-\+]?\d+)((?=[^A-Za-z0-9])|$)", "NUM"),
]


def slots(rng):
    """A value for each slot of a template; a slot that occurs twice in one gets the same."""
    bits = f"{rng.getrandbits(128):032x}"
    word = rng.choice(WORDS)
    return {
        "num": rng.randrange(1, 10 ** rng.randrange(1, 8)),
        "port": rng.randrange(1024, 65535),
        "ms": rng.randrange(1, 60_000),
        "amount": f"{rng.randrange(1, 10**6) / 100}",
        "ip": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
        "host": f"{word}-{rng.randrange(40):02d}.prod.example.org",
        "word": word,
        "uuid": f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}",
        "hex": f"0x{bits[:12]}",
        "path": f"/var/lib/{word}/{bits[:6]}/segment-{rng.randrange(10**5)}.log",
        "date": f"{rng.randrange(1, 13)}/{rng.randrange(1, 29)}/2026 {rng.randrange(24)}:00",
    }


def generate(count, path):
    """Write texts with their event's number; a few events have most of the texts, as in life."""
    rng = random.Random(count)
    weights = [1 / (n + 1) for n in range(len(TEMPLATES))]
    labels = rng.choices(range(len(TEMPLATES)), weights, k=count)
    _write(path, ((TEMPLATES[label].format(**slots(rng)), str(label)) for label in labels))


def multiply(count, folder, path):
    """Write labelled lines (CSVs with Content and EventId) again and again, with other digits in longer numbers."""
    from grouping import read

    sources = sorted(Path(folder).glob("*.csv"))
    lines = [(row["Content"], f"{source.stem} {row['EventId']}") for source in sources for row in read(source)]
    rng = random.Random(count)
    _write(
        path,
        (
            (NUMBER.sub(lambda _: f"{rng.randrange(100, 10**6)}", text), label)
            for text, label in rng.choices(lines, k=count)
        ),
    )


def _write(path, labelled):
    with Path(path).open("w") as out:
        out.writelines(json.dumps({"text": text, "label": label}) + "\n" for text, label in labelled)


def ours(path, out):
    from deadletter.patterns.grouping import add_signature, group_texts
    from deadletter.spark.session import get_spark, tune

    spark = get_spark()
    tune(spark, 1 << 40)
    began = time.perf_counter()
    texts = spark.read.schema("text STRING, label STRING").json(path)
    numbered = texts.selectExpr("monotonically_increasing_id() AS line", "text")
    signed = add_signature(numbered, "text", stage=partial(staged, iter((f"{out}.shaped", f"{out}.signed"))))
    group_texts(signed).select("line", "template_id").write.mode("overwrite").parquet(f"{out}.parquet")
    seconds = time.perf_counter() - began
    grouped = spark.read.parquet(f"{out}.parquet").orderBy("line").toPandas()
    Path(out).write_text("\n".join(grouped["template_id"]) + "\n")
    return seconds


def staged(paths, frame):
    """Keep a frame as Parquet in the next of the folders, as the pipeline does."""
    folder = next(paths)
    frame.write.mode("overwrite").parquet(folder)
    return frame.sparkSession.read.parquet(folder)


def drain3(path, out, masks=()):
    from drain3 import TemplateMiner
    from drain3.masking import MaskingInstruction
    from drain3.template_miner_config import TemplateMinerConfig

    config = TemplateMinerConfig()
    config.masking_instructions = [MaskingInstruction(pattern, name) for pattern, name in masks]
    began = time.perf_counter()
    miner = TemplateMiner(config=config)
    with Path(path).open() as lines, Path(out).open("w") as found:
        for line in lines:
            found.write(f"{miner.add_log_message(json.loads(line)['text'])['cluster_id']}\n")
    return time.perf_counter() - began


def main():
    what, *arguments = sys.argv[1:]
    if what == "generate":
        generate(int(arguments[0]), arguments[1])
        return
    if what == "multiply":
        multiply(int(arguments[0]), *arguments[1:])
        return
    seconds = {"ours": ours, "drain3": drain3, "masked": lambda *paths: drain3(*paths, MASKS)}[what](*arguments)
    print(json.dumps({"seconds": round(seconds, 3)}))


if __name__ == "__main__":
    main()
