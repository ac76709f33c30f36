/* metrics.c: what the shards say, in Prometheus' text format 0.0.4: base units, counters end in _total, few labels.
 *
 * https://prometheus.io/docs/instrumenting/exposition_formats/ and .../practices/naming/
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__observe.h"

#include "wire/kafka/kafka.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define NS_PER_S 1e9

struct metrics {
    FILE *file;
    const struct observe *observe;
    const struct observe_snapshot *snapshots;
    bool is_group_label;
};

static void head(const struct metrics *m, const char *name, const char *type, const char *help)
{
    fprintf(m->file, "# HELP weir_%s %s\n# TYPE weir_%s %s\n", name, help, name, type);
}

/* ---- numbers of views ---- */

struct number {
    const char *name;
    const char *type;
    const char *help;
    size_t at; /* in struct broker_view */
    size_t size_bytes;
};
#define NUMBER(name, type, field, help) \
    {name, type, help, offsetof(struct broker_view, field), sizeof(((struct broker_view *)NULL)->field)}

/* Of the node: the sum over the shards. */
static const struct number numbers[] = {
    NUMBER("connections", "gauge", connections, "Open connections of clients."),
    NUMBER("connections_accepted_total", "counter", accepted_total, "Connections accepted."),
    NUMBER("connections_closed_total", "counter", closed_total, "Connections closed, by whichever side."),
    NUMBER("connections_waiting_for_memory", "gauge", waiting_for_memory,
           "Connections not read from for want of memory."),
    NUMBER("connections_waiting_for_requests", "gauge", waiting_for_requests,
           "Connections not read from because too many requests are in flight."),
    NUMBER("network_received_bytes_total", "counter", received_bytes, "Bytes received from clients."),
    NUMBER("network_sent_bytes_total", "counter", sent_bytes, "Bytes sent to clients."),
    NUMBER("requests_in_flight", "gauge", requests, "Requests received and not yet answered."),
    NUMBER("requests_starved", "gauge", starved, "Requests that wait for memory."),
    NUMBER("fetches_parked", "gauge", parked, "Fetch requests that wait for records."),
    NUMBER("fetch_sessions", "gauge", fetch_sessions, "Fetch sessions that clients may go on with."),
    NUMBER("fetch_session_partitions", "gauge", fetch_session_partitions, "Partitions that they follow."),
    NUMBER("fetch_session_bytes", "gauge", fetch_session_bytes, "Memory that they take."),
    NUMBER("fetch_sessions_opened_total", "counter", fetch_sessions_opened, "Fetch sessions opened."),
    NUMBER("fetch_sessions_evicted_total", "counter", fetch_sessions_evicted,
           "Fetch sessions that made room for others."),
    NUMBER("fetch_sessions_refused_total", "counter", fetch_sessions_refused,
           "Fetch sessions that there was no room for."),
    NUMBER("journal_syncs_total", "counter", journal_syncs, "Syncs of the journal."),
    NUMBER("journal_groups_total", "counter", journal_groups,
           "Groups of entries written to the journal, one write each."),
    NUMBER("journal_entries_total", "counter", journal_entries,
           "Entries written to the journal; by syncs: how many share one."),
    NUMBER("journal_bytes", "gauge", journal_bytes, "Bytes of the journal that a restart would read."),
    NUMBER("journal_full", "gauge", is_journal_full,
           "1 while the journal is near its limit and appends wait for a checkpoint."),
    NUMBER("partitions", "gauge", logs, "Partitions on this node, its own logs among them."),
    NUMBER("groups", "gauge", groups, "Consumer groups coordinated here."),
    NUMBER("group_members", "gauge", members, "Their members."),
    NUMBER("group_offsets", "gauge", offsets, "Offsets committed by them."),
};

/* Of each shard. */
static const struct number shard_numbers[] = {
    NUMBER("memory_total_bytes", "gauge", memory_total_bytes, "Memory for requests, answers and caches."),
    NUMBER("memory_used_bytes", "gauge", memory_used_bytes, "Memory in use of that."),
    NUMBER("shard_inbox_messages", "gauge", inbox, "Messages of other shards that wait to be taken."),
    NUMBER("shard_outbox_messages", "gauge", outbox, "Messages to other shards that wait to be sent."),
};

static uint64_t number_of(const struct observe_snapshot *snapshot, const struct number *number)
{
    const uint8_t *at = (const uint8_t *)&snapshot->view + number->at;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    bool flag = false;
    switch (number->size_bytes) {
    case sizeof wide: memcpy(&wide, at, sizeof wide); return wide;
    case sizeof narrow: memcpy(&narrow, at, sizeof narrow); return narrow;
    default: memcpy(&flag, at, sizeof flag); return flag ? 1 : 0;
    }
}

