r"""The masking table: what in a text is a value and not part of its meaning, one named row each.

The rows are applied in order, the most specific first, by Spark (Java's regular expressions) and by
Python with the same result. They keep to what both engines read alike: explicit ASCII classes instead
of ``\w``, ``\b`` and ``.``, bounded or possessive repetition, and a look-behind that lets a match start
only where a word starts, so that no text, however hostile, costs more than linear time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

START = r"(?<![A-Za-z0-9_])"
END = r"(?![A-Za-z0-9_])"
HEX = "[0-9A-Fa-f]"
BARE = r"[^\s\"',;&)}\]<]"
ENDINGS = "com|net|org|edu|gov|mil|biz|io|local|localdomain|internal|corp|lan"
COUNTRIES = (
    "ar|at|au|be|br|ca|ch|cl|cn|cz|de|dk|es|eu|fi|fr|gr|hk|hu|ie|il|ir|it|jp|kr|lt|lv|mx|nl|no|nz"
    "|info|name|pro|tv|asia|xyz|pe|ph|pl|pt|ro|rs|ru|se|sg|sk|th|tr|tw|ua|uk|us|ve|vn|za"
)
MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
ZONE = r"(?: ?(?:Z|UTC|GMT|[A-Z]{2,3}T|[+-][0-9]{2}:?[0-9]{2})(?![A-Za-z0-9]))?"
CLOCK = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?[AP]M(?![A-Za-z]))?" + ZONE
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
PORT = "(?::[0-9]{1,5}(?![0-9]))?"
AMOUNT = r"(?<![A-Za-z0-9.])(?:[<>~] ?)?[0-9]{1,18}+(?:[.,][0-9]{1,18}+)? ?"
SPACES = r"(?:\s|\\{1,3}[nrt]){0,64}+"
"""Spaces and line feeds, also as JSON in a string has them."""
ELEMENT = r"(?:\s[^<>]{0,256}+(?<=[\"']))?>(?=<!\[CDATA\[|[^<]{0,512}+</)"
"""A ``>`` ends the start of an element of XML, which has an end and whose attributes are in quotes, or a placeholder,
which has none."""
SIGN = "(?:=>|:=|={1,2}+|:)"
"""What stands between a key and its value."""
KEY_END = rf"(?:\\{{0,3}}[\"']\s{{0,8}}{SIGN}{SPACES}|[ \t]{{0,8}}{SIGN}[ \t]{{0,8}}|{ELEMENT})"
"""A quoted key's value may be on a line of its own; what follows another key's colon there is other text."""
WRAPPED = (
    r"(?:(?:(?![A-Za-z_]{0,32}(?:Error|Exception|Fault|Failure|Detail)\()[A-Za-z_]{0,32}\((?:[a-z_]{1,32}=)?"
    r"|[bBuUrR]{1,2})(?=\\{0,3}[\"']))?+"
)
"""What a language puts before a quoted value: b'' in Python, Some("") in Rust. An error's text is no value."""
TELLING = (
    *("msg", "errmsg", "message", "error_message", "errormessage", "err", "error", "reason", "cause"),
    *("detail", "details", "desc", "description", "code", "error_code", "errorcode", "status", "result"),
    *("column", "field", "property", "attribute", "parameter", "argument", "constraint"),
)
"""Keys whose values say what happened, or to which part of a program."""
UNTOLD = "(?<==)" + "".join(f"(?<!{START}(?i:{key})=)" for key in TELLING)
"""Where a key's value begins, unless the key is :data:`TELLING`."""


DEPTHS = range(3)
"""How often the JSON that a value is in can be a string of other JSON."""
REPR = -1
"""In place of such a depth: Python's own notation, with single quotes."""


def _quote(depth: int) -> str:
    return "'" if depth == REPR else r"\\" * (2**depth - 1) + '"'


def _quoted(depth: int) -> str:
    """A value in double quotes, or its cut-off start; the JSON it is in is a string of other JSON ``depth`` times."""
    backslash, before_quote = r"\\" * 2**depth, r"\\" * (2**depth - 1)
    escaped = f'{backslash}(?:{backslash}|{before_quote}"|[^"\\\\])'
    return f'{before_quote}"(?:[^"\\\\]|{escaped})++(?:{before_quote}")?'


