# SPDX-License-Identifier: Apache-2.0
"""Topics come, grow, are looked at and go: CreateTopics, CreatePartitions, Metadata, DeleteTopics."""

from diff import case

UNKNOWN_ID = bytes(range(1, 17))
ZERO_ID = bytes(16)


def wanted(name, partitions=1, replication=1, **more):
    return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replication, **more}


def configs(**pairs):
    return [{"Name": name.replace("_", "."), "Value": value} for name, value in pairs.items()]


def create(t, version, *topics, **more):
    answer = t.call("CreateTopics", version, Topics=list(topics), timeoutMs=30000, **more)
    t.settle()
    return answer


# ---- CreateTopics


@case("CreateTopics", 2, 4, 5, 7)
def a_topic_is_created(t, version):
    create(t, version, wanted(t.topic("a"), 2))
    create(t, version, wanted(t.topic("a"), 2))


@case("CreateTopics", 4, 7)
def topics_with_defaults(t, version):
    create(t, version, wanted(t.topic("a"), -1, -1), wanted(t.topic("b"), 3, -1))


@case("CreateTopics", 2, 7)
def impossible_counts(t, version):
    create(t, version, wanted(t.topic("a"), 0), wanted(t.topic("b"), -2), wanted(t.topic("c"), 1, 0), wanted(t.topic("d"), 1, -2),
           wanted(t.topic("e"), 1, 2), wanted(t.topic("f"), -(1 << 31)), wanted(t.topic("g"), 1, 32767))


@case("CreateTopics", 7)
def far_too_many_partitions(t, version):
    create(t, version, wanted(t.topic("a"), 10001))
    create(t, version, wanted(t.topic("a"), (1 << 31) - 1))


@case("CreateTopics", 2, 7)
def odd_names(t, version):
    create(t, version, *(wanted(n) for n in ("", ".", "..", "a b", "a/b", "a\0b", "é", "x" * 250, t.topic("x" * 200))))
    create(t, version, wanted("x" * 249 + "y"))


@case("CreateTopics", 2, 7)
def one_name_twice(t, version):
    create(t, version, wanted(t.topic("a")), wanted(t.topic("b")), wanted(t.topic("a"), 3))
    create(t, version, wanted(t.topic("c")), wanted(t.topic("c")), wanted(t.topic("c")))


@case("CreateTopics", 7)
def colliding_names(t, version):
    create(t, version, wanted(t.topic("a.b")))
    create(t, version, wanted(t.topic("a_b")))
    create(t, version, wanted(t.topic("c.d")), wanted(t.topic("c_d")))


@case("CreateTopics", 2, 5, 7)
def only_to_look_whether_it_could_be(t, version):
    create(t, version, wanted(t.topic("a")), wanted("a b"), validateOnly=True)
    create(t, version, wanted(t.topic("a")))
    create(t, version, wanted(t.topic("a")), validateOnly=True)


@case("CreateTopics", 2, 7)
def topics_with_configs(t, version):
    create(t, version, wanted(t.topic("a"), Configs=configs(retention_ms="1000", cleanup_policy="compact,delete")))
    create(t, version, wanted(t.topic("b"), Configs=configs(retention_ms="x")), wanted(t.topic("c"), Configs=configs(no_such="1")),
           wanted(t.topic("d"), Configs=configs(cleanup_policy="both")), wanted(t.topic("e"), Configs=configs(segment_bytes="13")),
           wanted(t.topic("f"), Configs=[{"Name": "retention.ms", "Value": None}]), wanted(t.topic("g"), Configs=configs(retention_ms="")))


@case("CreateTopics", 7)
def a_config_twice(t, version):
    create(t, version, wanted(t.topic("a"), Configs=[*configs(retention_ms="1000"), *configs(retention_ms="2000")]))


