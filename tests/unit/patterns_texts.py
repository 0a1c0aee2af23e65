"""Texts to try the patterns on: fragments that masks look for, joined at random, and hostile ones."""

import random

FRAGMENTS = (
    """
order 793923|KeyError: 'currency'|10.250.10.100:50010|http://10.0.0.1:8080/hook/42?token=abc
2026-11-13T13:38:00Z|1/8/2026 0:25|Sat Jun 11 03:28:22 2005|20:30:31.455|fe80::1|2001:db8::8a2e:370:7334
00:0d:60:ea:84:1f|127e769a-4fe6-4548-93b1-513ac51e0452|ada@example.org|m\u00fc\ufffdller3@example.org
password=hunter2|"full_name": "Ada Low"|4111 1111 1111 1111|+44 20 7946 0958|1.16 KB|(1.16 KB)|<1 sec
100 seconds|0x0b85eee0|a489c868f0c37da9|ffffffff|/var/log/shop/error_log|C:\\jobs\\orders.xml
conf/site/orders.xml|node-[12-31]|web-00.prod|mail.example.org:25|localhost:5432|tag="Cart View"|ws=null
enabled=true|action=com.shop.orders.PAID|java.net.ConnectException: refused|Event@7317849d
task_0020_m_01|-27|85%|1,024|0.023958297|()|( 3 4 5 )|......|****|[1]|{"a": 1}|eyJhbGciOi.eyJzdWIi.c2ln
Bearer AbCdEf123456.xyz|session opened for user ada|\u05e9\u05d2\u05d9\u05d0\u05d4|a\u0301e\u0300
\u8ba2\u5355|\U0001f4a5|\x00\x1f|\u2028|\u0085|don't|a--b|x::y|#1##2##3|$100|50\u20ac|\u0661\u0662\u0663
amqp://app:hun,t'er@rabbit:5672/|eyJhbGciOiJkaXIi..aXY.Y2lw.dGFn|password_confirmation=a|full_name=Ada van der Low
customer_name: \u041f\u0435\u0442\u0440\u043e \u0406\u0432\u0430\u043d|NO93 8601 1117 947
HTTP error (503)|(\u8d85\u65f6)|(5 \u20ac)|http://shop:8080,a=b@c
{\\"password\\":\\"p&ss, w\\\\\\"0rd\\"}|"pwd":"a\\"b"|"last_name": "O\\\\"|api_key='x y|\\\\share\\jobs
amqp://app:hunter2@rabbit:5672/|://ada@x:p@ss@|"password":  "hunter2"|{"phones": [\n  "1 2",\n "3"]}|tel: 020 7946
{\\"token\\":\\n  \\"a b\\"}|bad credentials: ada|credentials = x|"private_key":\t'a b'|hotel: 7|secret_key=a
HTTP 503|HTTP/1.1 502|status code: 404|ORA-00060|SQLSTATE[42S02]|ERROR 1205 (HY000)|[Errno 111]|"errorCode": 4012
exit code 137|HRESULT: 0x8007000e|Msg 1205, Level 13|AADSTS50011|SQLCODE=-803|error code 4111111111|\x02|\x03|\ue001
"customer": {"a": ["x}"], "name": "Ada"}|'user': {'name': 'Ada'}|<owner><name>Ada</name>
"tokens":[{"a":["b]"]}]|a@\u00fc.de
{"passwords":["a b"]}|tokens=a|"phone_numbers": ["020 7946"]|{\\"ibans\\":[7]}
<*>|<num>|\\|'|"|=|:|,|;|~|@|null|None|failed|could not be read
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

HOSTILE = {
    "megabyte": "a" * 1_000_000,
    "digits": "9" * 1_000_000,
    "symbols": "!@#$%^&*()" * 50_000,
    "dots": "." * 300_000,
    "slashes": "a/" * 200_000,
    "colons": "ab:" * 200_000,
    "quotes": 'first_name="' * 50_000,
    "nested": '{"secret":["a",' * 60_000,
    "names": "full_name=a" + " de la Ab" * 100_000,
    "people": '"customer":{"a":[' * 240 + ' "name":',
    "nobody": "'user':{" * 60_000 + " name",
    "escapes": 'password="' + '\\"a' * 300_000,
    "backslashes": 'password="' + "\\" * 1_000_000,
    "at signs": "a@" * 200_000,
    "schemes": "http://" * 50_000,
    "brackets": "((1" * 100_000,
    "months": "Jan 1 " * 50_000,
    "right to left": "\u05e9\u05dc\u05d5\u05dd " * 50_000,
    "combining": "a\u0301" * 200_000,
    "codes": "HTTP error status code: ORA-00060 " * 30_000,
    "control": "\x00\x01\x02\x1b[31m" * 50_000,
    "empty": "",
    "spaces": " " * 300_000,
}


def random_texts(count, seed=7):
    """The same texts for the same seed; every one of them can be stored as UTF-8."""
    rng = random.Random(seed)
    glue = [" ", " ", " ", "", ",", ": ", "=", "\t", "\n", ".", "-", "/", "("]
    return [_text(rng, glue) for _ in range(count)]


def _text(rng, glue):
    parts = []
    for _ in range(rng.randint(1, 9)):
        parts.append(rng.choice(FRAGMENTS) if rng.random() < 0.85 else _noise(rng))
        parts.append(rng.choice(glue))
    return "".join(parts)


def _noise(rng):
    points = [rng.choice([rng.randint(1, 126), rng.randint(160, 0x2FF)]) for _ in range(rng.randint(1, 12))]
    return "".join(map(chr, points))
