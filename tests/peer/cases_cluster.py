# SPDX-License-Identifier: Apache-2.0
"""What a broker says of itself and its cluster: ApiVersions, DescribeCluster, DescribeTopicPartitions, ListConfigResources."""

import messages
from diff import case

# ---- ApiVersions


@case("ApiVersions", 0, 2, 3, 4)
def the_versions_of_what_is_served(t, version):
    """Weir names what it serves: of that, the versions are compared."""
    served = t.quietly("ApiVersions", 0)["ApiKeys"]
    answer = t.quietly("ApiVersions", version, ClientSoftwareName="a", ClientSoftwareVersion="1")
    t.note("error", answer["ErrorCode"])
    names = {key: name for name, key in messages.KEYS.items()}
    both = ("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics", "DeleteTopics", "InitProducerId",
            "DescribeConfigs", "CreatePartitions", "IncrementalAlterConfigs", "DescribeCluster", "DescribeTopicPartitions",
            "ListConfigResources", "AlterConfigs", "OffsetForLeaderEpoch", "DescribeLogDirs", "DescribeProducers", "DeleteRecords")
    t.note("versions", {names[k["ApiKey"]]: (k["MinVersion"], k["MaxVersion"]) for k in answer["ApiKeys"] if names.get(k["ApiKey"]) in both})
    t.note("the same in version 0", [k["ApiKey"] for k in served] == [k["ApiKey"] for k in answer["ApiKeys"]])


@case("ApiVersions", 5, 99, 32767, -1)
def a_version_that_is_too_new(t, version):
    t.raw("ApiVersions", version, b"\0" * 8, answer_version=0)
    t.note("it goes on after that", t.quietly("ApiVersions", 0)["ErrorCode"])


@case("ApiVersions", 3, 4)
def odd_names_of_software(t, version):
    for name, software in (("", ""), ("a", ""), ("", "1"), (" a", "1"), ("a-", "1"), ("-a", "1"), ("a.b-c", "1.0-x"), ("a_b", "1"),
                           ("a" * 300, "1"), ("ä", "1")):
        answer = t.quietly("ApiVersions", version, ClientSoftwareName=name, ClientSoftwareVersion=software)
        t.note(f"error of {name!r} {software!r}", answer["ErrorCode"])


# ---- SASL where there is none


@case("SaslHandshake", 0, 1)
def a_handshake_out_of_place(t, version):
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "no such thing"):
        t.call("SaslHandshake", version, Mechanism=mechanism)
    t.note("it goes on after that", t.quietly("ApiVersions", 0)["ErrorCode"])


@case("SaslAuthenticate", 0, 1, 2)
def an_authentication_out_of_place(t, version):
    t.call("SaslAuthenticate", version, AuthBytes=b"\0user\0password")
    t.note("it goes on after that", t.quietly("ApiVersions", 0)["ErrorCode"])


# ---- DescribeCluster


@case("DescribeCluster", 0, 1, 2)
def the_cluster(t, version):
    t.call("DescribeCluster", version)
    t.call("DescribeCluster", version, IncludeClusterAuthorizedOperations=True)


@case("DescribeCluster", 1, 2)
def the_cluster_at_another_endpoint(t, version):
    for kind in (2, 0, 3, -1, 127):
        t.call("DescribeCluster", version, EndpointType=kind)


@case("DescribeCluster", 2)
def the_cluster_with_fenced_brokers(t, version):
    t.call("DescribeCluster", version, IncludeFencedBrokers=True, IncludeClusterAuthorizedOperations=True)


@case("DescribeCluster", 0)
def a_cluster_request_that_is_cut_short(t, version):
    t.raw("DescribeCluster", version, b"")
    t.call("DescribeCluster", version)


@case("DescribeCluster", 3, 99)
def a_version_of_describe_cluster_that_nobody_has(t, version):
    t.raw("DescribeCluster", version, b"\0\0\0\0")


# ---- DescribeTopicPartitions


def named(*names):
    return [{"Name": name} for name in names]


@case("DescribeTopicPartitions", 0)
def partitions_of_topics_in_order_of_names(t, version):
    t.create("a", 3)
    t.create("b", 2)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("b"), t.topic("a")))
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("b"), t.topic("b"), t.topic("b")))


