/* test_broker_settings.c: what a server may be told, and what it says to the rest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char why_words[2048];
static char warning_words[8192];
static struct settings settings;
static uint8_t memory[1 << 20];

/* Reads a file's text, then assignments (ended by NULL), as the command line does. */
static enum base_rc tell(const char *file, const char *const *assignments)
{
    struct base_arena arena;
    struct settings_list list;
    struct base_text why;
    struct base_text warnings;
    base_text_init(&why, why_words, sizeof why_words);
    base_text_init(&warnings, warning_words, sizeof warning_words);
    base_arena_init(&arena, memory, sizeof memory);
    assert_int_equal(settings_list_create(&arena, &list), BASE_OK);
    enum base_rc rc = settings_read(&list, &arena, base_slice_text(file), &why);
    for (uint32_t i = 0; rc == BASE_OK && assignments != NULL && assignments[i] != NULL; i++) {
        rc = settings_add_assignment(&list, base_slice_text(assignments[i]), &why);
    }
    return rc == BASE_OK ? settings_apply(&list, &settings, &why, &warnings) : rc;
}

static void expect_good(const char *file)
{
    if (tell(file, NULL) != BASE_OK) { fail_msg("%s", why_words); }
}

static void expect_bad_as(enum base_rc rc, const char *file, const char *words)
{
    assert_int_equal(tell(file, NULL), rc);
    if (strstr(why_words, words) == NULL) { fail_msg("'%s' is not in '%s'", words, why_words); }
}

static void expect_bad(const char *file, const char *words) { expect_bad_as(BASE_BAD, file, words); }

static void expect_slice(struct base_slice slice, const char *words)
{
    assert_int_equal(slice.size_bytes, strlen(words));
    assert_memory_equal(slice.at, words, slice.size_bytes);
}

static void nothing_told_is_a_working_broker(void **state)
{
    (void)state;
    expect_good("");
    assert_int_equal(settings.broker.node_id, 1);
    assert_int_equal(settings.broker.partitions_default, 1);
    assert_true(settings.broker.is_auto_create);
    assert_int_equal(settings.broker.request_bytes_max, 104857600);
    assert_int_equal(settings.broker.idle_ms, 600000);
    assert_int_equal(settings.files_max, 8192);
    assert_int_equal(settings.shards, 0);
    assert_int_equal(settings.broker.levels[0], PORT_INFO);
    assert_int_equal(settings.listener_count, 1);
    expect_slice(settings.listeners[0].name, "PLAINTEXT");
    expect_slice(settings.listeners[0].host, "127.0.0.1");
    assert_int_equal(settings.listeners[0].port, 9092);
    expect_slice(settings.log_dir, "./weir-data");
    expect_slice(settings.http_listener, "127.0.0.1:9640");
    assert_string_equal(warning_words, "");
}

static void every_name_is_in_order_and_takes_its_default(void **state)
{
    (void)state;
    char file[512];
    for (uint32_t i = 0; i < settings_count(); i++) {
        const struct settings_definition *definition = settings_at(i);
        assert_ptr_equal(settings_find(base_slice_text(definition->name)), definition);
        assert_true(strlen(definition->name) < SETTINGS_NAME_MAX);
        if (i > 0) { assert_true(strcmp(settings_at(i - 1)->name, definition->name) < 0); }
        if (definition->default_value == NULL) { continue; }
        struct base_text why;
        base_text_init(&why, why_words, sizeof why_words);
        if (settings_check(definition, base_slice_text(definition->default_value), &why) != BASE_OK) {
            fail_msg("%s=%s: %s", definition->name, definition->default_value, why_words);
        }
        (void)snprintf(file, sizeof file, "%s=%s", definition->name, definition->default_value);
        bool is_alone = definition->use != SETTINGS_REFUSED;
        if (is_alone) { expect_good(file); }
        assert_int_equal(definition->use == SETTINGS_IGNORED, warning_words[0] != '\0' && is_alone);
    }
}

