/* test_group_offsets.c: offsets: who may commit, what is fetched, what expires and when; and the log they lie in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY_MS INT64_C(86400000)

static struct who simple(const char *group) { return (struct who){.group = group, .generation = -1}; }

/* ---- committing ---------------------------------------------------------------------------------------------------------- */

static void a_member_commits_in_its_generation_and_nobody_else_does(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    assert_int_equal(commit_error(commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 42)),
                     KAFKA_ERROR_NONE);
    assert_int_equal(fetched("g", "t", 0), 42);
    assert_int_equal(commit_error(commit((struct who){.member = ids[0], .generation = 0}, "t", 0, 7)),
                     KAFKA_ERROR_ILLEGAL_GENERATION);
    assert_int_equal(commit_error(commit((struct who){.member = "m", .generation = 1}, "t", 0, 7)),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(commit_error(commit(simple("g"), "t", 0, 7)), KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(commit_error(commit((struct who){.member = ids[0], .instance = "i", .generation = 1}, "t", 0, 7)),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(commit_error(commit((struct who){.group = "none", .member = "m", .generation = 1}, "t", 0, 7)),
                     KAFKA_ERROR_ILLEGAL_GENERATION);
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 7)),
                     KAFKA_ERROR_UNKNOWN_MEMBER_ID);
    assert_int_equal(commit_error(commit((struct who){.member = ids[1], .generation = 1}, "t", 0, 43)),
                     KAFKA_ERROR_NONE);
    assert_int_equal(fetched("g", "t", 0), 43); /* while the others join anew, too */
}

static void between_the_generation_and_the_assignment_nobody_commits(void **state)
{
    (void)state;
    open_desk();
    uint32_t token;
    const char *id = id_of_new((struct who){.group = "g"}, &token);
    pass_ms(1000);
    assert_int_equal(commit_error(commit((struct who){.member = id, .generation = 1}, "t", 0, 7)),
                     KAFKA_ERROR_REBALANCE_IN_PROGRESS);
    assert_int_equal(fetched("g", "t", 0), -1);
}

static void a_consumer_that_assigns_by_itself_commits_without_a_group(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_error(commit(simple("s"), "t", 1, 5)), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit(simple(""), "t", 1, 6)),
                     KAFKA_ERROR_NONE); /* even without a name, as of old */
    assert_int_equal(fetched("s", "t", 1), 5);
    assert_int_equal(fetched("", "t", 1), 6);
    assert_string_equal(state_of("s"), "Empty");
    assert_string_equal(text_of(described("s", 5)->protocol_type), "");
    restart();
    assert_int_equal(fetched("s", "t", 1), 5);
}