static void print_classes(const struct metrics *m, const char *name, size_t at, const char *help)
{
    static const char *const classes[BASE_CLASS_COUNT] = {"control", "replication", "clients"};
    head(m, name, "gauge", help);
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        uint64_t values[BASE_CLASS_COUNT];
        memcpy(values, (const uint8_t *)&m->snapshots[s].view + at, sizeof values);
        for (unsigned class = 0; class < BASE_CLASS_COUNT; class += 1) {
            fprintf(m->file, "weir_%s{shard=\"%" PRIu32 "\",class=\"%s\"} %" PRIu64 "\n", name, s, classes[class],
                    values[class]);
        }
    }
}

static void print_numbers(const struct metrics *m)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(numbers); i++) {
        uint64_t sum = 0;
        for (uint32_t s = 0; s < m->observe->shard_count; s++) { sum += number_of(&m->snapshots[s], &numbers[i]); }
        head(m, numbers[i].name, numbers[i].type, numbers[i].help);
        fprintf(m->file, "weir_%s %" PRIu64 "\n", numbers[i].name, sum);
    }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(shard_numbers); i++) {
        head(m, shard_numbers[i].name, shard_numbers[i].type, shard_numbers[i].help);
        for (uint32_t s = 0; s < m->observe->shard_count; s++) {
            fprintf(m->file, "weir_%s{shard=\"%" PRIu32 "\"} %" PRIu64 "\n", shard_numbers[i].name, s,
                    number_of(&m->snapshots[s], &shard_numbers[i]));
        }
    }
    head(m, "shard_ring_messages", "gauge", "Messages of other shards on their way to this one.");
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        fprintf(m->file, "weir_shard_ring_messages{shard=\"%" PRIu32 "\"} %" PRIu64 "\n", s,
                host_messages_waiting(m->observe->host, s));
    }
    print_classes(m, "memory_room_bytes", offsetof(struct broker_view, memory_room_bytes),
                  "Memory that a class of work could still take.");
    print_classes(m, "memory_class_used_bytes", offsetof(struct broker_view, memory_class_bytes),
                  "Memory that it has taken.");
    bool is_failed = false;
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        is_failed = is_failed || m->snapshots[s].view.is_disk_failed;
    }
    head(m, "log_directory_failed", "gauge", "1 once the log directory has failed; nothing is written any more.");
    fprintf(m->file, "weir_log_directory_failed %d\n", is_failed ? 1 : 0);
    head(m, "disk_silent_seconds", "gauge",
         "How long the disk has not come back from what it was asked; 0: it owes nothing.");
    fprintf(m->file, "weir_disk_silent_seconds %.3f\n", (double)host_disk_silent_ns(m->observe->host, 0) / NS_PER_S);
}

/* ---- counters ---- */

static void print_counter(const struct metrics *m, const char *name, size_t at, const char *help)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        uint64_t one;
        memcpy(&one, (const uint8_t *)&m->snapshots[s].counters + at, sizeof one);
        sum += one;
    }
    head(m, name, "counter", help);
    fprintf(m->file, "weir_%s %" PRIu64 "\n", name, sum);
}

