# SPDX-License-Identifier: Apache-2.0
"""Where Weir's answers differ from Kafka's, and shall: (api, field, why[, the case, or what the path has in it])."""

OWN = "Weir has configs of its own"
CLUSTER_MIN_ISR = "a new Kafka writes a cluster-wide min.insync.replicas when it formats; here it is a default"
AT_RUN_TIME = "Weir changes at run time what has an effect here at once: more than Kafka (num.partitions), or less (num.io.threads)"

WORDS = "Weir says what is wrong with a batch, in words of its own; Kafka often says nothing"

WANTED = [
    ("CreateTopics", "Topics.Configs", OWN, "[weir.durability]"),
    ("CreateTopics", "Topics.Configs.ConfigSource", CLUSTER_MIN_ISR, "[min.insync.replicas]"),
    ("CreateTopics", "Topics*", "of two names that collide in one request Kafka makes both, which it refuses in two requests", "-c_d]"),
    ("DescribeConfigs", "Results.Configs", OWN, "[weir."),
    ("DescribeConfigs", "Results.Configs*", CLUSTER_MIN_ISR, "[min.insync.replicas]"),
    ("DescribeConfigs", "Results.Configs.ReadOnly", AT_RUN_TIME),
    ("DescribeConfigs", "Results.Configs*", "the old name of node.id is no longer in use here", "[broker.id]"),
    ("DescribeConfigs", "Results.Configs*", "it has a default here", "[node.id]"),
    ("DescribeConfigs", "Results.Configs.Default", "where data lie, where to listen and what a node is have defaults of their own here"),
    ("SaslAuthenticate", "ErrorMessage", "Kafka says that authentication is over, Weir that there is none to go on with"),
    ("Produce", "Responses.PartitionResponses.ErrorMessage", WORDS),
    ("Produce", "Responses.PartitionResponses.RecordErrors.BatchIndexErrorMessage", WORDS),
    ("Produce", "Responses.PartitionResponses.ErrorCode", "Kafka stumbles over it, and says no more than that",
     "a_codec_that_nobody_knows"),
    ("Produce", "Responses.PartitionResponses*", "Kafka takes them as they are, and readers meet offsets that the log does not have",
     "records_whose_offsets_are_not_one_after_another"),
    ("Produce", "Responses.PartitionResponses*", "only a broker says that a broker set the time: Kafka believes it, or names every record",
     "a_batch_that_says_the_broker_set_its_time"),
    ("Produce", "Responses.PartitionResponses*", "a packed batch is not opened here unless weir.record.validation is full",
     "packed_batches_that_hold_something_else"),
    ("DescribeGroups", "Groups.GroupState", "nothing is left here of a group that nobody ever was a member of", "-trace]"),
    ("DescribeGroups", "Groups*", "a round that nobody is in any more is as if it had not begun", "-left]"),
    ("DescribeGroups", "Groups.Members.MemberAssignment", "an assignment ends here with its generation"),
    ("DescribeGroups", "Groups.Members.ClientId", "who comes again is shown here as who it is, not as who it was"),
    ("OffsetCommit", "Topics*", "a topic that is named twice is answered twice here, even beside one that is not there: no client does it, and "
     "to find the first one again would take a step a table as large as the request", "one_topic_of_a_commit_twice"),
    ("OffsetDelete", "Topics*", "a topic that is named twice is answered twice here, for the same reason", "one_topic_of_a_delete_twice"),
    ("IncrementalAlterConfigs", "Responses*", AT_RUN_TIME, "configs_of_brokers_that_only_one_of_the_two_changes"),
    ("65 protocols", "*", "no client has so many; each is looked for at every other member, in one step"),
    ("*", "*", "a length below -1, or a varint of more than 32 bits, can't be read here; Kafka takes it for none, or its low bits",
     "numbers_that_nobody_means"),
]