@case("CreateTopics", 2, 7)
def manual_assignments(t, version):
    def rows(*lists):
        return [{"PartitionIndex": i, "BrokerIds": list(ids)} for i, ids in enumerate(lists)]
    create(t, version, wanted(t.topic("a"), -1, -1, Assignments=rows([1], [1])))
    create(t, version, wanted(t.topic("b"), -1, -1, Assignments=rows([2])), wanted(t.topic("c"), -1, -1, Assignments=rows([1, 1])),
           wanted(t.topic("d"), -1, -1, Assignments=rows([])), wanted(t.topic("e"), 1, -1, Assignments=rows([1])),
           wanted(t.topic("f"), -1, 1, Assignments=rows([1])),
           wanted(t.topic("g"), -1, -1, Assignments=[{"PartitionIndex": 1, "BrokerIds": [1]}]),
           wanted(t.topic("h"), -1, -1, Assignments=[{"PartitionIndex": 0, "BrokerIds": [1]}, {"PartitionIndex": 0, "BrokerIds": [1]}]),
           wanted(t.topic("i"), -1, -1, Assignments=rows([1], [2])),
           wanted(t.topic("j"), -1, -1, Assignments=[{"PartitionIndex": 0, "BrokerIds": [1]}, {"PartitionIndex": 2, "BrokerIds": [1]}]))


@case("CreateTopics", 2, 7)
def nothing_to_create(t, version):
    create(t, version)


@case("CreateTopics", 7)
def topics_of_the_brokers_own(t, version):
    create(t, version, wanted("__cluster_metadata"), validateOnly=True)


@case("CreateTopics", 1, 8)
def a_version_of_create_topics_that_nobody_has(t, version):
    t.raw("CreateTopics", version, b"\0" * 20)


@case("CreateTopics", 5, 7)
def a_topic_comes_again(t, version):
    create(t, version, wanted(t.topic("a")))
    t.delete("a")
    create(t, version, wanted(t.topic("a"), 2))
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}])


# ---- CreatePartitions


def grow(t, version, *topics, **more):
    rows = [{"Name": name, "Count": count, "Assignments": assignments} for name, count, assignments in topics]
    answer = t.call("CreatePartitions", version, Topics=rows, TimeoutMs=30000, **more)
    t.settle()
    return answer


def lists(*ids):
    return [{"BrokerIds": list(i)} for i in ids]


@case("CreatePartitions", 0, 1, 2, 3)
def a_topic_grows(t, version):
    t.create("a", 1)
    grow(t, version, (t.topic("a"), 3, None))
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}])


@case("CreatePartitions", 0, 3)
def a_topic_does_not_shrink(t, version):
    t.create("a", 2)
    for count in (2, 1, 0, -1, -(1 << 31)):
        grow(t, version, (t.topic("a"), count, None))


@case("CreatePartitions", 0, 3)
def a_topic_that_is_not_there_does_not_grow(t, version):
    grow(t, version, (t.topic("none"), 2, None), ("", 2, None), ("a b", 2, None), ("x" * 250, 2, None))


@case("CreatePartitions", 1, 3)
def growth_that_is_named_twice(t, version):
    t.create("a", 1)
    t.create("b", 1)
    grow(t, version, (t.topic("a"), 2, None), (t.topic("b"), 2, None), (t.topic("a"), 3, None))
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}, {"Name": t.topic("b")}])


@case("CreatePartitions", 1, 3)
def growth_only_to_look(t, version):
    t.create("a", 1)
    grow(t, version, (t.topic("a"), 2, None), ValidateOnly=True)
    grow(t, version, (t.topic("a"), 1, None), ValidateOnly=True)
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}])


@case("CreatePartitions", 2, 3)
def growth_by_hand(t, version):
    t.create("a", 1)
    for assignments in (lists(), lists([1]), lists([1], [1], [1]), lists([1], [2]), lists([1], []), lists([1], [1, 1]), lists([1], [1])):
        grow(t, version, (t.topic("a"), 3, assignments))


@case("CreatePartitions", 0, 3)
def nothing_grows(t, version):
    grow(t, version)