static void properties_are_read_as_java_reads_them(void **state)
{
    (void)state;
    expect_good("# a comment\n"
                "! another\r\n"
                "\n"
                "   \t\n"
                "num.partitions = 3\n"
                "node.id:7\n"
                "weir.log.level   debug\n"
                "log.dirs=/a\\\n"
                "   /b\n"
                "weir.cluster.id=\\u0041b\\tc\\\\d\n"
                "weir.http.listener=");
    assert_int_equal(settings.broker.partitions_default, 3);
    assert_int_equal(settings.broker.node_id, 7);
    assert_int_equal(settings.broker.levels[0], PORT_DEBUG);
    expect_slice(settings.log_dir, "/a/b");
    expect_slice(settings.cluster_id, "Ab\tc\\d");
    assert_int_equal(settings.http_listener.size_bytes, 0);
    expect_good("\xEF\xBB\xBF# as editors of Windows write it\r\nnum.partitions=3\r\n");
    assert_int_equal(settings.broker.partitions_default, 3);
    expect_bad("node.id=\\u00zz", "malformed");
    expect_bad("node.id=1\nlog.dirs=/a\\u0000/b", "line 2: has a byte of zero");
    expect_bad("\nnode.id=1\nnode.id=2", "line 3: 'node.id' is given twice, before in line 2");
}

static void a_file_cut_anywhere_is_read_or_refused(void **state)
{
    (void)state;
    static const char whole[] =
        "num.partitions = 3\\\n 4\n# x\nweir.cluster.id=\\u0041\\t\\\\\nlisteners=A://[::1]:1,B://x:2\n";
    for (size_t cut = 0; cut < sizeof whole; cut++) {
        char *part = malloc(cut + 1);
        memcpy(part, whole, cut);
        part[cut] = '\0';
        (void)tell(part, NULL);
        free(part);
    }
}

static void the_command_line_is_over_the_file(void **state)
{
    (void)state;
    static const char *const sets[] = {"num.partitions=5", "log.retention.ms=1000", NULL};
    static const char *const twice[] = {"num.partitions=5", "num.partitions=6", NULL};
    static const char *const none[] = {"num.partitions", NULL};
    assert_int_equal(tell("num.partitions=3\nlog.retention.ms=5\nlog.segment.bytes=1048576\n", sets), BASE_OK);
    assert_int_equal(settings.broker.partitions_default, 5);
    assert_int_equal(settings.broker.pair_count, 3);
    expect_slice(settings.broker.pairs[0].name, "num.partitions");
    expect_slice(settings.broker.pairs[0].value, "5");
    expect_slice(settings.broker.pairs[1].name, "log.retention.ms");
    expect_slice(settings.broker.pairs[1].value, "1000");
    expect_slice(settings.broker.pairs[2].value, "1048576");
    assert_int_equal(tell("", twice), BASE_BAD);
    assert_int_equal(tell("", none), BASE_BAD);
}

