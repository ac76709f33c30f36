/* bench.c: weir bench: how fast a broker is, seen by the project's own client; see also bench_replay.c.
 *
 * produce and e2e at a given rate count a record's time from when it was to be sent, not from when it could be: a broker that
 * stalls pays for all that waited (coordinated omission). A record of e2e begins with that time, which no other bench can read: others
 * may write to the topic beside it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__bench.h"
#include "app__command.h"

#include "wire/kafka/kafka.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX  (1U << 18) /* in flight */
#define STAMP_BYTES  8
#define CLOCKS_NS    UINT64_C(1000000000) /* the sides may have read theirs so far apart */
#define POOL_BYTES   ((size_t)1 << 20)
#define PROGRESS_NS  UINT64_C(1000000000)
#define SENDS_A_STEP 4096

static const char usage[] =
    "usage: weir bench produce|fetch|e2e|replay [OPTION]...\n"
    "\n"
    "  produce   sends records, and says how long each took to be acknowledged\n"
    "  fetch     reads what is in the topic, from the beginning\n"
    "  e2e       sends records and reads them again, and says how long each was under way\n"
    "  replay    sends requests that were made before, with no work for each record: weir bench replay --help\n"
    "\n"
    "  --bootstrap HOST:PORT   a broker of the cluster (127.0.0.1:9092)\n"
    "  --topic NAME            bench; made by the broker if it is not there and the broker does that\n"
    "  --records N             how many (1000000; fetch: as many as there are)\n"
    "  --size BYTES            of a record's value (100; e2e at least 8)\n"
    "  --rate N                records a second; 0: as fast as it goes (0; e2e 1000)\n"
    "  --partition P           only this one (all)\n"
    "  --acks all|1|0          what is waited for (all)\n"
    "  --compression C         none, gzip, snappy, lz4 or zstd (none)\n"
    "  --batch BYTES           a batch is sent once it has so many (262144)\n"
    "  --linger MS             or once it has waited so long (0)\n"
    "  --json                  the result as one object\n"
    "\n"
    "Progress goes to standard error once a second. Times at a rate count from when a record was to be sent.\n";

enum mode { MODE_PRODUCE, MODE_FETCH, MODE_E2E };

struct bench;
/* One client: e2e has two, so that no record waits behind a long poll. */
struct side {
    struct app_command command;
    struct bench *bench;
    uint64_t began_ns;
    uint64_t told_ns;
    uint64_t ended_ns;
};
struct bench {
    struct side producer;
    struct side consumer;
    enum mode mode;
    const char *topic;
    int64_t records;
    int64_t size_bytes;
    int64_t rate;
    int64_t partition;
    int64_t batch_bytes;
    int64_t linger_ms;
    uint8_t *pool;     /* values are cut out of it */
    uint8_t *stamped;  /* e2e: a value with its time in front ... */
    uint64_t veil;     /* ... xor this, of this run alone */
    uint64_t *sent_ns; /* by token modulo RECORDS_MAX; without a rate */
    struct bench_times times;
    /* the producer's */
    uint64_t sent;
    uint64_t acked;
    uint64_t failed;
    bool is_reading; /* e2e: the consumer is at every end: what is sent now is read */
    /* the consumer's */
    uint64_t received;
    int32_t partition_first;
    int32_t partitions;
    int32_t reached; /* of them: fetch has been at the end, e2e knows where it is */
    bool *is_reached;
    bool is_assigned;
    /* of the side that counts: the consumer's, but for produce; the times too */
    uint64_t bytes;
};

/* ---- telling ---- */

/* By the side that has the times. */
static void progress(struct side *side, uint64_t done, uint64_t now_ns)
{
    const struct bench *bench = side->bench;
    if (side->began_ns == 0 || now_ns < side->told_ns + PROGRESS_NS) { return; }
    side->told_ns = now_ns;
    double seconds = (double)(now_ns - side->began_ns) / 1e9;
    fprintf(stderr, "%.0f s: %llu records, %.0f records/s, p99 %.3f ms\n", seconds, (unsigned long long)done,
            seconds > 0 ? (double)done / seconds : 0.0, (double)bench_times_at(&bench->times, 990) / 1e6);
}

