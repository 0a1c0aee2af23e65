"""Bad input: each kind has its reason, and the good events of the same run are processed."""

import gzip
import json
import os
from pathlib import Path
from tempfile import mkdtemp

import pytest

from deadletter import steps, tables
from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import MONGODB
from deadletter.snapshot import habits_in
from deadletter.sources import noted
from deadletter.sources.landing import Folder
from deadletter.steps import bronze, silver
from deadletter.steps.quality import gated
from tests.command import call
from tests.pipelines.conftest import BUNDLED, lines_of, quiet

GOOD = lines_of(BUNDLED / "zaqar" / "orders-a.jsonl.gz")[:400]


def post(**changes):
    """A Zaqar post of one message, with some fields changed."""
    event = json.loads(next(line for line in GOOD if b'/messages", "query": null' in line))
    return json.dumps(event | changes).encode() + b"\n"


@pytest.fixture(scope="module")
def bad_lake(spark, tmp_path_factory):
    """A lake fed with good events and every kind of damage at once."""
    landing = tmp_path_factory.mktemp("bad") / "100 % of zaqar"
    linked = tmp_path_factory.mktemp("elsewhere") / "of zaqar" / "zaqar"
    linked.mkdir(parents=True)
    landing.mkdir()
    (landing / "zaqar").symlink_to(linked.parent)
    zaqar = landing / "zaqar" / "zaqar"
    with gzip.open(zaqar / "good.jsonl.gz", "wb") as file:
        file.writelines(GOOD)
    (zaqar / "garbage.jsonl").write_bytes(b"\x00\x01 garbage\nmore { garbage\n\n   \n")
    (zaqar / "array.jsonl").write_bytes(b'[{"captured_at": "2026-11-20T20:53:01+00:00"}]\n')
    (zaqar / "utf8.jsonl").write_bytes(post(client_id="caf\xe9").replace(b"\\u00e9", b"\xe9"))
    (zaqar / "large.jsonl").write_bytes(post(method="X" * 5_000_000))
    whole = gzip.compress(b"".join(post(client_id=f"c{n}") for n in range(5000)))
    (zaqar / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (zaqar / "padded.jsonl.gz").write_bytes(gzip.compress(b"".join(GOOD[:50])) + bytes(512))
    for name in (".half-written.jsonl", "_host=web1.jsonl", "_metadata-1.jsonl"):
        (zaqar / name).write_bytes(b'{"captured')
    (landing / "kafka" / "100 % of zaqar" / "zaqar").mkdir(parents=True)
    (landing / "kafka" / "100 % of zaqar" / "zaqar" / "deep.jsonl").write_bytes(
        b'{"captured_at": "2026-11-20T20:53:03"}\n'
    )
    (landing / "my 1+1 %" / "zaqar").mkdir(parents=True)
    (landing / "my 1+1 %" / "zaqar" / "named.jsonl").write_bytes(b'{"captured_at": "2026-11-20T20:53:04+00:00"}\n')
    (landing / "kafka" / "events.jsonl").write_bytes(b'{"captured_at": "2026-11-20T20:53:01+00:00"}\n')
    (landing / "loose.jsonl").write_bytes(b'{"captured_at": "2026-11-20T20:53:02+00:00"}\n')
    lake, summary = Lake(spark, str(tmp_path_factory.mktemp("bad-lake"))), steps.Summary()
    with gated(lake, quiet) as gate:  # what is read and refused needs no gold
        summary.warnings += bronze.ingest(lake, [Folder(str(landing))], quiet)
        silver.merge(lake, gate, summary, quiet)
    return lake, summary


def reasons(lake, file):
    found = lake.read(tables.QUARANTINE).where(f"source_file LIKE '%/{file}'").select("reasons").collect()
    return sorted({reason.split(":")[0] for row in found for reason in row["reasons"]})


@pytest.mark.parametrize(
    ("file", "codes"),
    [
        ("garbage.jsonl", ["not_json"]),
        ("array.jsonl", ["not_an_object"]),
        ("utf8.jsonl", ["not_utf8"]),
        ("large.jsonl", ["unknown_method"]),
        ("kafka/events.jsonl", ["unknown_system"]),
        ("deep.jsonl", ["unknown_system"]),
        ("loose.jsonl", ["unknown_system"]),
    ],
)
def test_reason_in_quarantine(bad_lake, file, codes):
    assert reasons(bad_lake[0], file) == codes


def test_what_is_no_utf8_is_shown_as_far_as_it_is(bad_lake):
    row = bad_lake[0].read(tables.QUARANTINE).where("source_file LIKE '%/utf8.jsonl'").select("event_id").first()
    shown = call("quarantine", "show", row["event_id"], "--lake", bad_lake[0].root).stdout
    assert "not_utf8" in shown and "\ufffd" in shown


def test_a_system_is_told_as_its_folder_is_called(bad_lake):
    refused = bad_lake[0].read(tables.QUARANTINE).where("source_file LIKE '%/named.jsonl'")
    row = refused.select("system", "reasons").first()
    assert row["system"] == "my 1+1 %" and "my 1+1 %" in str(row["reasons"])


def test_the_good_events_of_the_run_are_processed(bad_lake):
    lake, _ = bad_lake
    posted = sum(len(json.loads(x)["request_body"]["messages"]) for x in GOOD if b'/messages", "query": null' in x)
    state = lake.read(tables.MESSAGE_STATE).where("tenant = 'p1' AND posted IS NOT NULL")
    assert state.count() == posted


def test_a_cut_archive_is_named_and_its_lines_kept(bad_lake):
    lake, summary = bad_lake
    assert [w for w in summary.warnings if "cut.jsonl.gz" in w and "damaged archive" in w]
    assert lake.read(tables.QUEUE_EVENTS).where("source_file LIKE '%cut.jsonl.gz'").count() > 100


def test_an_archive_that_only_hadoop_finds_damaged_stops_nothing(bad_lake):
    """Its lines end before the zeros that follow it."""
    lake, summary = bad_lake
    assert [w for w in summary.warnings if "padded.jsonl.gz" in w and "damaged archive" in w]
    assert lake.read(tables.QUEUE_EVENTS).where("source_file LIKE '%padded.jsonl.gz'").count() == 50


def test_what_is_still_being_written_is_not_read(bad_lake):
    """Spark reads some names that begin with an underscore."""
    names = bad_lake[0].read(tables.QUEUE_EVENTS).selectExpr("substring_index(source_file, '/', -1) AS name").distinct()
    assert [row["name"] for row in names.collect() if row["name"].startswith((".", "_"))] == []


def test_an_old_damaged_archive_excuses_no_other_fault(spark, tmp_path):
    """Read leniently, files that the storage does not give would be left out without a word."""
    (tmp_path / "zaqar").mkdir()
    cut, old, good = (tmp_path / "zaqar" / name for name in ("cut 1.jsonl.gz", "old 1.jsonl.gz", "good.jsonl"))
    for path in (cut, old):
        path.write_bytes(gzip.compress(GOOD[0])[:-9])
    good.write_bytes(GOOD[0])
    source = Folder(str(tmp_path / "zaqar" / ".."))

    def fault(path):
        return DeadletterError(f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {path.as_uri()}.")

    taken = spark.createDataFrame([(old.as_uri(),), (good.as_uri(),)], "source_file STRING")

    def rescued(path, taken=taken):
        """The warnings of a run that this file stopped."""
        checkpoint = Path(mkdtemp(dir=tmp_path))
        source.rescue(fault(path), checkpoint, taken)
        return source.unread(checkpoint, lambda: taken)

    assert [cut.name in warning for warning in rescued(cut)] == [True]
    assert len(rescued(cut, taken.where("false"))) == 2, "both are new"
    with pytest.raises(DeadletterError, match="good.jsonl to its end. Put it right, or move it away and put the whole"):
        rescued(good)
    with pytest.raises(DeadletterError, match="quota"):
        source.rescue(DeadletterError("quota"), tmp_path, taken)
    odd = tmp_path / "zaqar" / "odd.jsonl.gz"
    odd.write_bytes(gzip.compress(GOOD[0]))
    (warning,) = rescued(odd, taken.union(spark.createDataFrame([(cut.as_uri(),)])))
    assert "odd.jsonl.gz: damaged archive (Spark cannot read it to its end)" in warning, "whatever Python can read"
    (tmp_path / "zaqar" / "bad-disk.jsonl").symlink_to("/proc/self/mem")  # its first bytes are an I/O error
    with pytest.raises(DeadletterError, match=r"cannot read .*bad-disk.jsonl: Input/output error"):
        rescued(cut)


def test_what_changes_after_it_was_read(spark, tmp_path, monkeypatch):
    """It is told as long as it is there; a copy with the same lines, or with another time, is none of that."""
    zaqar, lake = tmp_path / "landing" / "zäqar 1+1 %", Lake(spark, str(tmp_path / "lake"))
    zaqar.mkdir(parents=True)
    grown, resent, same, packed = (
        zaqar / name for name in ("grown ü.jsonl", "resent.jsonl", "same.jsonl", "p.jsonl.gz")
    )
    for path in (grown, resent, same):
        path.write_bytes(GOOD[0] + b" \t\n" + GOOD[1])
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + GOOD[2] + GOOD[3].rstrip(b"\n")))

    def ingest():
        return bronze.ingest(lake, [Folder(f"/{tmp_path}/landing")], quiet)

    assert ingest() == ingest() == []
    (zaqar / "new.jsonl").write_bytes(GOOD[0])
    grown.write_bytes(grown.read_bytes() + GOOD[4])
    resent.write_bytes(GOOD[5])
    for number, path in enumerate((grown, resent, same, packed)):
        os.utime(path, (number, number))
    (told,) = ingest()
    assert f"{grown}, {resent}. What is new in them was not taken in" in told
    monkeypatch.setattr(noted, "known_ids", lambda *_: pytest.fail("it was compared before"))
    assert ingest() == [told]
    grown.rename(zaqar / "grown again.jsonl")
    resent.rename(zaqar / "resent again.jsonl")
    assert ingest() == []
    raw = {row["raw"].encode() + b"\n" for row in lake.read(tables.QUEUE_EVENTS).select("raw").distinct().collect()}
    assert raw == set(GOOD[:6])