static void each_kind_of_bad_value_is_named(void **state)
{
    (void)state;
    expect_bad("num.partitions=x", "line 1: 'num.partitions' is 'x': should be a whole number from 1 to 2147483647");
    expect_bad("num.partitions=0", "from 1");
    expect_bad("num.partitions=2147483648", "to 2147483647");
    expect_bad("num.partitions=", "whole number");
    expect_bad("num.io.threads=many", "whole number"); /* without a meaning here, but not without a type */
    expect_bad("auto.create.topics.enable=yes", "true or false");
    expect_bad("log.cleaner.io.buffer.load.factor=1.x", "decimal");
    expect_bad("weir.record.validation=some", "header|full");
    expect_bad("weir.log.format=xml", "text|json");
    expect_bad("weir.log.level=loud", "trace|debug");
    expect_bad("weir.shards=0", "from 1 to 64");
    expect_bad("weir.http.listener=nowhere", "HOST:PORT");
    expect_bad("weir.cluster.id=12345678901234567890123", "longer than 22");
    expect_bad("weir.log.level.plg=info", "no room");
    expect_bad("log.retention.ms=abc", "log.retention.ms");
    expect_bad("weir.log.durability=never", "weir.log.durability");
    expect_bad("broker.rack=123456789 123456789 123456789 123456789 123456789 123456789 123456789 123456789 1",
               "of broker.rack is too long");
    expect_bad("log.dirs=/a,/b", "second log directory");
    expect_bad("log.dirs=,", "no log directory");
    expect_bad("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "leave it out");
    expect_bad("process.roles=broker", "broker,controller");
    expect_bad("process.roles=boss", "no role");
    expect_bad("broker.id=3\nnode.id=4", "not the node.id");
}

static void an_unknown_name_gets_its_nearest(void **state)
{
    (void)state;
    expect_bad("num.partition=1", "'num.partition' is no property; did you mean 'num.partitions'");
    expect_bad("Num.Partitions=1", "'num.partitions'");
    expect_bad("log.retention.milliseconds=1", "'log.retention.m");
    expect_bad("weir.shard=1", "'weir.shards'");
    expect_bad("weir.quorum.voters=3", "is no property"); /* nothing would heed it yet */
    expect_bad("zzzzzzzzzzzzzzzzzzzzzzzz=1", "is no property");
    assert_null(strstr(why_words, "did you mean"));
}

static void a_name_without_a_meaning_is_warned_of_once(void **state)
{
    (void)state;
    expect_good("num.io.threads=8\nlistener.name.plaintext.ssl.keystore.location=/x\n");
    assert_string_equal(warning_words,
                        "'num.io.threads' is Kafka's and has no meaning here\n"
                        "'listener.name.plaintext.ssl.keystore.location' is Kafka's and has no meaning here\n");
}

static void listeners_are_read_and_advertised(void **state)
{
    (void)state;
    expect_good("listeners=PLAINTEXT://:9092, INSIDE://[::1]:0\n"
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n"
                "advertised.listeners=PLAINTEXT://broker.example:19092\n");
    assert_int_equal(settings.listener_count, 2);
    assert_int_equal(settings.listeners[0].host.size_bytes, 0);
    expect_slice(settings.listeners[0].host_advertised, "broker.example");
    assert_int_equal(settings.listeners[0].port_advertised, 19092);
    expect_slice(settings.listeners[1].host, "::1");
    assert_int_equal(settings.listeners[1].port, 0);
    assert_int_equal(settings.listeners[1].port_advertised, 0);
    /* Kafka's own combined configuration works: its controller listener is left out. */
    expect_good("process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
                "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
                "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n");
    assert_int_equal(settings.listener_count, 1);
    expect_bad("listeners=SSL://:9093", "SSL or SASL");
    expect_bad("listeners=SASL_PLAINTEXT://:9093", "SSL or SASL");
    expect_bad("listeners=PLAINTEXT://:9093,PLAINTEXT://:9094", "twice");
    expect_bad("listeners=PLAINTEXT://:70000", "NAME://HOST:PORT");
    expect_bad("listeners=127.0.0.1:9092", "NAME://HOST:PORT");
    expect_bad("listeners=ODD://:9092", "no protocol");
    expect_bad("listeners=", "no listener");
    expect_bad("advertised.listeners=PLAINTEXT://0.0.0.0:1", "no address that a client could reach");
    expect_bad("advertised.listeners=OTHER://a:1", "not in listeners");
    expect_bad("advertised.listeners=PLAINTEXT://:1", "NAME://HOST:PORT");
    expect_bad("listeners=PLAINTEXT://a:1,A://a:1\nlistener.security.protocol.map=A:PLAINTEXT", "address of another");
}

static void there_are_four_listeners_and_five_hundred_and_twelve_properties_at_most(void **state)
{
    (void)state;
    expect_good("listeners=A://a:1,B://a:2,C://a:3,D://a:4\n"
                "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,D:PLAINTEXT,E:PLAINTEXT\n");
    assert_int_equal(settings.listener_count, 4);
    expect_bad("listeners=A://a:1,B://a:2,C://a:3,D://a:4,E://a:5\n"
               "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,D:PLAINTEXT,E:PLAINTEXT\n",
               "one listener too many");
    static char file[(SETTINGS_ENTRIES_MAX + 1) * 32];
    size_t used_bytes = 0;
    for (int i = 0; i <= SETTINGS_ENTRIES_MAX; i++) {
        if (i == SETTINGS_ENTRIES_MAX) { expect_good(file); }
        int count = snprintf(file + used_bytes, sizeof file - used_bytes, "listener.name.x%d=y\n", i);
        used_bytes += (size_t)count;
    }
    expect_bad_as(BASE_FULL, file, "too many properties");
}

static void levels_are_by_room(void **state)
{
    (void)state;
    expect_good("weir.log.level=warn\nweir.log.level.plog=debug\nweir.log.level.host/uv=error\n");
    assert_int_equal(settings.broker.levels[broker_logger(base_slice_text("plog"))], PORT_DEBUG);
    assert_int_equal(settings.broker.levels[broker_logger(base_slice_text("host/uv"))], PORT_ERROR);
    assert_int_equal(settings.broker.levels[broker_logger(base_slice_text("conn"))], -1); /* that of root */
    assert_int_equal(settings.broker.levels[0], PORT_WARN);
}

static void fetches_and_their_sessions_have_limits(void **state)
{
    (void)state;
    expect_good("");
    assert_int_equal(settings.broker.fetch_bytes_max, 57671680);
    assert_int_equal(settings.broker.session_slots_max, 1000);
    assert_int_equal(settings.broker.session_eviction_ms, 120000);
    assert_int_equal(settings.broker.session_bytes_max, 0);
    expect_good("fetch.max.bytes=1024\nmax.incremental.fetch.session.cache.slots=0\n"
                "weir.fetch.session.eviction.ms=5\nweir.fetch.session.bytes.max=65536\n");
    assert_int_equal(settings.broker.fetch_bytes_max, 1024);
    assert_int_equal(settings.broker.session_slots_max, 0);
    assert_int_equal(settings.broker.session_eviction_ms, 5);
    assert_int_equal(settings.broker.session_bytes_max, 65536);
    expect_bad("fetch.max.bytes=1023\n", "fetch.max.bytes");
    expect_bad("max.incremental.fetch.session.cache.slots=-1\n", "max.incremental.fetch.session.cache.slots");
}

static void the_metadata_log_is_written_anew_as_often_as_told(void **state)
{
    (void)state;
    expect_good("");
    assert_int_equal(settings.broker.metadata_grown_bytes, 20971520);
    expect_good("metadata.log.max.record.bytes.between.snapshots=1\n");
    assert_int_equal(settings.broker.metadata_grown_bytes, 1);
    expect_good("metadata.log.max.record.bytes.between.snapshots=9223372036854775807\n");
    expect_bad("metadata.log.max.record.bytes.between.snapshots=0\n", "from 1 to");
    expect_bad("metadata.log.max.record.bytes.between.snapshots=-1\n", "from 1 to");
    expect_bad("metadata.log.max.record.bytes.between.snapshots=1m\n", "whole number");
}

static void connections_may_stay_idle_for_ever(void **state)
{
    (void)state;
    expect_good("connections.max.idle.ms=-1");
    assert_true(settings.broker.idle_ms > UINT64_C(1) << 40);
    expect_good("connections.max.idle.ms=9223372036854775807");
    assert_true(settings.broker.idle_ms <= UINT64_MAX / 1000000); /* nanoseconds still fit */
    expect_good("connections.max.idle.ms=1000");
    assert_int_equal(settings.broker.idle_ms, 1000);
}

/* Every number that is a field of its own, and where the node looks for it. */
#define NUMBERS(X)                                                                    \
    X("auto.create.topics.enable", broker.is_auto_create)                             \
    X("fetch.max.bytes", broker.fetch_bytes_max)                                      \
    X("group.initial.rebalance.delay.ms", broker.group_initial_delay_ms)              \
    X("group.max.session.timeout.ms", broker.group_session_max_ms)                    \
    X("group.max.size", broker.group_size_max)                                        \
    X("group.min.session.timeout.ms", broker.group_session_min_ms)                    \
    X("log.retention.check.interval.ms", broker.retention_check_ms)                   \
    X("max.connections", connections_max)                                             \
    X("max.connections.per.ip", broker.address_connections_max)                       \
    X("max.decompressed.message.bytes", broker.decompressed_bytes_max)                \
    X("max.incremental.fetch.session.cache.slots", broker.session_slots_max)          \
    X("max.request.partition.size.limit", broker.described_partitions_max)            \
    X("metadata.log.max.record.bytes.between.snapshots", broker.metadata_grown_bytes) \
    X("node.id", broker.node_id)                                                      \
    X("num.partitions", broker.partitions_default)                                    \
    X("offset.metadata.max.bytes", broker.offset_metadata_max)                        \
    X("offsets.retention.check.interval.ms", broker.offsets_check_ms)                 \
    X("offsets.retention.minutes", broker.offsets_retention_minutes)                  \
    X("producer.id.expiration.ms", broker.producer_expiry_ms)                         \
    X("queued.max.request.bytes", queued_bytes_max)                                   \
    X("socket.request.max.bytes", broker.request_bytes_max)                           \
    X("weir.check.slow", broker.is_check_slow)                                        \
    X("weir.coordinator.groups", broker.coordinator_groups)                           \
    X("weir.fetch.session.bytes.max", broker.session_bytes_max)                       \
    X("weir.fetch.session.eviction.ms", broker.session_eviction_ms)                   \
    X("weir.files.max", files_max)                                                    \
    X("weir.group.members.max", broker.group_members_max)                             \
    X("weir.group.offsets.max", broker.group_offsets_max)                             \
    X("weir.groups.max", broker.groups_max)                                           \
    X("weir.journal.bytes.max", broker.journal_bytes_max)                             \
    X("weir.memory.max.bytes", memory_max_bytes)                                      \
    X("weir.metrics.group.label", is_group_label)                                     \
    X("weir.shards", shards)                                                          \
    X("weir.shutdown.timeout.ms", broker.shutdown_ms)
#define NAME(name, field)  name,
#define VALUE(name, field) (int64_t)settings.field,

static const char *const numbers[] = {NUMBERS(NAME)};

static void look_at_numbers(int64_t values[BASE_ARRAY_COUNT(numbers)])
{
    const int64_t now[] = {NUMBERS(VALUE)};
    memcpy(values, now, sizeof now);
}

/* Another value than it has by itself. */
static int64_t another_of(const struct settings_definition *definition, int64_t own)
{
    if (definition->type == SETTINGS_BOOLEAN) { return own == 0 ? 1 : 0; }
    if (definition->default_value == NULL) { return definition->min + 1; }
    return own == definition->max ? own - 1 : own + 1;
}

static void each_number_is_told_to_its_own_field_and_to_no_other(void **state)
{
    (void)state;
    int64_t own[BASE_ARRAY_COUNT(numbers)];
    expect_good("");
    look_at_numbers(own);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(numbers); i++) {
        const struct settings_definition *definition = settings_find(base_slice_text(numbers[i]));
        assert_non_null(definition);
        int64_t told = another_of(definition, own[i]);
        char line[128];
        if (definition->type == SETTINGS_BOOLEAN) {
            (void)snprintf(line, sizeof line, "%s=%s", numbers[i], told == 1 ? "true" : "false");
        } else {
            (void)snprintf(line, sizeof line, "%s=%lld", numbers[i], (long long)told);
        }
        expect_good(line);
        int64_t values[BASE_ARRAY_COUNT(numbers)];
        look_at_numbers(values);
        for (size_t k = 0; k < BASE_ARRAY_COUNT(numbers); k++) {
            int64_t wanted = k == i ? told : own[k];
            if (values[k] != wanted) { fail_msg("'%s': %s is %lld", line, numbers[k], (long long)values[k]); }
        }
    }
}

