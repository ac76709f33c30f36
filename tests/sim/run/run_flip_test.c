/* run_flip_test.c: within a whole run the hash sees each byte of each effect: the run is repeated, and one bit of one effect is
 * hashed otherwise.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "run.h"

#define SEEDS_MAX 20
static uint64_t seed;

static struct run_result run_with(int64_t flip_effect, enum world_flip flip, FILE *trace)
{
    struct run_config config = {.seed = seed,
                                .mode = RUN_BROKER,
                                .sets = {{"shards", 2}, {"flip_effect", flip_effect}, {"flip", (int64_t)flip}},
                                .set_count = 3,
                                .trace = trace};
    struct run_result result;
    run_seed(&config, &result);
    return result;
}

/* One thing that is asked of the world, as the trace has it, and what of it is changed. */
struct sight {
    const char *name;
    const char *words[3]; /* its line has all of them */
    enum world_flip flip;
    uint64_t places[3]; /* in the order of the run: the first, one amid, the last; 0: none */
    uint64_t count;
};

static struct sight sights[] = {
    {"what is sent", {" > SEND ", " memory="}, WORLD_FLIP_PAYLOAD, {0}, 0},
    {"what is written", {" > WRITE ", " memory="}, WORLD_FLIP_PAYLOAD, {0}, 0},
    {"where it is written", {" > WRITE ", " at="}, WORLD_FLIP_POSITION, {0}, 0},
    {"where it is read", {" > READ "}, WORLD_FLIP_POSITION, {0}, 0},
    {"how much is read", {" > READ "}, WORLD_FLIP_SIZE, {0}, 0},
    {"how much may be received", {" > RECV "}, WORLD_FLIP_SIZE, {0}, 0},
    {"where a range begins that is sent", {" > SEND ", " range="}, WORLD_FLIP_RANGE, {0}, 0},
    {"the name of what is opened", {" > OPEN "}, WORLD_FLIP_PATH, {0}, 0},
    {"the name of a directory", {" > MAKE_DIR "}, WORLD_FLIP_PATH, {0}, 0},
    {"the new size of a file", {" > TRUNCATE "}, WORLD_FLIP_POSITION, {0}, 0},
    {"a line for the log", {" > LOG "}, WORLD_FLIP_PATH, {0}, 0},
    {"whose a sync is", {" > SYNC "}, WORLD_FLIP_TOKEN, {0}, 0},
    {"whose a close is", {" > CLOSE "}, WORLD_FLIP_TOKEN, {0}, 0},
    {"a word between shards", {" > MESSAGE "}, WORLD_FLIP_WORD, {0}, 0},
};

static bool is_seen(const struct sight *sight, const char *line)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(sight->words) && sight->words[i] != NULL; i++) {
        if (strstr(line, sight->words[i]) == NULL) { return false; }
    }
    return true;
}

/* Runs the seed with a trace, and finds in it what will be changed. `is_second`: it is known how many there are. */
static struct run_result look(bool is_second)
{
    FILE *trace = tmpfile();
    assert_non_null(trace);
    struct run_result result = run_with(0, WORLD_FLIP_NOTHING, trace);
    rewind(trace);
    uint64_t counts[BASE_ARRAY_COUNT(sights)] = {0};
    uint64_t place = 0;
    char *line = NULL;
    size_t room_bytes = 0;
    while (getline(&line, &room_bytes, trace) > 0) {
        if (strstr(line, " > ") == NULL) { continue; }
        place += 1;
        for (size_t i = 0; i < BASE_ARRAY_COUNT(sights); i++) {
            if (!is_seen(&sights[i], line)) { continue; }
            counts[i] += 1;
            if (counts[i] == 1) { sights[i].places[0] = place; }
            if (is_second && counts[i] == (sights[i].count + 1) / 2) { sights[i].places[1] = place; }
            sights[i].places[2] = place;
        }
    }
    for (size_t i = 0; i < BASE_ARRAY_COUNT(sights); i++) { sights[i].count = counts[i]; }
    free(line);
    assert_int_equal(fclose(trace), 0);
    return result;
}

/* The first seed whose run has something of every kind. */
static struct run_result look_for_all(void)
{
    for (seed = 1; seed <= SEEDS_MAX; seed++) {
        struct run_result result = look(false);
        size_t lacking = 0;
        for (size_t i = 0; i < BASE_ARRAY_COUNT(sights); i++) { lacking += sights[i].count == 0; }
        if (lacking == 0) { return result; }
    }
    fail_msg("no seed of %d has all of it", SEEDS_MAX);
    return (struct run_result){.is_ok = false};
}

static void one_bit_of_one_effect_of_a_whole_run_gives_another_hash(void **state)
{
    (void)state;
    struct run_result first = look_for_all(), second = look(true);
    assert_true(first.is_ok);
    assert_true(first.hash == second.hash);
    for (size_t i = 0; i < BASE_ARRAY_COUNT(sights); i++) {
        for (size_t at = 0; at < BASE_ARRAY_COUNT(sights[i].places); at++) {
            struct run_result other = run_with((int64_t)sights[i].places[at], sights[i].flip, NULL);
            assert_true(other.is_ok);
            assert_true(other.events == first.events); /* the same run but for what is hashed */
            assert_true(other.virtual_ns == first.virtual_ns);
            if (other.hash == first.hash) {
                fail_msg("the hash does not see %s (effect %llu)", sights[i].name,
                         (unsigned long long)sights[i].places[at]);
            }
        }
    }
}

static void a_flip_of_what_an_effect_does_not_have_changes_nothing(void **state)
{
    (void)state;
    seed = 1;
    struct run_result plain = run_with(0, WORLD_FLIP_NOTHING, NULL);
    struct run_result never = run_with(INT64_MAX, WORLD_FLIP_TOKEN, NULL);
    assert_true(plain.hash == never.hash); /* so it is the bit, not the knob, that is seen above */
    (void)look(false);                     /* for the places alone */
    const struct sight *words = &sights[BASE_ARRAY_COUNT(sights) - 1];
    struct run_result none = run_with((int64_t)words->places[0], WORLD_FLIP_PAYLOAD, NULL);
    assert_true(plain.hash == none.hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bit_of_one_effect_of_a_whole_run_gives_another_hash),
        cmocka_unit_test(a_flip_of_what_an_effect_does_not_have_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
