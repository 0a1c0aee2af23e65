import json

import pytest
from pyspark.sql import functions as F

from deadletter.errors import UsageError
from deadletter.patterns.codes import CLOSE
from deadletter.patterns.masking import CUT_OFF, MAX_CHARS, load_masks, mask, mask_text, private_masks
from deadletter.patterns.signature import signature, signature_text, skeleton, skeleton_text
from tests.unit.patterns_texts import FRAGMENTS, HOSTILE, random_texts


def test_spark_and_python_mask_and_sign_alike(spark):
    texts = sorted({*random_texts(4000), *HOSTILE.values()})
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING").repartition(2)
    found = rows.select("t", mask(F.col("t")).alias("m"), signature(skeleton(F.col("t"))).alias("s")).collect()
    assert len(found) == len(texts)
    wrong = [(row.t[:200], row.m, mask_text(row.t)) for row in found if row.m != mask_text(row.t)]
    assert wrong[:3] == []
    signed = {text: signature_text(skeleton_text(text)) for text in texts}
    wrong = [(row.t[:200], row.s, signed[row.t]) for row in found if row.s != signed[row.t]]
    assert wrong[:3] == []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("card 4111 1111 1111 1111 of ada@example.org", "card <card> of <email>"),
        ("password=hunter2 token: abc", "password=<secret> token: <secret>"),
        ('{"full_name": "Ada Low", "phone": "020 7946"}', '{"full_name": <name>, "phone": <phone>}'),
        ("session closed for user ada", "session closed for user <name>"),
        ("call +44 20 7946 0958", "call <phone>"),
        ("HTTP 404 for http://10.0.0.1:80/x?y=1", "HTTP <num> for <url>"),
        ("java.io.IOException: disk full", "java.io.IOException: disk full"),
        ("KeyError: 'currency'", "KeyError: 'currency'"),
        ("TCP/IP and I/O stay words", "TCP/IP and I/O stay words"),
        ("read /var/log/shop.log at 10:21:07", "read <path> at <time>"),
        ("from 2001:db8::8a2e:370:7334", "from <ip>"),
        ("<pwd>hunter2</pwd><token>x y</token><id>7</id>", "<pwd><secret></pwd><token><secret></token><id><num></id>"),
        ("account DE89 3704 0044 0532 0130 00, GB29NWBK60161331926819", "account <iban>, <iban>"),
        ("card 3782 822463 10005", "card <card>"),
        ('{"customer": {"id": "a", "name": "Ada Low"}}', '{"customer": {"id": "a", "name": <name>}}'),
        (
            '{"owner": {"at": {"city": "Bern"}, "name": "Ada Low"}, "name": "order.created"}',
            '{"owner": {"at": {"city": "Bern"}, "name": <name>}, "name": "order.created"}',
        ),
        ('{"users": [{"name": "Ada Low"}]}', '{"users": [{"name": <name>}]}'),
        ("session_id=ab surname: Low", "session_id=<secret> surname: <name>"),
        ("Authorization: Token 9944b09199c6", "Authorization: Token <token>"),
        ("Token authentication failed", "Token authentication failed"),
        ('{"name": "order.created"}', '{"name": "order.created"}'),
        (
            '{"customer": {"at": {"geo": {"lat": "N"}}, "name": "Ada"}}',
            '{"customer": {"at": {"geo": {"lat": "N"}}, "name": <name>}}',
        ),
        ("Card declined: 4111111111111111.", "Card declined: <card>."),
        ("2223003122003222, 2223 0031 2200 3222", "<card>, <card>"),
        ("Set-Cookie: theme=dark; session=abc; HttpOnly and on", "Set-Cookie: <secret> and on"),
        ("bad cookie: user is locked", "bad cookie: <secret> is locked"),
        ('<password type="text">hunter2</password>', "<password type=<text>><secret></password>"),
        ("<pwd><![CDATA[hun]ter2]]></pwd><id>a</id>", "<pwd><secret></pwd><id>a</id>"),
        ('time="9:01" level=error msg="payment declined"', 'time=<text> level=error msg="payment declined"'),
        ("ApiError(code='card_declined') tag='a b'", "ApiError(code='card_declined') tag=<text>"),
        ("ValidationError(field='amount')", "ValidationError(field='amount')"),
        ("cause=Timeout(30) order=Order(30)", "cause=Timeout(<num>) order=<object>"),
        ("Invalid user admin from 10.0.0.1", "Invalid user <name> from <ip>"),
        ("Invalid user input", "Invalid user input"),
        ("quota for user exceeded", "quota for user exceeded"),
        ("opened for user inputs", "opened for user <name>"),
        ("Access denied for user 'agent'@'10.0.0.1'", "Access denied for user '<name>'@'<ip>'"),
        ("Failed password for on.lee from 10.0.0.1", "Failed password for <name> from <ip>"),
        ("Invalid user data-team from 10.0.0.1", "Invalid user <name> from <ip>"),
        ("country_code='DE' barcode=\"X Y\" encode=Bar(1)", "country_code=<text> barcode=<text> encode=<object>"),
        ("errmsg='no route' error_code='X Y'", "errmsg='no route' error_code='X Y'"),
        ("<f>bad token in header => expected JWT</f>", "<f>bad token in header => expected JWT</f>"),
        ('Set-Cookie: prefs="dark"; session=abc', "Set-Cookie: <secret>"),
        ("connect to amqp://app:hun,ter@rabbit:5672/shop failed", "connect to <url> failed"),
        ("{'url':'http://host:80','by':'@ada'}", "{'url':'<url>','by':'@ada'}"),
        ("http://shop:8080,owner=x@example.org", "<url>,owner=<email>"),
        ("Cookie: sid=abc; name=Ada Low; of=def was refused", "Cookie: <secret> was refused"),
    ],
)
def test_values_give_way(text, masked):
    assert mask_text(text) == masked


