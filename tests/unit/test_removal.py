"""When somebody was done with a Pulsar dead letter where it lies."""

from tests.pipelines.broken_events import DEAD_TOPIC, origin, pulsar
from tests.unit.stories import deaths
from tests.unit.timed import START, at


def since_start(time):
    return time and time.timestamp() - START.timestamp()


def letter(seconds, number):
    """A letter that lies in the dead letter topic since ``seconds``."""
    since = int((START.timestamp() + seconds) * 1000)
    named = origin(ORIGIN_MESSAGE_ID=f"9:{number}:-1", REAL_SUBSCRIPTION="s")
    return at(100, pulsar("dead_letter", 50 + number, topic=DEAD_TOPIC, properties=named, publish_timestamp=since))


def there(seconds, operation, number, subscription):
    return at(seconds, pulsar(operation, 50 + number, topic=DEAD_TOPIC, subscription=subscription))


def test_a_subscription_that_never_received_a_letter_keeps_it_all_the_same(silver):
    """It was there before the letter came."""
    subscribed = at(5, pulsar("subscribe", topic=DEAD_TOPIC, subscription="triage"))
    later = at(15, pulsar("subscribe", topic=DEAD_TOPIC, subscription="archive"))
    events = [subscribed, letter(10, 1), later, there(20, "acknowledge", 1, "audit")]
    events += [letter(30, 2), *(there(40, "acknowledge", 2, name) for name in ("triage", "audit", "archive"))]
    dead = deaths(silver("pulsar", events, 7200), "pulsar").collect()
    assert {row["message_id"]: since_start(row["removed_at"]) for row in dead} == {"9:1:-1": None, "9:2:-1": 40}


def test_a_dead_lettering_client_may_have_a_fast_clock(silver):
    """A letter's id is of no other letter, so what was acknowledged was this one."""
    events = [letter(90, 1), there(30, "receive", 1, "triage"), there(31, "acknowledge", 1, "triage")]
    (died,) = deaths(silver("pulsar", events, 7200), "pulsar").collect()
    assert since_start(died["removed_at"]) == since_start(died["dead_lettered_at"]) == 90


def test_a_pulsar_dead_letter_is_removed_when_every_subscription_acknowledged_it(silver):
    """Which were there before it, or had to do with it: not one that came later."""
    events = [letter(10, 1), letter(30, 2), letter(50, 3), letter(70, 4)]
    events += [there(20, "acknowledge", 1, "triage")]
    events += [there(40, "acknowledge", 2, "triage"), there(42, "acknowledge", 2, "audit")]
    events += [there(60, "acknowledge", 3, "triage")]
    events += [there(80, "acknowledge", 4, "triage"), there(81, "receive", 4, "audit")]
    dead = deaths(silver("pulsar", events, 7200), "pulsar").collect()
    after = {row["message_id"]: since_start(row["removed_at"]) for row in dead}
    assert after == {"9:1:-1": 20, "9:2:-1": 42, "9:3:-1": None, "9:4:-1": None}