/* The sides of e2e run on a thread each: what one wants of the other is a message. */
enum message { MESSAGE_FINISH = 1, MESSAGE_READING };

static void tell_other(const struct app_command *command, enum message kind, int code)
{
    const struct bench *bench = ((const struct side *)command->own)->bench;
    if (bench->mode != MODE_E2E) { return; }
    struct port_message message = {.kind = (uint32_t)kind, .words = {(uint64_t)(unsigned)code}};
    host_post(command->host, command == &bench->producer.command ? 1 : 0, &message);
}

static void finish_all(struct app_command *command, int code)
{
    app_finish(command, code);
    tell_other(command, MESSAGE_FINISH, code);
}

static void on_message(struct app_command *command, const struct port_message *message)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    switch ((enum message)message->kind) {
    case MESSAGE_FINISH: app_finish(command, (int)message->words[0]); return;
    case MESSAGE_READING: bench->is_reading = true; return;
    }
}

/* ---- producing ---- */

static void begin_side(struct side *side, uint64_t now_ns)
{
    if (side->began_ns != 0) { return; }
    side->began_ns = now_ns;
    side->told_ns = now_ns;
}

/* False: no room now. */
static bool send_one(struct bench *bench, struct app_command *command, uint64_t due_ns)
{
    size_t size_bytes = (size_t)bench->size_bytes;
    size_t span_bytes = POOL_BYTES - size_bytes % POOL_BYTES;
    const uint8_t *value = bench->pool + bench->sent * 8191 % span_bytes;
    if (bench->mode == MODE_E2E) {
        base_put_u64(bench->stamped, due_ns ^ bench->veil);
        value = bench->stamped;
    }
    struct client_record record = {.token = bench->sent,
                                   .topic = base_slice_text(bench->topic),
                                   .partition = (int32_t)bench->partition,
                                   .timestamp_ms = command->wall_ms,
                                   .key = rec_null(),
                                   .value = rec_value_of(base_slice_of(value, size_bytes))};
    enum base_rc rc = client_produce(command->client, &record);
    if (rc == BASE_FULL) { return false; }
    if (rc == BASE_BAD) {
        finish_all(command,
                   app_error("MESSAGE_TOO_LARGE", "a record of %lld bytes is too large, or the topic's name is bad",
                             (long long)bench->size_bytes));
        return false;
    }
    bench->sent_ns[bench->sent % RECORDS_MAX] = due_ns;
    bench->sent += 1;
    return true;
}

static void send_due(struct bench *bench, struct app_command *command)
{
    if (bench->mode == MODE_E2E && !bench->is_reading) { return; }
    begin_side(&bench->producer, command->now_ns);
    uint64_t records = (uint64_t)bench->records;
    for (uint32_t i = 0; i < SENDS_A_STEP && bench->sent < records; i++) {
        uint64_t due_ns = command->now_ns;
        if (bench->rate > 0) { due_ns = bench_due_ns(bench->producer.began_ns, bench->sent, (uint64_t)bench->rate); }
        if (due_ns > command->now_ns) {
            command->alarm_ns = due_ns;
            return;
        }
        if (!send_one(bench, command, due_ns)) { return; }
    }
    if (bench->sent < records) {
        command->alarm_ns = command->now_ns; /* there is more: after what is ready */
        return;
    }
    client_flush(command->client);
}

static void producer_after(struct app_command *command)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    send_due(bench, command);
    if (bench->mode == MODE_PRODUCE) { progress(&bench->producer, bench->acked, command->now_ns); }
    if (bench->mode == MODE_PRODUCE && bench->acked + bench->failed == (uint64_t)bench->records) {
        bench->producer.ended_ns = command->now_ns;
        finish_all(command, bench->failed > 0 ? APP_FAILED : APP_DONE);
    }
}

