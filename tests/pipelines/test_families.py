"""Dead letters are grouped by the fault that was put into them: the captures' truth names each one's family."""

from collections import Counter

from sklearn.metrics import completeness_score, homogeneity_score, v_measure_score

from deadletter import tables
from tests.pipelines import truth

CAPTURES = ("orders-a.truth.json", "orders-b.truth.json", "midflight-a.truth.json.gz", "midflight-b.truth.json.gz")


def zaqar_families():
    found = {}
    for name in CAPTURES:
        told = truth.read(f"zaqar/{name}")
        for snapshot in told if isinstance(told, list) else [{"queues": told}]:
            for messages in snapshot["queues"].values():
                found |= {message: record.get("family") for message, record in messages.items()}
    return found


def rabbitmq_families():
    queues = truth.read("rabbitmq/orders-a.truth.json")
    return {name: message["family"] for messages in queues.values() for name, message in messages.items()}


def labelled(lake):
    """``(family, pattern)`` of every dead letter whose family the truth tells; family null: it was healthy."""
    families = {"zaqar": zaqar_families(), "rabbitmq": rabbitmq_families()}
    rows = lake.read(tables.DEAD_LETTERS).select("system", "message_id", "pattern_id").collect()
    known = [(families.get(row["system"], {}), row) for row in rows]
    return [(told[row["message_id"]], row["pattern_id"]) for told, row in known if row["message_id"] in told]


def test_patterns_are_the_families(lake):
    pairs = labelled(lake)
    poison = [(family, pattern) for family, pattern in pairs if family]
    assert len(poison) > 1500
    families, patterns = zip(*poison, strict=True)
    print(f"homogeneity {homogeneity_score(families, patterns):.3f}, "
          f"completeness {completeness_score(families, patterns):.3f}")  # fmt: skip
    assert v_measure_score(families, patterns) >= 0.9


def test_healthy_messages_that_died_are_forced_into_no_family(lake):
    pairs = labelled(lake)
    of_poison = Counter(pattern for family, pattern in pairs if family)
    healthy = [pattern for family, pattern in pairs if not family]
    assert healthy
    of_healthy = Counter(healthy)
    forced = [pattern for pattern in healthy if of_poison[pattern] > of_healthy[pattern]]
    assert len(forced) <= 0.02 * len(healthy)


def test_pulsars_patterns_are_the_families(lake):
    told = {key.split("|")[1]: family for key, family in truth.read("pulsar/orders-a.families.json").items()}
    rows = lake.read(tables.DEAD_LETTERS).where("system = 'pulsar'").select("message_id", "pattern_id").collect()
    pairs = [(told[row["message_id"]], row["pattern_id"]) for row in rows]
    assert len(pairs) == len(truth.pulsar_dead())
    assert v_measure_score(*zip(*pairs, strict=True)) >= 0.95