static void each_number_has_by_itself_what_the_table_says(void **state)
{
    (void)state;
    int64_t own[BASE_ARRAY_COUNT(numbers)];
    expect_good("");
    look_at_numbers(own);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(numbers); i++) {
        const char *words = settings_find(base_slice_text(numbers[i]))->default_value;
        int64_t number = 0;
        bool is_number = words != NULL && base_text_parse_i64(base_slice_text(words), &number) == BASE_OK;
        if (!is_number) { number = words != NULL && strcmp(words, "true") == 0 ? 1 : 0; }
        if (own[i] != number) { fail_msg("%s is %lld", numbers[i], (long long)own[i]); }
    }
}

static bool is_listed(const char *name)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(numbers); i++) {
        if (strcmp(numbers[i], name) == 0) { return true; }
    }
    return false;
}

static void each_number_that_means_something_has_a_field(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < settings_count(); i++) {
        const struct settings_definition *definition = settings_at(i);
        bool is_words = definition->type == SETTINGS_STRING || definition->type == SETTINGS_LIST;
        if (definition->use != SETTINGS_MEANT || is_words || is_listed(definition->name)) { continue; }
        bool is_read_by_name =
            strcmp(definition->name, "broker.id") == 0 || strcmp(definition->name, "connections.max.idle.ms") == 0;
        if (!is_read_by_name) { fail_msg("%s", definition->name); }
    }
}

