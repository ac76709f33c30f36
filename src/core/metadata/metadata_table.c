/* metadata_table.c: the topic configs of Kafka 4.3.1, and weir.durability: names, types, defaults, ranges, synonyms.
 *
 * Room    core/metadata.
 * Source  Kafka's LogConfig and ServerTopicConfigSynonyms; the descriptions are our own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "metadata/metadata.h"

/* One enumerator a row; a row that is missing would be all zero, and the test of the table sees it. */
static const struct metadata_definition table[METADATA_ID_COUNT] = {
    [METADATA_CLEANUP_POLICY] =
        {.name = "cleanup.policy",
         .type = METADATA_LIST,
         .default_value = "delete",
         .choices = {"compact", "delete"},
         .synonyms = {{"log.cleanup.policy", 1}},
         .documentation = "What happens to old segments: \"delete\" drops them by age or size, \"compact\" keeps the "
                          "last record of each key. Both may be given; an empty list keeps everything."},
    [METADATA_COMPRESSION_GZIP_LEVEL] =
        {.name = "compression.gzip.level",
         .type = METADATA_INT,
         .default_value = "-1",
         .min = 1,
         .max = 9,
         .synonyms = {{"compression.gzip.level", 1}},
         .documentation = "The gzip level used when compression.type is gzip; -1 is the library's own default."},
    [METADATA_COMPRESSION_LZ4_LEVEL] = {.name = "compression.lz4.level",
                                        .type = METADATA_INT,
                                        .default_value = "9",
                                        .min = 1,
                                        .max = 17,
                                        .synonyms = {{"compression.lz4.level", 1}},
                                        .documentation = "The lz4 level used when compression.type is lz4."},
    [METADATA_COMPRESSION_TYPE] = {.name = "compression.type",
                                   .type = METADATA_STRING,
                                   .default_value = "producer",
                                   .choices = {"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
                                   .synonyms = {{"compression.type", 1}},
                                   .documentation = "How batches are stored: \"producer\" keeps what the producer "
                                                    "sent, anything else is applied by the broker."},
    [METADATA_COMPRESSION_ZSTD_LEVEL] = {.name = "compression.zstd.level",
                                         .type = METADATA_INT,
                                         .default_value = "3",
                                         .min = -131072,
                                         .max = 22,
                                         .synonyms = {{"compression.zstd.level", 1}},
                                         .documentation = "The zstd level used when compression.type is zstd."},
    [METADATA_DELETE_RETENTION_MS] = {.name = "delete.retention.ms",
                                      .type = METADATA_LONG,
                                      .default_value = "86400000",
                                      .min = 0,
                                      .max = INT64_MAX,
                                      .synonyms = {{"log.cleaner.delete.retention.ms", 1}},
                                      .documentation =
                                          "How long a compacted topic keeps its tombstones, so that a reader that "
                                          "starts from the beginning still sees the deletion."},
    [METADATA_FILE_DELETE_DELAY_MS] = {.name = "file.delete.delay.ms",
                                       .type = METADATA_LONG,
                                       .default_value = "60000",
                                       .min = 0,
                                       .max = INT64_MAX,
                                       .synonyms = {{"log.segment.delete.delay.ms", 1}},
                                       .documentation = "How long a deleted segment stays in the file system."},
    [METADATA_FLUSH_MESSAGES] = {.name = "flush.messages",
                                 .type = METADATA_LONG,
                                 .default_value = "9223372036854775807",
                                 .min = 1,
                                 .max = INT64_MAX,
                                 .synonyms = {{"log.flush.interval.messages", 1}},
                                 .documentation =
                                     "Forces a sync after so many records. Topics with weir.durability=synced are "
                                     "synced before they acknowledge in any case."},
    [METADATA_FLUSH_MS] = {.name = "flush.ms",
                           .type = METADATA_LONG,
                           .default_value = "9223372036854775807",
                           .min = 0,
                           .max = INT64_MAX,
                           .synonyms = {{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}},
                           .documentation = "Forces a sync after so much time. Topics with weir.durability=synced are "
                                            "synced before they acknowledge in any case."},
    [METADATA_FOLLOWER_REPLICATION_THROTTLED_REPLICAS] =
        {.name = "follower.replication.throttled.replicas",
         .type = METADATA_LIST,
         .default_value = "",
         .documentation =
             "Replicas whose replication is throttled on the following side, as partition:broker pairs, or * for all."},
    [METADATA_INDEX_INTERVAL_BYTES] = {.name = "index.interval.bytes",
                                       .type = METADATA_INT,
                                       .default_value = "4096",
                                       .min = 0,
                                       .max = INT32_MAX,
                                       .synonyms = {{"log.index.interval.bytes", 1}},
                                       .documentation =
                                           "How many bytes of records lie between two entries of the offset index."},
    [METADATA_LEADER_REPLICATION_THROTTLED_REPLICAS] =
        {.name = "leader.replication.throttled.replicas",
         .type = METADATA_LIST,
         .default_value = "",
         .documentation =
             "Replicas whose replication is throttled on the leading side, as partition:broker pairs, or * for all."},
    [METADATA_LOCAL_RETENTION_BYTES] =
        {.name = "local.retention.bytes",
         .type = METADATA_LONG,
         .default_value = "-2",
         .min = -2,
         .max = INT64_MAX,
         .synonyms = {{"log.local.retention.bytes", 1}},
         .documentation = "With remote storage: how many bytes of a partition stay here; -2 takes retention.bytes."},
    [METADATA_LOCAL_RETENTION_MS] = {.name = "local.retention.ms",
                                     .type = METADATA_LONG,
                                     .default_value = "-2",
                                     .min = -2,
                                     .max = INT64_MAX,
                                     .synonyms = {{"log.local.retention.ms", 1}},
                                     .documentation =
                                         "With remote storage: how long segments stay here; -2 takes retention.ms."},
    [METADATA_MAX_COMPACTION_LAG_MS] =
        {.name = "max.compaction.lag.ms",
         .type = METADATA_LONG,
         .default_value = "9223372036854775807",
         .min = 1,
         .max = INT64_MAX,
         .synonyms = {{"log.cleaner.max.compaction.lag.ms", 1}},
         .documentation = "The longest a record of a compacted topic stays out of reach of compaction."},
    [METADATA_MAX_MESSAGE_BYTES] = {.name = "max.message.bytes",
                                    .type = METADATA_INT,
                                    .default_value = "1048588",
                                    .min = 0,
                                    .max = INT32_MAX,
                                    .synonyms = {{"message.max.bytes", 1}},
                                    .documentation = "The largest record batch that is accepted, after compression."},
    [METADATA_MESSAGE_TIMESTAMP_AFTER_MAX_MS] =
        {.name = "message.timestamp.after.max.ms",
         .type = METADATA_LONG,
         .default_value = "3600000",
         .min = 0,
         .max = INT64_MAX,
         .synonyms = {{"log.message.timestamp.after.max.ms", 1}},
         .documentation = "How far a record's create time may lie after the broker's clock."},
    [METADATA_MESSAGE_TIMESTAMP_BEFORE_MAX_MS] =
        {.name = "message.timestamp.before.max.ms",
         .type = METADATA_LONG,
         .default_value = "9223372036854775807",
         .min = 0,
         .max = INT64_MAX,
         .synonyms = {{"log.message.timestamp.before.max.ms", 1}},
         .documentation = "How far a record's create time may lie before the broker's clock."},
    [METADATA_MESSAGE_TIMESTAMP_TYPE] =
        {.name = "message.timestamp.type",
         .type = METADATA_STRING,
         .default_value = "CreateTime",
         .choices = {"CreateTime", "LogAppendTime"},
         .synonyms = {{"log.message.timestamp.type", 1}},
         .documentation = "Whether a record carries the time its producer gave, or the time of the append."},
    [METADATA_MIN_CLEANABLE_DIRTY_RATIO] =
        {.name = "min.cleanable.dirty.ratio",
         .type = METADATA_DOUBLE,
         .default_value = "0.5",
         .min = 0,
         .max = 1000000,
         .synonyms = {{"log.cleaner.min.cleanable.ratio", 1}},
         .documentation = "The share of a compacted log that must be dirty before it is cleaned."},
    [METADATA_MIN_COMPACTION_LAG_MS] = {.name = "min.compaction.lag.ms",
                                        .type = METADATA_LONG,
                                        .default_value = "0",
                                        .min = 0,
                                        .max = INT64_MAX,
                                        .synonyms = {{"log.cleaner.min.compaction.lag.ms", 1}},
                                        .documentation =
                                            "How long a record of a compacted topic stays out of reach of compaction."},
    [METADATA_MIN_INSYNC_REPLICAS] =
        {.name = "min.insync.replicas",
         .type = METADATA_INT,
         .default_value = "1",
         .min = 1,
         .max = INT32_MAX,
         .synonyms = {{"min.insync.replicas", 1}},
         .documentation = "How many replicas must be in sync for a write with acks=all to be accepted."},
    [METADATA_PREALLOCATE] = {.name = "preallocate",
                              .type = METADATA_BOOLEAN,
                              .default_value = "false",
                              .synonyms = {{"log.preallocate", 1}},
                              .documentation = "Whether a new segment gets its disk space at once."},
    [METADATA_REMOTE_LOG_COPY_DISABLE] = {.name = "remote.log.copy.disable",
                                          .type = METADATA_BOOLEAN,
                                          .default_value = "false",
                                          .documentation = "With remote storage: stops copying segments there."},
    [METADATA_REMOTE_LOG_DELETE_ON_DISABLE] =
        {.name = "remote.log.delete.on.disable",
         .type = METADATA_BOOLEAN,
         .default_value = "false",
         .documentation = "With remote storage: deletes what is there when it is switched off for the topic."},
    [METADATA_REMOTE_STORAGE_ENABLE] = {.name = "remote.storage.enable",
                                        .type = METADATA_BOOLEAN,
                                        .default_value = "false",
                                        .documentation =
                                            "Remote storage of old segments; not available in this broker."},
    [METADATA_RETENTION_BYTES] =
        {.name = "retention.bytes",
         .type = METADATA_LONG,
         .default_value = "-1",
         .min = INT64_MIN,
         .max = INT64_MAX,
         .synonyms = {{"log.retention.bytes", 1}},
         .documentation =
             "How large a partition may grow before its oldest segments are deleted; -1 is without limit."},
    [METADATA_RETENTION_MS] =
        {.name = "retention.ms",
         .type = METADATA_LONG,
         .default_value = "604800000",
         .min = -1,
         .max = INT64_MAX,
         .synonyms = {{"log.retention.ms", 1}, {"log.retention.minutes", 60000}, {"log.retention.hours", 3600000}},
         .documentation = "How long records are kept before their segment is deleted; -1 is for ever."},
    [METADATA_SEGMENT_BYTES] = {.name = "segment.bytes",
                                .type = METADATA_INT,
                                .default_value = "1073741824",
                                .min = 1048576,
                                .max = INT32_MAX,
                                .synonyms = {{"log.segment.bytes", 1}},
                                .documentation = "The size at which a new segment is begun."},
    [METADATA_SEGMENT_INDEX_BYTES] = {.name = "segment.index.bytes",
                                      .type = METADATA_INT,
                                      .default_value = "10485760",
                                      .min = 4,
                                      .max = INT32_MAX,
                                      .synonyms = {{"log.index.size.max.bytes", 1}},
                                      .documentation = "The largest size of a segment's index."},
    [METADATA_SEGMENT_JITTER_MS] =
        {.name = "segment.jitter.ms",
         .type = METADATA_LONG,
         .default_value = "0",
         .min = 0,
         .max = INT64_MAX,
         .synonyms = {{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", 3600000}},
         .documentation = "The most that is taken off segment.ms at random, so that not all segments roll at once."},
    [METADATA_SEGMENT_MS] = {.name = "segment.ms",
                             .type = METADATA_LONG,
                             .default_value = "604800000",
                             .min = 1,
                             .max = INT64_MAX,
                             .synonyms = {{"log.roll.ms", 1}, {"log.roll.hours", 3600000}},
                             .documentation = "The age at which a new segment is begun even if it is not full."},
    [METADATA_UNCLEAN_LEADER_ELECTION_ENABLE] =
        {.name = "unclean.leader.election.enable",
         .type = METADATA_BOOLEAN,
         .default_value = "false",
         .synonyms = {{"unclean.leader.election.enable", 1}},
         .documentation = "Whether a replica that is not in sync may become leader as a last resort, losing records."},
    [METADATA_WEIR_DURABILITY] = {.name = "weir.durability",
                                  .type = METADATA_STRING,
                                  .default_value = "synced",
                                  .choices = {"synced", "page-cache"},
                                  .synonyms = {{"weir.log.durability", 1}},
                                  .documentation = "What a write with acks=all waits for: \"synced\" until it is on "
                                                   "the disk, \"page-cache\" until the operating system has it. "
                                                   "Chosen when a topic is created; it stays."},
};

const struct metadata_definition *metadata_definition(enum metadata_id id)
{
    CHECK((unsigned)id < METADATA_ID_COUNT);
    return &table[id];
}

/* By binary search: the rows stand in the order of their names. */
bool metadata_id_of(struct base_slice name, enum metadata_id *id_out)
{
    uint32_t first = 0;
    uint32_t end = METADATA_ID_COUNT;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        int order = base_slice_compare(base_slice_text(table[middle].name), name);
        if (order == 0) {
            *id_out = (enum metadata_id)middle;
            return true;
        }
        if (order < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return false;
}