@case("CreatePartitions", 3)
def a_topic_grows_twice_and_serves(t, version):
    t.create("a", 1)
    grow(t, version, (t.topic("a"), 2, None))
    grow(t, version, (t.topic("a"), 4, None))
    rows = [{"PartitionIndex": i, "Timestamp": -1} for i in range(5)]
    for _ in range(200):  # in Kafka the new partitions' leader follows a little later
        answer = t.quietly("ListOffsets", 7, ReplicaId=-1, Topics=[{"Name": t.topic("a"), "Partitions": rows}])
        if all(p["ErrorCode"] == 0 for p in answer["Topics"][0]["Partitions"][:4]):
            break
    t.call("ListOffsets", 7, ReplicaId=-1, Topics=[{"Name": t.topic("a"), "Partitions": rows}])


# ---- Metadata


@case("Metadata", 0, 1, 4, 7, 8, 9, 10, 11, 12, 13)
def a_topic_is_looked_at(t, version):
    t.create("a", 2)
    t.call("Metadata", version, Topics=[{"Name": t.topic("a")}])


@case("Metadata", 4, 9, 10, 13)
def topics_that_are_not_there(t, version):
    t.call("Metadata", version, Topics=[{"Name": n} for n in (t.topic("none"), "a b", "", "..", "x" * 250)],
           AllowAutoTopicCreation=False)


@case("Metadata", 8, 10, 11, 13)
def authorized_operations(t, version):
    t.create("a", 1)
    asked = {"IncludeTopicAuthorizedOperations": True}
    if version <= 10:
        asked["IncludeClusterAuthorizedOperations"] = True
    t.call("Metadata", version, Topics=[{"Name": t.topic("a")}, {"Name": t.topic("none")}], AllowAutoTopicCreation=False, **asked)


@case("Metadata", 1, 5, 12, 13)
def no_topics_at_all(t, version):
    t.call("Metadata", version, Topics=[])


@case("Metadata", 4, 9, 12)
def one_topic_named_twice(t, version):
    t.create("a", 1)
    t.call("Metadata", version, Topics=[{"Name": t.topic("a")}, {"Name": t.topic("a")}, {"Name": t.topic("none")}, {"Name": t.topic("none")}],
           AllowAutoTopicCreation=False)


@case("Metadata", 10, 11, 12, 13)
def a_topic_by_its_id(t, version):
    topic_id = t.create("a", 1)
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": topic_id}])
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": UNKNOWN_ID}])


@case("Metadata", 12, 13)
def ids_that_are_odd(t, version):
    topic_id = t.create("a", 1)
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": topic_id}, {"Name": None, "TopicId": UNKNOWN_ID}])
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": topic_id}, {"Name": None, "TopicId": topic_id}])
    t.call("Metadata", version, Topics=[{"Name": t.topic("a"), "TopicId": topic_id}])
    t.call("Metadata", version, Topics=[{"Name": t.topic("none"), "TopicId": topic_id}])
    t.call("Metadata", version, Topics=[{"Name": t.topic("none"), "TopicId": UNKNOWN_ID}])


@case("Metadata", 10, 12, 13)
def a_name_and_an_id_in_one_request(t, version):
    topic_id = t.create("a", 1)
    t.create("b", 1)
    t.call("Metadata", version, Topics=[{"Name": t.topic("b"), "TopicId": ZERO_ID}, {"Name": None, "TopicId": topic_id}])


@case("Metadata", 10, 12)
def neither_a_name_nor_an_id(t, version):
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": ZERO_ID}])


@case("Metadata", 12)
def a_deleted_topic_by_its_id(t, version):
    topic_id = t.create("a", 1)
    t.delete("a")
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": topic_id}])
    t.create("a", 1)
    t.call("Metadata", version, Topics=[{"Name": None, "TopicId": topic_id}])


