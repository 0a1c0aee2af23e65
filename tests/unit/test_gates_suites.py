"""Suite files: GX reads and writes them unchanged, and every mistake is told with file, place and what is wrong."""

import copy
import json
import os

import pytest

from deadletter import tables
from deadletter.errors import DeadletterError
from deadletter.gates.checks import document_mistakes
from deadletter.gates.suites import FOLDER, load, load_all

FILES = sorted(FOLDER.glob("*.json"))
FIRST_ID = "00000000-0000-4000-8000-000000000002"
GOOD = {
    "name": "silver.claim_attempts",
    "id": "00000000-0000-4000-8000-000000000001",
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "limit", "min_value": 0},
            "meta": {"why": "a number of messages", "what_to_do": "look"},
            "id": FIRST_ID,
            "severity": "critical",
        },
        {
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "event_id", "regex": "^[0-9a-f]{64}$"},
            "meta": {"why": "an id", "what_to_do": "look"},
            "id": "00000000-0000-4000-8000-000000000003",
            "severity": "warning",
        },
    ],
    "meta": {"great_expectations_version": "1.24.1"},
    "notes": None,
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_gx_reads_and_writes_each_file_unchanged(path):
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    text = path.read_text("utf-8")
    suite = gx.ExpectationSuite(**json.loads(text))
    assert json.dumps(suite.to_json_dict(), indent=2, ensure_ascii=False) + "\n" == text


def test_every_table_of_a_layer_has_a_suite():
    """But for the one that the gates write themselves."""
    layered = {table.full_name for table in tables.ALL_TABLES if table.layer in ("bronze", "silver", "gold")}
    assert set(load_all()) == layered - {tables.QUALITY_METRICS.full_name}


def test_every_key_is_judged_unique():
    for name, suite in load_all().items():
        if name != "bronze.queue_events":  # append-only: a line that came twice is there twice
            unique = [rule.columns for rule in suite.rules if "unique" in rule.type]
            assert [sorted(columns) for columns in unique] == [sorted(tables.find(name).key)], name


def written(tmp_path, change):
    document = copy.deepcopy(GOOD)
    change(document)
    path = tmp_path / "silver.claim_attempts.json"
    path.write_text(json.dumps(document))
    return path


def rule(**parts):
    return lambda document: document["expectations"][0].update(parts)


def kwargs(**parts):
    return lambda document: document["expectations"][0].update(kwargs=parts)


def between(**parts):
    return lambda document: document["expectations"][0]["kwargs"].update(parts)


def typed(kind, **arguments):
    return rule(type=kind, kwargs=arguments)


def regex(text):
    return typed("expect_column_values_to_match_regex", column="consumer", regex=text)


def compared(column, operator, parameter):
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


def when(column, operator, parameter):
    return between(row_condition=compared(column, operator, parameter))


