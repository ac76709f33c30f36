/* test_broker_full.c: a node whose journal or disk is full waits without turning round and round, and ends when it is told to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "broker/broker__node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "record/record.h"
#include "shard.h"

#define RUN_BYTES ((size_t)32 << 10)

/* Of the words of a message, as broker__message.h and broker__back.c have them. */
#define WORD_RUN_TOKEN  9  /* MSG_JOURNAL */
#define WORD_IS_SUSPECT 12 /* MSG_SERVE: logs that the metadata does not know stay */

static struct shard *given_a_first_shard(void)
{
    struct shard *shard = shard_make(0);
    shard_start(shard);
    assert_true(shard->is_ready);
    return shard;
}

/* A back that serves. */
static struct shard *given_another_shard(void)
{
    struct shard *shard = shard_make(1);
    shard_start(shard);
    shard_tell_word(shard, MSG_RECOVERY_END, 0, 0);
    assert_int_equal(shard_told(shard, MSG_RECOVERED), 1);
    return shard;
}

/* A record for a log of that back, which keeps records for so long. It is written, and the journal is asked to keep it. */
static void append_to(struct shard *shard, uint8_t *memory, size_t size_bytes, int64_t retention_ms)
{
    struct broker *broker = shard->broker;
    struct plog_log_config config = {.segment_bytes = 1 << 20,
                                     .segment_ms = UINT64_MAX,
                                     .index_interval_bytes = 4096,
                                     .index_bytes_max = 1 << 20,
                                     .retention_ms = retention_ms,
                                     .retention_bytes = -1,
                                     .flush_messages = UINT64_MAX,
                                     .flush_ms = UINT64_MAX};
    struct base_part part = {.topic = {{7}}, .index = 0};
    struct plog_ref ref;
    assert_int_equal(plog_open(broker->plog, part, base_slice_text("topic"), &config, 0, &ref), BASE_OK);
    struct rec_build build;
    assert_int_equal(rec_build_init(&build, memory, size_bytes, rec_build_plain()), BASE_OK);
    assert_int_equal(rec_build_add(&build, 1000, rec_null(), rec_value_of(base_slice_text("value")), NULL, 0), BASE_OK);
    struct base_slice batch = rec_build_end(&build);
    uint32_t op = back_take_op(broker, BACK_APPEND, (struct asker){.shard = 0});
    struct plog_append ask = {.token = (uint64_t)op + 1, .batches = memory, .size_bytes = (uint32_t)batch.size_bytes};
    port_out_begin(&shard->out);
    assert_int_equal(plog_append(broker->plog, ref, &ask, &shard->out), BASE_OK);
    shard->wants_turn = true;
    shard_run(shard);
}

static void append(struct shard *shard, uint8_t *memory, size_t size_bytes)
{
    append_to(shard, memory, size_bytes, -1);
}

/* Else the journal would wait for the states, and what is to be appended for the journal. */
static void a_shard_that_drains_gives_its_states_at_once_when_the_journal_is_full(void **state)
{
    (void)state;
    struct shard *shard = given_another_shard();
    uint8_t memory[256];
    append(shard, memory, sizeof memory);
    const struct port_message *run = shard_told_last(shard, MSG_JOURNAL);
    assert_non_null(run); /* there is no room for it: it is not answered */
    shard_tell_word(shard, MSG_DRAIN, 0, 0);
    shard_tell_word(shard, MSG_CHECKPOINT, 0, 0);
    assert_int_equal(shard_told(shard, MSG_STATES_END), 0); /* what is under way comes first */
    shard_tell_word(shard, MSG_HOLD, HOLD_WAIT, 1);
    assert_int_equal(shard_told(shard, MSG_STATES_END), 1);
    shard_tell_word(shard, MSG_JOURNALLED, run->words[WORD_RUN_TOKEN], PORT_OK); /* the checkpoint has made room */
    assert_int_equal(shard_told(shard, MSG_APPENDED), 1);
    shard_free(shard);
}

static void journal_has_the_last(struct shard *shard)
{
    shard_tell_word(shard, MSG_JOURNALLED, shard_told_last(shard, MSG_JOURNAL)->words[WORD_RUN_TOKEN], PORT_OK);
}

#define ENTRIES_OF_A_RECORD 2 /* a segment was begun; what is written in it */