def test_a_file_that_is_gone_when_a_run_is_made_up_for(spark, tmp_path, monkeypatch):
    """A run is killed when Spark has noted the files: the next one reads what is left of them."""
    (tmp_path / "in" / "zaqar").mkdir(parents=True)
    late, lake = tmp_path / "in" / "zaqar" / "late 1.jsonl", Lake(spark, str(tmp_path / "lake"))
    late.write_bytes(GOOD[0])
    (tmp_path / "in" / "zaqar" / "cut.jsonl.gz").write_bytes(gzip.compress(GOOD[1])[:-9])

    def ingest():
        return bronze.ingest(lake, [Folder(str(tmp_path / "in"))], quiet)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Folder, "rescue", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        ingest()
    late.rename(tmp_path / "away")
    gone, cut = ingest()
    assert f"are gone: {late}. Put each there under another name" in gone and "cut.jsonl.gz: damaged" in cut
    (tmp_path / "away").rename(late)
    again, told = ingest()
    assert again == cut, "as long as it is there: a run that is killed tells nobody"
    assert f"were gone when they were to be read: {late}. What is new in them was not taken in" in told
    late.rename(late.with_name("again.jsonl"))
    (tmp_path / "in" / "zaqar" / "cut.jsonl.gz").unlink()
    assert ingest() == []
    assert lake.read(tables.QUEUE_EVENTS).where("source_file LIKE '%/again.jsonl'").count() == 1
    for path in (tmp_path / "in" / "zaqar").iterdir():
        path.unlink()
    assert ingest() == [], "what was taken in may be moved away"