static void what_is_not_there_can_not_be_committed_to(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_error(commit(simple("s"), "nope", 0, 5)), KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(commit_error(commit(simple("s"), "t", 4, 5)), KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(desk.records, 0);
    assert_string_equal(state_of("s"), "Dead");
}

static const struct kafka_offset_commit_response *commit_many(const char *group, int32_t partitions,
                                                              struct kafka_text metadata, int64_t retention_ms)
{
    static struct kafka_offset_commit_request request;
    static struct kafka_offset_commit_request_offset_commit_request_topic topic;
    static struct kafka_offset_commit_request_offset_commit_request_partition lines[64];
    kafka_offset_commit_request_init(&request);
    kafka_offset_commit_request_offset_commit_request_topic_init(&topic);
    request.group_id = kafka_text_words(group);
    request.generation_id_or_member_epoch = -1;
    request.retention_time_ms = retention_ms;
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = kafka_text_words("t");
    topic.partitions = lines;
    topic.partitions_count = partitions;
    for (int32_t i = 0; i < partitions; i++) {
        kafka_offset_commit_request_offset_commit_request_partition_init(&lines[i]);
        lines[i].partition_index = i;
        lines[i].committed_offset = 100 + i;
        lines[i].committed_metadata = metadata;
    }
    return answer_of(ask(GROUP_COMMIT, 4, group, &request));
}

/* A fetch of all that the group has. */
static const struct kafka_offset_fetch_response_offset_fetch_response_group *fetched_all(const char *group)
{
    static struct kafka_offset_fetch_request_offset_fetch_request_group all;
    kafka_offset_fetch_request_offset_fetch_request_group_init(&all);
    all.topics_count = -1;
    return answer_of(ask(GROUP_FETCH, 8, group, &all));
}

static void words_beside_an_offset_are_kept_up_to_their_limit(void **state)
{
    (void)state;
    desk.config.offset_metadata_max = 8;
    open_desk();
    assert_int_equal(commit_many("s", 4, kafka_text_words("12345678"), -1)->topics[0].partitions[3].error_code,
                     KAFKA_ERROR_NONE);
    assert_int_equal(commit_many("s", 4, kafka_text_words("123456789"), -1)->topics[0].partitions[3].error_code,
                     KAFKA_ERROR_OFFSET_METADATA_TOO_LARGE);
    const struct kafka_offset_fetch_response_offset_fetch_response_group *answer = fetched_all("s");
    assert_int_equal(answer->topics_count, 1);
    assert_int_equal(answer->topics[0].partitions_count, 4);
    assert_int_equal(answer->topics[0].partitions[2].committed_offset, 102);
    assert_string_equal(text_of(answer->topics[0].partitions[2].metadata), "12345678");
}

static void expect_an_offset_of_epoch(const char *group, int32_t partition, int64_t offset, int32_t epoch)
{
    assert_int_equal(fetched_line(group, "t", partition)->committed_offset, offset);
    assert_int_equal(fetched_line(group, "t", partition)->committed_leader_epoch, epoch);
    const struct kafka_offset_fetch_response_offset_fetch_response_group *all = fetched_all(group);
    assert_int_equal(all->topics_count, 1);
    assert_string_equal(text_of(all->topics[0].name), "t");
    assert_int_equal(all->topics[0].partitions_count, 1);
    assert_int_equal(all->topics[0].partitions[0].partition_index, partition);
    assert_int_equal(all->topics[0].partitions[0].committed_offset, offset);
    assert_int_equal(all->topics[0].partitions[0].committed_leader_epoch, epoch);
}

/* By it a consumer that comes back finds out whether what it had read has been replaced. */
static void the_leader_epoch_of_what_was_read_last_is_kept_beside_its_offset(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_error(commit(simple("s"), "t", 2, 5)), KAFKA_ERROR_NONE); /* of epoch 3: see desk.c */
    assert_int_equal(commit_many("old", 1, kafka_text_null(), -1)->topics[0].partitions[0].error_code,
                     KAFKA_ERROR_NONE); /* its version knows no epochs */
    for (int life = 0; life < 3; life++) {
        expect_an_offset_of_epoch("s", 2, 5, 3);
        expect_an_offset_of_epoch("old", 0, 100, -1);
        assert_int_equal(fetched_line("s", "t", 1)->committed_leader_epoch, -1); /* nothing was committed there */
        if (life == 1) {
            for (uint32_t log = 0; log < desk.config.logs_count; log++) { begin_snapshot(log); }
        }
        restart();
    }
}

static void what_was_never_committed_is_fetched_as_nothing(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(fetched("s", "t", 0), -1);
    assert_int_equal(fetched("s", "nope", 0), -1);
    const struct kafka_offset_fetch_response_offset_fetch_response_group *answer = fetched_all("s");
    assert_int_equal(answer->topics_count, 0);
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
}

static void nothing_is_seen_before_it_is_committed_and_it_is_answered_only_then(void **state)
{
    (void)state;
    open_desk();
    (void)commit(simple("s"), "t", 0, 5);
    desk.is_holding = true;
    uint32_t token = commit(simple("s"), "t", 0, 6);
    assert_false(is_answered(token));
    assert_int_equal(fetched("s", "t", 0), 5);
    uint32_t later = commit(simple("s"), "t", 0, 7); /* it waits for the one before */
    assert_int_equal(held(), 1);
    land();
    assert_int_equal(commit_error(token), KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 0), 6);
    assert_false(is_answered(later));
    land();
    assert_int_equal(fetched("s", "t", 0), 7);
}