static void words_are_told_to_their_fields(void **state)
{
    (void)state;
    expect_good("");
    assert_false(settings.broker.validates_records);
    assert_int_equal(settings.log_format, SETTINGS_LOG_TEXT);
    assert_false(settings.is_http_listener_set);
    expect_good("weir.record.validation=full\nweir.log.format=json\nweir.http.listener=[::1]:9641\n");
    assert_true(settings.broker.validates_records);
    assert_int_equal(settings.log_format, SETTINGS_LOG_JSON);
    assert_true(settings.is_http_listener_set);
    expect_slice(settings.http_listener, "[::1]:9641");
    expect_slice(settings.http_host, "::1");
    assert_int_equal(settings.http_port, 9641);
}

static void addresses_may_have_limits_of_their_own(void **state)
{
    (void)state;
    expect_good("max.connections.per.ip.overrides=127.0.0.1:5, ::1:0,,10.0.0.9:2147483647");
    assert_int_equal(settings.broker.address_limit_count, 3);
    const int32_t expected[] = {5, 0, INT32_MAX};
    const char *const addresses[] = {"127.0.0.1", "::1", "10.0.0.9"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(expected); i++) {
        struct port_address address;
        assert_int_equal(port_address_from_text(base_slice_text(addresses[i]), &address), BASE_OK);
        assert_memory_equal(settings.broker.address_limits[i].ip, address.ip, sizeof address.ip);
        assert_int_equal(settings.broker.address_limits[i].connections_max, expected[i]);
    }
    expect_bad("max.connections.per.ip.overrides=127.0.0.1", "ADDRESS:COUNT");
    expect_bad("max.connections.per.ip.overrides=localhost:1", "ADDRESS:COUNT");
    expect_bad("max.connections.per.ip.overrides=127.0.0.1:-1", "ADDRESS:COUNT");
    expect_bad("max.connections.per.ip.overrides=127.0.0.1:2147483648", "ADDRESS:COUNT");
    char file[2048] = "max.connections.per.ip.overrides=10.0.0.1:1";
    for (int i = 1; i < BROKER_ADDRESS_LIMITS_MAX; i++) { strcat(file, ",10.0.0.2:2"); }
    expect_good(file);
    assert_int_equal(settings.broker.address_limit_count, BROKER_ADDRESS_LIMITS_MAX);
    strcat(file, ",10.0.0.3:3");
    expect_bad(file, "one too many");
}