static void producer_result(struct app_command *command, const struct client_result *result)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    if (result->kind != CLIENT_PRODUCED) { return; }
    if (result->outcome != CLIENT_ACKED) {
        bench->failed += 1;
        if (bench->failed == 1) {
            (void)app_error(kafka_error_name(result->error), "record %llu was not acknowledged; more are only counted",
                            (unsigned long long)result->token); /* the count says it again */
        }
        if (bench->mode == MODE_E2E) { finish_all(command, APP_FAILED); }
        return;
    }
    bench->acked += 1;
    if (bench->mode != MODE_PRODUCE) { return; }
    bench->bytes += (uint64_t)bench->size_bytes;
    uint64_t sent_ns = bench->sent_ns[result->token % RECORDS_MAX];
    bench_times_add(&bench->times, command->now_ns - base_min_u64(sent_ns, command->now_ns));
}

/* ---- fetching ---- */

static void assign_all(struct bench *bench, struct app_command *command)
{
    struct client_topic_view view;
    client_topic_view(command->client, base_slice_text(bench->topic), &view);
    if (view.state == CLIENT_TOPIC_FAILED) {
        finish_all(command, app_error(kafka_error_name(view.error), "topic '%s'", bench->topic));
        return;
    }
    if (view.state != CLIENT_TOPIC_KNOWN) { return; }
    int32_t first = bench->partition < 0 ? 0 : (int32_t)bench->partition;
    int32_t end = bench->partition < 0 ? view.partition_count : first + 1;
    for (int32_t partition = first; partition < end; partition++) {
        struct client_assignment assignment = {.token = 1,
                                               .topic = base_slice_text(bench->topic),
                                               .partition = partition,
                                               .start =
                                                   bench->mode == MODE_E2E ? CLIENT_FROM_END : CLIENT_FROM_BEGINNING,
                                               .reset = CLIENT_RESET_BEGINNING};
        if (client_assign(command->client, &assignment) != BASE_OK) {
            finish_all(command, app_error(NULL, "too many partitions"));
            return;
        }
    }
    bench->partition_first = first;
    bench->partitions = end - first;
    bench->is_reached = app_keep((size_t)bench->partitions * sizeof(bool));
    if (bench->is_reached == NULL) {
        finish_all(command, app_error(NULL, "no memory"));
        return;
    }
    bench->is_assigned = true;
    if (bench->mode != MODE_E2E) { begin_side(&bench->consumer, command->now_ns); }
}

static void consumer_after(struct app_command *command)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    if (!bench->is_assigned) { assign_all(bench, command); }
    progress(&bench->consumer, bench->received, command->now_ns);
    bool is_all = bench->received == (uint64_t)bench->records;
    if (bench->mode == MODE_FETCH && bench->is_assigned && bench->reached >= bench->partitions) { is_all = true; }
    if (!is_all) { return; }
    bench->consumer.ended_ns = command->now_ns;
    finish_all(command, APP_DONE);
}

/* Its end, or of e2e, which begins there, a record behind it: others may write so fast that the end is never met. */
static void reach(struct bench *bench, struct app_command *command, int32_t partition)
{
    bool *is_reached = &bench->is_reached[partition - bench->partition_first];
    if (*is_reached) { return; }
    *is_reached = true;
    bench->reached += 1;
    if (bench->mode == MODE_E2E && bench->reached == bench->partitions) {
        begin_side(&bench->consumer, command->now_ns);
        tell_other(command, MESSAGE_READING, APP_DONE);
    }
}

/* When it was due, of a record of this run; 0: somebody else's. */
static uint64_t due_of(const struct bench *bench, const struct app_command *command, struct base_slice value)
{
    if (value.size_bytes != (size_t)bench->size_bytes || bench->consumer.began_ns == 0) { return 0; }
    uint64_t due_ns = base_get_u64(value.at) ^ bench->veil;
    bool is_ours = due_ns + CLOCKS_NS >= bench->consumer.began_ns && due_ns <= command->now_ns + CLOCKS_NS;
    return is_ours ? due_ns : 0;
}