def test_what_is_cut_off_is_no_half_of_a_value(spark):
    """A value at the end of what is looked at would not look like one any more."""
    private = private_masks()
    values = ["ada.lovelace@example.org", "DE89 3704 0044 0532 0130 00", '"email":"ada.lovelace@example.org"']
    texts = [f"{'x ' * ((MAX_CHARS - before) // 2)}{value} and on" for value in values for before in range(2, 30, 2)]
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING")
    shown = [row[0] for row in rows.select(mask(F.col("t"), private)).collect()]
    assert shown == [mask_text(text, private) for text in texts]
    assert not [end for end in shown if "ada" in end or "DE89" in end]
    assert all(MAX_CHARS - 2 * CUT_OFF < len(text) < MAX_CHARS for text in shown)
    whole = "x " * (MAX_CHARS // 2)
    assert mask_text(whole, private) == whole


def test_what_is_masked_to_its_end_is_shown_to_its_end(spark):
    texts = [f'{{"id":7,"token":"{"a" * 5000}","n":1}}', f'{{"id":7,"token":"{"a" * 4000}","note":"{"b" * 200}"}}']
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING")
    shown = [row[0] for row in rows.select(mask(F.col("t"), private_masks())).collect()]
    assert shown == [mask_text(text, private_masks()) for text in texts] == ['{"id":7,"token":<secret>'] * 2


def test_a_skeleton_that_is_cut_ends_with_a_whole_word(spark):
    """Of half an address the masks would see none."""
    address, end = "ada.low@example.org", MAX_CHARS - CUT_OFF
    texts = [f"{'x ' * ((end - before) // 2)}{address} {'y ' * CUT_OFF}" for before in range(2, 30, 2)]
    rows = spark.createDataFrame([(text,) for text in texts], "t STRING")
    bones = [row[0] for row in rows.select(skeleton(F.col("t"))).collect()]
    assert bones == [skeleton_text(text) for text in texts]
    assert {address in bone for bone in bones} == {True, False}
    assert not [bone for bone in bones if "ada" in bone and address not in bone]


def test_a_skeleton_says_of_a_text_what_the_text_says():
    texts = [f"saw {fragment} today" for fragment in FRAGMENTS if CLOSE not in skeleton_text(fragment)]
    texts += ["s3access_key=wJalrXUt denied", "guest2first_name=Ada not found", "cannot open b2://acme/salaries"]
    assert [text for text in texts if signature_text(skeleton_text(text)) != signature_text(text)] == []
    assert len({skeleton_text(f"order {n} of block 0x{n * 7919:06x} is lost") for n in range(100, 1000)}) < 10


def test_private_rows_alone_keep_the_rest_readable():
    masked = mask_text("order 7 of ada@example.org, pwd=x1", private_masks())
    assert masked == "order 7 of <email>, pwd=<secret>"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"password":"p&ss,w0rd 123"}', '{"password":<secret>}'),
        ('{"last_name": "O\\"Brien", "n": 1}', '{"last_name": <name>, "n": 1}'),
        ('{"pwd": "a\\\\", "user": "x"}', '{"pwd": <secret>, "user": "x"}'),
        ('{"full_name": "", "n": 1}', '{"full_name": "", "n": 1}'),
        ('{"full_name": "Ada Lo', '{"full_name": <name>'),
        ("{'token': 'a b', 'n': 1}", "{'token': <secret>, 'n': 1}"),
        ("api_key: 'a b", "api_key: <secret>"),
        ("card_number=4111 1111 1111 1111 was refused", "card_number=<card> was refused"),
        ("phone=+44 (0)20 7946 0958, id 7", "phone=<phone>, id 7"),
        ('{"phone": ["020 7946 0958", "020 1"], "n": 1}', '{"phone": <phone>, "n": 1}'),
        ('{"full_name": {"first": "Ada", "last": "Low"}, "n": 1}', '{"full_name": <name>, "n": 1}'),
        ("customer_name=Ada Low not found", "customer_name=<name> not found"),
        ("customer_name=ada ValueError: bad", "customer_name=<name> ValueError: bad"),
        ("phone=5551234 2026-11-20 is late", "phone=<phone> 2026-11-20 is late"),
        ('{"password":  "Open \\"sesame\\"", "n": 1}', '{"password":  <secret>, "n": 1}'),
        ('{"tel": "020 O", "passphrase": "O"}', '{"tel": <phone>, "passphrase": <secret>}'),
        ("credentials=Open secret_key: Open, 1", "credentials=<secret> secret_key: <secret>, 1"),
        ('{"passwords":["Open"], "secrets": ["O"], "n": 1}', '{"passwords":<secret>, "secrets": <secret>, "n": 1}'),
        ('{"tokens": ["O", "P"], "api_keys":["O"]}', '{"tokens": <secret>, "api_keys":<secret>}'),
        ('{"phone_numbers":["020 7946 0958"], "tels": "O"}', '{"phone_numbers":<phone>, "tels": <phone>}'),
        ('{"mobiles": ["O"], "full_names": ["Ada O"]}', '{"mobiles": <phone>, "full_names": <name>}'),
        ('{"ibans": ["O"], "card_numbers": [4111, 4112]}', '{"ibans": <card>, "card_numbers": <card>}'),
        ('{"account_number": "O", "accountNo": 12}', '{"account_number": <card>, "accountNo": <card>}'),
        ('{"contacts": [{"id": 1, "name": "Ada O"}, {"name": "O"}], "n": 1}', '{"contacts": <name>, "n": 1}'),
        ('{"users": [{"of": ["a"], "name": "O"},{"id": 2, "name": "O"}]}', '{"users": <name>}'),
        # what is in a string ends nothing, and what is nested belongs to it
        ('{"phoneNumbers":[{"type":"work","value":"O"}],"n":1}', '{"phoneNumbers":<phone>,"n":1}'),
        ('{"secret":{"data":{"k":"O"},"stringData":{"main":"O"}},"n":1}', '{"secret":<secret>,"n":1}'),
        ('{"tokens":["a]O","b"],"secrets":[null,"O"],"n":1}', '{"tokens":<secret>,"secrets":<secret>,"n":1}'),
        ('{"customer": {"note": "a } b", "name": "Ada O"}}', '{"customer": {"note": "a } b", "name": <name>}}'),
        ('{"user":{"at":[{"no":[1]}],"name":"O"},"name":"x"}', '{"user":{"at":[{"no":[1]}],"name":<name>},"name":"x"}'),
        ('{"full_names":[{"first":"Ada","last":"O', '{"full_names":<name>'),
        ('{"users": [{"name_prefix": "Dr", "name": "O"}, {"name": "O"}]}', '{"users": <name>}'),
    ],
)
def test_a_private_value_is_hidden_to_its_end_however_deep_its_json_lies(text, masked):
    for _ in range(3):
        assert mask_text(text, private_masks()) == masked
        assert "O" not in mask_text(text) and "w0rd" not in mask_text(text)
        # as an envelope holds a payload: JSON in a string of JSON
        text, masked = json.dumps(text), json.dumps(masked)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("user/ada@example.org not found", "user/<email> not found"),
        ("GET https://api.example.com/users/ada@example.org/x", "GET https://api.example.com/users/<email>/x"),
        ("email=ada%40example.org&n=1", "email=<email>&n=1"),
        ("redis://ada@mail.example.org", "redis://ada@mail.example.org"),
        ('{"password"=>"open sesame"}', '{"password"=><secret>}'),
        ("{'password': b'open sesame'}", "{'password': <secret>}"),
        ("{'secrets': ['a]', \"b's\"], 'n': 1}", "{'secrets': <secret>, 'n': 1}"),
        ("no such {'customer': {'id': 7, 'name': 'Ada Low'}}", "no such {'customer': {'id': 7, 'name': <name>}}"),
        (
            "<user><id>a</id><name>Ada Low</name></user><name>x</name>",
            "<user><id>a</id><name><name></name></user><name>x</name>",
        ),
        ('password: Some("open sesame")', "password: <secret>)"),
        ('api_key=Secret(value="open sesame")', "api_key=<secret>)"),
        ('password := "open sesame"; x', "password := <secret>; x"),
        ("if (password == 'open sesame')", "if (password == <secret>)"),
        ("DB_PASS=opensesame smtp.pass: opensesame", "DB_PASS=<secret> smtp.pass: <secret>"),
        ("<pass>open sesame</pass> pass=opensesame", "<pass><secret></pass> pass=<secret>"),
        ('{"pass":"open sesame"}', '{"pass":<secret>}'),
        ("AccountKey=opensesame;x", "AccountKey=<secret>;x"),
        ('{"employee_name": "Ada Low", "userName":"Ada"}', '{"employee_name": <name>, "userName":<name>}'),
        ("username=ada, n=1", "username=<name>, n=1"),
        (
            '{"password":"a","password_confirmation":"a","n":1}',
            '{"password":<secret>,"password_confirmation":<secret>,"n":1}',
        ),
        (
            "password1=a, passwordRepeat=b, password_reset=soon, token2: expected",
            "password1=<secret>, passwordRepeat=<secret>, password_reset=soon, token2: expected",
        ),
        (
            "customer_name: \u0418\u0432\u0430\u043d \u041f\u0435\u0442\u0440\u043e\u0432 not found",
            "customer_name: <name> not found",
        ),
        ("full_name=Ada van der Low, n=1", "full_name=<name>, n=1"),
        ("account NO93 8601 1117 947 is closed", "account <iban> is closed"),
        ("session eyJhbGciOiJkaXIi..aXY.Y2lwaGVy.dGFn. Bye", "session <token>. Bye"),
    ],
)
def test_private_values_are_found_however_languages_write_them(text, masked):
    assert mask_text(text, private_masks()) == masked
    assert "sesame" not in mask_text(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token: InvalidTokenError('bad signature')", "token: <secret>'bad signature')"),
        (versions := "shop/app@1.2.3, node_modules/lodash@4.17.21/index.js, icons/cart@2x.png", versions),
        (counts := '{"pass":3,"fail":2}', counts),
    ],
)
def test_what_only_looks_private_is_shown(text, shown):
    assert mask_text(text, private_masks()) == shown


