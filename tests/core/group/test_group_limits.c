/* test_group_limits.c: at the limits of the memory that groups have, nothing is promised that can't be kept.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "desk.h"

#include <stdio.h>

static int16_t commit_words(const char *group, const char *topic, int32_t partition, size_t words_bytes)
{
    static char words[32768];
    struct kafka_offset_commit_request request;
    struct kafka_offset_commit_request_offset_commit_request_topic lines;
    struct kafka_offset_commit_request_offset_commit_request_partition line;
    memset(words, 'w', words_bytes);
    kafka_offset_commit_request_init(&request);
    kafka_offset_commit_request_offset_commit_request_topic_init(&lines);
    kafka_offset_commit_request_offset_commit_request_partition_init(&line);
    request.group_id = kafka_text_words(group);
    request.generation_id_or_member_epoch = -1;
    request.topics = &lines;
    request.topics_count = 1;
    lines.name = kafka_text_words(topic);
    lines.partitions = &line;
    lines.partitions_count = 1;
    line.partition_index = partition;
    line.committed_offset = 1;
    line.committed_metadata = kafka_text_of(words, words_bytes);
    return commit_error(ask(GROUP_COMMIT, 8, group, &request));
}

/* Until there is no room for more. */
static uint32_t given_offsets_with_words(const char *group, size_t words_bytes)
{
    uint32_t count = 0;
    while (commit_words(group, "many", (int32_t)count, words_bytes) == KAFKA_ERROR_NONE) { count += 1; }
    return count;
}

static void room_that_small_words_had_is_there_for_large_ones(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 2000);
    const char *ids[STABLE_MAX];
    given_stable(2, ids); /* whose words are to move as well */
    uint32_t small = given_offsets_with_words("s", 400);
    assert_true(small > 200);
    assert_int_equal(((const struct kafka_delete_groups_response_deletable_group_result *)answer_of(
                          ask(GROUP_DELETE, 2, "s", NULL)))
                         ->error_code,
                     KAFKA_ERROR_NONE);
    uint32_t large = given_offsets_with_words("l", 2000);
    assert_true(large > 70);
    const struct kafka_describe_groups_response_described_group *group = described("g", 5);
    assert_int_equal(group->members_count, 2);
    assert_string_equal(text_of(group->members[1].client_id), "client");
    assert_string_equal(text_of(group->members[1].client_host), "/10.0.0.1");
    assert_memory_equal(kafka_bytes_slice(group->members[1].member_metadata).at, "m", 1);
    restart();
    assert_int_equal(fetched("l", "many", 69), 1);
}

static void where_words_find_no_room_what_is_there_goes_on(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 4000);
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    struct who leader = {.member = ids[0], .generation = 1};
    assert_int_equal(commit_error(commit(leader, "t", 0, 5)), KAFKA_ERROR_NONE);
    assert_int_equal(commit_words("w", "many", 0, 400), KAFKA_ERROR_NONE);
    (void)given_offsets_with_words("s", 2000); /* another group takes all there is */
    (void)given_offsets_with_words("s1", 1);
    assert_int_equal(commit_words("s", "many", 3999, 1), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(commit_error(commit(leader, "t", 0, 6)), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit(leader, "t", 1, 6)), KAFKA_ERROR_NONE); /* an offset without words */
    assert_int_equal(commit_words("w", "many", 0, 400), KAFKA_ERROR_NONE);       /* in the place of those it had */
    uint32_t joins[2];
    joins[0] = join((struct who){.member = ids[0]});
    joins[1] = join((struct who){.member = ids[1]});
    assert_int_equal(joined(joins[0])->generation_id, 2);
    assert_int_equal(joined(joins[1])->generation_id, 2);
    leader.generation = 2;
    uint32_t synced = sync((struct who){.member = ids[1], .generation = 2}, "");
    assert_int_equal(sync_error(sync(leader, "")), KAFKA_ERROR_NONE);
    assert_int_equal(sync_error(synced), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit(leader, "t", 0, 7)), KAFKA_ERROR_NONE);
}