PLACE = "expectations[0] (id 00000000-0000-4000-8000-000000000002): "
MISTAKES = {
    "unknown type": (rule(type="expect_nothing"), PLACE + "type 'expect_nothing' cannot be used in a gate"),
    "supported types are listed": (rule(type="x"), "Supported: expect_column_values_to_not_be_null, "),
    "type of GX that no gate can judge": (rule(type="expect_column_values_to_be_json_parseable"), "cannot be used"),
    "no type": (lambda document: document["expectations"][0].pop("type"), "type None cannot be used"),
    "unknown column": (kwargs(column="limits", min_value=0), PLACE + "unknown column 'limits'; there are system"),
    "column is no name": (kwargs(column=["limit"], min_value=0), "unknown column ['limit']"),
    "nested column": (kwargs(column="posted.time", min_value=0), "unknown column 'posted.time'"),
    "missing column": (kwargs(min_value=0), PLACE + "column is missing"),
    "unknown argument": (between(minimum=0), "unknown argument minimum; it takes column, min_value"),
    "parser of a condition": (between(condition_parser="spark"), "unknown argument condition_parser"),
    "no bound": (kwargs(column="limit"), "min_value or max_value is needed"),
    "bounds the wrong way round": (between(max_value=-1), "min_value is above max_value"),
    "times the wrong way round": (
        kwargs(column="time", min_value="2026-01-31T06:00:00+00:00", max_value="2026-01-31T10:00:00+05:00"),
        "min_value is above max_value",
    ),
    "bound is text": (between(min_value="zero"), "min_value: 'zero' is no number"),
    "bound is true": (between(min_value=True), "min_value: True is no number"),
    "bound that GX rounds": (between(min_value=2**53 + 1), "GX would round it"),
    "time without an offset": (kwargs(column="time", min_value="2026-01-01T00:00:00"), "needs an offset"),
    "time that is none": (kwargs(column="time", max_value="soon"), "neither a day nor a time"),
    "bound of four hundred digits": (
        typed("expect_table_row_count_to_be_between", min_value=10**400),
        "is no whole number from 0",
    ),
    "parameter outside gold": (
        kwargs(column="time", max_value={"$PARAMETER": "as_of"}),
        PLACE + "max_value: only in gold a row's time can be held against a parameter, as_of",
    ),
    "strict is text": (between(strict_min="yes"), "strict_min: 'yes' is not true or false"),
    "mostly above 1": (between(mostly=1.5), "mostly: 1.5 is no share"),
    "column of the wrong type": (kwargs(column="consumer", min_value=0), "column consumer is string, which this type"),
    "regex that does not read": (regex("("), "regex: '(' is no regular expression"),
    "regex that repeats too often": (regex("a{99999999999}"), "is no regular expression"),
    "named group of Python": (
        regex("(?P<n>x)"),
        PLACE + "regex: '(?P<n>x)' is no regular expression of Java, which Spark reads: a named group is written (?<",
    ),
    "named group that neither reads": (regex("(?<a_b>x)"), "is no regular expression"),
    "named group repeated in Python": (regex("(?<n>x)(?P=n)"), r"is written \k<name>"),
    "condition on a group": (regex("(a)?(?(1)b|c)"), "write both cases out"),
    "comment in a regex": (regex("a(?#why)"), "there are no comments"),
    "ASCII by a flag": (regex("(?ia)x"), "there is no flag a"),
    "brace that repeats nothing": (regex('^{"id"'), r"a brace that is no repetition is written \{"),
    "repetition without its least": (regex("a{,3}"), "{,n} is written {0,n}"),
    "bracket within brackets": (regex("^[^[]+$"), r"a bracket within brackets is written \["),
    "one regex of a list": (
        typed("expect_column_values_to_match_regex_list", column="consumer", regex_list=["a", "(?P<n>x)"]),
        "regex_list: '(?P<n>x)' is no regular expression of Java",
    ),
    "regex on a number": (typed("expect_column_values_to_match_regex", column="ttl", regex="1"), "ttl is bigint"),
    "empty set": (typed("expect_column_values_to_be_in_set", column="consumer", value_set=[]), "a list with one value"),
    "null in a set": (
        typed("expect_column_values_to_be_in_set", column="consumer", value_set=[None]),
        "None is no value",
    ),
    "number in a set of texts": (
        typed("expect_column_values_to_be_in_set", column="consumer", value_set=[1]),
        "1 is no",
    ),
    "no time in a set of times": (
        typed("expect_column_values_to_be_in_set", column="time", value_set=["2026-01-31", "abc"]),
        PLACE + "value_set: 'abc' is no timestamp as Spark reads it, e.g. 2026-01-31T10:00:00+00:00",
    ),
    "time that only Python reads": (
        typed("expect_column_values_to_be_in_set", column="time", value_set=["2026-W01-1"]),
        "value_set: '2026-W01-1' is no timestamp",
    ),
    "day that is none": (
        typed("expect_column_values_to_be_in_set", column="time", value_set=["2026-02-30"]),
        "value_set: '2026-02-30' is no timestamp",
    ),
    "no time in a pair": (
        typed(
            "expect_column_pair_values_to_be_in_set", column_A="queue", column_B="time", value_pairs_set=[["q", "abc"]]
        ),
        "value_pairs_set: 'abc' is no timestamp",
    ),
    "pair without its second": (
        typed("expect_column_pair_values_a_to_be_greater_than_b", column_A="limit"),
        "column_B is missing",
    ),
    "what to ignore": (
        typed("expect_column_pair_values_to_be_equal", column_A="ttl", column_B="grace", ignore_row_if="sometimes"),
        "ignore_row_if: 'sometimes' is not one of",
    ),
    "one column is no list": (typed("expect_multicolumn_sum_to_equal", column_list=["ttl"], sum_total=1), "two col"),
    "no list": (typed("expect_compound_columns_to_be_unique", column_list="event_id"), "unknown column None"),
    "condition on an unknown column": (
        between(row_condition={"type": "nullity", "column": {"name": "lmit"}, "is_null": True}),
        "row_condition: unknown column 'lmit'",
    ),
    "condition that is equal to null": (
        when("consumer", "==", None),
        PLACE + "row_condition: consumer: nothing can be compared with null; ask for it with nullity",
    ),
    "condition in a list with null": (when("consumer", "NOT_IN", ["a", None]), "nothing can be compared with null"),
    "condition in no list": (when("consumer", "IN", "a"), "row_condition: consumer: a list with one value at least"),
    "condition in an empty list": (when("consumer", "IN", []), "consumer: a list with one value at least is needed"),
    "condition with a list": (when("granted", "==", [1]), "granted: [1] is no value of a bigint column"),
    "condition with a text for a number": (when("granted", ">", "0"), "granted: '0' is no value of a bigint column"),
    "condition with a number for a text": (when("consumer", "==", 1), "consumer: 1 is no value of a string column"),
    "condition with no time": (when("time", ">", "soon"), "time: 'soon' is no timestamp as Spark reads it"),
    "condition with a parameter": (
        when("time", "<", {"$PARAMETER": "as_of"}),
        "{'$PARAMETER': 'as_of'} is no timestamp",
    ),
    "and of nothing": (between(row_condition={"type": "and", "conditions": []}), "and needs a list with one condition"),
    "or of nothing, deep": (
        between(
            row_condition={
                "type": "and",
                "conditions": [compared("granted", ">", 0), {"type": "or", "conditions": []}],
            }
        ),
        PLACE + "row_condition: or needs a list with one condition at least",
    ),
    "nullity that is no flag": (
        between(row_condition={"type": "nullity", "column": {"name": "consumer"}, "is_null": "no"}),
        "row_condition: consumer: is_null is 'no', not true or false",
    ),
    "no condition": (between(row_condition=None), "row_condition must be GX's comparison"),
    "condition as text": (between(row_condition="ttl > 1"), "row_condition must be GX's comparison"),
    "query without a batch": (
        typed("unexpected_rows_expectation", unexpected_rows_query="SELECT 1"),
        "the query must read from {batch}",
    ),
    "query of a table that is not there": (
        typed("unexpected_rows_expectation", unexpected_rows_query="SELECT * FROM {batch} JOIN silver_claims"),
        "unexpected_rows_query: silver_claims: only gold's suites read other tables",
    ),
    "unknown severity": (rule(severity="fatal"), "severity is 'fatal', not one of critical, warning, info"),
    "no severity": (lambda document: document["expectations"][0].pop("severity"), "severity is None"),
    "no why": (rule(meta={"what_to_do": "look"}), "meta.why is missing"),
    "no advice": (rule(meta={"why": "so", "what_to_do": " "}), "meta.what_to_do is missing"),
    "id is no UUID": (rule(id="7"), "the id '7' is no UUID"),
    "unknown key": (rule(kwarg={}), "unknown key kwarg"),
    "rule is no object": (lambda document: document["expectations"].insert(0, "not null"), "not an object"),
    "no rules": (lambda document: document.pop("expectations"), "not a suite"),
    "another table's name": (lambda document: document.update(name="silver.claims"), "name is 'silver.claims', not"),
    "duplicate id": (
        lambda document: document["expectations"][1].update(id=FIRST_ID),
        "expectations[1] (id 00000000-0000-4000-8000-000000000002): the same id as expectations[0]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path, mistake):
    change, told = MISTAKES[mistake]
    path = written(tmp_path, change)
    with pytest.raises(DeadletterError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("kind", "operator", "parameter", "told"),
    [
        ("array<string>", "==", "a", "a column of array<string> cannot be compared"),
        ("map<string,string>", "IN", ["a"], "a column of map<string,string> cannot be compared"),
        ("struct<a:int>", "!=", "a", "a column of struct<a:int> cannot be compared"),
        ("boolean", "==", "true", "'true' is no value of a boolean column"),
        ("boolean", "IN", [True], "GX takes no true or false in the list of IN"),
        ("date", "==", "2026-01-31T10:00:00", "is no date as Spark reads it"),
        ("decimal(20,4)", "<", True, "True is no value of a decimal(20,4) column"),
        ("boolean", "==", True, None),
        ("date", "IN", ["2026-01-31"], None),
        ("timestamp", ">=", "2026-01-31T10:00:00.5+01:00", None),
        ("timestamp", "<", "2026-01-31", None),
        ("decimal(20,4)", "<", 0.5, None),
        ("string", "NOT_IN", ["a", ""], None),
    ],
)
def test_a_condition_compares_what_the_column_holds(kind, operator, parameter, told):
    document = copy.deepcopy(GOOD)
    when("x", operator, parameter)(document)
    columns = {"limit": "bigint", "event_id": "string", "x": kind}
    found = document_mistakes(document, GOOD["name"], columns)
    assert [text.startswith(PLACE + "row_condition: x: ") and told in text for text in found] == [True] * bool(told)


@pytest.mark.parametrize(
    "text",
    [
        r"(?<n>x)\k<n>",
        r"\(?P<n>",
        r"\{a\}|[{}]",
        "[(?P<]",
        "^x{2}y{2,}z{2,3}$",
        r"[\[]|[]a]",
        "[a-z&&[^b]]+",
        r"\p{L}+",
    ],
)
def test_a_regex_that_java_reads(text):
    document = copy.deepcopy(GOOD)
    document["expectations"][1]["kwargs"]["regex"] = text
    assert document_mistakes(document, GOOD["name"], {"limit": "bigint", "event_id": "string"}) == []


def test_in_gold_times_are_held_against_as_of_alone():
    document, gold = copy.deepcopy(GOOD), "gold.queue_health"
    document["name"] = gold
    columns = {"limit": "bigint", "event_id": "string", "hour": "timestamp", "day": "date"}
    asked = {("hour", "as_of"): 0, ("hour", "today"): 1, ("day", "as_of"): 1, ("limit", "as_of"): 1}
    for (column, parameter), mistakes in asked.items():
        kwargs(column=column, max_value={"$PARAMETER": parameter})(document)
        assert len(document_mistakes(document, gold, columns)) == mistakes, (column, parameter)
    typed("expect_table_row_count_to_equal", value={"$PARAMETER": "as_of"})(document)
    assert "value: only in gold a row's time" in document_mistakes(document, gold, columns)[0]


def test_the_good_one_loads(tmp_path):
    suite = load(written(tmp_path, lambda document: None))
    assert [rule.name for rule in suite.rules] == ["values_to_be_between(limit)", "values_to_match_regex(event_id)"]
    assert [rule.name for rule in suite.row_rules] == ["values_to_be_between(limit)"]


def test_all_mistakes_are_told_at_once(tmp_path):
    def change(document):
        document["expectations"][0].update(severity="fatal", type="x")
        document["expectations"][1]["kwargs"]["column"] = "y"

    with pytest.raises(DeadletterError) as error:
        load(written(tmp_path, change))
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"name": ', "line 1, column 10: not JSON"),
        ('{"name": NaN}', "NaN is no JSON number"),
        ("[]", "not a suite"),
    ],
)
def test_a_file_that_is_no_json(tmp_path, text, told):
    path = tmp_path / "silver.claims.json"
    path.write_text(text)
    with pytest.raises(DeadletterError, match="silver.claims.json: ") as error:
        load(path)
    assert told in str(error.value)


def test_a_file_for_no_table(tmp_path):
    path = tmp_path / "silver.messages.json"
    path.write_text(json.dumps(GOOD))
    with pytest.raises(DeadletterError, match="no table silver.messages"):
        load(path)


def test_an_id_in_two_files(tmp_path):
    for name in ("silver.claim_attempts", "silver.claims"):
        (tmp_path / f"{name}.json").write_text(json.dumps(GOOD | {"name": name, "expectations": [not_null("queue")]}))
    with pytest.raises(DeadletterError, match="is also in silver.claim_attempts"):
        load_all(tmp_path)


def not_null(column):
    return GOOD["expectations"][0] | {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": column}}


def test_a_parameter_that_is_not_given():
    with pytest.raises(DeadletterError, match="needs the parameter as_of"):
        load_all()["gold.dead_letters"].bind({})