static struct shard *given_a_back_with_a_record_that_is_too_old(uint8_t *memory, size_t size_bytes)
{
    struct shard *shard = given_another_shard();
    append_to(shard, memory, size_bytes, 1);
    journal_has_the_last(shard);
    assert_int_equal(shard_told(shard, MSG_APPENDED), 1);
    struct port_message serve = {.kind = MSG_SERVE, .words = {[WORD_IS_SUSPECT] = 1}};
    shard_tell(shard, &serve);
    assert_int_equal(shard_told(shard, MSG_SERVING), 1);
    assert_int_equal(shard_told(shard, MSG_JOURNAL), ENTRIES_OF_A_RECORD);
    return shard;
}

static void wait_for_retention(struct shard *shard)
{
    uint64_t end_ns = shard->now_ns + UINT64_C(301000000000); /* its interval, and more */
    while (shard->now_ns < end_ns) { shard_wait(shard, base_min_u64(shard->alarm_ns, end_ns)); }
}

static void what_is_too_old_goes_while_a_node_serves(void **state)
{
    (void)state;
    uint8_t memory[256];
    struct shard *shard = given_a_back_with_a_record_that_is_too_old(memory, sizeof memory);
    wait_for_retention(shard);
    assert_int_equal(shard_told(shard, MSG_JOURNAL), ENTRIES_OF_A_RECORD + 1);
    shard_free(shard);
}

/* Else its entry may come after the last checkpoint, and the next start would call the stop unclean. */
static void what_is_too_old_stays_once_a_node_stops(void **state)
{
    (void)state;
    uint8_t memory[256];
    struct shard *shard = given_a_back_with_a_record_that_is_too_old(memory, sizeof memory);
    shard_tell_word(shard, MSG_DRAIN, 0, 0);
    shard_tell_word(shard, MSG_CHECKPOINT, 0, 0);
    assert_int_equal(shard_told(shard, MSG_STATES_END), 1);
    wait_for_retention(shard);
    assert_int_equal(shard_told(shard, MSG_JOURNAL), ENTRIES_OF_A_RECORD);
    shard_tell_word(shard, MSG_CLOSE, 0, 0);
    assert_int_equal(shard_told(shard, MSG_CLOSED), 1);
    shard_free(shard);
}

/* The other shard asks for its run of that number to be kept. */
static void ask_the_journal(struct shard *shard, int number)
{
    static const uint8_t bytes[RUN_BYTES];
    static const struct port_piece piece = {.kind = PORT_MEMORY, .at = bytes, .size_bytes = sizeof bytes};
    struct plog_run run = {.id = {.topic = {{7}}, .index = 0},
                           .position_bytes = (uint64_t)number * piece.size_bytes,
                           .offset_base = number,
                           .offset_end = number + 1,
                           .size_bytes = piece.size_bytes};
    struct port_message message = {.kind = MSG_JOURNAL};
    put_run(&message, &run);
    message.words[WORD_RUN_TOKEN] = (uint64_t)number + 1;
    message.words[10] = 1;
    message.lent = (void *)(uintptr_t)&piece;
    message.lent_bytes = piece.size_bytes;
    shard_tell(shard, &message);
}

/* The other shard asks for so much to be kept that shards are told to wait. */
static void fill_the_journal(struct shard *shard)
{
    for (int i = 0; i < 64; i++) {
        ask_the_journal(shard, i);
        const struct port_message *hold = shard_told_last(shard, MSG_HOLD);
        if (hold != NULL && hold->words[0] == HOLD_WAIT) { return; }
    }
    fail_msg("the journal is not full");
}

static bool is_told_full(const struct shard *shard)
{
    const struct port_message *hold = shard_told_last(shard, MSG_HOLD);
    return hold != NULL && hold->words[0] == HOLD_WAIT && hold->words[1] == 1;
}

static struct shard *given_a_full_journal(void)
{
    struct shard *shard = given_a_first_shard();
    fill_the_journal(shard);
    assert_int_equal(shard_told(shard, MSG_CHECKPOINT),
                     1); /* at half of it; the other shard has not given its states yet */
    return shard;
}

/* It says so to the shards, which give their states then, whatever waits for its room. */
static void a_node_that_stops_with_a_full_journal_ends(void **state)
{
    (void)state;
    struct shard *shard = given_a_full_journal();
    assert_true(is_told_full(shard));
    shard_stop(shard);
    shard_tell_word(shard, MSG_STATES_END, 0, 0);
    assert_false(is_told_full(shard));
    assert_int_equal(shard_told(shard, MSG_CHECKPOINT), 2); /* of what came after the first one had begun */
    shard_tell_word(shard, MSG_STATES_END, 0, 0);
    assert_true(shard->is_stopped);
    shard_free(shard);
}