MIXED = r"bad \"x\" in {\'tokens\': [\'O one\', \'two\']} here"
BYTES = r"""b'{"user": {"note": "say \\"hi\\"", "name": "Ada Low"}}"""


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (MIXED, MIXED.replace(r"[\'O one\', \'two\']", "<secret>")),
        (BYTES, BYTES.replace('"Ada Low"', "<name>")),
        ("<user><userId>a</userId><name>Ada</name></user>", "<user><userId>a</userId><name><name></name></user>"),
        ("<customer> unknown: full_name=Ada Low, refused", "<customer> unknown: full_name=<name>, refused"),
        ("no <customer>. One of <name> is expected", "no <customer>. One of <name> is expected"),
        ("b'ada@example.org'", "b'<email>'"),
        ("ada@example.org\u304c\u898b\u3064", "<email>\u304c\u898b\u3064"),
    ],
)
def test_a_value_ends_where_it_ends(text, masked):
    assert mask_text(text, private_masks()) == masked


def test_a_name_is_found_however_much_is_told_before_it():
    told = {"customer": {"id": "x" * 500, "tags": ["y"] * 300, "name": "Ada Low"}}
    assert mask_text(json.dumps(told), private_masks()).endswith('"y"], "name": <name>}}')


@pytest.mark.parametrize(
    "address", ["anna@gr\u00f6\u00dfe.de", "O'Hara@example.org", "ada\\u0040example.org", "a@\u4f8b.\u5728\u7ebf"]
)
def test_addresses_of_all_countries_are_hidden(address):
    assert mask_text(f'{{"to": "{address}"}} and {address}.', private_masks()) == '{"to": "<email>"} and <email>.'