static void a_fetch_that_is_ordered_sees_what_was_asked_before_it(void **state)
{
    (void)state;
    open_desk();
    (void)commit(simple("s"), "t", 0, 5);
    desk.is_ordered = true;
    assert_int_equal(fetched("s", "t", 0), 5); /* nothing is on the way: it waits for nothing */
    desk.is_holding = true;
    (void)commit(simple("s"), "t", 0, 6);
    uint32_t first = fetch("s", "t", 0);
    assert_false(is_answered(first));
    (void)commit(simple("s"), "t", 0, 7); /* it waits for the one before */
    uint32_t second = fetch("s", "t", 0);
    land();
    assert_int_equal(fetched_by(first), 6);
    assert_false(is_answered(second)); /* 7 is decided, but has not landed */
    land();
    assert_int_equal(fetched_by(second), 7);
    assert_int_equal(held(), 0);
}

static void an_ordered_fetch_does_not_overtake_a_commit_that_waits_for_its_group(void **state)
{
    (void)state;
    open_desk();
    uint32_t joins;
    struct who member = {.member = id_of_new((struct who){.group = "g"}, &joins), .generation = 1};
    pass_ms(1000);
    assert_int_equal(joined(joins)->generation_id, 1);
    desk.is_ordered = true;
    hold_log_of("g");
    uint32_t synced = sync(member, NULL);
    uint32_t committed = commit(member, "t", 0, 9); /* only who has an assignment commits */
    uint32_t token = fetch("g", "t", 0);
    land(); /* the other group's */
    land(); /* the assignment */
    assert_string_equal(assigned(synced), "");
    assert_false(is_answered(token));
    land();
    assert_int_equal(commit_error(committed), KAFKA_ERROR_NONE);
    assert_int_equal(fetched_by(token), 9);
}

static void an_ordered_fetch_of_a_log_that_takes_nothing_is_told_to_come_again(void **state)
{
    (void)state;
    open_desk();
    desk.is_ordered = true;
    desk.is_holding = true;
    (void)commit(simple("s"), "t", 0, 6);
    uint32_t token = fetch("s", "t", 0);
    pass_ms(14000);
    assert_false(is_answered(token));
    pass_ms(2000);
    const struct kafka_offset_fetch_response_offset_fetch_response_group *answer = answer_of(token);
    assert_int_equal(answer->error_code, KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    land();
}

static void a_thousand_commits_that_wait_are_one_proposal(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    open_desk();
    desk.is_holding = true;
    uint32_t first = commit(simple("first"), "t", 0, 1);
    uint32_t tokens[1000];
    char name[16];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof name, "g%d", i);
        tokens[i] = commit(simple(name), "t", 0, i);
    }
    land();
    assert_true(is_answered(first));
    land();
    for (int i = 0; i < 1000; i++) { assert_int_equal(commit_error(tokens[i]), KAFKA_ERROR_NONE); }
    assert_int_equal(desk.proposals, 2);
}

static void after_a_log_has_failed_nobody_is_answered_as_if_it_had_not(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    uint32_t parked = join((struct who){.member = ids[0]});
    desk.is_holding = true;
    uint32_t token = commit((struct who){.member = ids[1], .generation = 1}, "t", 0, 6);
    uint32_t waiting = commit(simple("s"), "t", 0, 6);
    fail_log();
    assert_int_equal(commit_error(token), KAFKA_ERROR_NOT_COORDINATOR);
    assert_int_equal(commit_error(waiting), KAFKA_ERROR_NOT_COORDINATOR);
    assert_int_equal(join_error(parked), KAFKA_ERROR_NOT_COORDINATOR);
    assert_int_equal(heartbeat((struct who){.member = ids[1], .generation = 1}), KAFKA_ERROR_NOT_COORDINATOR);
}

