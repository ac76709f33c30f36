/* run_birth_test.c: what the journal says of how the metadata log was made may rot; what the log holds may not be forgotten.
 *
 * A broker starts for the first time, registers itself in the metadata log, and its process or its machine dies before any
 * checkpoint. Then bits of the journal flip, and it starts again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node.h"

#define JOURNAL    "weir-journal/0000000000.wj"
#define SEGMENT    "__cluster_metadata-0/00000000000000000000.log"
#define NAME       "__cluster_metadata"
#define NAME_AT    8 /* in the birth block (docs/formats/log.md) */
#define NAME_BYTES (sizeof NAME - 1)
#define ROW_BYTES  96 /* docs/formats/journal.md */
#define START_NS   (60 * WORLD_S)

enum { ROW_RUN = 0, ROW_SEGMENT = 4 };

struct scene {
    struct node node;
    struct world *world;
    uint32_t number;
    int64_t end; /* of the metadata log before the crash */
};

static struct broker_view view_of(const struct scene *scene)
{
    struct broker_view view = {.state = BROKER_STOPPED};
    const struct broker *broker = world_machine_at(scene->world, scene->number, 0);
    if (broker != NULL) { broker_view(broker, &view); }
    return view;
}

static bool serves(struct scene *scene)
{
    uint64_t end_ns = world_now(scene->world) + START_NS;
    while (view_of(scene).state != BROKER_SERVING && view_of(scene).state != BROKER_STOPPED) {
        assert_true(world_now(scene->world) < end_ns);
        assert_null(world_failure(scene->world));
        (void)world_step(scene->world); /* false: nothing is left, and the time is judged */
    }
    return view_of(scene).state == BROKER_SERVING;
}

static struct broker_log_view metadata_log(const struct scene *scene)
{
    const struct broker *broker = world_machine_at(scene->world, scene->number, 0);
    assert_non_null(broker);
    struct broker_log_view log;
    for (uint32_t cursor = 0; broker_each_log(broker, &cursor, &log);) {
        if (base_slice_equal(log.topic, base_slice_text(NAME))) { return log; }
    }
    fail_msg("there is no metadata log");
    return (struct broker_log_view){.offset_end = 0};
}

static void given_a_first_life(struct scene *scene, uint32_t shards, enum world_crash crash)
{
    struct world_knobs knobs;
    world_knobs_default(&knobs);
    *scene = (struct scene){.world = world_create(1, &knobs)};
    assert_non_null(scene->world);
    node_init(&scene->node, 64, UINT64_C(1) << 20);
    struct world_node_spec spec = {.machine = &node_machine,
                                   .context = &scene->node,
                                   .shard_count = shards,
                                   .disk_count = 1,
                                   .region_bytes = (size_t)NODE_REGION_MB_MIN << 20};
    scene->number = world_add_node(scene->world, &spec);
    assert_true(serves(scene));
    (void)world_run(scene->world, world_now(scene->world) + WORLD_S); /* the line alone follows the last group */
    scene->end = metadata_log(scene).offset_end;
    assert_true(scene->end > 0);
    world_crash(scene->world, scene->number, crash);
}

static void end(struct scene *scene)
{
    assert_null(world_failure(scene->world));
    world_destroy(scene->world);
}

static void rot_at(struct scene *scene, uint64_t at)
{
    assert_true(world_rot_at(scene->world, scene->number, 0, JOURNAL, at));
}

static struct base_slice journal_of(const struct scene *scene)
{
    struct base_slice bytes;
    assert_true(world_file_durable(scene->world, scene->number, 0, JOURNAL, &bytes));
    return bytes;
}

static uint64_t find_birth_block(const struct scene *scene)
{
    struct base_slice bytes = journal_of(scene);
    for (uint64_t at = NAME_AT; at + NAME_BYTES <= bytes.size_bytes; at++) {
        if (memcmp(bytes.at + at, NAME, NAME_BYTES) == 0) { return at - NAME_AT; }
    }
    fail_msg("the journal does not name the metadata log");
    return 0;
}