def test_raw_text_is_kept_byte_for_byte(bad_lake):
    lake, _ = bad_lake
    row = lake.read(tables.QUEUE_EVENTS).where("source_file LIKE '%large.jsonl'")
    sizes = row.selectExpr("octet_length(raw) AS size", "event_id = sha2(CAST(raw AS binary), 256) AS same").first()
    assert (sizes["size"], sizes["same"]) == (len(post(method="X" * 5_000_000)) - 1, True)


def test_nothing_is_lost(bad_lake):
    """Every event is in quarantine or counted as good or silent."""
    lake, summary = bad_lake
    assert lake.read(tables.QUEUE_EVENTS).count() == summary.events_in
    assert lake.read(tables.QUARANTINE).count() == summary.events_quarantined


def test_an_empty_landing_folder(spark, tmp_path, monkeypatch):
    """It is looked through once; the store that was named is known although there was nothing to judge."""
    (tmp_path / "landing").mkdir()
    lake, walked, walk = Lake(spark, str(tmp_path / "lake")), [], os.walk
    monkeypatch.setattr(os, "walk", lambda top, **how: walked.append(str(top)) or walk(top, **how))
    summary = steps.run(lake, str(tmp_path / "landing"), habits=MONGODB, tell=quiet)
    assert walked.count(str(tmp_path / "landing")) == 1
    assert summary.events_in == 0
    assert "nothing to take in" in summary.warnings[0]
    assert habits_in(lake.progress.all()) == MONGODB


def test_a_landing_folder_that_spark_would_read_as_others(spark, tmp_path):
    (tmp_path / "in[1]").mkdir()
    with pytest.raises(UsageError, match="as wildcards. Rename the folder"):
        steps.run(Lake(spark, str(tmp_path / "lake")), str(tmp_path / "in[1]"), tell=quiet)


def test_a_missing_landing_folder(spark, tmp_path):
    with pytest.raises(UsageError, match="no landing folder"):
        steps.run(Lake(spark, str(tmp_path / "lake")), str(tmp_path / "nowhere"), tell=quiet)
    assert not (tmp_path / "lake").exists()
