/* tell.c: a line for whoever looks after the disk: which call failed, on what file, and with what error of the system.
 *
 * Room    host/uv.
 * Knows   not what follows from it: that is the machine's, and a line of its own says it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host__shard.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* PORT_LEVEL_NONE: an answer like another. A full disk heals, and who is told of it asks again and again. */
static uint32_t level_of(enum port_rc rc)
{
    switch (rc) {
    case PORT_OK:
    case PORT_EOF:
    case PORT_CLOSED:
    case PORT_EXISTS:
    case PORT_MISSING:
    case PORT_NOT_DIR:
    case PORT_NOT_EMPTY:
    case PORT_BAD_NAME: return PORT_LEVEL_NONE;
    case PORT_NO_SPACE: return PORT_DEBUG;
    case PORT_NO_HANDLES:
    case PORT_NO_MEMORY: return PORT_WARN;
    case PORT_REFUSED:
    case PORT_RESET:
    case PORT_UNREACHABLE:
    case PORT_TIMED_OUT:
    case PORT_IN_USE:
    case PORT_IO:
    case PORT_DENIED:
    case PORT_OTHER: return PORT_ERROR;
    case PORT_RC_COUNT: UNREACHABLE();
    }
    UNREACHABLE();
}

static const char *verb_of(enum port_effect_kind kind)
{
    switch (kind) {
    case PORT_OPEN: return "open";
    case PORT_READ: return "read";
    case PORT_WRITE: return "write";
    case PORT_TRUNCATE: return "truncate";
    case PORT_ALLOCATE: return "allocate";
    case PORT_SYNC: return "sync";
    case PORT_CLOSE_FILE: return "close";
    case PORT_RENAME: return "rename";
    case PORT_UNLINK: return "unlink";
    case PORT_MAKE_DIR: return "make";
    case PORT_REMOVE_DIR: return "remove";
    case PORT_SYNC_DIR: return "sync directory";
    case PORT_LIST: return "list";
    case PORT_SPACE: return "measure";
    case PORT_LISTEN:
    case PORT_UNLISTEN:
    case PORT_ACCEPT:
    case PORT_RESOLVE:
    case PORT_CONNECT:
    case PORT_RECV:
    case PORT_SEND:
    case PORT_SHUT:
    case PORT_CLOSE:
    case PORT_LOG:
    case PORT_LEVEL:
    case PORT_READY:
    case PORT_STOPPED:
    case PORT_EFFECT_COUNT: UNREACHABLE();
    }
    UNREACHABLE();
}

/* As the system has it: it may have been renamed since it was opened. */
static void add_path(struct base_text *text, const struct op *op)
{
    char link[64];
    char path[PATH_MAX];
    if (op->fd < 0) {
        base_text_add(text, op->shard->host->config.disks[op->effect.disk]);
        base_text_add(text, op->effect.path.size_bytes > 0 ? "/" : "");
        base_text_add_slice(text, op->effect.path);
        return;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", op->fd); /* there is room */
    ssize_t size_bytes = readlink(link, path, sizeof path);
    base_text_add_slice(text, base_slice_of(path, size_bytes < 0 ? 0 : (size_t)size_bytes));
}

void host__disk_tell(const struct op *op)
{
    const struct host_notes *notes = &op->shard->host->config.notes;
    uint32_t level = level_of(op->rc);
    if (notes->log == NULL || level == PORT_LEVEL_NONE) { return; }
    char words[PATH_MAX + 256];
    struct base_text text;
    base_text_init(&text, words, sizeof words);
    base_text_add(&text, verb_of(op->effect.kind));
    base_text_add(&text, " '");
    add_path(&text, op);
    base_text_add(&text, "'");
    if (op->effect.kind == PORT_READ || op->effect.kind == PORT_WRITE) {
        base_text_add(&text, " at byte ");
        base_text_add_i64(&text, (int64_t)(op->effect.position_bytes + op->count));
    }
    base_text_add(&text, " failed: ");
    base_text_add(&text, uv_strerror(-op->error)); /* libuv's errors are negated errnos here */
    base_text_add(&text, " (");
    base_text_add(&text, uv_err_name(-op->error));
    base_text_add(&text, ")");
    notes->log(notes->context, op->shard->index, host__wall_ms(), (enum port_level)level, base_slice_text("host/uv"),
               base_text_slice(&text));
}