static void without_room_a_commit_is_refused_and_nothing_of_it_is_done(void **state)
{
    (void)state;
    desk.config.offsets_max = 6;
    open_desk();
    assert_int_equal(commit_many("s", 4, kafka_text_null(), -1)->topics[0].partitions[0].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(commit_many("z", 4, kafka_text_null(), -1)->topics[0].partitions[0].error_code,
                     KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(fetched("z", "t", 0), -1);
    assert_int_equal(fetched("s", "t", 3), 103);
}

static void where_there_is_no_room_for_more_what_is_there_moves_on(void **state)
{
    (void)state;
    desk.config.offsets_max = 4;
    desk.config.groups_max = 1;
    open_desk();
    assert_int_equal(commit_many("s", 4, kafka_text_null(), -1)->topics[0].partitions[0].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit(simple("z"), "t", 0, 7)), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(commit_error(commit(simple("s"), "t", 3, 200)), KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 3), 200);
    assert_int_equal(join_error(join((struct who){.group = "y"})), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    struct group_view view;
    group_view(desk.groups, &view);
    assert_int_equal(view.refused[GROUP_LIMIT_GROUPS], 2);
    assert_int_equal(view.refused[GROUP_LIMIT_MEMBERS], 0);
}

/* ---- going -------------------------------------------------------------------------------------------------------------------- */

static void offsets_of_an_empty_group_expire_by_the_time_it_was_left(void **state)
{
    (void)state;
    desk.config.offsets_retention_ms = 2 * DAY_MS / 48; /* an hour */
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    (void)commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 9);
    for (int i = 0; i < 70; i++) { /* longer than the retention, in a stable group that reads nothing it says */
        for (int k = 0; k < 8; k++) {
            pass_ms(7500);
            assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_NONE);
        }
    }
    assert_int_equal(fetched("g", "t", 0), 9); /* its subscription can't be read: it may be reading t */
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    pass_ms(3000000);
    assert_int_equal(fetched("g", "t", 0), 9);
    pass_ms(1300000);
    assert_int_equal(fetched("g", "t", 0), -1);
    pass_ms(700000);
    assert_string_equal(state_of("g"), "Dead");
}

/* The check is due, and a commit has come, before the machine is asked for either. */
static void what_is_committed_while_a_check_is_due_stays(void **state)
{
    (void)state;
    desk.config.offsets_retention_ms = 3600000;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids); /* it keeps nothing */
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    (void)commit(simple("s"), "t", 0, 9); /* it will have expired at the seventh check */
    pass_ms(590000 - 1000);
    begin_snapshot(group_log_of(base_slice_text("g"), desk.config.logs_count)); /* now requests come before the check */
    desk.now_ns += UINT64_C(60000000000);
    desk.wall_ms += 60000;
    assert_int_equal(commit_error(commit(simple("g"), "t", 1, 8)), KAFKA_ERROR_NONE);
    assert_int_equal(fetched("g", "t", 1), 8);
    pass_ms(3540000);
    begin_snapshot(group_log_of(base_slice_text("s"), desk.config.logs_count));
    desk.now_ns += UINT64_C(60000000000);
    desk.wall_ms += 60000;
    assert_int_equal(commit_error(commit(simple("s"), "t", 0, 10)), KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 0), 10);
}

static void offsets_of_a_simple_consumer_expire_by_their_commit(void **state)
{
    (void)state;
    desk.config.offsets_retention_ms = 3600000;
    open_desk();
    (void)commit(simple("s"), "t", 0, 9);
    pass_ms(1800000);
    (void)commit(simple("s"), "t", 1, 9);
    pass_ms(2000000 + 600000);
    assert_int_equal(fetched("s", "t", 0), -1);
    assert_int_equal(fetched("s", "t", 1), 9);
}

static void a_retention_that_the_client_asked_for_counts_instead(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_many("s", 1, kafka_text_null(), 60000)->topics[0].partitions[0].error_code,
                     KAFKA_ERROR_NONE);
    pass_ms(599000);
    assert_int_equal(fetched("s", "t", 0), 100); /* looked at every ten minutes */
    pass_ms(2000);
    assert_int_equal(fetched("s", "t", 0), -1);
    assert_int_equal(commit_many("s", 1, kafka_text_null(), 60000)->topics[0].partitions[0].error_code,
                     KAFKA_ERROR_NONE);
    pass_ms(598000);
    assert_int_equal(fetched("s", "t", 0), 100);
    pass_ms(2000); /* no later than at the next look */
    assert_int_equal(fetched("s", "t", 0), -1);
}