/* What waited for room comes once there is some: a checkpoint that began before may not be the last one. */
static void a_stop_ends_with_a_checkpoint_that_began_when_the_journal_had_room(void **state)
{
    (void)state;
    struct shard *shard = given_a_full_journal();
    shard->failing_suffix = "weir-journal/checkpoint-b.wj";
    shard_tell_word(shard, MSG_STATES_END, 0, 0); /* it comes to nothing */
    shard->failing_suffix = NULL;
    assert_true(is_told_full(shard));
    shard_stop(shard);
    assert_int_equal(shard_told(shard, MSG_CHECKPOINT), 2);
    shard_tell_word(shard, MSG_STATES_END, 0, 0);
    assert_false(is_told_full(shard));
    assert_int_equal(shard_told(shard, MSG_CHECKPOINT), 3);
    shard_tell_word(shard, MSG_STATES_END, 0, 0);
    assert_true(shard->is_stopped);
    shard_free(shard);
}

/* The first file of the journal is full, or the first two, and the disk has no room for another: how many runs were asked for. */
static int fill_the_disk(struct shard *shard, int files)
{
    int asked = 0;
    do {
        /* The file after the one that is written is made when that is half full. */
        shard->is_full = shard_told(shard, MSG_JOURNALLED) >= (uint32_t)(files - 1) * 3;
        ask_the_journal(shard, asked);
        asked += 1;
        assert_true(asked < 16);
    } while (shard_told(shard, MSG_JOURNALLED) == (uint32_t)asked);
    return asked;
}

static bool is_told_to_make_room(const struct shard *shard)
{
    const struct port_message *hold = shard_told_last(shard, MSG_HOLD);
    return hold != NULL && hold->words[0] == HOLD_REFUSE && hold->words[1] == 1;
}

/* The states are wanted for the checkpoint that frees a file of the journal: no back may wait with them until its appends are done. */
static void a_stop_on_a_full_disk_asks_for_the_states_that_free_a_file_of_the_journal(void **state)
{
    (void)state;
    struct shard *shard = given_a_first_shard();
    shard->is_slow_to_drain = true;
    uint32_t asked = (uint32_t)fill_the_disk(shard, 2);
    shard_stop(shard);
    assert_true(is_told_to_make_room(shard));
    assert_int_equal(shard_told(shard, MSG_CHECKPOINT), 1);
    shard_tell_word(shard, MSG_STATES_END, 0, 0);
    assert_int_equal(shard_told(shard, MSG_JOURNALLED), asked);
    assert_int_equal(shard_told_last(shard, MSG_JOURNALLED)->words[1], PORT_OK);
    shard_tell_word(shard, MSG_DRAINED, 0, 0);
    while (!shard->is_stopped) { shard_tell_word(shard, MSG_STATES_END, 0, 0); }
    shard_free(shard);
}

/* Without one the appends that wait would keep their requests open, and the node with them. */
static void a_stop_on_a_full_disk_waits_for_room_until_its_time_is_over(void **state)
{
    (void)state;
    struct shard *shard = given_a_first_shard();
    shard->is_slow_to_drain = true;
    uint32_t asked = (uint32_t)fill_the_disk(shard, 1);
    shard_stop(shard);
    shard_tell_word(shard, MSG_STATES_END, 0, 0); /* the checkpoint frees no file: all is in the one that is written */
    assert_int_equal(shard_told(shard, MSG_JOURNALLED), asked - 1);
    while (shard->alarm_ns <= UINT64_C(11000000000)) { shard_wait(shard, shard->alarm_ns); }
    assert_int_equal(shard_told(shard, MSG_JOURNALLED), asked);
    assert_int_equal(shard_told_last(shard, MSG_JOURNALLED)->words[1], PORT_NO_SPACE);
    shard_tell_word(shard, MSG_DRAINED, 0, 0);
    assert_true(shard->is_stopped);
    shard_free(shard);
}