static void what_was_there_before_the_limits_were_lowered_goes_on(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(2, ids);
    struct who leader = {.member = ids[0], .generation = 1};
    struct who none = {.group = "n", .generation = -1};
    for (int32_t i = 0; i < 3; i++) { assert_int_equal(commit_error(commit(leader, "t", i, 5)), KAFKA_ERROR_NONE); }
    assert_int_equal(commit_error(commit(none, "t", 0, 5)), KAFKA_ERROR_NONE);
    desk.config.groups_max = 1;
    desk.config.members_max = 1;
    desk.config.offsets_max = 2;
    restart();
    assert_int_equal(commit_error(commit(leader, "t", 3, 6)), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(commit_error(commit(leader, "t", 2, 6)), KAFKA_ERROR_NONE);
    assert_int_equal(commit_error(commit(none, "t", 0, 6)), KAFKA_ERROR_NONE);
    uint32_t first = join((struct who){.member = ids[0]});
    uint32_t second = join((struct who){.member = ids[1]});
    assert_int_equal(joined(first)->generation_id, 2);
    assert_int_equal(joined(second)->generation_id, 2);
    assert_int_equal(join_error(join((struct who){.group = "g"})), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
}

static void what_could_never_be_written_anew_is_not_loaded(void **state)
{
    (void)state;
    desk.config.proposal_bytes_max = 4 << 20;
    open_desk();
    static char protocols[600000] = "range:";
    memset(protocols + 6, 'm', sizeof protocols - 7);
    uint32_t token;
    (void)id_of_new((struct who){.protocols = protocols}, &token);
    pass_ms(1000);
    assert_int_equal(joined(token)->generation_id, 1);
    uint32_t before = desk.config.proposal_bytes_max;
    assert_int_equal(loaded(), BASE_OK);
    desk.config.proposal_bytes_max = 512 << 10; /* it has less memory than it had */
    assert_int_equal(loaded(), BASE_FULL);
    desk.config.proposal_bytes_max = before;
}

/* Protocols with so many bytes of words, of a few that are the desk's for a test. */
static const char *words_of(size_t size_bytes)
{
    static char words[4][65536];
    static uint32_t next;
    char *at = words[next++ % 4];
    assert_true(size_bytes < sizeof words[0] - 7);
    memcpy(at, "range:", 6);
    memset(at + 6, 'm', size_bytes);
    at[6 + size_bytes] = '\0';
    return at;
}

static void a_group_as_large_as_it_may_be_joins_anew(void **state)
{
    (void)state;
    desk.config.proposal_bytes_max = 64 << 10;
    desk.config.proposal_bytes = 64 << 10;
    open_desk();
    struct who who[2] = {{.protocols = words_of(13000)},
                         {.protocols = words_of(13000), .instance = "i"}}; /* of 32768 */
    uint32_t tokens[2];
    who[0].member = id_of_new(who[0], &tokens[0]);
    tokens[1] = join(who[1]);
    pass_ms(1000);
    who[1].member = text_of(joined(tokens[1])->member_id);
    uint32_t synced = sync((struct who){.member = who[1].member, .generation = 1}, "");
    assert_int_equal(sync_error(sync((struct who){.member = who[0].member, .generation = 1}, "")), KAFKA_ERROR_NONE);
    assert_int_equal(sync_error(synced), KAFKA_ERROR_NONE);
    tokens[0] = join(who[0]);
    tokens[1] = join(who[1]);
    assert_int_equal(joined(tokens[0])->generation_id, 2);
    assert_int_equal(joined(tokens[1])->generation_id, 2);
    who[1].member = "";
    tokens[1] = join(who[1]); /* a static one, in its own place */
    tokens[0] = join(who[0]);
    assert_int_equal(joined(tokens[1])->generation_id, 3);
    who[1].member = text_of(joined(tokens[1])->member_id);
    who[0].protocols = words_of(20000);
    assert_int_equal(join_error(join(who[0])), KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
    assert_int_equal(join_error(join((struct who){.protocols = words_of(13000)})), KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
    assert_int_equal(members_count("g"), 2);
}

/* Of two members in a generation that waits for its assignment: the follower, which waits for it. */
static uint32_t given_a_follower_that_waits(const char *ids[2])
{
    uint32_t joins[2];
    for (uint32_t i = 0; i < 2; i++) { ids[i] = id_of_new((struct who){.group = "g"}, &joins[i]); }
    pass_ms(1000);
    uint32_t waits = sync((struct who){.member = ids[1], .generation = joined(joins[1])->generation_id}, NULL);
    assert_false(is_answered(waits));
    return waits;
}

static const char *assignment_of(const char *id, size_t size_bytes)
{
    static char words[65536];
    size_t id_bytes = strlen(id);
    assert_true(id_bytes + 1 + size_bytes < sizeof words);
    memcpy(words, id, id_bytes);
    words[id_bytes] = '=';
    memset(words + id_bytes + 1, 'a', size_bytes);
    words[id_bytes + 1 + size_bytes] = '\0';
    return words;
}

/* Both join anew, and the next assignment is one that fits. */
static void expect_a_generation_after_that(const char *const ids[2])
{
    assert_string_equal(state_of("g"), "PreparingRebalance");
    uint32_t joins[2] = {join((struct who){.member = ids[0]}), 0};
    joins[1] = join((struct who){.member = ids[1]});
    assert_int_equal(joined(joins[0])->generation_id, 2);
    uint32_t synced = sync((struct who){.member = ids[1], .generation = 2}, NULL);
    assert_string_equal(assigned(sync((struct who){.member = ids[0], .generation = 2}, assignment_of(ids[0], 1))), "a");
    assert_string_equal(assigned(synced), "");
}

static void an_assignment_that_is_too_large_is_refused_to_all_who_wait_for_it(void **state)
{
    (void)state;
    desk.config.proposal_bytes_max = 32 << 10;
    desk.config.proposal_bytes = 16 << 10;
    open_desk();
    const char *ids[2];
    uint32_t waits = given_a_follower_that_waits(ids);
    struct who leader = {.member = ids[0], .generation = 1};
    assert_int_equal(sync_error(sync(leader, assignment_of(ids[0], 40000))), KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
    assert_int_equal(sync_error(waits), KAFKA_ERROR_UNKNOWN_SERVER_ERROR);
    expect_a_generation_after_that(ids);
}

static void an_assignment_that_finds_no_room_is_refused_to_all_who_wait_for_it(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 4000);
    const char *ids[2];
    uint32_t waits = given_a_follower_that_waits(ids);
    (void)given_offsets_with_words("s", 2000);
    struct who leader = {.member = ids[0], .generation = 1};
    assert_int_equal(sync_error(sync(leader, assignment_of(ids[0], 20000))), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(sync_error(waits), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    (void)ask(GROUP_DELETE, 2, "s", NULL);
    expect_a_generation_after_that(ids);
}

static void a_static_member_has_its_place_again_where_there_is_none_for_others(void **state)
{
    (void)state;
    desk.config.members_max = 2;
    open_desk();
    uint32_t tokens[2];
    tokens[0] = join((struct who){.group = "g", .instance = "i0"});
    tokens[1] = join((struct who){.group = "g", .instance = "i1"});
    pass_ms(1000);
    const char *leader = text_of(joined(tokens[0])->member_id);
    uint32_t again = join((struct who){.group = "g", .instance = "i1"}); /* the assignment is awaited: all join anew */
    tokens[0] = join((struct who){.group = "g", .instance = "i0", .member = leader});
    assert_int_equal(joined(again)->generation_id, 2);
    (void)sync((struct who){.member = leader, .instance = "i0", .generation = 2}, NULL);
    assert_string_equal(state_of("g"), "Stable");
    assert_int_equal(joined(join((struct who){.group = "g", .instance = "i1"}))->generation_id, 2);
    assert_string_equal(state_of("g"), "Stable");
    assert_int_equal(join_error(join((struct who){.group = "g", .instance = "i2"})),
                     KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
}

/* Of a log that is not group "g"'s. */
static const char *elsewhere(void)
{
    static char name[8];
    uint32_t log = group_log_of(base_slice_text("g"), desk.config.logs_count);
    memcpy(name, "x-a", 4);
    while (group_log_of(base_slice_text(name), desk.config.logs_count) == log) { name[2] += 1; }
    return name;
}

static void a_replacement_that_failed_leaves_no_words_behind(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 2000);
    uint32_t first = join((struct who){.group = "g", .instance = "i"});
    pass_ms(1000);
    const char *id = text_of(joined(first)->member_id);
    assert_string_equal(assigned(sync((struct who){.member = id, .instance = "i", .generation = 1}, NULL)), "");
    struct group_view before;
    group_view(desk.groups, &before);
    desk.is_holding = true;
    uint32_t second = join((struct who){.group = "g", .instance = "i"});
    assert_int_equal(held(), 1);
    fail_log();
    desk.is_holding = false;
    assert_int_equal(join_error(second), KAFKA_ERROR_NOT_COORDINATOR);
    struct group_view after;
    group_view(desk.groups, &after);
    assert_int_equal(after.state_used_bytes - before.state_used_bytes, 64); /* the new id, of a member that stays so */
    const char *group = elsewhere();
    assert_true(given_offsets_with_words(group, 400) > 200);
    (void)ask(GROUP_DELETE, 2, group, NULL);
    assert_true(given_offsets_with_words(group, 2000) > 70);
}

static void words_that_do_not_pack_well_are_refused_before_they_have_no_room(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)1 << 20;
    desk.config.offset_metadata_max = 32767;
    open_desk();
    put_topic("many", 2000);
    uint32_t count = given_offsets_with_words("s", 17000); /* five pages, where eight are free side by side */
    assert_true(count > 10);
    restart();
    assert_int_equal(fetched("s", "many", 9), 1);
}

static void a_generation_of_members_with_many_protocols_finds_the_room_it_was_told_of(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)1 << 20;
    desk.config.proposal_bytes_max = 1 << 20;
    desk.is_checked = false;
    open_desk();
    char protocols[GROUP_PROTOCOLS_MAX * 8] = "";
    for (int i = 0; i < GROUP_PROTOCOLS_MAX; i++) {
        (void)snprintf(protocols + strlen(protocols), 8, "%sp%02d", i == 0 ? "" : ",", i);
    }
    uint32_t tokens[280];
    for (int i = 0; i < 270; i++) {
        tokens[i] = join((struct who){.group = "g", .protocols = protocols, .version = 3});
    }
    pass_ms(70000);
    for (int i = 0; i < 270; i++) { assert_true(is_answered(tokens[i])); }
}

static void a_commit_keeps_the_room_of_the_group_that_it_makes(void **state)
{
    (void)state;
    desk.config.logs_count = 1;
    desk.config.groups_max = 3;
    open_desk();
    uint32_t first =
        join((struct who){.group = "g"}); /* an id is given out: the group is there, and nothing is written */
    assert_int_equal(join_error(first), KAFKA_ERROR_MEMBER_ID_REQUIRED);
    const char *id = text_of(((const struct kafka_join_group_response *)answer_of(first))->member_id);
    hold_log_of("g");
    uint32_t committed = commit((struct who){.group = "g", .generation = -1}, "t", 0, 5);
    uint32_t left = leave(3, id, NULL);
    uint32_t one = join((struct who){.group = "h1"});
    uint32_t two = join((struct who){.group = "h2"});
    land();
    land();
    assert_int_equal(commit_error(committed), KAFKA_ERROR_NONE);
    assert_int_equal(leave_error(left), KAFKA_ERROR_NONE);
    assert_int_equal(join_error(one), KAFKA_ERROR_MEMBER_ID_REQUIRED);
    assert_int_equal(join_error(two), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(fetched("g", "t", 0), 5);
}

/* The words beside one offset, so many times in one answer. */
static uint32_t fetch_over_and_over(int32_t count)
{
    static int32_t indexes[8192]; /* all 0 */
    static struct kafka_offset_fetch_request_offset_fetch_request_group request;
    static struct kafka_offset_fetch_request_offset_fetch_request_topics topic;
    kafka_offset_fetch_request_offset_fetch_request_group_init(&request);
    kafka_offset_fetch_request_offset_fetch_request_topics_init(&topic);
    request.group_id = kafka_text_words("s");
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = kafka_text_words("t");
    topic.partition_indexes = indexes;
    topic.partition_indexes_count = count;
    return ask(GROUP_FETCH, 8, "s", &request);
}

static void an_answer_that_waits_for_memory_keeps_no_heartbeat_waiting(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    assert_int_equal(commit_words("s", "t", 0, 4096), KAFKA_ERROR_NONE);
    void *blocks[2];
    for (size_t i = 0; i < 2; i++) { /* of not quite 16 MiB */
        blocks[i] = base_pages_take(desk.pages, BASE_CONTROL, ((size_t)8 << 20) >> i);
        assert_non_null(blocks[i]);
    }
    uint32_t token = fetch_over_and_over(1536); /* 6 MiB */
    pass_ms(1000);
    assert_false(is_answered(token));
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_NONE);
    for (size_t i = 0; i < 2; i++) { base_pages_give(desk.pages, blocks[i]); }
    pass_ms(100);
    assert_non_null(answer_of(token));
}

/* What is left lies in pieces of less than so many bytes. */
static uint32_t given_no_more_than(size_t size_bytes, void *blocks[64])
{
    uint32_t count = 0;
    while (count < 64 && (blocks[count] = base_pages_take(desk.pages, BASE_CONTROL, size_bytes)) != NULL) {
        count += 1;
    }
    assert_true(count < 64);
    return count;
}

static void an_answer_that_waits_for_memory_keeps_no_commit_waiting(void **state)
{
    (void)state;
    open_desk();
    void *blocks[64];
    assert_int_equal(commit_words("s", "t", 0, 4096), KAFKA_ERROR_NONE);
    uint32_t count = given_no_more_than((size_t)2 << 20, blocks);
    uint32_t token = fetch_over_and_over(1536); /* 6 MiB */
    for (int i = 0; i < 3; i++) {               /* at once: no time passes */
        assert_int_equal(commit_error(commit((struct who){.group = "s", .generation = -1}, "t", i, 7)),
                         KAFKA_ERROR_NONE);
    }
    assert_false(is_answered(token));
    for (uint32_t i = 0; i < count; i++) { base_pages_give(desk.pages, blocks[i]); }
    pass_ms(100);
    assert_non_null(answer_of(token));
}

static void what_a_leader_is_told_holds_up_its_own_log_alone_while_it_waits_for_memory(void **state)
{
    (void)state;
    desk.config.proposal_bytes_max = 4 << 20;
    open_desk();
    static char protocols[600000] = "range:";
    memset(protocols + 6, 'm', sizeof protocols - 7);
    uint32_t token;
    const char *id = id_of_new((struct who){.protocols = protocols}, &token);
    pass_ms(1000);
    assert_int_equal(joined(token)->members_count, 1);
    void *blocks[64];
    uint32_t count = given_no_more_than((size_t)512 << 10, blocks);
    base_pages_give(desk.pages, blocks[count / 2]); /* for proposals */
    count -= 1;
    blocks[(count + 1) / 2] = blocks[count];
    uint32_t again = join((struct who){.member = id, .protocols = protocols});
    assert_false(is_answered(again));
    struct who other = {.group = elsewhere(), .generation = -1};
    for (int i = 0; i < 3; i++) { assert_int_equal(commit_error(commit(other, "t", i, 7)), KAFKA_ERROR_NONE); }
    uint32_t synced = sync((struct who){.member = id, .generation = 1}, "");
    assert_false(is_answered(synced)); /* the state stays as it is until the other answer is made */
    for (uint32_t i = 0; i < count; i++) { base_pages_give(desk.pages, blocks[i]); }
    pass_ms(100);
    assert_int_equal(joined(again)->generation_id, 1);
    assert_int_equal(sync_error(synced), KAFKA_ERROR_NONE);
}

static void an_answer_that_no_block_holds_is_none(void **state)
{
    (void)state;
    open_desk();
    const char *ids[STABLE_MAX];
    given_stable(1, ids);
    assert_int_equal(commit_words("s", "t", 0, 4096), KAFKA_ERROR_NONE);
    assert_null(answer_of(fetch_over_and_over(8192))); /* 32 MiB, asked for by 32 KiB */
    assert_int_equal(heartbeat((struct who){.member = ids[0], .generation = 1}), KAFKA_ERROR_NONE);
}

static void answers_that_wait_for_each_other_s_memory_end(void **state)
{
    (void)state;
    open_desk();
    assert_int_equal(commit_words("s", "t", 0, 4096), KAFKA_ERROR_NONE);
    assert_non_null(answer_of(fetch_over_and_over(1536))); /* whose block the desk keeps until it has the others */
    (void)fetch_over_and_over(1536);
    uint32_t third = fetch_over_and_over(1536);
    assert_false(is_answered(third));
    uint32_t committed = commit((struct who){.group = "s", .generation = -1}, "t", 1, 7);
    pass_ms(29000);
    assert_false(is_answered(third));
    assert_int_equal(commit_error(committed), KAFKA_ERROR_NONE);
    pass_ms(2000);
    assert_null(answer_of(third));
}

static void what_fitted_together_is_loaded_log_by_log(void **state)
{
    (void)state;
    desk.config.groups_max = 8;
    open_desk();
    char in_first[8][16];
    char in_last[8][16];
    int firsts = 0;
    int lasts = 0;
    for (int i = 0; firsts < 8 || lasts < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%d", i);
        uint32_t log = group_log_of(base_slice_text(name), desk.config.logs_count);
        if (log == 0 && firsts < 8) { memcpy(in_first[firsts++], name, sizeof name); }
        if (log == 3 && lasts < 8) { memcpy(in_last[lasts++], name, sizeof name); }
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(commit_error(commit((struct who){.group = in_last[i], .generation = -1}, "t", 0, i)),
                         KAFKA_ERROR_NONE);
    }
    for (int i = 0; i < 8; i++) { (void)ask(GROUP_DELETE, 2, in_last[i], NULL); }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(commit_error(commit((struct who){.group = in_first[i], .generation = -1}, "t", 0, i)),
                         KAFKA_ERROR_NONE);
    }
    restart();
    for (int i = 0; i < 8; i++) { assert_int_equal(fetched(in_first[i], "t", 0), i); }
}

static void words_that_fitted_together_are_loaded_log_by_log(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 2000);
    char last[8] = "x-a"; /* of the log that is loaded last; "f-?" is of the first */
    char first[8] = "f-a";
    while (group_log_of(base_slice_text(last), desk.config.logs_count) != desk.config.logs_count - 1) { last[2] += 1; }
    while (group_log_of(base_slice_text(first), desk.config.logs_count) != 0) { first[2] += 1; }
    assert_true(given_offsets_with_words(last, 2000) > 70);
    (void)ask(GROUP_DELETE, 2, last, NULL);
    uint32_t count = given_offsets_with_words(first, 400);
    assert_true(count > 200);
    restart();
    assert_int_equal(fetched(first, "many", (int32_t)count - 1), 1);
}

static void nothing_new_is_taken_in_until_it_is_known_what_is_there(void **state)
{
    (void)state;
    open_desk_loading();
    uint32_t logs = desk.config.logs_count;
    uint32_t log = group_log_of(base_slice_text("g"), logs);
    for (uint32_t i = 0; i < logs; i++) { group_awaits(desk.groups, i); }
    group_leads(desk.groups, log, desk.now_ns, desk.wall_ms);
    run_desk();
    struct who who = {.group = "g", .generation = -1};
    assert_int_equal(join_error(join((struct who){.group = "g"})), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(commit_error(commit(who, "t", 0, 5)), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
    bool is_refused = false; /* one of the others: no more is known of it than of those that lead */
    for (uint32_t i = 0; i < logs; i++) {
        if (i == log) { continue; }
        if (is_refused) { group_leads(desk.groups, i, desk.now_ns, desk.wall_ms); }
        if (!is_refused) { group_refuses(desk.groups, i); }
        is_refused = true;
    }
    run_desk();
    assert_int_equal(commit_error(commit(who, "t", 0, 5)), KAFKA_ERROR_NONE);
    assert_int_equal(fetched("g", "t", 0), 5);
}

static void members_that_find_no_room_for_their_words_may_come_again(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    put_topic("many", 2000);
    for (int32_t i = 0; i < 4; i++) { assert_int_equal(commit_words("r", "many", i, 2000), KAFKA_ERROR_NONE); }
    (void)given_offsets_with_words("s", 2000);
    (void)ask(GROUP_DELETE, 2, "r", NULL); /* room for a member, not for all it says */
    struct who who = {.group = "g"};
    static char protocols[20000] = "range:";
    memset(protocols + 6, 'm', sizeof protocols - 7);
    who.protocols = protocols;
    uint32_t token;
    (void)id_of_new(who, &token);
    pass_ms(1000);
    assert_int_equal(join_error(token), KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE); /* what a client comes again after */
    (void)ask(GROUP_DELETE, 2, "s", NULL);
    (void)id_of_new(who, &token);
    pass_ms(1000);
    assert_int_equal(joined(token)->generation_id, 1);
}

/* Whoever is static stays so, whatever it says of itself later: its name is kept beside what it says then. */
static void a_static_member_that_names_itself_no_more_needs_room_for_its_name_all_the_same(void **state)
{
    (void)state;
    desk.config.state_bytes = (size_t)256 << 10;
    open_desk();
    static char instance[1001];
    static char protocols[(size_t)128 << 10];
    memset(instance, 'i', sizeof instance - 1);
    uint32_t token = join((struct who){.instance = instance});
    pass_ms(3000);
    const char *id = text_of(joined(token)->member_id);
    int16_t error = KAFKA_ERROR_NONE;
    for (size_t power = 16384; power <= sizeof protocols && error == KAFKA_ERROR_NONE; power *= 2) {
        size_t bytes = power - 256; /* all that it says is below the power of two, and beyond with its name */
        memset(protocols, 'm', bytes);
        memcpy(protocols, "range:", 6);
        protocols[bytes] = '\0';
        token = join((struct who){.member = id, .protocols = protocols});
        error = join_error(token);
        struct group_view view;
        group_view(desk.groups, &view);
        assert_true(view.state_used_bytes <= desk.config.state_bytes / 4 * 3);
    }
    assert_int_equal(error, KAFKA_ERROR_COORDINATOR_NOT_AVAILABLE);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, given_desk, expect_the_log_says_all)
    const struct CMUnitTest tests[] = {
        TEST(room_that_small_words_had_is_there_for_large_ones),
        TEST(where_words_find_no_room_what_is_there_goes_on),
        TEST(what_was_there_before_the_limits_were_lowered_goes_on),
        TEST(what_could_never_be_written_anew_is_not_loaded),
        TEST(a_group_as_large_as_it_may_be_joins_anew),
        TEST(an_assignment_that_is_too_large_is_refused_to_all_who_wait_for_it),
        TEST(an_assignment_that_finds_no_room_is_refused_to_all_who_wait_for_it),
        TEST(a_static_member_has_its_place_again_where_there_is_none_for_others),
        TEST(a_replacement_that_failed_leaves_no_words_behind),
        TEST(words_that_do_not_pack_well_are_refused_before_they_have_no_room),
        TEST(a_generation_of_members_with_many_protocols_finds_the_room_it_was_told_of),
        TEST(a_commit_keeps_the_room_of_the_group_that_it_makes),
        TEST(an_answer_that_waits_for_memory_keeps_no_heartbeat_waiting),
        TEST(an_answer_that_waits_for_memory_keeps_no_commit_waiting),
        TEST(what_a_leader_is_told_holds_up_its_own_log_alone_while_it_waits_for_memory),
        TEST(an_answer_that_no_block_holds_is_none),
        TEST(answers_that_wait_for_each_other_s_memory_end),
        TEST(what_fitted_together_is_loaded_log_by_log),
        TEST(words_that_fitted_together_are_loaded_log_by_log),
        TEST(nothing_new_is_taken_in_until_it_is_known_what_is_there),
        TEST(members_that_find_no_room_for_their_words_may_come_again),
        TEST(a_static_member_that_names_itself_no_more_needs_room_for_its_name_all_the_same),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