/* labels: within the braces, before le; may be empty. */
static void print_histogram(const struct metrics *m, const char *name, const char *labels,
                            const struct broker_histogram *histogram, const uint64_t bounds_ns[BROKER_BUCKETS])
{
    uint64_t sum = 0;
    const char *comma = labels[0] == '\0' ? "" : ",";
    for (uint32_t i = 0; i < BROKER_BUCKETS; i++) {
        sum += histogram->counts[i];
        if (i + 1 < BROKER_BUCKETS) {
            fprintf(m->file, "weir_%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, comma,
                    (double)bounds_ns[i] / NS_PER_S, sum);
        } else {
            fprintf(m->file, "weir_%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, sum);
        }
    }
    const char *open = labels[0] == '\0' ? "" : "{";
    const char *close = labels[0] == '\0' ? "" : "}";
    fprintf(m->file, "weir_%s_sum%s%s%s %.9g\n", name, open, labels, close, (double)histogram->sum_ns / NS_PER_S);
    fprintf(m->file, "weir_%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, sum);
}

/* What it has counted. */
static uint64_t add_histogram(struct broker_histogram *sum, const struct broker_histogram *one)
{
    uint64_t count = 0;
    sum->sum_ns += one->sum_ns;
    for (uint32_t i = 0; i < BROKER_BUCKETS; i++) {
        sum->counts[i] += one->counts[i];
        count += one->counts[i];
    }
    return count;
}

static void print_syncs(const struct metrics *m)
{
    struct broker_histogram logs = {{0}, 0};
    struct broker_histogram journal = {{0}, 0};
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        (void)add_histogram(&logs, &m->snapshots[s].times.log_syncs); /* told below, all in one */
        (void)add_histogram(&journal, &m->snapshots[s].times.journal_syncs);
    }
    head(m, "sync_duration_seconds", "histogram",
         "From where a sync was asked for to where it was done, what it waited for others included.");
    print_histogram(m, "sync_duration_seconds", "of=\"journal\"", &journal, broker_request_bounds_ns);
    print_histogram(m, "sync_duration_seconds", "of=\"logs\"", &logs, broker_request_bounds_ns);
    const struct broker_view *view = &m->snapshots[0].view; /* the journal is the first shard's */
    uint64_t sum = 0;
    head(m, "journal_sync_entries", "histogram", "Entries that shared a sync of the journal.");
    for (uint32_t i = 0; i < BROKER_BUCKETS; i++) {
        sum += view->journal_sync_sizes[i];
        if (i + 1 < BROKER_BUCKETS) {
            fprintf(m->file, "weir_journal_sync_entries_bucket{le=\"%u\"} %" PRIu64 "\n", 1u << i, sum);
        } else {
            fprintf(m->file, "weir_journal_sync_entries_bucket{le=\"+Inf\"} %" PRIu64 "\n", sum);
        }
    }
    fprintf(m->file, "weir_journal_sync_entries_sum %" PRIu64 "\nweir_journal_sync_entries_count %" PRIu64 "\n",
            view->journal_synced_entries, sum);
}

static void print_counters(const struct metrics *m)
{
#define COUNTER(name, field, help) print_counter(m, name, offsetof(struct broker_counters, field), help)
    COUNTER("produce_batches_total", produced_batches, "Record batches of producers that were stored.");
    COUNTER("produce_records_total", produced_records, "Records in them.");
    COUNTER("produce_bytes_total", produced_bytes, "Bytes of them, as they are stored.");
    COUNTER("produce_duplicate_batches_total", duplicate_batches,
            "Record batches that were there already, and were not stored again.");
    COUNTER("produce_refused_batches_total", refused_batches, "Record batches answered with an error.");
    COUNTER("fetch_bytes_total", fetched_bytes, "Bytes of record batches in answers to consumers.");
    COUNTER("requests_closed_total", requests_closed,
            "Requests ended by closing their connection, for they could not be answered.");
#undef COUNTER
    head(m, "request_duration_seconds", "histogram",
         "From a whole request to its answer, or to where none is due; the time it was parked included.");
    for (int16_t key = 0; key < BROKER_APIS_MAX; key++) {
        struct broker_histogram sum = {{0}, 0};
        uint64_t count = 0;
        for (uint32_t s = 0; s < m->observe->shard_count; s++) {
            count += add_histogram(&sum, &m->snapshots[s].counters.requests[key]);
        }
        const struct kafka_api_info *info = count == 0 ? NULL : kafka_api_info(key);
        if (info == NULL) { continue; }
        char labels[128];
        (void)snprintf(labels, sizeof labels, "api=\"%s\"", info->name); /* names are short */
        print_histogram(m, "request_duration_seconds", labels, &sum, broker_request_bounds_ns);
    }
    head(m, "shard_turn_seconds", "histogram",
         "How long a step of a shard, what it wrote and read at once included, or a round of its sends took.");
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        char labels[64];
        (void)snprintf(labels, sizeof labels, "shard=\"%" PRIu32 "\"", s); /* short */
        print_histogram(m, "shard_turn_seconds", labels, &m->snapshots[s].times.turns, observe_turn_bounds_ns);
    }
    print_syncs(m);
}

/* ---- topics and groups ---- */

struct row {
    const char *topic;
    const char *group;
    uint32_t topic_bytes;
    uint32_t group_bytes;
    struct base_part id;
    uint64_t size_bytes;
    uint64_t fetched_bytes;
    uint64_t lag;
    int64_t offset_start;
    int64_t watermark;
    uint32_t failed;
};