static void consumer_result(struct app_command *command, const struct client_result *result)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    if (result->kind == CLIENT_FAILED) {
        finish_all(command, app_error(kafka_error_name(result->error), "topic '%s' partition %d", bench->topic,
                                      (int)result->partition));
        return;
    }
    if (result->kind == CLIENT_AT_END) {
        reach(bench, command, result->partition);
        return;
    }
    if (result->kind != CLIENT_RECORD || bench->received == (uint64_t)bench->records) { return; }
    struct base_slice value = result->record.value.bytes;
    if (bench->mode == MODE_E2E) {
        reach(bench, command, result->partition);
        uint64_t due_ns = due_of(bench, command, value);
        if (due_ns == 0) { return; }
        bench_times_add(&bench->times, command->now_ns - base_min_u64(due_ns, command->now_ns));
    }
    bench->received += 1;
    bench->bytes += value.size_bytes;
}

static void consumer_begin(struct app_command *command)
{
    struct bench *bench = ((struct side *)command->own)->bench;
    if (client_want_topic(command->client, base_slice_text(bench->topic)) != BASE_OK) {
        finish_all(command, app_error(NULL, "the topic's name is bad"));
    }
}

static void stop(struct app_command *command)
{
    struct side *side = command->own;
    if (side->ended_ns == 0) { side->ended_ns = command->now_ns; }
    finish_all(command, APP_FAILED);
}

static const struct app_command_parts producer_parts = {.message = on_message,
                                                        .result = producer_result,
                                                        .after = producer_after,
                                                        .stop = stop};
static const struct app_command_parts consumer_parts = {
    .begin = consumer_begin, .message = on_message, .result = consumer_result, .after = consumer_after, .stop = stop};

/* ---- arguments ---- */

static int read_arguments(struct app_args *args, struct bench *bench)
{
    struct app_command *command = &bench->producer.command;
    const char *value = NULL;
    bool is_good = true;
    while (args->at < args->argc && !args->is_bad && is_good) {
        if (app_take_common(args, command)) { continue; }
        if (app_take_option(args, "--topic", &bench->topic)) { continue; }
        if (app_take_option(args, "--records", &value)) {
            is_good = app_number("bench", "--records", value, 1, INT64_MAX / 2, &bench->records);
        } else if (app_take_option(args, "--size", &value)) {
            is_good = app_number("bench", "--size", value, 0, POOL_BYTES / 2, &bench->size_bytes);
        } else if (app_take_option(args, "--rate", &value)) {
            is_good = app_number("bench", "--rate", value, 0, 100000000, &bench->rate);
        } else if (app_take_option(args, "--partition", &value)) {
            is_good = app_number("bench", "--partition", value, 0, INT32_MAX, &bench->partition);
        } else if (app_take_option(args, "--batch", &value)) {
            is_good = app_number("bench", "--batch", value, 1, 64 << 20, &bench->batch_bytes);
        } else if (app_take_option(args, "--linger", &value)) {
            is_good = app_number("bench", "--linger", value, 0, 60000, &bench->linger_ms);
        } else if (app_take_option(args, "--acks", &value)) {
            is_good = app_acks("bench", value, &command->config);
        } else if (app_take_option(args, "--compression", &value)) {
            is_good = app_compression("bench", value, &command->config);
        } else {
            app_refuse(args);
        }
    }
    if (args->is_bad || !is_good) { return APP_USAGE; }
    if (bench->topic[0] == '\0' || strlen(bench->topic) > CLIENT_TOPIC_NAME_MAX) {
        return app_usage("bench", "the topic's name is empty or too long");
    }
    if (bench->mode == MODE_E2E && bench->size_bytes < STAMP_BYTES) {
        return app_usage("bench", "--size is %lld: e2e needs %d bytes for the time", (long long)bench->size_bytes,
                         STAMP_BYTES);
    }
    return APP_DONE;
}

static void configure(struct bench *bench)
{
    struct client_config *config = &bench->producer.command.config;
    config->is_auto_create = true;
    config->batch_bytes = (uint32_t)bench->batch_bytes;
    config->record_bytes_max = (uint32_t)base_max_u64(config->record_bytes_max, (uint64_t)bench->batch_bytes);
    config->records_max = RECORDS_MAX;
    config->linger_ms = (uint64_t)bench->linger_ms;
    config->delivery_timeout_ms = 60000;
    if (config->acks != CLIENT_ACKS_ALL) { config->idempotence = CLIENT_NOT_IDEMPOTENT; }
    struct app_command *consumer = &bench->consumer.command;
    consumer->config.is_auto_create = true;
    consumer->bootstrap = bench->producer.command.bootstrap;
    consumer->is_json = bench->producer.command.is_json;
}