def test_persons_are_hidden_where_json_is_indented():
    text, hidden = (
        json.dumps({"contacts": [{"name": "Ada Low"}, {"name": "Bob"}]}, indent=12),
        '{\n "contacts": <name>\n}',
    )
    for _ in range(3):
        shown = mask_text(text, private_masks())
        assert shown.replace(" " * 12, " ") == hidden
        text, hidden = json.dumps(text), json.dumps(hidden)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"private_key":\n    "a b", "n": 1}', '{"private_key":\n    <secret>, "n": 1}'),
        ('{"phones": [\n  "020 7946",\n  "3"\n ], "n": 1}', '{"phones": <phone>, "n": 1}'),
    ],
)
def test_a_private_value_may_be_on_a_line_of_its_own(text, masked):
    for _ in range(3):
        assert mask_text(text, private_masks()) == masked
        text, masked = json.dumps(text), json.dumps(masked)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("amqp://app:hunter2@rabbit:5672/", "amqp://app:<secret>@rabbit:5672/"),
        ("redis://:p@ss,w)rd@mail.example.org", "redis://:<secret>@mail.example.org"),
        ("amqp://app:hun'ter@rabbit:5672/", "amqp://app:<secret>@rabbit:5672/"),
        ("('http://shop:8080','ada@example.org')", "('http://shop:8080','<email>')"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ('{"url":"http://host:80","by":"@ada"}', '{"url":"http://host:80","by":"@ada"}'),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert mask_text(url, private_masks()) == shown


@pytest.mark.parametrize(
    "text",
    [
        "bad credentials: account locked",
        "two passwords: none fits",
        "hotel: full, hotels: full, intel=no",
        "unexpected token:\n  at the end",
        "first pass: many, bypass: many, first-pass: many, bus_pass: gone",
        '{"pass":many,"fail":few}',
        "username: required, user_name: taken",
    ],
)
def test_what_only_looks_like_a_key_hides_nothing(text):
    assert mask_text(text, private_masks()) == mask_text(text) == text


def test_user_rows_come_first(tmp_path):
    file = tmp_path / "masks.json"
    file.write_text(json.dumps([{"name": "sku", "regex": "S[0-9]{3}", "placeholder": "<sku>"}]))
    assert mask_text("S915 is out", load_masks(file)) == "<sku> is out"
    masks = load_masks(file)
    assert signature_text(skeleton_text("S915 is out", masks), masks) == "<*> is out"


def test_people_have_codes_of_their_own(spark, tmp_path):
    file = tmp_path / "masks.json"
    rows = [{"name": "ours", "regex": "PAY-[0-9]{4}", "keep": True}, {"name": "sku", "regex": "S[0-9]{3}"}]
    file.write_text(json.dumps(rows))
    masks = load_masks(file)
    wanted = {"PAY-4012: S915 is out": "PAY-4012 : <*> is out", "PAY-4012 after HTTP 503": "PAY-4012 after HTTP 503"}
    assert {text: signature_text(skeleton_text(text, masks), masks) for text in wanted} == wanted
    texts = spark.createDataFrame([(text,) for text in wanted], "t STRING")
    signed = texts.select("t", signature(skeleton(F.col("t"), masks), masks).alias("s")).collect()
    assert {row.t: row.s for row in signed} == wanted


def test_a_masks_file_in_toml_names_its_placeholder_itself(tmp_path):
    file = tmp_path / "masks.toml"
    file.write_text("[[mask]]\nname = 'member_no'\nregex = 'M-[0-9]{4}'\nprivate = true\n")
    table = load_masks(file)
    assert mask_text("M-1234 is out", table) == "<member_no> is out"
    assert mask_text("M-1234 has 7 orders", private_masks(table)) == "<member_no> has 7 orders"
    file.write_text("[[mask]]\nname = 'x y'\nregex = 'M'\n")
    with pytest.raises(UsageError, match="'x y': a placeholder looks like"):
        load_masks(file)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read as JSON"),
        ("{}", "a JSON list"),
        ('[{"name": "x"}]', "rule 1 needs"),
        ('[{"name": ["x"], "regex": "S", "placeholder": "<sku>"}]', "rule 1: name is to be a text"),
        ('[{"name": "sku", "regex": "S", "why": ["stock", "wiki"]}]', "rule 1: why is to be a text"),
        ('[{"name": "sku", "regex": "S", "keep": "false"}]', "rule 1: keep is to be true or false"),
        ('[{"name": "sku", "regex": "S", "Private": true}]', "rule 1: 'Private' is none of keep, name, placeholder"),
        ('[{"name": "sku", "regex": "(", "placeholder": "<sku>"}]', "'sku': bad regex"),
        ('[{"name": "sku", "regex": "S{9999999999}", "placeholder": "<sku>"}]', "'sku': bad regex"),
        ('[{"name": "sku", "regex": "S*", "placeholder": "<sku>"}]', "'sku': the regex matches the empty"),
        ('[{"name": "sku", "regex": "S", "placeholder": "sku"}]', "'sku': a placeholder looks like"),
        ('[{"name": "sku", "regex": "S", "placeholder": "$1<sku>"}]', "'sku': \\$1 is a group that"),
        ('[{"name": "sku", "regex": "S", "keep": true, "private": true}]', "'sku': what is private is not kept"),
    ],
)
def test_a_bad_masks_file_says_which_rule(tmp_path, content, told):
    file = tmp_path / "masks.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=told):
        load_masks(file)