def _told(depth: int, level: int = 3) -> str:
    """One thing in a list or an object: a string, what is between strings, or a list or an object of ``level`` more
    levels. A bracket in a string ends nothing."""
    strings = [r"'(?:[^'\\]|\\[^\n])*+'", _quoted(0), "[\"']"] if depth == REPR else [_quote(depth) * 2, _quoted(depth)]
    # a text in Python's notation has a backslash before some quotes alone
    stray = r"\\" if depth < 1 else r"\\(?!\\{0,6}\")"
    between = [r"[^\[\]{}\"'\\]++", stray, *([] if depth == REPR else ["'"])]
    inside = [rf"[\[{{](?:{_told(depth, level - 1)})*+[\]}}]?"] if level else []
    return "|".join([*strings, *between, *inside])


def _gathered(depth: int) -> str:
    """A list or an object that begins with a string, or its cut-off start."""
    begins = rf"(?=(?:\s|\\{{1,3}}[nrt]|[\[{{,0-9.+-]|null){{0,64}}+{_quote(depth)})"
    return rf"[\[{{]{begins}(?:{_told(depth)})*+[\]}}]?"


def _value(bare: str) -> str:
    """What follows a key: an element's text, one in quotes, a list or an object that begins with one, or a ``bare``
    text."""
    quoted = [*map(_quoted, DEPTHS), r"'[^']++'", r"'(?:[^'\"\\]|\\[^\"\\])++"]
    # quotes of several depths at once, as Python writes a text that has both kinds: to the first bracket
    mixed = "(?=" + SPACES + r"\\{0,3}[\"'])"
    of_numbers, to_bracket = rf"\[{SPACES}[0-9+][^\]]*+\]", [rf"\[{mixed}[^\]]*+\]?", rf"\{{{mixed}[^}}]*+\}}?"]
    gathered = [*map(_gathered, (*DEPTHS, REPR)), of_numbers, *to_bracket]
    element = r"(?<=[^=]>)(?:<!\[CDATA\[(?:[^\]]|\](?!\]>))*+(?:\]\]>)?|[^<]++)"
    in_quotes = f"{WRAPPED}(?:{'|'.join(quoted)})"
    return "(?:" + "|".join([element, in_quotes, *gathered, r"(?!\\++[\"'])" + bare]) + ")"


VALUE = _value(BARE + "++")
NAME = _value(
    BARE + r"++(?: (?:(?:v[ao]n|de[lnr]?|d[aiu]|l[ae]|bin|[ae]l) ){0,2}"
    r"(?![A-Za-z]{0,64}(?:Error|Exception|Fault|Failure|Timeout))"
    r"[A-Z\u00C0-\u017F\u0386-\u03AB\u0400-\u042F][A-Za-z\u00C0-\u1FFF'-]*+(?!:)){0,3}+"
)
"""A value that may go on with further words in capitals, but for what is an error's name."""
PERSON = "(?:customer|user|person|contact|recipient|patient|owner|employee)"
NUMBER = r"(?:[+(]{0,2}[0-9]++(?:[ .()/-]{1,2}(?![0-9]{4}-[0-9]{2}-)[0-9]++)*+(?![A-Za-z0-9])|" + VALUE + ")"
"""A value that may be groups of digits."""