@case("DescribeTopicPartitions", 0)
def partitions_by_pages(t, version):
    t.create("a", 3)
    t.create("b", 2)
    both = named(t.topic("b"), t.topic("a"))
    for limit in (1, 2, 3, 4, 5, 0, -1, -(1 << 31), (1 << 31) - 1):
        t.call("DescribeTopicPartitions", version, Topics=both, ResponsePartitionLimit=limit)
    cursor = None
    for _ in range(6):
        answer = t.call("DescribeTopicPartitions", version, Topics=both, ResponsePartitionLimit=1, Cursor=cursor)
        cursor = answer["NextCursor"]
        if cursor is None:
            break


@case("DescribeTopicPartitions", 0)
def a_page_that_ends_with_its_topic(t, version):
    t.create("a", 1)
    t.create("b", 1)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("a"), t.topic("b")), ResponsePartitionLimit=1)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("a"), t.topic("aa")), ResponsePartitionLimit=1)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("a")), ResponsePartitionLimit=1)


@case("DescribeTopicPartitions", 0)
def cursors_that_point_nowhere(t, version):
    t.create("a", 3)
    t.create("b", 2)
    a, b = t.topic("a"), t.topic("b")
    for name, index in ((a, 7), (a, 3), (a, -1), (t.topic("aa"), 1), ("", 1), (t.topic("c"), 0)):
        t.call("DescribeTopicPartitions", version, Topics=named(b, a), Cursor={"TopicName": name, "PartitionIndex": index})
    t.call("DescribeTopicPartitions", version, Topics=named(a), Cursor={"TopicName": b, "PartitionIndex": 0})


@case("DescribeTopicPartitions", 0)
def a_cursor_at_a_topic_that_is_not_there(t, version):
    t.create("b", 2)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("b"), t.topic("a")), Cursor={"TopicName": t.topic("a"), "PartitionIndex": 4})


@case("DescribeTopicPartitions", 0)
def partitions_of_topics_that_are_not_there(t, version):
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("none"), "a b", "..", "x" * 249, "x" * 250))
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("none")), ResponsePartitionLimit=0)


@case("DescribeTopicPartitions", 0)
def partitions_of_a_topic_without_a_name(t, version):
    t.call("DescribeTopicPartitions", version, Topics=named(""))
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("none"), ""))


@case("DescribeTopicPartitions", 0)
def all_topics_from_a_cursor_on(t, version):
    t.create("z1", 3)
    t.call("DescribeTopicPartitions", version, Topics=[], ResponsePartitionLimit=2, Cursor={"TopicName": t.topic("z1"), "PartitionIndex": 0})
    t.call("DescribeTopicPartitions", version, Topics=[], ResponsePartitionLimit=1, Cursor={"TopicName": t.topic("z1"), "PartitionIndex": 2})
    t.call("DescribeTopicPartitions", version, Topics=[], Cursor={"TopicName": t.topic("z1"), "PartitionIndex": -1})


@case("DescribeTopicPartitions", 0)
def partitions_of_a_topic_that_was_deleted(t, version):
    t.create("a", 1)
    t.delete("a")
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("a")))
    t.create("a", 2)
    t.call("DescribeTopicPartitions", version, Topics=named(t.topic("a")))


# ---- ListConfigResources


@case("ListConfigResources", 0, 1)
def config_resources_of_clients(t, version):
    t.call("ListConfigResources", version, **({"ResourceTypes": [16]} if version else {}))


@case("ListConfigResources", 1)
def config_resources_of_brokers(t, version):
    t.call("ListConfigResources", version, ResourceTypes=[4])
    t.call("ListConfigResources", version, ResourceTypes=[8])
    t.call("ListConfigResources", version, ResourceTypes=[8, 4, 4, 8])
    t.call("ListConfigResources", version, ResourceTypes=[32, 16])


@case("ListConfigResources", 1)
def config_resources_of_topics(t, version):
    t.create("a", 1)
    answer = t.quietly("ListConfigResources", version, ResourceTypes=[2])
    t.note("mine", [r for r in answer["ConfigResources"] if r["ResourceName"].startswith(t.case + "-")])
    answer = t.quietly("ListConfigResources", version, ResourceTypes=[])
    t.note("of all types", sorted({r["ResourceType"] for r in answer["ConfigResources"]}))


@case("ListConfigResources", 1)
def config_resources_of_types_that_have_none(t, version):
    for kind in (0, 1, 3, 64, -1, -128):
        t.call("ListConfigResources", version, ResourceTypes=[kind])
        t.call("ListConfigResources", version, ResourceTypes=[4, kind])