/* Flips a bit in every copy of the metadata log's first row of that kind. */
static void lose_first_row(struct scene *scene, uint8_t kind)
{
    static const uint8_t id[20] = {[19] = 1}; /* partition 0, then the topic's id */
    struct base_slice bytes = journal_of(scene);
    uint64_t places[2];
    uint32_t count = 0;
    uint8_t row[ROW_BYTES] = {0};
    for (uint64_t at = 0; at + ROW_BYTES <= bytes.size_bytes && count < 2; at += 4) {
        const uint8_t *here = bytes.at + at;
        bool is_one = here[0] == kind && here[1] == 1 && memcmp(here + 4, id, sizeof id) == 0;
        if (!is_one || (count == 1 && memcmp(here, row, sizeof row) != 0)) { continue; }
        memcpy(row, here, sizeof row);
        places[count] = at;
        count += 1;
    }
    assert_int_equal(count, 2);
    for (uint32_t i = 0; i < count; i++) { rot_at(scene, places[i] + 40); }
}

static void expect_it_goes_on(struct scene *scene)
{
    world_restart(scene->world, scene->number);
    assert_true(serves(scene));
    struct broker_log_view log = metadata_log(scene);
    assert_true(log.offset_end > scene->end); /* what was there, and this life's registration */
    assert_int_equal(log.offset_start, 0);
    assert_false(log.is_damaged);
}

static void any_byte_of_the_birth_block_may_rot(void **state)
{
    (void)state;
    static const enum world_crash crashes[] = {WORLD_POWER, WORLD_PROCESS};
    for (uint64_t i = 0; i < NAME_AT + NAME_BYTES; i++) {
        struct scene scene;
        given_a_first_life(&scene, 1 + (uint32_t)(i % 2), crashes[i % 2]);
        rot_at(&scene, find_birth_block(&scene) + i);
        expect_it_goes_on(&scene);
        world_crash(scene.world, scene.number, crashes[i % 2]); /* it says so still: no checkpoint came */
        scene.end = scene.end + 1;
        expect_it_goes_on(&scene);
        end(&scene);
    }
}

static void the_row_of_the_birth_may_be_lost_where_the_first_run_is_there(void **state)
{
    (void)state;
    struct scene scene;
    given_a_first_life(&scene, 1, WORLD_POWER);
    lose_first_row(&scene, ROW_SEGMENT);
    expect_it_goes_on(&scene);
    end(&scene);
}

/* Nothing but a damage of the journal says that there was a metadata log: it is not begun anew beside the old one, nor over it. */
static void without_a_first_entry_nothing_is_served_and_nothing_changed(void **state)
{
    (void)state;
    static const enum world_crash crashes[] = {WORLD_POWER, WORLD_PROCESS};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(crashes); i++) {
        struct scene scene;
        given_a_first_life(&scene, 1, crashes[i]);
        lose_first_row(&scene, ROW_SEGMENT);
        lose_first_row(&scene, ROW_RUN);
        struct base_slice bytes;
        uint8_t before[4096] = {0}, after[4096] = {0};
        assert_true(world_file_view(scene.world, scene.number, 0, SEGMENT, &bytes));
        uint64_t size_bytes = bytes.size_bytes;
        assert_true(size_bytes <= sizeof before);
        if (size_bytes > 0) { memcpy(before, bytes.at, size_bytes); }
        world_restart(scene.world, scene.number);
        assert_false(serves(&scene));
        assert_true(world_file_view(scene.world, scene.number, 0, SEGMENT, &bytes));
        assert_int_equal(bytes.size_bytes, size_bytes);
        if (size_bytes > 0) { memcpy(after, bytes.at, size_bytes); }
        assert_memory_equal(before, after, sizeof before);
        end(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_byte_of_the_birth_block_may_rot),
        cmocka_unit_test(the_row_of_the_birth_may_be_lost_where_the_first_run_is_there),
        cmocka_unit_test(without_a_first_entry_nothing_is_served_and_nothing_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