NO_NAME = (
    "agent|context|credentials?|data|groups?|identifier|ids?|input|names?|password|permissions?|pool|preferences|profile"
    "|request|response|role|session|settings|state|status|token|type|value"
    "|authentication|authorization|cancelled|canceled|denied|deleted|disabled|exceeded|expired|failed|locked|missing"
    "|not|rejected|timed|unknown|is|was|has|had|cannot|could|and|or|at|by|due|during|from|in|on|to|when|while|with"
)
"""What follows "user" and is not called so."""
LETTERS = r"\u00C0-\u1FFF\u2C00-\uD7FF"
"""Letters of other alphabets than ours."""
LABEL = "A-Za-z0-9" + LETTERS
"""What a part of a host's name is made of. Its last one is of one alphabet: a sentence may go on behind it."""
USER, PASSWORD = r"[^\s/:\"'\\<>]{0,64}:", r"[^\s/\"\\<>]{1,256}"
"""Between the slashes and the ``@`` of a URL."""
NO_PORT = "(?![0-9]{1,5}[^A-Za-z0-9@])"
"""Before what may be a password: the number of a port, and what else is told after it, is none."""
NAME_END = "(?![A-Za-z0-9_]|[.@-][A-Za-z0-9])"


def _before_name(depth: int) -> str:
    """What stands before the name of somebody: an object's start, and what else is told of them before."""
    quote = _quote(depth)
    key = rf"{quote}name{quote}\s{{0,8}}:"
    return rf"{PERSON}s?{quote}\s{{0,8}}:{SPACES}\[?{SPACES}\{{(?:(?!{key})(?:{_told(depth)})){{0,700}}+{key}{SPACES}"


IN_ELEMENT = rf"<{PERSON}s?(?:\s[^<>]{{0,256}}+)?>(?:[^<]|<(?!name[\s>]|/?{PERSON}s?[\s>])){{0,2048}}+<name{ELEMENT}"
"""The same in XML. A ``<name>`` that nothing closes is a placeholder, or a text about elements."""


@dataclass(frozen=True)
class Mask:
    """One row of the table. ``$1`` in the placeholder keeps the regular expression's first group.

    ``private`` rows hide persons and secrets; they are also applied alone, to examples that people read.
    A text without any of ``needs`` is left alone: finding a literal is many times cheaper than a match.
    Rows that ``keep`` what they find are those of people's own codes, see :mod:`deadletter.patterns.codes`.
    """

    name: str
    regex: str
    placeholder: str
    why: str = field(repr=False)  # an example for people: another one is no other mask
    private: bool = False
    needs: tuple[str, ...] = ()
    keep: bool = False