static int compare_words(const char *a, uint32_t a_bytes, const char *b, uint32_t b_bytes)
{
    int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    if (order != 0) { return order; }
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int by_part(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;
    int order = base_uuid_compare(left->id.topic, right->id.topic);
    return order != 0 ? order : (left->id.index > right->id.index) - (left->id.index < right->id.index);
}

static int by_words(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;
    int order = compare_words(left->topic, left->topic_bytes, right->topic, right->topic_bytes);
    return order != 0 ? order : compare_words(left->group, left->group_bytes, right->group, right->group_bytes);
}

/* Names of topics need no escape, ids of groups may. A client may call its group by bytes that are no UTF-8, for which Prometheus would
 * refuse the whole page: they are written \xFF, the backslash escaped as others are. */
static void print_words(FILE *file, const char *words, uint32_t size_bytes)
{
    for (uint32_t i = 0; i < size_bytes;) {
        size_t count = app_rune_bytes(base_slice_of(words + i, size_bytes - i));
        if (count == 0) {
            fprintf(file, "\\\\x%02X", (unsigned)(uint8_t)words[i]);
            count = 1;
        } else if (words[i] == '\n') {
            fprintf(file, "\\n");
        } else {
            if (words[i] == '"' || words[i] == '\\') { fputc('\\', file); }
            for (size_t at = 0; at < count; at++) { fputc(words[i + at], file); }
        }
        i += (uint32_t)count;
    }
}

static void print_topics(const struct metrics *m, struct row *rows, size_t count)
{
    qsort(rows, count, sizeof *rows, by_words);
    static const struct {
        const char *name, *type, *help;
    } kinds[] = {{"topic_size_bytes", "gauge", "Bytes of a topic's segments."},
                 {"topic_records", "gauge", "Offsets between a topic's starts and ends."},
                 {"topic_partitions", "gauge", "Partitions of a topic."},
                 {"topic_partitions_failed", "gauge", "Those of them that can't be used."},
                 {"topic_fetch_bytes_total", "counter", "Bytes of a topic's batches in answers that consumers got."}};
    for (size_t n = 0; n < BASE_ARRAY_COUNT(kinds); n++) {
        head(m, kinds[n].name, kinds[n].type, kinds[n].help);
        for (size_t i = 0; i < count;) {
            uint64_t values[BASE_ARRAY_COUNT(kinds)] = {0};
            size_t from = i;
            for (; i < count &&
                   compare_words(rows[i].topic, rows[i].topic_bytes, rows[from].topic, rows[from].topic_bytes) == 0;
                 i++) {
                values[0] += rows[i].size_bytes;
                values[1] += (uint64_t)(rows[i].watermark - rows[i].offset_start);
                values[2] += 1;
                values[3] += rows[i].failed;
                values[4] += rows[i].fetched_bytes;
            }
            fprintf(m->file, "weir_%s{topic=\"", kinds[n].name);
            print_words(m->file, rows[from].topic, rows[from].topic_bytes);
            fprintf(m->file, "\"} %" PRIu64 "\n", values[n]);
        }
    }
}

/* How far a group is behind, clamped to what is still there; of what it has committed. */
static void print_lag(const struct metrics *m, struct row *rows, size_t count)
{
    qsort(rows, count, sizeof *rows, by_words);
    head(m, "group_lag_records", "gauge",
         "Records that groups have not committed yet, over all groups of a topic or of each.");
    for (size_t i = 0; i < count;) {
        uint64_t lag = 0;
        size_t from = i;
        for (; i < count && by_words(&rows[i], &rows[from]) == 0; i++) { lag += rows[i].lag; }
        fprintf(m->file, "weir_group_lag_records{topic=\"");
        print_words(m->file, rows[from].topic, rows[from].topic_bytes);
        if (m->is_group_label) {
            fprintf(m->file, "\",group=\"");
            print_words(m->file, rows[from].group, rows[from].group_bytes);
        }
        fprintf(m->file, "\"} %" PRIu64 "\n", lag);
    }
}

/* Whole or not at all: a part would say that a topic has shrunk, or that a group has caught up. */
static void print_tables(const struct metrics *m)
{
    size_t logs = 0;
    size_t commits = 0;
    bool is_whole = true;
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        is_whole = is_whole && m->snapshots[s].is_whole;
        logs += m->snapshots[s].log_count;
        commits += m->snapshots[s].commit_count;
    }
    struct row *rows = is_whole ? calloc(logs + commits + 1, sizeof *rows) : NULL;
    head(m, "topics_answered", "gauge",
         "0 if what is of topics and groups is left out: a shard has not answered, or there is no memory for it.");
    fprintf(m->file, "weir_topics_answered %d\n", rows != NULL ? 1 : 0);
    if (rows == NULL) { return; }
    size_t at = 0;
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        const struct observe_snapshot *snapshot = &m->snapshots[s];
        for (uint32_t i = 0; i < snapshot->log_count; i++) {
            const struct observe_log *log = &snapshot->logs[i];
            rows[at++] =
                (struct row){.topic = snapshot->names + log->topic_at,
                             .topic_bytes = log->topic_bytes,
                             .group = "",
                             .id = log->id,
                             .size_bytes = log->size_bytes,
                             .fetched_bytes = log->fetched_bytes,
                             .offset_start = log->offset_start,
                             .watermark = log->watermark < log->offset_start ? log->offset_start : log->watermark,
                             .failed = log->is_failed || log->is_damaged ? 1 : 0};
        }
    }
    qsort(rows, logs, sizeof *rows, by_part);
    struct row *lags = rows + logs;
    size_t lag_count = 0;
    for (uint32_t s = 0; s < m->observe->shard_count; s++) {
        const struct observe_snapshot *snapshot = &m->snapshots[s];
        for (uint32_t i = 0; i < snapshot->commit_count; i++) {
            const struct observe_commit *commit = &snapshot->commits[i];
            struct row key = {.id = commit->id};
            const struct row *log = logs == 0 ? NULL : bsearch(&key, rows, logs, sizeof *rows, by_part);
            if (log == NULL) { continue; } /* its topic is gone */
            int64_t from = commit->offset < log->offset_start ? log->offset_start : commit->offset;
            lags[lag_count++] = (struct row){.topic = log->topic,
                                             .topic_bytes = log->topic_bytes,
                                             .group = m->is_group_label ? snapshot->names + commit->group_at : "",
                                             .group_bytes = m->is_group_label ? commit->group_bytes : 0,
                                             .lag = from < log->watermark ? (uint64_t)(log->watermark - from) : 0};
        }
    }
    print_lag(m, lags, lag_count);
    print_topics(m, rows, logs);
    free(rows);
}