@case("Metadata", 1, 4, 9, 13)
def a_topic_that_comes_because_it_was_named(t, version):
    asked = {"AllowAutoTopicCreation": True} if version >= 4 else {}
    for _ in range(200):
        topic = t.quietly("Metadata", version, Topics=[{"Name": t.topic("auto")}], **asked)["Topics"][0]
        if topic["ErrorCode"] == 0 and topic["Partitions"] and topic["Partitions"][0]["ErrorCode"] == 0:
            break
    t.settle()
    t.call("Metadata", version, Topics=[{"Name": t.topic("auto")}], **asked)
    t.call("Metadata", version, Topics=[{"Name": "a b"}], **asked)


@case("Metadata", 14, 32767)
def a_version_of_metadata_that_nobody_has(t, version):
    t.raw("Metadata", version, b"\0" * 8)


# ---- DeleteTopics


def remove(t, version, *names, **more):
    body = {"Topics": [{"Name": n} for n in names]} if version >= 6 else {"TopicNames": list(names)}
    answer = t.call("DeleteTopics", version, TimeoutMs=30000, **body, **more)
    t.settle()
    return answer


@case("DeleteTopics", 1, 3, 4, 5, 6)
def a_topic_goes(t, version):
    t.create("a", 1)
    remove(t, version, t.topic("a"))
    remove(t, version, t.topic("a"))
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}], AllowAutoTopicCreation=False)


@case("DeleteTopics", 1, 5, 6)
def topics_that_are_not_there_go(t, version):
    remove(t, version, t.topic("none"), "", "a b", "x" * 250)


@case("DeleteTopics", 1, 5, 6)
def a_topic_goes_twice_at_once(t, version):
    t.create("a", 1)
    t.create("b", 1)
    remove(t, version, t.topic("a"), t.topic("b"), t.topic("a"))


@case("DeleteTopics", 1, 6)
def nothing_goes(t, version):
    remove(t, version)


@case("DeleteTopics", 6)
def topics_go_by_id(t, version):
    topic_id = t.create("a", 1)
    for asked in ({"Name": None, "TopicId": UNKNOWN_ID}, {"Name": None, "TopicId": ZERO_ID}, {"Name": t.topic("a"), "TopicId": topic_id},
                  {"Name": t.topic("none"), "TopicId": UNKNOWN_ID}, {"Name": None, "TopicId": topic_id},
                  {"Name": None, "TopicId": topic_id}):
        t.call("DeleteTopics", version, TimeoutMs=30000, Topics=[asked])
        t.settle()


@case("DeleteTopics", 6)
def one_topic_by_name_and_by_id(t, version):
    topic_id = t.create("a", 1)
    t.call("DeleteTopics", version, TimeoutMs=30000, Topics=[{"Name": t.topic("a")}, {"Name": None, "TopicId": topic_id}])
    t.settle()
    t.create("b", 1)
    t.call("DeleteTopics", version, TimeoutMs=30000, Topics=[{"Name": None, "TopicId": UNKNOWN_ID}, {"Name": None, "TopicId": UNKNOWN_ID}])
    topic_id = t.create("c", 1)
    t.call("DeleteTopics", version, TimeoutMs=30000, Topics=[{"Name": None, "TopicId": topic_id}, {"Name": t.topic("c")}, {"Name": t.topic("c")}])
    t.settle()
    t.call("Metadata", 12, Topics=[{"Name": t.topic("c")}], AllowAutoTopicCreation=False)


@case("DeleteTopics", 0, 7)
def a_version_of_delete_topics_that_nobody_has(t, version):
    t.raw("DeleteTopics", version, b"\0" * 12)


@case("Metadata", 8, 13)
def authorized_operations_of_odd_names(t, version):
    t.call("Metadata", version, Topics=[{"Name": ""}, {"Name": t.topic("none")}], AllowAutoTopicCreation=False,
           IncludeTopicAuthorizedOperations=True)
    t.call("Metadata", version, Topics=[{"Name": "a b"}], AllowAutoTopicCreation=False, IncludeTopicAuthorizedOperations=True)