static void nothing_expires_right_after_a_load_or_while_members_join(void **state)
{
    (void)state;
    desk.config.offsets_retention_ms = 3600000;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    (void)commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 9);
    desk.wall_ms += 100 * DAY_MS; /* the node was away for long */
    restart();
    run_desk();
    assert_int_equal(fetched("g", "t", 0), 9);
    uint32_t newcomer;
    (void)id_of_new((struct who){.rebalance_ms = 1700000, .session_ms = 1800000}, &newcomer);
    (void)join((struct who){.member = ids[0], .rebalance_ms = 1700000, .session_ms = 1800000});
    assert_int_equal(joined(newcomer)->generation_id, 2);
    pass_ms(1500000); /* two looks at it, between generation and assignment */
    assert_int_equal(fetched("g", "t", 0), 9);
}

static void offsets_of_a_deleted_topic_are_gone_and_its_successor_begins_anew(void **state)
{
    (void)state;
    open_desk();
    (void)commit(simple("s"), "t", 0, 9);
    (void)commit(simple("s"), "u", 0, 8);
    uint32_t records = desk.records;
    remove_topic("t");
    assert_int_equal(desk.records, records + 1);
    put_topic("t", 4);
    assert_int_equal(fetched("s", "t", 0), -1);
    assert_int_equal(fetched("s", "u", 0), 8);
}

static int16_t delete_offset(const char *group, const char *topic, int32_t partition, int16_t *of_partition)
{
    static struct kafka_offset_delete_request request;
    static struct kafka_offset_delete_request_offset_delete_request_topic line;
    static struct kafka_offset_delete_request_offset_delete_request_partition part;
    kafka_offset_delete_request_init(&request);
    kafka_offset_delete_request_offset_delete_request_topic_init(&line);
    kafka_offset_delete_request_offset_delete_request_partition_init(&part);
    request.group_id = kafka_text_words(group);
    request.topics = &line;
    request.topics_count = 1;
    line.name = kafka_text_words(topic);
    line.partitions = &part;
    line.partitions_count = 1;
    part.partition_index = partition;
    const struct kafka_offset_delete_response *answer = answer_of(ask(GROUP_OFFSET_DELETE, 0, group, &request));
    if (answer->topics_count > 0) { *of_partition = answer->topics[0].partitions[0].error_code; }
    return answer->error_code;
}

static void an_operator_deletes_offsets_that_nobody_is_reading(void **state)
{
    (void)state;
    open_desk();
    int16_t of_partition = -1;
    assert_int_equal(delete_offset("", "t", 0, &of_partition), KAFKA_ERROR_INVALID_GROUP_ID);
    assert_int_equal(delete_offset("s", "t", 0, &of_partition), KAFKA_ERROR_GROUP_ID_NOT_FOUND);
    (void)commit(simple("s"), "t", 0, 9);
    assert_int_equal(delete_offset("s", "nope", 0, &of_partition), KAFKA_ERROR_NONE);
    assert_int_equal(of_partition, KAFKA_ERROR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(delete_offset("s", "t", 0, &of_partition), KAFKA_ERROR_NONE);
    assert_int_equal(of_partition, KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 0), -1);
}

static void of_a_running_group_that_is_no_consumer_nothing_can_be_deleted(void **state)
{
    (void)state;
    open_desk();
    uint32_t token;
    const char *id = id_of_new((struct who){.type = "connect", .protocols = "v1:x"}, &token);
    pass_ms(1000);
    (void)sync((struct who){.member = id, .generation = 1}, NULL);
    (void)commit((struct who){.member = id, .generation = 1}, "t", 0, 4);
    int16_t of_partition = -1;
    assert_int_equal(delete_offset("g", "t", 0, &of_partition), KAFKA_ERROR_NON_EMPTY_GROUP);
    const struct kafka_delete_groups_response_deletable_group_result *result =
        answer_of(ask(GROUP_DELETE, 2, "g", NULL));
    assert_int_equal(result->error_code, KAFKA_ERROR_NON_EMPTY_GROUP);
    assert_int_equal(fetched("g", "t", 0), 4);
}

