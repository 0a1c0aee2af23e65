import random
import time

import pytest

from deadletter.patterns.cluster import cluster_file
from deadletter.patterns.grouping import add_signature, group_rows, group_texts
from deadletter.patterns.mining import mine
from deadletter.patterns.signature import signature_text, skeleton_text
from tests.unit.patterns_texts import HOSTILE, random_texts

CITIES = ["Bern", "Lyon", "Oslo", "Riga", "Rome", "Cork", "Kiel", "Nice"]


def ids(texts):
    return {text: (t.template_id, t.template) for text, t in zip(texts, group_rows(texts), strict=True)}


def templates(texts):
    return {text: found.template for text, found in zip(texts, group_rows(texts), strict=True)}


def test_optional_segments_and_lists_do_not_split():
    texts = [
        "sent 12 bytes, received 1127 bytes (1.10 KB), lifetime <1 sec",
        "sent 9 bytes, received 3 bytes, lifetime 00:02",
        "connection from 10.0.0.1 () closed",
        "connection from 10.0.0.2 (mail.example.org) closed",
        "connection from 10.0.0.3 closed",
        "blocks 12 13 14 are gone",
        "blocks 12 are gone",
        "blocks 12, 13, 14, 15 are gone",
    ]
    assert len({found.template for found in group_rows(texts)}) == 3


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("ORA-{}: the statement failed at line 7", ["00060", "00001", "12541"]),
        ("HTTP {} from https://shop.example.org/7", ["503", "404", "422"]),
        ("upstream answered with HTTP/1.1 {} in 7 ms", ["502", "504"]),
        ("HTTP status code: {}, order 7", ["429", "500"]),
        ("Request failed with status code {}", [str(code) for code in range(400, 420)]),
        ('{{"statusCode": {}, "order": 7}}', ["500", "503"]),
        ('{{"status":{},"order":7}}', ["500", "503"]),
        ("HTTP error! status: {}", ["500", "503"]),
        ("charge 7 failed: HTTP error ({})", ["500", "503"]),
        ("job 7: exit code ({})", ["137", "1"]),
        ("\u4fdd\u5b58\u5931\u8d25 7 ({})", ["\u8d85\u65f6", "\u78c1\u76d8\u5df2\u6ee1"]),
        ("httpStatus: {}", ["500", "503"]),
        ("billing answered with status {}", ["422", "503"]),
        ("error_code={} order 7", ["E1001", "E1002"]),
        ("SQLSTATE[{}]: order 7 failed", ["23000", "42S02", "HY000"]),
        ("ERROR {} (HY000): order 7 failed", ["1205", "1213"]),
        ("Msg {}, Level 16, State 7", ["1205", "2627"]),
        ("[Errno {}] order 7 failed", ["111", "104"]),
        ("SQLCODE=-{}, order 7", ["803", "911"]),
        ("sql error code: {}, order 7", ["1062", "1452"]),
        ("worker 7 exited with code {}", ["137", "1", "0"]),
        ("worker 7 was killed by signal {}", ["9", "15"]),
        ("Exception from HRESULT: 0x{} in order 7", ["80070005", "8007000E"]),
        ("AADSTS{}: tenant 7 is unknown", ["50011", "700016"]),
    ],
)
def test_codes_that_say_what_happened_are_told_apart(text, codes):
    texts = [text.replace("7", number).format(code) for code in codes for number in ("7", "12")]
    told = {}
    for code, found in zip([code for code in codes for _ in "12"], group_rows(texts), strict=True):
        assert code in found.template
        told.setdefault(code, set()).add(found.template)
    assert sorted(map(len, told.values())) == [1] * len(codes)
    assert len(set.union(*told.values())) == len(codes)


@pytest.mark.parametrize(
    "text",
    [
        "order ORD-{} is lost",
        "code {} was sent",
        "error in order {}",
        "status {}",
        "Vendor number V10{} is unknown",
        "http response: {} bytes read",
        "http: {} retries",
        "error code 41{}1111111",
        "HTTP {}0",
    ],
)
def test_other_numbers_are_values(text):
    assert len({found.template for found in group_rows([text.format(number) for number in (411, 412, 503)])}) == 1


def test_a_place_with_many_words_holds_values_and_states_do_not():
    texts = [f"no route from depot {city} to customer" for city in CITIES]
    states = ["PAID", "SENT", "LOST", "BACK", "HELD", "DONE"]
    texts += [f"order 7 changed from NEW to {state} today" for state in states]
    found = templates(texts)
    assert {found[text] for text in texts[:8]} == {"no route from depot <*> to customer"}
    assert len({found[text] for text in texts[8:]}) == 6


def test_one_strange_line_does_not_split_a_group():
    texts = [f"no route from depot {city} to customer" for city in CITIES]
    alone = templates(texts)
    strange = ["no word from anyone today to customer", "all routes from depot closed to customer"]
    beside = templates([*texts, *strange])
    assert {beside[text] for text in texts} == set(alone.values())


def test_volume_order_and_partitions_change_nothing(spark):
    texts = [*random_texts(600, seed=3), None, *[f"no route from depot {city} to customer" for city in CITIES]]
    wanted = ids(texts)
    shuffled = texts * 3 + texts[:50]
    random.Random(1).shuffle(shuffled)
    assert ids(shuffled) == wanted
    for rows, partitions in ((texts, 1), (shuffled, 50)):
        df = spark.createDataFrame([(text,) for text in rows], "text STRING").repartition(partitions)
        found = group_texts(add_signature(df, "text")).collect()
        assert len(found) == len(rows)
        assert {row.text: (row.template_id, row.template) for row in found} == wanted


def test_hostile_texts_take_bounded_time():
    started = time.thread_time()  # other tests have the processors, too
    found = group_rows([*HOSTILE.values(), None, "\ud800 lone"])
    assert len(found) == len(HOSTILE) + 2
    assert time.thread_time() - started < 5


def test_a_flood_of_names_ends_in_few_groups():
    words = [f"{a}{b}{c}" for a in "bcdfghjklmnp" for b in "aeiou" for c in "bcdfghjklmnp"]
    flood = [f"{x} {y}" for x in words for y in words[:: len(words) // 20]]
    found = mine(["depot closed", *flood], limit=1000)
    assert len({template.template_id for template in found.values()}) <= 1001
    crowded = mine([signature_text(skeleton_text(text)) for text in flood], limit=10)
    assert len({template.template_id for template in crowded.values()}) <= 11


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "column", "line_id", "told"),
    [
        ("a.csv", "id,msg\nx,y\n", "text", "id", "no column 'text'"),
        ("a.csv", "id,msg\nx,y\n", "msg", "nr", "no column 'nr'"),
        ("a.csv", "id,msg\nx,y\nx,z\n", "msg", "id", "occurs twice"),
        ("a.csv", "id,msg\nx,y\n", None, "id", "say which column"),
        ("a.jsonl", '{"id"\n', "msg", None, "line 1 is not JSON"),
        ("a.jsonl", "[1]\n", "msg", None, "not a JSON object"),
        ("a.jsonl", '\n{"id": 1}\n', "msg", None, "line 2 has no column 'msg'"),
        ("a.txt", "x\n", "msg", None, "has no columns"),
    ],
)
def test_what_cannot_be_grouped_is_told(tmp_path, name, text, column, line_id, told):
    with pytest.raises(ValueError, match=told):
        cluster_file(write(tmp_path / name, text), column, line_id, tmp_path / "out.csv")


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        cluster_file(tmp_path / "none.csv", "msg", None, tmp_path / "out.csv")