WHERE = (
    Mask(
        "url",
        START + rf"[A-Za-z][A-Za-z0-9+.-]{{1,19}}://(?:{USER}{NO_PORT}{PASSWORD}@)?" + r"[^\s\"'<>,;)\]}]++",
        "<url>",
        "http://10.0.0.1:80/x",
        needs=("://",),
    ),
    Mask(
        "windows_path",
        r"(?<![A-Za-z0-9])(?:[A-Za-z]:|\\)\\(?=\\{0,8}[^\s\\\"'])[^\s\"'<>|,;()\[\]]++",
        "<path>",
        r"C:\jobs\orders.xml, \\share\jobs",
        needs=("\\",),
    ),
    Mask(
        "path",
        r"(?<![A-Za-z0-9_<>/)\]])(?:~|\.{1,2})?/[A-Za-z0-9_.@%+~#*$=!-][^\s\"'<>|,;:()\[\]{}]*+",
        "<path>",
        "/var/log/shop/error_log, ./run.sh; a single slash between words is none",
        needs=("/",),
    ),
)
PRIVATE = (
    Mask(
        "userinfo",
        rf"(://{USER})(?![0-9]{{1,5}}'){PASSWORD}(?=@)",
        "$1<secret>",
        "a password in a URL that is shown: amqp://app:hunter2@rabbit:5672/",
        True,
        needs=("://",),
    ),
    Mask(
        "jwt",
        START + r"eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]++|\.(?=\.)){1,4}",
        "<token>",
        "eyJhbGciOi.eyJzdWIi.c2; an encrypted one has five parts, the second of which may be empty",
        True,
        needs=("eyJ",),
    ),
    Mask(
        "bearer",
        START + "([Bb](?:earer|asic) |Token (?=[A-Za-z]{0,64}[0-9]))[A-Za-z0-9._~+/=-]{12,}+",
        "$1<token>",
        "Bearer AbCdEf123456",
        True,
        needs=("earer ", "asic ", "Token "),
    ),
    Mask(
        "cookies",
        r"((?<![A-Za-z])(?i:(?:set-)?cookie):[ \t]{0,8})[^\s=;,\"']{1,128}+=(?:\"[^\"]*+\"|[^\s;\"']*+)"
        r"(?: [^\s;\"'=]++(?=;))*+(?:;[ \t]{0,8}[^\s;\"'=]++"
        r"(?:=(?:\"[^\"]*+\"|[^\s;\"']*+)(?: [^\s;\"'=]++(?=;))*+)?)*+",
        "$1<secret>",
        "all of a header: Cookie: theme=dark; session=abc123",
        True,
        needs=("ookie:", "OOKIE:"),
    ),
    Mask(
        "secret",
        "((?i:(?:password|passwd|passphrase|pwd|secret|token|credential|cookie|(?<![a-z])ssn|session[_-]?id"
        r"|(?:api|access|secret|private|account|encryption|signing)[_-]?key"
        # "pass: 3, fail: 2" tells none either
        r"|(?:db|smtp|mail|user|redis|ldap|admin|root)[_.-]?pass|(?<=<)pass(?=>)|(?<![a-z._-])pass(?==)"
        r"|(?<=[\"'])pass(?=\\{0,3}[\"']\s{0,8}" + SIGN + r"\s{0,8}\\{0,3}[\"']))"
        # "bad credentials: user is locked" tells no secret
        r"(?:s(?=\\{0,3}[\"']|[ \t]{0,8}=))?"
        r"(?:[_-]?(?:confirm(?:ation)?|repeat|again|hash|value|old|new|[0-9]{1,2}(?=\\{0,3}[\"']|[ \t]{0,8}=)))?)"
        + KEY_END
        + ")"
        + VALUE,
        "$1<secret>",
        "a value that its key calls secret: password=hunter2",
        True,
        needs=("=", ":", ">"),
    ),
    Mask(
        "key",
        START + "(?:AKIA|ASIA|AIza|gh[opsu]_|github_pat_|glpat-|xox[abp]-|[rs]k_live_|[rs]k_test_|whsec_|sk-)"
        "[A-Za-z0-9_-]{12,}+",
        "<token>",
        "keys whose makers gave them a known start",
        True,
        needs=(
            "AKIA",
            "ASIA",
            "AIza",
            "ghp_",
            "gho_",
            "ghs_",
            "ghu_",
            "github_pat_",
            "glpat-",
            "xox",
            "k_live_",
            "k_test_",
            "whsec_",
            "sk-",
        ),
    ),
    Mask(
        "person",
        "((?i:(?:first|last|full|given|family|middle|maiden|legal|preferred|customer|contact|recipient|patient"
        # "username: required" tells no name
        r"|(?:card|account)_?holder|(?:user|person|employee)(?=_?names?(?:\\{0,3}[\"']|[ \t]{0,8}=)))_?names?"
        "|(?<![a-z])(?:surname|card_?holder)s?)" + KEY_END + ")" + NAME,
        "$1<name>",
        'a person\'s name, where a key says so: "full_name": "Ada Low"',
        True,
        needs=("=", ":", ">"),
    ),
    Mask(
        "people",
        # each of them can have lists and objects of their own
        r"((?i:" + PERSON + r"s?\\{0,3}\"\s{0,8}:" + SPACES + r"))\[(?=" + SPACES + r"\{"
        r"(?:[^\[\]\"]|\[[^\[\]]{0,256}+\]|\"(?!name\\{0,3}\")){0,1024}+\"name\\{0,3}\")"
        r"(?=(?:[^\[\]}]|\[[^\[\]]{0,256}+\]|\}(?!" + SPACES + "," + SPACES + r"\{)){0,4096}+\})"
        r"(?:[^\[\]]|\[[^\[\]]{0,256}+\]){0,4096}+\]?",
        "$1<name>",
        'several persons: "contacts": [{"name": "Ada Low"}, {"name": "Bob Hill"}]',
        True,
        needs=("name",),
    ),
    Mask(
        "somebody",
        "((?i:" + "|".join([*map(_before_name, (*DEPTHS, REPR)), IN_ELEMENT]) + "))" + NAME,
        "$1<name>",
        'a name of somebody: "customer": {"id": 7, "name": "Ada Low"}',
        True,
        needs=("name",),
    ),
    Mask(
        "dial",
        "((?:(?<![A-Za-z])(?i:tels?)|(?i:(?:phone|mobile|msisdn)s?))(?i:_?(?:no|number)s?)?" + KEY_END + ")" + NUMBER,
        "$1<phone>",
        'a phone number, where a key says so: "phone": "020 7946 0958"',
        True,
        needs=("=", ":", ">"),
    ),
    Mask(
        "payment",
        "((?i:(?:(?:card|account)_?(?:no|number)|cvv|cvc|iban)s?)" + KEY_END + ")" + NUMBER,
        "$1<card>",
        "a card or account, where a key says so: card_number=4111",
        True,
        needs=("=", ":", ">"),
    ),
    Mask(
        "account",
        START + "((?:(?i:for|of|by|as|invalid|illegal) (?i:user)|(?i:password|publickey|login|logon|account) for) "
        rf"[\"']?)(?!(?:user|invalid|illegal|the|an?|all|any|this|your|each) |(?<![\"'])(?:{NO_NAME}){NAME_END})"
        r"[A-Za-z_][^\s\"',;:()\[\]]{0,63}",
        "$1<name>",
        "an account's name: session opened for user ada",
        True,
        needs=("ser ", "for "),
    ),
    Mask(
        "email",
        r"(?:(?<![^\s\"'<>()\[\]{},;:=|])|(?<=[^/]/))"
        # in b'ada@example.org' the b is Python's
        r"(?![bBuUrRfF]{1,2}')[^\s\"'<>()\[\]{},;:=|@/][^\s\"<>()\[\]{},;:=|@/]{0,63}"
        # "app@1.2.3" is a version, "cart@2x.png" a picture
        rf"(?:@|%40|\\u0040)[{LABEL}-]{{1,63}}(?:\.[{LABEL}-]{{1,63}}){{0,7}}"
        rf"\.(?!(?i:png|jpe?g|gif|svg|webp)(?![{LABEL}-]))(?:[A-Za-z][A-Za-z0-9-]{{1,62}}|[{LETTERS}]{{2,63}})",
        "<email>",
        "ada@example.org, users/ada@example.org, ada%40example.org; not redis://ada@example.org",
        True,
        needs=("@", "%40", "u0040"),
    ),
    Mask(
        "iban",
        "(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: [A-Z0-9]{4}){3,7}(?: [A-Z0-9]{1,3})?(?![A-Za-z0-9])"
        "|(?<![A-Za-z0-9])NO[0-9]{2}(?: [0-9]{4}){2} [0-9]{3}(?![A-Za-z0-9])"
        "|(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}[A-Z0-9]{4}[0-9]{7}[A-Z0-9]{0,19}(?![A-Za-z0-9])",
        "<iban>",
        "DE89 3704 0044 0532 0130 00",
        True,
    ),
    Mask(
        "card",
        r"(?<![A-Za-z0-9._-])(?:(?:[3-6][0-9]|2[2-7])[0-9]{2}(?:[ -][0-9]{4}){2}[ -][0-9]{1,7}"
        "|3[47][0-9]{2}[ -][0-9]{6}[ -][0-9]{5})"
        "(?![A-Za-z0-9])",
        "<card>",
        "4111 1111 1111 1111, 3782 822463 10005",
        True,
        needs=(" ", "-"),
    ),
    Mask(
        "pan",
        r"(?<![A-Za-z0-9._-])(?:[3-6][0-9]{12,18}|2[2-7][0-9]{14})(?![A-Za-z0-9]|\.[0-9])",
        "<card>",
        "4111111111111111",
        True,
    ),
    Mask(
        "phone",
        r"(?<![A-Za-z0-9.+-])"
        r"(?:\+[0-9]{1,3}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{2,4}(?:[ .-]?[0-9]{2,4}){1,4}"
        r"|\([0-9]{3}\) ?[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{3}-[0-9]{4})(?![A-Za-z0-9])",
        "<phone>",
        "+44 20 7946 0958, (020) 946-0958",
        True,
    ),
)
WHEN_AND_WHO = (
    Mask(
        "quoted",
        UNTOLD + r"(?:\"[^\"]{0,256}\"|'[^']{0,256}')",
        "<text>",
        'the quoted value of a key: tag="Cart View"; not of one that says what happened: msg="no route"',
        needs=("=",),
    ),
    Mask(
        "printed",
        UNTOLD + r"[A-Za-z][A-Za-z0-9_.$]{0,63}(?:\{[^{}]{0,128}\}|\([^()]{0,128}\))",
        "<object>",
        "an object as a program prints it, where it is a key's value: order=Order{id=7}",
        needs=("=",),
    ),
    Mask(
        "uuid",
        f"(?<![A-Za-z0-9]){HEX}{{8}}-(?:{HEX}{{4}}-){{3}}{HEX}{{12}}(?![A-Za-z0-9])",
        "<uuid>",
        "127e769a-4fe6-4548-93b1-513ac51e0452",
        needs=("-",),
    ),
    Mask(
        "mac",
        f"(?<![A-Za-z0-9:]){HEX}{{2}}(?:[:-]{HEX}{{2}}){{5,31}}+(?![A-Za-z0-9:])",
        "<mac>",
        "00:0d:60:ea:84:1f",
        needs=(":", "-"),
    ),
    Mask(
        "timestamp",
        "(?<![A-Za-z0-9])[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?:[T :_-]" + CLOCK + ")?(?![0-9])",
        "<time>",
        "2026-11-13T13:38:00Z, 2026/9/28:16:00:46.160",
    ),
    Mask(
        "date",
        "(?<![A-Za-z0-9/.])[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}(?:[T ,]{1,2}" + CLOCK + ")?(?![0-9])",
        "<time>",
        "1/8/2026 0:25",
    ),
    Mask(
        "day",
        f"{START}(?:{DAY},? )?(?:{MONTH} {{1,2}}[0-9]{{1,2}}|[0-9]{{1,2}}[ -]{MONTH})(?![A-Za-z0-9])"
        f"(?:[ ,-]{{1,2}}[0-9]{{4}}(?![0-9:]))?(?:[ ,:]{{1,2}}{CLOCK})?(?: [0-9]{{4}}(?![0-9:.]))?",
        "<time>",
        "Sat Jun 11 03:28:22 2005",
    ),
    Mask("clock", "(?<![A-Za-z0-9:.])" + CLOCK + "(?![0-9:])", "<time>", "20:30:31.455", needs=(":",)),
    Mask(
        "component",
        START + r"[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64}){1,12}/[A-Za-z0-9_.$-]{1,128}",
        "<path>",
        "a part of a program: com.shop.app/.CartActivity",
        needs=("/",),
    ),
    Mask(
        "relative_path",
        "(?<![A-Za-z0-9_<>/.:=-])[A-Za-z0-9_.-]{1,128}(?:/[A-Za-z0-9_.$-]{1,128}){2,64}+/?",
        "<path>",
        "conf/site/orders.xml",
        needs=("/",),
    ),
    Mask(
        "range",
        START + r"[A-Za-z][A-Za-z_]{0,31}-[A-Za-z0-9]{0,8}\[[0-9]{1,9}[,-][0-9,-]{1,256}\]",
        "<id>",
        "a range of nodes: node-[12-31]",
        needs=("[",),
    ),
    Mask(
        "ipv4",
        f"(?<![A-Za-z0-9.]){OCTET}(?:\\.{OCTET}){{3}}(?![A-Za-z0-9]|[.-][A-Za-z0-9]){PORT}",
        "<ip>",
        "10.250.10.100:50010",
        needs=(".",),
    ),
    Mask(
        "ipv6",
        f"(?<![A-Za-z0-9:.])(?=[0-9A-Fa-f:]{{0,40}}::|(?:{HEX}{{1,4}}:){{7}})[0-9A-Fa-f:]{{3,39}}+"
        "(?:%[A-Za-z0-9]++)?(?![A-Za-z0-9:])",
        "<ip>",
        "fe80::1, 2001:db8::8a2e:370:7334",
        needs=(":",),
    ),
    Mask(
        "localhost",
        r"(?<![A-Za-z0-9_.-])localhost(?:\.localdomain)?(?![A-Za-z0-9_.-])" + PORT,
        "<host>",
        "localhost:5432",
        needs=("localhost",),
    ),
    Mask(
        "host",
        rf"(?<![A-Za-z0-9_.@-])(?:(?:[A-Za-z0-9_-]{{1,63}}\.){{1,8}}(?:{ENDINGS})"
        rf"|(?:[A-Za-z0-9_-]{{1,63}}\.){{2,8}}(?:{COUNTRIES}))(?![A-Za-z0-9_-]|\.[A-Za-z0-9]){PORT}",
        "<host>",
        "mail.example.org:25; an ending of two letters needs two dots: not log.in",
        needs=(".",),
    ),
)
HOW_MUCH = (
    Mask(
        "size",
        AMOUNT + "(?:[kKMGTP]i?[bB]|[bB]ytes?|B)(?:/s(?:ec)?)?(?![A-Za-z0-9])",
        "<size>",
        "1.16 KB, 93 bytes",
        needs=("B", "b"),
    ),
    Mask(
        "duration",
        AMOUNT + f"(?:[nmu]?s|(?:milli|micro|nano)?(?:s|secs?|seconds?)|mins?|minutes?|hrs?|h|hours?|days?){END}",
        "<duration>",
        "1.04 s, <1 sec, 100 seconds",
    ),
    Mask(
        "truth",
        START + "(?:true|false|TRUE|FALSE|True|False)" + END,
        "<bool>",
        "enabled=true",
        needs=("rue", "RUE", "alse", "ALSE"),
    ),
    Mask(
        "nothing",
        r"((?:[=:(,]|[=:] )[\"']?)(?:null|NULL|nil|None|undefined|NaN)" + END,
        "$1<null>",
        "tag=null",
        needs=("null", "NULL", "nil", "None", "undefined", "NaN"),
    ),
    Mask(
        "qualified",
        r"((?<![=:])[=:] ?)(?![^\s]{0,200}(?:Exception|Error|Fault))"
        r"[a-z][A-Za-z0-9_]{0,63}(?:\.[A-Za-z0-9_$]{1,63}){2,12}(?![A-Za-z0-9_.:])",
        "$1<id>",
        "a qualified name as a value: action=com.shop.orders.PAID; an exception's name is none",
        needs=(".",),
    ),
    Mask("object", f"(?<![A-Za-z0-9])@{HEX}{{4,16}}(?![A-Za-z0-9])", "@<hex>", "Event@7317849d", needs=("@",)),
    Mask(
        "hex",
        f"(?<![A-Za-z0-9])(?:0[xX]{HEX}{{1,64}}|(?=[0-9]{{0,64}}[A-Fa-f])(?=[A-Fa-f]{{0,64}}[0-9]){HEX}{{8,128}}"
        "|[fF]{8,128})(?![A-Za-z0-9])",
        "<hex>",
        "0x0b85eee0, a489c868f0c37da9",
    ),
    Mask("blob", START + "[A-Za-z0-9+/_=-]{64,}+", "<blob>", "no word is this long: an encoded value"),
    Mask(
        "number",
        f"(?<![A-Za-z0-9_.])[+-]?[0-9]++(?:[.,][0-9]++)*+(?:[eE][+-]?[0-9]++)?%?{END}",
        "<num>",
        "-27, 85%",
    ),
    Mask(
        "word",
        START + "[A-Za-z_]*+[0-9][A-Za-z0-9_]*+(?:-[A-Za-z0-9_]++)*+",
        "<id>",
        "a word with a digit in it names one thing: task_0020_m_01, c-3109",
    ),
)
MASKS: tuple[Mask, ...] = WHERE + PRIVATE + WHEN_AND_WHO + HOW_MUCH
