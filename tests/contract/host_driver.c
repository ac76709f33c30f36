/* host_driver.c: see host_driver.h. One thread of the test's asks, the host's own threads step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host_driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/uv/host.h"

#define DISKS_MAX 4

struct world {
    struct host *host;
    pthread_t thread;
    uint32_t disks;
    char paths[DISKS_MAX][256];
};

static const char *root;

void host_driver_root(const char *directory) { root = directory; }

const char *host_driver_disk(void *world_at, uint32_t disk)
{
    struct world *world = world_at;
    return world->paths[disk];
}

static void *run_host(void *arg)
{
    host_run(arg);
    return NULL;
}

static void *create(uint32_t shards, uint32_t disks, void *const machines[])
{
    struct world *world = calloc(1, sizeof *world);
    CHECK(world != NULL);
    CHECK(disks <= DISKS_MAX);
    world->disks = disks;
    const char *parent = root != NULL ? root : getenv("TMPDIR");
    const char *paths[DISKS_MAX];
    for (uint32_t i = 0; i < disks; i++) {
        (void)snprintf(world->paths[i], sizeof world->paths[i], "%s/weir-contract-XXXXXX",
                       parent != NULL ? parent : "/tmp");
        CHECK(mkdtemp(world->paths[i]) != NULL);
        paths[i] = world->paths[i];
    }
    struct host_config config = {.shards = shards,
                                 .disks = paths,
                                 .disk_count = disks,
                                 .conns_max = CONTRACT_CONNS_MAX,
                                 .listeners_max = CONTRACT_LISTENERS_MAX,
                                 .files_max = CONTRACT_FILES_MAX,
                                 .step = contract_step,
                                 .machines = machines};
    char why[HOST_WHY_BYTES];
    CHECK(host_create(&config, &world->host, why) == PORT_OK);
    CHECK(pthread_create(&world->thread, NULL, run_host, world->host) == 0);
    return world;
}

static void poke(void *world_at, uint32_t shard, const struct port_message *message)
{
    struct world *world = world_at;
    host_post(world->host, shard, message);
}

static bool run(void *world, bool (*is_done)(void *arg), void *arg)
{
    (void)world;
    return contract_wait(is_done, arg);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
    (void)stat;
    (void)kind;
    (void)where;
    return remove(path);
}

static void destroy(void *world_at)
{
    struct world *world = world_at;
    host_stop(world->host);
    CHECK(pthread_join(world->thread, NULL) == 0);
    host_destroy(world->host);
    for (uint32_t i = 0; i < world->disks; i++) {
        CHECK(nftw(world->paths[i], remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    }
    free(world);
}

const struct contract_driver host_driver = {
    .name = "host/uv",
    .address = {.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .port = 0},
    .refused = {.ip = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .port = 1},
    .foreign = {.ip = {[10] = 0xff, 0xff, 192, 0, 2, 1}, .port = 0}, /* RFC 5737: for documentation */
    .nowhere = {.ip = {[10] = 0xff, 0xff, 224, 0, 0, 1}, .port = 9}, /* a group has no connections */
    .create = create,
    .poke = poke,
    .run = run,
    .destroy = destroy,
};

int main(int argc, char **argv)
{
    struct contract_driver driver = host_driver;
    driver.own_cases = contract_host_cases;
    driver.own_case_count = contract_host_case_count;
    return contract_run(&driver, argc, argv);
}
