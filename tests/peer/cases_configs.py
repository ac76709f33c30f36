# SPDX-License-Identifier: Apache-2.0
"""Configs of topics, brokers and the whole cluster: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs."""

import time

from diff import case

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(kind, name, *keys):
    return {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": list(keys) if keys else None}


def describe(t, version, *resources, **more):
    if version >= 3:
        more.setdefault("IncludeDocumentation", False)
    return t.call("DescribeConfigs", version, Resources=list(resources), **more)


def change(kind, name, *configs):
    """configs: (name, operation, value)"""
    return {"ResourceType": kind, "ResourceName": name,
            "Configs": [{"Name": n, "ConfigOperation": o, "Value": v} for n, o, v in configs]}


def alter(t, version, *changes, **more):
    answer = t.call("IncrementalAlterConfigs", version, Resources=list(changes), **more)
    t.settle()
    return answer


def replace(t, version, *changes, **more):
    rows = [{"ResourceType": c["ResourceType"], "ResourceName": c["ResourceName"],
             "Configs": [{"Name": x["Name"], "Value": x["Value"]} for x in c["Configs"]]} for c in changes]
    answer = t.call("AlterConfigs", version, Resources=rows, **more)
    t.settle()
    return answer


# ---- DescribeConfigs


@case("DescribeConfigs", 1, 2, 3, 4)
def the_configs_of_a_topic(t, version):
    t.create("a", 1, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    describe(t, version, resource(TOPIC, t.topic("a")))
    describe(t, version, resource(TOPIC, t.topic("a")), IncludeSynonyms=True)


@case("DescribeConfigs", 1, 4)
def some_configs_of_a_topic(t, version):
    t.create("a", 1, {"retention.ms": "1000"})
    describe(t, version, resource(TOPIC, t.topic("a"), "retention.ms", "segment.bytes", "no.such", "retention.ms"), IncludeSynonyms=True)
    describe(t, version, resource(TOPIC, t.topic("a"), "no.such"))
    t.call("DescribeConfigs", version, Resources=[{"ResourceType": TOPIC, "ResourceName": t.topic("a"), "ConfigurationKeys": []}])


@case("DescribeConfigs", 1, 4)
def configs_of_topics_that_are_not_there(t, version):
    describe(t, version, resource(TOPIC, t.topic("none")), resource(TOPIC, ""), resource(TOPIC, "a b"), resource(TOPIC, "x" * 250),
             resource(TOPIC, ".."))


@case("DescribeConfigs", 1, 4)
def configs_of_a_topic_asked_twice(t, version):
    t.create("a", 1)
    describe(t, version, resource(TOPIC, t.topic("a"), "retention.ms"), resource(TOPIC, t.topic("a"), "segment.bytes"))


@case("DescribeConfigs", 1, 4)
def configs_of_resources_of_other_kinds(t, version):
    for kind in (0, 1, 3, 64, -1):
        describe(t, version, resource(kind, "x"))
    describe(t, version)


@case("DescribeConfigs", 1, 4)
def configs_of_brokers_that_are_not_there(t, version):
    for name in ("7", "x", "-1", "01", "1x", "99999999999"):
        describe(t, version, resource(BROKER, name, "log.segment.bytes"))


@case("DescribeConfigs", 1, 3, 4)
def the_configs_of_the_broker(t, version):
    names = ("log.retention.ms", "log.retention.hours", "log.retention.minutes", "log.segment.bytes", "num.partitions", "node.id", "broker.id",
             "auto.create.topics.enable", "log.cleanup.policy", "compression.type", "message.max.bytes", "num.io.threads",
             "log.flush.interval.ms", "log.message.timestamp.type", "unclean.leader.election.enable", "socket.request.max.bytes",
             "connections.max.idle.ms", "max.connections.per.ip", "default.replication.factor", "delete.topic.enable",
             "offsets.retention.minutes", "log.cleaner.min.cleanable.ratio", "ssl.keystore.password", "broker.rack", "no.such")
    describe(t, version, resource(BROKER, "1", *names), IncludeSynonyms=True)
    describe(t, version, resource(BROKER, "1", *names))


@case("DescribeConfigs", 4)
def every_config_of_the_broker(t, version):
    """Its names, whether each can be changed, its type, its default."""
    answer = t.quietly("DescribeConfigs", version, Resources=[resource(BROKER, "1")], IncludeSynonyms=True)
    rows = []
    for config in answer["Results"][0]["Configs"]:
        row = {k: config[k] for k in ("Name", "ReadOnly", "IsSensitive", "ConfigType")}
        row["Default"] = next((s["Value"] for s in config["Synonyms"] if s["Source"] == 5), None)
        rows.append(row)
    t.note("DescribeConfigs", {"Results": [{"Configs": rows}]})


@case("DescribeConfigs", 1, 4)
def the_configs_of_all_brokers(t, version):
    describe(t, version, resource(BROKER, "", "log.retention.ms"), IncludeSynonyms=True)


# ---- IncrementalAlterConfigs


@case("IncrementalAlterConfigs", 0, 1)
def a_config_is_set_and_taken_away(t, version):
    t.create("a", 1)
    name = t.topic("a")
    alter(t, version, change(TOPIC, name, ("retention.ms", SET, "1234"), ("segment.bytes", SET, "1048576")))
    describe(t, 4, resource(TOPIC, name, "retention.ms", "segment.bytes"), IncludeSynonyms=True)
    alter(t, version, change(TOPIC, name, ("retention.ms", DELETE, None), ("max.message.bytes", DELETE, "x")))
    describe(t, 4, resource(TOPIC, name, "retention.ms", "segment.bytes"), IncludeSynonyms=True)


@case("IncrementalAlterConfigs", 0, 1)
def lists_grow_and_shrink(t, version):
    t.create("a", 1)
    name = t.topic("a")
    for operation, value in ((APPEND, "compact"), (APPEND, "compact"), (SUBTRACT, "delete"), (SUBTRACT, "x"), (APPEND, "delete,compact"),
                             (APPEND, "both"), (SUBTRACT, "delete"), (SUBTRACT, "compact")):
        alter(t, version, change(TOPIC, name, ("cleanup.policy", operation, value)))
        describe(t, 4, resource(TOPIC, name, "cleanup.policy"))
    alter(t, version, change(TOPIC, name, ("retention.ms", APPEND, "1")))
    alter(t, version, change(TOPIC, name, ("retention.ms", SUBTRACT, "1")))
    alter(t, version, change(TOPIC, name, ("no.such", APPEND, "1")))


@case("IncrementalAlterConfigs", 0, 1)
def values_that_are_wrong(t, version):
    t.create("a", 1)
    for key, value in (("retention.ms", "x"), ("retention.ms", ""), ("retention.ms", "-2"), ("segment.bytes", "13"), ("no.such", "1"),
                       ("cleanup.policy", "both"), ("cleanup.policy", ""), ("min.cleanable.dirty.ratio", "1.5"), ("preallocate", "yes"),
                       ("compression.type", "brotli"), ("compression.gzip.level", "0"), ("compression.zstd.level", "99"),
                       ("message.timestamp.type", "Now"), ("min.insync.replicas", "0"), ("max.message.bytes", "-1"),
                       ("segment.ms", "0"), ("index.interval.bytes", "-1"), ("flush.ms", "-1"), ("file.delete.delay.ms", "-1"),
                       ("retention.bytes", "99999999999999999999"), ("segment.bytes", "4294967296"), ("", "1"),
                       ("unclean.leader.election.enable", "1"), ("leader.replication.throttled.replicas", "x"),
                       ("message.timestamp.before.max.ms", "-1"), ("segment.jitter.ms", "-1"), ("delete.retention.ms", "-1"),
                       ("remote.storage.enable", "true"), ("local.retention.ms", "-3")):
        alter(t, version, change(TOPIC, t.topic("a"), (key, SET, value)))
    alter(t, version, change(TOPIC, t.topic("a"), ("retention.ms", SET, None)))
    alter(t, version, change(TOPIC, t.topic("a"), ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")))


@case("IncrementalAlterConfigs", 1)
def values_in_odd_forms(t, version):
    t.create("a", 1)
    for key, value in (("retention.ms", " 17 "), ("retention.ms", "+5"), ("retention.ms", "0x10"), ("preallocate", "TRUE"),
                       ("cleanup.policy", " compact , delete "), ("cleanup.policy", "delete,delete"), ("min.cleanable.dirty.ratio", ".5"),
                       *(("min.cleanable.dirty.ratio", value) for value in ("1e-3", "0.0001", "0.000123", " 2.5E-1 ", "NaN", "0.75f")),
                       ("compression.type", "ZSTD")):
        alter(t, version, change(TOPIC, t.topic("a"), (key, SET, value)))
        describe(t, 4, resource(TOPIC, t.topic("a"), key))


@case("IncrementalAlterConfigs", 0, 1)
def one_key_twice(t, version):
    t.create("a", 1)
    name = t.topic("a")
    alter(t, version, change(TOPIC, name, ("retention.ms", SET, "1"), ("retention.ms", SET, "2")))
    alter(t, version, change(TOPIC, name, ("retention.ms", SET, "1"), ("retention.ms", DELETE, None)))
    describe(t, 4, resource(TOPIC, name, "retention.ms"))


@case("IncrementalAlterConfigs", 0, 1)
def one_resource_twice(t, version):
    t.create("a", 1)
    t.create("b", 1)
    alter(t, version, change(TOPIC, t.topic("a"), ("retention.ms", SET, "1")), change(TOPIC, t.topic("b"), ("retention.ms", SET, "3")),
          change(TOPIC, t.topic("a"), ("retention.ms", SET, "2")))
    describe(t, 4, resource(TOPIC, t.topic("a"), "retention.ms"), resource(TOPIC, t.topic("b"), "retention.ms"))


@case("IncrementalAlterConfigs", 0, 1)
def resources_that_are_not_there(t, version):
    alter(t, version, change(TOPIC, t.topic("none"), ("retention.ms", SET, "1")))
    alter(t, version, change(TOPIC, "", ("retention.ms", SET, "1")))
    alter(t, version, change(TOPIC, "a b", ("retention.ms", SET, "1")))
    alter(t, version, change(BROKER, "7", ("log.retention.ms", SET, "1")))
    alter(t, version, change(BROKER, "x", ("log.retention.ms", SET, "1")))
    for kind in (0, 1, 3, 64, -1):
        alter(t, version, change(kind, "x", ("retention.ms", SET, "1")))
    alter(t, version)


@case("IncrementalAlterConfigs", 0, 1)
def a_change_of_nothing(t, version):
    t.create("a", 1)
    alter(t, version, change(TOPIC, t.topic("a")))
    alter(t, version, change(TOPIC, t.topic("none")))


@case("IncrementalAlterConfigs", 0, 1)
def a_change_only_to_look(t, version):
    t.create("a", 1)
    name = t.topic("a")
    alter(t, version, change(TOPIC, name, ("retention.ms", SET, "1")), ValidateOnly=True)
    alter(t, version, change(TOPIC, name, ("retention.ms", SET, "x")), ValidateOnly=True)
    describe(t, 4, resource(TOPIC, name, "retention.ms"))


@case("IncrementalAlterConfigs", 0, 1)
def operations_that_are_not_known(t, version):
    t.create("a", 1)
    for operation in (4, -1, 127):
        alter(t, version, change(TOPIC, t.topic("a"), ("retention.ms", operation, "1")))


@case("IncrementalAlterConfigs", 1)
def one_wrong_value_of_two(t, version):
    t.create("a", 1)
    alter(t, version, change(TOPIC, t.topic("a"), ("retention.ms", SET, "1"), ("segment.bytes", SET, "x")))
    describe(t, 4, resource(TOPIC, t.topic("a"), "retention.ms", "segment.bytes"))


@case("IncrementalAlterConfigs", 0, 1)
def configs_of_one_broker_change(t, version):
    alter(t, version, change(BROKER, "1", ("log.retention.ms", SET, "12345678")))
    describe(t, 4, resource(BROKER, "1", "log.retention.ms", "log.retention.hours"), IncludeSynonyms=True)
    t.create("a", 1)
    describe(t, 4, resource(TOPIC, t.topic("a"), "retention.ms"), IncludeSynonyms=True)
    alter(t, version, change(BROKER, "1", ("log.retention.ms", DELETE, None)))
    describe(t, 4, resource(BROKER, "1", "log.retention.ms"), resource(TOPIC, t.topic("a"), "retention.ms"), IncludeSynonyms=True)


@case("IncrementalAlterConfigs", 0, 1)
def configs_of_all_brokers_change(t, version):
    alter(t, version, change(BROKER, "", ("log.segment.bytes", SET, "20000000")))
    describe(t, 4, resource(BROKER, "", "log.segment.bytes"), resource(BROKER, "1", "log.segment.bytes"), IncludeSynonyms=True)
    alter(t, version, change(BROKER, "1", ("log.segment.bytes", SET, "30000000")))
    t.create("a", 1)
    describe(t, 4, resource(BROKER, "1", "log.segment.bytes"), resource(TOPIC, t.topic("a"), "segment.bytes"), IncludeSynonyms=True)
    alter(t, version, change(BROKER, "1", ("log.segment.bytes", DELETE, None)))
    describe(t, 4, resource(BROKER, "1", "log.segment.bytes"), resource(TOPIC, t.topic("a"), "segment.bytes"), IncludeSynonyms=True)
    alter(t, version, change(BROKER, "", ("log.segment.bytes", DELETE, None)))
    describe(t, 4, resource(BROKER, "", "log.segment.bytes"), resource(BROKER, "1", "log.segment.bytes"), IncludeSynonyms=True)


@case("IncrementalAlterConfigs", 1)
def configs_of_brokers_that_are_wrong(t, version):
    for name in ("1", ""):
        for key, value in (("log.retention.ms", "x"), ("node.id", "2"), ("log.retention.hours", "2"),
                           ("log.segment.bytes", "13"), ("log.cleanup.policy", "both"),
                           ("broker.rack", "r"), ("message.max.bytes", "-1")):
            alter(t, version, change(BROKER, name, (key, SET, value)), ValidateOnly=True)


@case("IncrementalAlterConfigs", 1)
def configs_of_brokers_that_only_one_of_the_two_changes(t, version):
    for key, value in (("num.partitions", "3"), ("auto.create.topics.enable", "false"), ("num.io.threads", "9"), ("no.such", "1")):
        alter(t, version, change(BROKER, "", (key, SET, value)), ValidateOnly=True)


# ---- AlterConfigs


@case("AlterConfigs", 0, 1, 2)
def all_configs_of_a_topic_are_replaced(t, version):
    t.create("a", 1, {"retention.ms": "1000", "segment.bytes": "1048576"})
    name = t.topic("a")
    replace(t, version, change(TOPIC, name, ("retention.ms", SET, "5"), ("max.message.bytes", SET, "77")))
    describe(t, 4, resource(TOPIC, name, "retention.ms", "segment.bytes", "max.message.bytes"))
    replace(t, version, change(TOPIC, name))
    describe(t, 4, resource(TOPIC, name, "retention.ms", "segment.bytes", "max.message.bytes"))


@case("AlterConfigs", 0, 2)
def replacements_that_are_wrong(t, version):
    t.create("a", 1, {"retention.ms": "1000"})
    name = t.topic("a")
    replace(t, version, change(TOPIC, name, ("segment.bytes", SET, "x")))
    replace(t, version, change(TOPIC, name, ("segment.bytes", SET, "1048576"), ("no.such", SET, "x")))
    replace(t, version, change(TOPIC, name, ("segment.bytes", SET, None)))
    replace(t, version, change(TOPIC, name, ("segment.bytes", SET, "1048576"), ("segment.bytes", SET, "1048577")))
    describe(t, 4, resource(TOPIC, name, "retention.ms", "segment.bytes"))


@case("AlterConfigs", 0, 2)
def replacements_for_what_is_not_there(t, version):
    replace(t, version, change(TOPIC, t.topic("none"), ("retention.ms", SET, "1")))
    replace(t, version, change(TOPIC, "", ("retention.ms", SET, "1")))
    replace(t, version, change(BROKER, "7", ("log.retention.ms", SET, "1")))
    replace(t, version, change(BROKER, "x", ("log.retention.ms", SET, "1")))
    for kind in (0, 1, 64):
        replace(t, version, change(kind, "x", ("retention.ms", SET, "1")))
    replace(t, version)


@case("AlterConfigs", 0, 2)
def a_replacement_only_to_look(t, version):
    t.create("a", 1, {"retention.ms": "1000"})
    replace(t, version, change(TOPIC, t.topic("a"), ("segment.bytes", SET, "1048576")), ValidateOnly=True)
    describe(t, 4, resource(TOPIC, t.topic("a"), "retention.ms", "segment.bytes"))


@case("AlterConfigs", 2)
def all_configs_of_a_broker_are_replaced(t, version):
    alter(t, 1, change(BROKER, "1", ("log.retention.ms", SET, "5555555"), ("log.segment.bytes", SET, "20000000")))
    replace(t, version, change(BROKER, "1", ("log.retention.ms", SET, "6666666")))
    describe(t, 4, resource(BROKER, "1", "log.retention.ms", "log.segment.bytes"), IncludeSynonyms=True)
    replace(t, version, change(BROKER, "1"))
    describe(t, 4, resource(BROKER, "1", "log.retention.ms", "log.segment.bytes"), IncludeSynonyms=True)


# ---- the levels of log lines


def log_level(t, version, *configs, node="1", **more):
    """configs: (logger, operation, value)"""
    return t.call("IncrementalAlterConfigs", version, Resources=[change(LOGGER, node, *configs)], **more)


def back_to_normal(t):
    """And until each shard of Weir shows it: the one that changes levels answers before the others have them, and what comes late would
    undo what the next case does."""
    level = "ERROR" if t.is_kafka else "INFO"
    t.quietly("IncrementalAlterConfigs", 1, Resources=[change(LOGGER, "1", ("root", SET, level))])
    for _ in range(1 if t.is_kafka else 8):
        t.connect()
        for _ in range(1000):
            result = t.quietly("DescribeConfigs", 4, Resources=[resource(LOGGER, "1", "root")])["Results"][0]
            if result["Configs"][0]["Value"] == level:
                break
            time.sleep(0.002)


@case("IncrementalAlterConfigs", 0, 1)
def log_levels_change(t, version):
    """One logger has the same name in both."""
    for level in ("WARN", "FATAL", "ERROR"):
        log_level(t, version, ("root", SET, level))
        describe(t, 4, resource(LOGGER, "1", "root"))
    log_level(t, version, ("root", SET, "TRACE"), ValidateOnly=True)
    describe(t, 4, resource(LOGGER, "1", "root"), IncludeSynonyms=True, IncludeDocumentation=True)
    log_level(t, version)
    back_to_normal(t)


@case("IncrementalAlterConfigs", 0, 1)
def log_levels_that_are_wrong(t, version):
    for name, operation, value in (("root", DELETE, None), ("root", APPEND, "INFO"), ("root", SUBTRACT, "INFO"), ("root", 4, "INFO"),
                                   ("root", -1, "INFO"), ("root", SET, "warn"), ("root", SET, "OFF"), ("root", SET, ""), ("root", SET, None),
                                   ("no.such", SET, "INFO"), ("no.such", DELETE, None), ("no.such", APPEND, "x"), ("", SET, "INFO"),
                                   ("no.such", SET, "x")):
        log_level(t, version, (name, operation, value))
        log_level(t, version, (name, operation, value), ValidateOnly=True)
    for node in ("", "7", "x", "-1", "01", "99999999999"):
        log_level(t, version, ("root", SET, "x"), node=node)
    log_level(t, version, ("root", SET, "INFO"), ("root", SET, "WARN"))
    log_level(t, version, ("root", SET, "x"), ("no.such", SET, "WARN"))
    both = (change(LOGGER, "1", ("root", SET, "WARN")), change(LOGGER, "1", ("root", SET, "INFO")))
    alter(t, version, *both)


@case("IncrementalAlterConfigs", 1)
def log_levels_beside_other_configs(t, version):
    t.create("a", 1)
    alter(t, version, change(LOGGER, "1", ("root", SET, "FATAL")), change(TOPIC, t.topic("a"), ("retention.ms", SET, "5")),
          change(LOGGER, "7", ("root", SET, "WARN")), change(TOPIC, t.topic("none"), ("retention.ms", SET, "5")))
    describe(t, 4, resource(LOGGER, "1", "root"), resource(TOPIC, t.topic("a"), "retention.ms"))
    back_to_normal(t)


@case("DescribeConfigs", 1, 4)
def log_levels_of_what_is_not_there(t, version):
    for node in ("", "7", "x", "-1", "99999999999"):
        describe(t, version, resource(LOGGER, node, "root"))
    describe(t, version, resource(LOGGER, "1", "no.such"))


@case("AlterConfigs", 0, 2)
def log_levels_can_not_be_replaced(t, version):
    replace(t, version, change(LOGGER, "1", ("root", SET, "INFO")))