/* ---- the process ---- */

static uint64_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;
    while (folder != NULL && readdir(folder) != NULL) { count += 1; }
    if (folder == NULL) { return 0; }
    (void)closedir(folder);           /* it was only read */
    return count < 3 ? 0 : count - 3; /* ".", ".." and the folder itself */
}

static void print_process(const struct metrics *m)
{
    struct rusage usage;
    struct rlimit limit;
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm != NULL) {
        if (fscanf(statm, "%*u %lu", &pages) != 1) { pages = 0; }
        (void)fclose(statm); /* it was only read */
    }
    long page_bytes = sysconf(_SC_PAGESIZE);
    fprintf(m->file,
            "# HELP process_resident_memory_bytes Resident memory.\n# TYPE process_resident_memory_bytes gauge\n");
    fprintf(m->file, "process_resident_memory_bytes %llu\n",
            (unsigned long long)pages * (unsigned long long)(page_bytes < 0 ? 0 : page_bytes));
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        double seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
        fprintf(m->file,
                "# HELP process_cpu_seconds_total User and system time.\n# TYPE process_cpu_seconds_total counter\n");
        fprintf(m->file, "process_cpu_seconds_total %.6f\n", seconds);
    }
    fprintf(m->file, "# HELP process_open_fds Open descriptors.\n# TYPE process_open_fds gauge\n");
    fprintf(m->file, "process_open_fds %" PRIu64 "\n", count_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        fprintf(m->file, "# HELP process_max_fds Descriptors there may be.\n# TYPE process_max_fds gauge\n");
        fprintf(m->file, "process_max_fds %llu\n", (unsigned long long)limit.rlim_cur);
    }
}

void metrics_print(FILE *file, const struct observe *observe, const struct observe_snapshot *snapshots,
                   bool is_group_label)
{
    struct metrics m = {.file = file, .observe = observe, .snapshots = snapshots, .is_group_label = is_group_label};
    head(&m, "shard_answered", "gauge",
         "1 if a shard has answered this scrape; of one that has not its last answer is told.");
    for (uint32_t s = 0; s < observe->shard_count; s++) {
        fprintf(file, "weir_shard_answered{shard=\"%" PRIu32 "\"} %d\n", s, snapshots[s].is_there ? 1 : 0);
    }
    print_numbers(&m);
    print_counters(&m);
    print_tables(&m);
    print_process(&m);
}