static void requests_that_wait_may_have_as_much_as_one_may(void **state)
{
    (void)state;
    expect_good("queued.max.request.bytes=-1");
    expect_good("queued.max.request.bytes=0");
    expect_bad("queued.max.request.bytes=1", "less than one request may have");
    expect_bad("queued.max.request.bytes=1999\nsocket.request.max.bytes=2000", "less than one request may have");
    expect_good("queued.max.request.bytes=2000\nsocket.request.max.bytes=2000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_told_is_a_working_broker),
        cmocka_unit_test(every_name_is_in_order_and_takes_its_default),
        cmocka_unit_test(properties_are_read_as_java_reads_them),
        cmocka_unit_test(a_file_cut_anywhere_is_read_or_refused),
        cmocka_unit_test(the_command_line_is_over_the_file),
        cmocka_unit_test(each_kind_of_bad_value_is_named),
        cmocka_unit_test(an_unknown_name_gets_its_nearest),
        cmocka_unit_test(a_name_without_a_meaning_is_warned_of_once),
        cmocka_unit_test(listeners_are_read_and_advertised),
        cmocka_unit_test(there_are_four_listeners_and_five_hundred_and_twelve_properties_at_most),
        cmocka_unit_test(levels_are_by_room),
        cmocka_unit_test(fetches_and_their_sessions_have_limits),
        cmocka_unit_test(the_metadata_log_is_written_anew_as_often_as_told),
        cmocka_unit_test(connections_may_stay_idle_for_ever),
        cmocka_unit_test(each_number_is_told_to_its_own_field_and_to_no_other),
        cmocka_unit_test(each_number_has_by_itself_what_the_table_says),
        cmocka_unit_test(each_number_that_means_something_has_a_field),
        cmocka_unit_test(words_are_told_to_their_fields),
        cmocka_unit_test(addresses_may_have_limits_of_their_own),
        cmocka_unit_test(requests_that_wait_may_have_as_much_as_one_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
