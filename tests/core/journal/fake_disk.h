/* fake_disk.h: file effects of port.h in memory, with a cache and what is durable kept apart, so that it can crash.
 *
 * A write is in the cache when it completes, and durable when a sync that was asked after that completion completes: no
 * earlier, as the contract allows. A name is durable after a SYNC_DIR in the same way. A crash keeps what the test chooses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FAKE_DISK_H
#define FAKE_DISK_H

#include "port/port.h"

#define FAKE_FILES 160
#define FAKE_NAMES 160
#define FAKE_OPEN  64

struct fake_write {
    uint64_t at;
    uint64_t size_bytes;
    uint8_t *bytes;
    bool is_size; /* a truncate or the like: at is the new size */
};

struct fake_file {
    bool is_used;
    uint8_t *cache;
    uint64_t cache_bytes;
    uint8_t *durable;
    uint64_t durable_bytes;
    uint64_t reserved_bytes;    /* by PORT_ALLOCATE */
    struct fake_write *pending; /* in the cache, not durable */
    uint32_t pending_count, pending_max;
};

struct fake_name {
    char path[64];
    uint32_t file;
};

struct fake_names {
    struct fake_name names[FAKE_NAMES];
    uint32_t count;
    bool has_dir;
};

struct fake_queued {
    struct port_effect effect;
    uint32_t covers; /* PORT_SYNC: pending writes of its file that had completed when it was asked */
};

enum fake_keep { FAKE_KEEP_NOTHING, FAKE_KEEP_ALL, FAKE_KEEP_ONE, FAKE_KEEP_ALL_BUT_ONE, FAKE_KEEP_TORN };

struct fake_disk {
    struct fake_file *files; /* FAKE_FILES */
    struct fake_names names, durable_names;
    struct {
        struct port_file id;
        uint32_t file; /* + 1; 0: closed */
    } open[FAKE_OPEN];
    struct fake_queued queue[256];
    uint32_t queue_count;
    uint64_t done_count; /* effects carried out */
    uint64_t write_count, sync_count;
    uint64_t file_bytes_used; /* greatest sum of file sizes seen */
    /* faults */
    uint64_t fail_at; /* the effect with this number (1 first) fails with fail_rc; 0: none */
    enum port_rc fail_rc;
    enum port_effect_kind fail_kind; /* PORT_EFFECT_COUNT: any */
    uint64_t kind_seen;
    bool fails_on;        /* goes on failing once it failed */
    uint64_t short_bytes; /* at most this much of a write or read is done; 0: all */
    uint64_t room_bytes;  /* a write or allocation beyond is NO_SPACE; 0: no limit */
    bool lies;            /* syncs are answered and not done: a planted bug, to see the checker fail */
};

struct fake_disk *fake_disk_make(void);
void fake_disk_free(struct fake_disk *disk);
void fake_disk_ask(struct fake_disk *disk, const struct port_effect *effect);
/* Carries out the effect that was asked first. False: nothing is queued. */
bool fake_disk_do(struct fake_disk *disk, struct port_event *event_out);
/* Carries out queued effect `index`, where the contract lets it overtake. */
bool fake_disk_do_at(struct fake_disk *disk, uint32_t index, struct port_event *event_out);
/* How many unsynced writes there are, those asked and not completed included. */
uint32_t fake_disk_pending(const struct fake_disk *disk);
/* A new disk with what a crash leaves. `which` of the unsynced writes (ONE, ALL_BUT_ONE, TORN: that one is cut after `bytes`,
 * those before it are whole, those after it are gone). keeps_names: names made since the last SYNC_DIR are kept. */
struct fake_disk *fake_disk_crash(const struct fake_disk *disk, enum fake_keep keep, uint32_t which, uint64_t bytes,
                                  bool keeps_names);
struct fake_file *fake_disk_file(struct fake_disk *disk, const char *path); /* NULL: no such name */
struct fake_file *fake_disk_put(struct fake_disk *disk, const char *path, const void *bytes, uint64_t size_bytes);
void fake_disk_remove(struct fake_disk *disk, const char *path); /* durably */
/* Changes what cache and durable hold. */
void fake_disk_flip(struct fake_file *file, uint64_t at, uint8_t mask);
bool fake_disk_durable_has(const struct fake_disk *disk, const void *bytes, uint64_t size_bytes);
uint64_t fake_disk_used(const struct fake_disk *disk);

#endif
