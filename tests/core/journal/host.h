/* host.h: a journal on a fake disk, driven step by step, with an owner that numbers its entries and checks what comes back.
 *
 * Entry n (1 first) has token n, offset_base n, and bytes that are known from n. The owner's one state, in a checkpoint, is
 * the number of the last entry that was acknowledged when the checkpoint began.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef JOURNAL_TEST_HOST_H
#define JOURNAL_TEST_HOST_H

#include "fake_disk.h"
#include "journal/journal.h"

#define HOST_ENTRIES 4096

struct host {
    struct fake_disk *disk;
    struct journal *journal;
    struct base_pages *pages;
    void *arena_memory, *pages_memory;
    struct port_out out;
    struct port_event now;
    uint64_t sizes[HOST_ENTRIES];
    uint8_t *bytes[HOST_ENTRIES];     /* of entries not yet answered */
    uint64_t appended, acked, failed; /* entries: how many so far; answered in order */
    enum port_rc failed_rc;
    /* what recovery gave */
    uint64_t state; /* of the checkpoint, 0: none */
    uint32_t state_count;
    uint64_t replayed[HOST_ENTRIES];
    bool replayed_bad[HOST_ENTRIES];
    uint32_t replayed_count, replayed_bad_count;
    uint32_t
        fails_disk_at; /* so many entries replayed: the disk fails elsewhere while the last of them is taken; 0: never */
    uint32_t damage_count;
    bool is_replayed, is_clean, is_torn, is_stopped, is_disk_failed;
    uint32_t disk_failed_count;
    enum port_rc replay_rc;
    bool wants_checkpoint;
    uint32_t want_count;
    uint32_t handle_want_count;
    /* a checkpoint */
    bool is_checkpointing, is_checkpointed;
    enum port_rc checkpoint_rc;
    uint8_t state_bytes[8];
    uint32_t states_written;
    uint64_t effects_max;     /* stop carrying out after so many; 0: no limit */
    bool answers_checkpoints; /* does one by itself when it is wanted */
    bool is_cut_off;          /* effects_max reached */
    bool holds_closes;        /* files are closed when there is nothing else to do */
    bool checks_durable;      /* an acknowledged entry must be durable on the fake disk */
    uint64_t not_durable;     /* entries for which it was not */
    uint32_t effects_of_step_max;
};

struct journal_config host_config(void);
/* Takes over the disk. */
struct host *host_make(struct fake_disk *disk, const struct journal_config *config);
struct fake_disk *host_free(struct host *host); /* gives the disk back */
/* Until nothing is left to do, or effects_max. */
void host_run(struct host *host);
void host_settle(struct host *host);                      /* and its alarms rung, for at most 100 of them */
void host_turn(struct host *host);                        /* one turn, no effect carried out */
bool host_do(struct host *host);                          /* one effect carried out */
void host_start(struct host *host);                       /* start, run, and journal_recovered when it went well */
bool host_append(struct host *host, uint64_t size_bytes); /* false: BASE_FULL */
void host_checkpoint(struct host *host, bool is_clean);   /* when everything is acknowledged */
void host_stop(struct host *host);
void host_append_all(struct host *host, uint32_t count, uint64_t size_bytes); /* one by one, each acknowledged */
struct fake_disk *host_copy_of(const struct fake_disk *disk);                 /* with all that was written */
/* Starts on `disk`, which is the host's from now on, and is replayed, how well is in replay_rc. Durability is not looked at. */
struct host *host_recovered(struct fake_disk *disk, const struct journal_config *config);
struct host *host_begun(const struct journal_config *config); /* the same on a new disk, without an error */
void host_end(struct host *host);                             /* its disk, too */
/* The least that recovery of `disk` must give: entries 1..acked, by state or replay, in order and whole, none damaged; at most
 * `appended`. Recovers once more from the same disk and compares. Consumes neither. Returns how many came. */
uint64_t expect_recovers(const struct fake_disk *disk, const struct journal_config *config, uint64_t acked,
                         uint64_t appended);
void host_bytes_of(uint64_t entry, uint8_t *at, uint64_t size_bytes);

#endif
