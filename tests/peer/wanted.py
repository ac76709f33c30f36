# SPDX-License-Identifier: Apache-2.0
"""Where Weir's answers differ from Kafka's, and shall: (api, field, why[, only where the path has this in it])."""

WANTED = [
    ("CreateTopics", "Topics.Configs", "Weir has a topic config of its own", "[weir.durability]"),
    ("CreateTopics", "Topics.Configs.ConfigSource",
     "a new Kafka writes a cluster-wide min.insync.replicas when it formats; here it is a default", "[min.insync.replicas]"),
    ("CreateTopics", "Topics*", "of two names that collide in one request Kafka makes both, which it refuses in two requests", "-c_d]"),
]