static void who_has_a_file_that_rests_closes_it_for_the_journal(void **state)
{
    (void)state;
    struct shard *shard = given_another_shard();
    uint8_t memory[256];
    append(shard, memory, sizeof memory);
    journal_has_the_last(shard);
    shard_tell_word(shard, MSG_GIVE_HANDLE, 0, 0);
    assert_int_equal(shard_told(shard, MSG_HANDLE_COMES), 1);
    shard_tell_word(shard, MSG_GIVE_HANDLE, 0, 0);
    assert_int_equal(shard_told(shard, MSG_HANDLE_COMES), 1); /* there is no other */
    shard_free(shard);
}

static void a_journal_without_a_handle_asks_every_shard_for_one_and_goes_on_when_it_comes(void **state)
{
    (void)state;
    struct shard *shard = given_a_first_shard();
    shard->is_out_of_handles = true;
    uint32_t asked = 0;
    while (shard_told(shard, MSG_JOURNALLED) == asked) {
        ask_the_journal(shard, (int)asked);
        asked += 1;
        assert_true(asked < 16);
    }
    assert_true(shard_told(shard, MSG_GIVE_HANDLE) > 0);
    shard->is_out_of_handles = false;
    shard_tell_word(shard, MSG_HANDLE_COMES, 0, 0);
    shard_wait(shard, shard->now_ns + 1000000);
    assert_int_equal(shard_told(shard, MSG_JOURNALLED), asked);
    assert_int_equal(shard_told_last(shard, MSG_JOURNALLED)->words[1], PORT_OK);
    shard_free(shard);
}

static void allow_few_entries(struct broker_config *config) { config->few.journal_entries = 4; }

/* Backs that are closed at once, since the start can't go on, have not waited for the journal. */
static void what_waits_before_the_journal_of_a_node_that_gives_up_is_nobodys(void **state)
{
    (void)state;
    struct shard *shard = shard_make_told(0, allow_few_entries);
    shard_start(shard);
    shard->is_out_of_handles = true;
    for (int asked = 0; ring_count(&shard->broker->journal_waiting) == 0; asked++) {
        assert_true(asked < 32);
        ask_the_journal(shard, asked);
    }
    shard->broker->is_giving_up = true;
    shard->broker->answers_due = 1;
    shard_tell_word(shard, MSG_CLOSED, 0, 0);
    assert_true(shard->is_stopped);
    shard_free(shard);
}

/* An alarm that is over rings again and again, and nothing else happens. */
static void a_change_that_is_to_be_written_again_sets_no_alarm_while_it_waits_for_the_journal(void **state)
{
    (void)state;
    struct shard *shard = shard_make(0);
    shard->failing_suffix = "__cluster_metadata-0/00000000000000000000.log";
    shard_start(shard); /* the node can't be registered: that is tried again a little later */
    uint64_t again_ns = shard->alarm_ns;
    assert_true(again_ns > shard->now_ns && again_ns < shard->now_ns + UINT64_C(1000000000));
    shard_tell_word(shard, MSG_HOLD, HOLD_WAIT, 1);
    shard_wait(shard, again_ns + 1);
    assert_true(shard->alarm_ns > shard->now_ns);
    assert_false(shard->is_ready);
    shard->failing_suffix = NULL;
    shard_tell_word(shard, MSG_HOLD, HOLD_NOT, 0);
    assert_true(shard->is_ready);
    shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_that_drains_gives_its_states_at_once_when_the_journal_is_full),
        cmocka_unit_test(what_is_too_old_goes_while_a_node_serves),
        cmocka_unit_test(what_is_too_old_stays_once_a_node_stops),
        cmocka_unit_test(a_node_that_stops_with_a_full_journal_ends),
        cmocka_unit_test(a_stop_ends_with_a_checkpoint_that_began_when_the_journal_had_room),
        cmocka_unit_test(a_stop_on_a_full_disk_asks_for_the_states_that_free_a_file_of_the_journal),
        cmocka_unit_test(a_stop_on_a_full_disk_waits_for_room_until_its_time_is_over),
        cmocka_unit_test(who_has_a_file_that_rests_closes_it_for_the_journal),
        cmocka_unit_test(a_journal_without_a_handle_asks_every_shard_for_one_and_goes_on_when_it_comes),
        cmocka_unit_test(what_waits_before_the_journal_of_a_node_that_gives_up_is_nobodys),
        cmocka_unit_test(a_change_that_is_to_be_written_again_sets_no_alarm_while_it_waits_for_the_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