static void of_a_group_that_was_no_consumer_nothing_is_deleted_while_its_first_members_join(void **state)
{
    (void)state;
    open_desk();
    (void)commit(simple("g"), "t", 0, 4);
    uint32_t token;
    (void)id_of_new((struct who){.group = "g"}, &token);
    int16_t of_partition = -1;
    assert_int_equal(delete_offset("g", "t", 0, &of_partition), KAFKA_ERROR_NONE);
    assert_int_equal(of_partition, KAFKA_ERROR_GROUP_SUBSCRIBED_TO_TOPIC);
    assert_int_equal(fetched("g", "t", 0), 4);
}

static void of_a_group_that_all_consumers_had_left_offsets_are_deleted_while_they_come_back(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    (void)commit((struct who){.member = ids[0], .generation = 1}, "t", 0, 4);
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    uint32_t token;
    (void)id_of_new((struct who){.group = "g"}, &token);
    int16_t of_partition = -1;
    assert_int_equal(delete_offset("g", "t", 0, &of_partition), KAFKA_ERROR_NONE);
    assert_int_equal(of_partition, KAFKA_ERROR_NONE);
    assert_int_equal(fetched("g", "t", 0), -1);
}

static void a_group_that_all_have_left_is_empty_for_whoever_asks_though_its_log_was_slow(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    desk.is_holding = true;
    uint32_t gone = leave(3, ids[0], NULL);
    uint32_t committed = commit((struct who){.generation = -1}, "t", 0, 4); /* an operator's */
    uint32_t deleted = ask(GROUP_DELETE, 2, "g", NULL);
    pass_ms(1500);
    for (int i = 0; i < 4; i++) { land(); }
    assert_int_equal(leave_error(gone), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(committed), KAFKA_ERROR_NONE);
    const struct kafka_delete_groups_response_deletable_group_result *result = answer_of(deleted);
    assert_int_equal(result->error_code, KAFKA_ERROR_NONE);
}

static void a_retention_that_is_over_already_is_over_at_the_next_look(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_many("s", 1, kafka_text_null(), -2)->topics[0].partitions[0].error_code, KAFKA_ERROR_NONE);
    assert_int_equal(commit_many("l", 1, kafka_text_null(), INT64_MIN)->topics[0].partitions[0].error_code,
                     KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 0), 100);
    pass_ms(601000);
    assert_int_equal(fetched("s", "t", 0), -1);
    assert_int_equal(fetched("l", "t", 0), -1);
}

static void a_deleted_group_takes_its_offsets_along(void **state)
{
    (void)state;
    open_desk();
    (void)commit(simple("s"), "t", 0, 9);
    const struct kafka_delete_groups_response_deletable_group_result *result =
        answer_of(ask(GROUP_DELETE, 2, "s", NULL));
    assert_int_equal(result->error_code, KAFKA_ERROR_NONE);
    assert_int_equal(fetched("s", "t", 0), -1);
    result = answer_of(ask(GROUP_DELETE, 2, "s", NULL));
    assert_int_equal(result->error_code, KAFKA_ERROR_GROUP_ID_NOT_FOUND);
    assert_string_equal(state_of("s"), "Dead");
    assert_int_equal(described("s", 6)->error_code, KAFKA_ERROR_GROUP_ID_NOT_FOUND);
}

/* Whose letters are of so many bytes each. */
static struct base_slice missing_words(const char *letter, size_t size_bytes)
{
    static char name[KAFKA_TEXT_BYTES_MAX + 1];
    size_t letter_bytes = strlen(letter);
    assert_true(size_bytes < sizeof name);
    for (size_t i = 0; i < size_bytes; i++) { name[i] = letter[i % letter_bytes]; }
    name[size_bytes] = '\0';
    return kafka_text_slice(described(name, 6)->error_message);
}