static int say(const struct bench *bench, int code)
{
    const struct side *side = bench->mode == MODE_PRODUCE ? &bench->producer : &bench->consumer;
    uint64_t ended_ns = base_max_u64(side->ended_ns, side->began_ns);
    struct bench_sum sum = {.records = bench->mode == MODE_PRODUCE ? bench->acked : bench->received,
                            .failed = bench->failed,
                            .bytes = bench->bytes,
                            .seconds = (double)(ended_ns - side->began_ns) / 1e9};
    switch (bench->mode) {
    case MODE_PRODUCE:
        sum.what = "produce";
        sum.times = &bench->times;
        sum.times_are = bench->rate > 0 ? "from the intended send to the acknowledgement"
                                        : "from the client taking a record to its acknowledgement";
        break;
    case MODE_FETCH: sum.what = "fetch"; break;
    case MODE_E2E:
        sum.what = "e2e";
        sum.times = &bench->times;
        sum.times_are =
            bench->rate > 0 ? "from the intended send to the consumer" : "from the producer to the consumer";
        break;
    }
    if (side->began_ns > 0) { bench_print(&sum, bench->producer.command.is_json); }
    return code;
}

static int run(struct bench *bench)
{
    struct app_command *both[2] = {&bench->producer.command, &bench->consumer.command};
    switch (bench->mode) {
    case MODE_PRODUCE: return app_commands_run(&both[0], 1);
    case MODE_FETCH: return app_commands_run(&both[1], 1);
    case MODE_E2E: return app_commands_run(both, 2);
    }
    UNREACHABLE();
}

int app_bench(struct app_args *args)
{
    const char *word = NULL;
    bool is_replay = args->at < args->argc && strcmp(args->argv[args->at], "replay") == 0;
    if (!is_replay && app_is_help(args->argc, args->argv)) {
        printf("%s", usage);
        return APP_DONE;
    }
    if (!app_take_word(args, &word)) { return app_usage("bench", "which one: produce, fetch, e2e or replay?"); }
    if (is_replay) { return bench_replay(args); }
    struct bench *bench = app_keep(sizeof *bench);
    if (bench == NULL) { return app_error(NULL, "no memory"); }
    *bench =
        (struct bench){.topic = "bench", .records = 1000000, .size_bytes = 100, .partition = -1, .batch_bytes = 262144};
    if (strcmp(word, "produce") == 0) {
        bench->mode = MODE_PRODUCE;
    } else if (strcmp(word, "fetch") == 0) {
        bench->mode = MODE_FETCH;
        bench->records = INT64_MAX / 2; /* as many as there are */
    } else if (strcmp(word, "e2e") == 0) {
        bench->mode = MODE_E2E;
        bench->rate = 1000;
        bench->records = 10000;
    } else {
        return app_usage("bench", "there is no '%s': produce, fetch, e2e or replay", word);
    }
    bench->producer.bench = bench;
    bench->consumer.bench = bench;
    app_command_init(&bench->producer.command, "bench", &producer_parts, &bench->producer);
    app_command_init(&bench->consumer.command, "bench", &consumer_parts, &bench->consumer);
    int code = read_arguments(args, bench);
    if (code != APP_DONE) { return code; }
    app_random(&bench->veil, sizeof bench->veil);
    configure(bench);
    bench->pool = app_keep(2 * POOL_BYTES);
    bench->stamped = app_keep(POOL_BYTES);
    bench->sent_ns = app_keep(RECORDS_MAX * sizeof *bench->sent_ns);
    if (bench->pool == NULL || bench->stamped == NULL || bench->sent_ns == NULL) {
        return app_error(NULL, "no memory");
    }
    struct base_prng dice;
    base_prng_init(&dice, 1, 0);
    base_prng_fill(&dice, bench->pool, 2 * POOL_BYTES);
    for (size_t i = 0; i < 2 * POOL_BYTES; i++) {
        bench->pool[i] = (uint8_t)('a' + bench->pool[i] % 16);
    } /* half of it is news */
    return say(bench, run(bench));
}