static void a_group_with_the_longest_name_is_missing_in_words_that_are_a_text(void **state)
{
    (void)state;
    open_desk();
    size_t longest_bytes = KAFKA_TEXT_BYTES_MAX - strlen("Group  not found.");
    assert_int_equal(missing_words("n", longest_bytes).size_bytes, KAFKA_TEXT_BYTES_MAX);
    assert_int_equal(missing_words("n", longest_bytes + 1).size_bytes, KAFKA_TEXT_BYTES_MAX);
    assert_int_equal(missing_words("n", KAFKA_TEXT_BYTES_MAX).size_bytes, KAFKA_TEXT_BYTES_MAX);
    struct base_slice words = missing_words("\xc3\xbc", KAFKA_TEXT_BYTES_MAX - 1);
    assert_true(words.size_bytes <= KAFKA_TEXT_BYTES_MAX);
    assert_memory_equal(words.at + words.size_bytes - strlen("\xbc not found."), "\xbc not found.",
                        strlen("\xbc not found."));
}

static int32_t listed(const char *filter, const char *type)
{
    static struct kafka_list_groups_request request;
    static struct kafka_text filters[2];
    kafka_list_groups_request_init(&request);
    filters[0] = kafka_text_words(filter == NULL ? "" : filter);
    filters[1] = kafka_text_words(type == NULL ? "" : type);
    request.states_filter = &filters[0];
    request.states_filter_count = filter == NULL ? 0 : 1;
    request.types_filter = &filters[1];
    request.types_filter_count = type == NULL ? 0 : 1;
    const struct kafka_list_groups_response *answer = answer_of(ask(GROUP_LIST, 5, "", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_NONE);
    return answer->groups_count;
}

static void groups_are_listed_by_state_and_type(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    (void)commit(simple("s"), "t", 0, 9);
    (void)commit(simple("z"), "t", 0, 9);
    assert_int_equal(listed(NULL, NULL), 3);
    assert_int_equal(listed("empty", NULL), 2);
    assert_int_equal(listed("STABLE", "Classic"), 1);
    assert_int_equal(listed(NULL, "consumer"), 0);
    assert_int_equal(listed("Dead", NULL), 0);
}

static void groups_are_listed_when_every_log_to_be_led_here_is(void **state)
{
    (void)state;
    open_desk_loading();
    assert_int_equal(listed(NULL, NULL), 0); /* all logs are elsewhere */
    struct kafka_list_groups_request request;
    kafka_list_groups_request_init(&request);
    group_awaits(desk.groups, desk.config.logs_count - 1);
    const struct kafka_list_groups_response *answer = answer_of(ask(GROUP_LIST, 5, "", &request));
    assert_int_equal(answer->error_code, KAFKA_ERROR_COORDINATOR_LOAD_IN_PROGRESS);
    lead();
    (void)commit(simple("s"), "t", 0, 9);
    assert_int_equal(listed(NULL, NULL), 1);
}

/* ---- the log ------------------------------------------------------------------------------------------------------------------- */

static void the_log_written_anew_says_the_same_whatever_goes_on_meanwhile(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(3, ids);
    char name[16];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "g%d", i);
        (void)commit(simple(name), "t", i % 4, i);
    }
    desk.is_holding = true;
    begin_snapshot(0);
    for (int i = 0; i < 300 && snapshot_is_running(); i++) {
        (void)snprintf(name, sizeof name, "g%d", (i * 7) % 330); /* old keys and new ones */
        (void)commit(simple(name), "u", i % 4, 1000 + i);
        if (i == 10) { (void)ask(GROUP_DELETE, 2, "g5", NULL); }
        if (i == 12) { (void)leave(3, ids[2], NULL); }
        land();
    }
    assert_false(snapshot_is_running());
    desk.is_holding = false;
    land();
    restart(); /* from the first record of the snapshot on: see desk.c */
    assert_int_equal(members_count("g"), 2);
    assert_int_equal(fetched("g299", "t", 3), 299);
    assert_int_equal(fetched("g5", "t", 1), -1);
}

static void the_log_written_anew_says_that_a_member_is_missing(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    assert_int_equal(leave_error(leave(3, ids[0], NULL)), KAFKA_ERROR_NONE);
    begin_snapshot(group_log_of(base_slice_text("g"), desk.config.logs_count));
    assert_false(snapshot_is_running());
    restart();
    assert_string_equal(state_of("g"), "PreparingRebalance");
}

static void the_log_written_anew_says_that_a_member_went_between_its_group_and_its_own_record(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    char name[16];
    for (int i = 0; i < 100; i++) { /* more than a piece: the members come in a later one than the group */
        (void)snprintf(name, sizeof name, "g%d", i);
        (void)commit(simple(name), "t", 0, i);
    }
    desk.is_holding = true;
    begin_snapshot(0);
    assert_int_equal(held(), 1); /* the group as it is */
    (void)leave(3, ids[1], NULL);
    for (int i = 0; i < 20 && snapshot_is_running(); i++) { land(); }
    assert_false(snapshot_is_running());
    desk.is_holding = false;
    land();
    restart();
    assert_int_equal(members_count("g"), 1);
    assert_string_equal(state_of("g"), "PreparingRebalance");
}

static void what_is_no_record_is_refused(void **state)
{
    (void)state;
    open_desk();
    static const uint8_t nothing[1] = {0};
    static const uint8_t other[] = {1, 2, 0, 0}; /* a topic's record */
    static const uint8_t torn[] = {1, 0xa1, 0x9c, 1, 0, 5};
    assert_int_equal(group_apply(desk.groups, 0, base_slice_of(nothing, 0)), BASE_BAD);
    assert_int_equal(group_apply(desk.groups, 0, base_slice_of(other, sizeof other)), BASE_BAD);
    assert_int_equal(group_apply(desk.groups, 0, base_slice_of(torn, sizeof torn)), BASE_BAD);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(a_member_commits_in_its_generation_and_nobody_else_does),
        TEST(between_the_generation_and_the_assignment_nobody_commits),
        TEST(a_consumer_that_assigns_by_itself_commits_without_a_group),
        TEST(what_is_not_there_can_not_be_committed_to),
        TEST(words_beside_an_offset_are_kept_up_to_their_limit),
        TEST(the_leader_epoch_of_what_was_read_last_is_kept_beside_its_offset),
        TEST(what_was_never_committed_is_fetched_as_nothing),
        TEST(nothing_is_seen_before_it_is_committed_and_it_is_answered_only_then),
        TEST(a_fetch_that_is_ordered_sees_what_was_asked_before_it),
        TEST(an_ordered_fetch_does_not_overtake_a_commit_that_waits_for_its_group),
        TEST(an_ordered_fetch_of_a_log_that_takes_nothing_is_told_to_come_again),
        TEST(a_thousand_commits_that_wait_are_one_proposal),
        TEST(after_a_log_has_failed_nobody_is_answered_as_if_it_had_not),
        TEST(where_there_is_no_room_for_more_what_is_there_moves_on),
        TEST(without_room_a_commit_is_refused_and_nothing_of_it_is_done),
        TEST(offsets_of_an_empty_group_expire_by_the_time_it_was_left),
        TEST(what_is_committed_while_a_check_is_due_stays),
        TEST(offsets_of_a_simple_consumer_expire_by_their_commit),
        TEST(a_retention_that_the_client_asked_for_counts_instead),
        TEST(nothing_expires_right_after_a_load_or_while_members_join),
        TEST(offsets_of_a_deleted_topic_are_gone_and_its_successor_begins_anew),
        TEST(an_operator_deletes_offsets_that_nobody_is_reading),
        TEST(of_a_running_group_that_is_no_consumer_nothing_can_be_deleted),
        TEST(of_a_group_that_was_no_consumer_nothing_is_deleted_while_its_first_members_join),
        TEST(of_a_group_that_all_consumers_had_left_offsets_are_deleted_while_they_come_back),
        TEST(a_group_that_all_have_left_is_empty_for_whoever_asks_though_its_log_was_slow),
        TEST(a_retention_that_is_over_already_is_over_at_the_next_look),
        TEST(a_deleted_group_takes_its_offsets_along),
        TEST(a_group_with_the_longest_name_is_missing_in_words_that_are_a_text),
        TEST(groups_are_listed_by_state_and_type),
        TEST(groups_are_listed_when_every_log_to_be_led_here_is),
        TEST(the_log_written_anew_says_the_same_whatever_goes_on_meanwhile),
        TEST(the_log_written_anew_says_that_a_member_is_missing),
        TEST(the_log_written_anew_says_that_a_member_went_between_its_group_and_its_own_record),
        TEST(what_is_no_record_is_refused),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
