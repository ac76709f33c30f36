/* data_dir.c: the data directory: its lock and its meta.properties.
 *
 * meta.properties is Kafka's: version=1, cluster.id, node.id, directory.id. It is made once, in an empty directory only: a
 * directory that lost it is damaged, and must not become a new cluster by accident. No more must one that has logs and no journal,
 * for it has lost it, or is Kafka's own: a first start makes a checkpoint before the first log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES  4096
#define META_NAME   "meta.properties"
#define META_TEMP   "meta.properties.tmp"
#define GROUPS_NAME "weir.coordinator.groups"
#define LOCK_NAME   ".lock"
#define JOURNAL     "weir-journal"

static bool join(char path_out[PATH_BYTES], const char *dir, const char *name)
{
    int length = snprintf(path_out, PATH_BYTES, "%s/%s", dir, name);
    return length > 0 && length < PATH_BYTES;
}

static bool sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) { return false; }
    bool is_good = fsync(fd) == 0;
    return close(fd) == 0 && is_good;
}

/* What was made is there after a power cut when the directory above it was synced. One that we may write to but not read can't be. */
static bool sync_parent(const char *path)
{
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(parent, path, length);
    parent[length] = '\0';
    if (length == 0) { memcpy(parent, slash == NULL ? "." : "/", 2); }
    return sync_dir(parent) || errno == EACCES;
}

/* The directory with those above it. */
static bool make_dirs(const char *path)
{
    char part[PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return false;
    }
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') { continue; }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) == 0) {
            if (!sync_parent(part)) { return false; }
        } else if (errno != EEXIST) {
            int error = errno;
            struct stat info;
            if (stat(part, &info) != 0) { /* a read-only file system says so before it looks */
                errno = error;
                return false;
            }
        }
    }
    struct stat info;
    if (stat(path, &info) != 0) { return false; }
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return true;
}

/* Kafka locks the same file in the same way, so that neither starts in the other's directory. Where the file may only be read, a lock
 * for reading tells as well whether a broker has the directory. */
int app_data_dir_lock(const char *path, bool is_read_only_good, int *fd_out)
{
    char name[PATH_BYTES];
    if (!join(name, path, LOCK_NAME)) { return app_error(NULL, "data directory '%s': the path is too long", path); }
    short type = F_WRLCK;
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 && is_read_only_good && (errno == EROFS || errno == EACCES)) {
        type = F_RDLCK;
        fd = open(name, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) { return app_error(NULL, "data directory '%s': can't open its lock file: %s", path, strerror(errno)); }
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &lock) != 0) {
        int error = errno;
        struct flock holder = {.l_type = type, .l_whence = SEEK_SET};
        bool is_held = error == EACCES || error == EAGAIN;
        int got = is_held ? fcntl(fd, F_GETLK, &holder) : -1;
        (void)close(fd); /* we hold no lock on it */
        if (is_held && got == 0 && holder.l_type != F_UNLCK && holder.l_pid > 0) {
            return app_error(NULL, "data directory '%s' is in use by the process with pid %ld", path,
                             (long)holder.l_pid);
        }
        if (is_held) { return app_error(NULL, "data directory '%s' is in use by another process", path); }
        return app_error(NULL, "data directory '%s': can't lock it: %s", path, strerror(error));
    }
    *fd_out = fd;
    return APP_DONE;
}

/* What a directory may hold and still be called empty. */
static bool is_nothing(const char *name)
{
    static const char *const nothings[] = {".", "..", LOCK_NAME, META_TEMP, "lost+found"};
    for (size_t i = 0; i < BASE_ARRAY_COUNT(nothings); i++) {
        if (strcmp(name, nothings[i]) == 0) { return true; }
    }
    return false;
}

static int look_empty(const char *path, bool *is_empty_out)
{
    DIR *dir = opendir(path);
    if (dir == NULL) { return app_error(NULL, "data directory '%s': can't be read: %s", path, strerror(errno)); }
    *is_empty_out = true;
    errno = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (!is_nothing(entry->d_name)) { *is_empty_out = false; }
    }
    int error = errno;
    (void)closedir(dir); /* only read */
    if (error != 0) { return app_error(NULL, "data directory '%s': can't be read: %s", path, strerror(error)); }
    return APP_DONE;
}

static bool is_missing(const char *path, const char *name)
{
    char full[PATH_BYTES];
    struct stat info;
    return join(full, path, name) && stat(full, &info) != 0 && errno == ENOENT;
}

static bool is_log(int dir_fd, const char *name)
{
    struct stat info;
    if (name[0] == '.' || strcmp(name, JOURNAL) == 0 || strcmp(name, "lost+found") == 0) { return false; }
    return fstatat(dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

/* Logs without a journal would be cut where it names nothing: everywhere. */
static int look_for_journal(const char *path)
{
    if (!is_missing(path, JOURNAL "/checkpoint-a.wj") || !is_missing(path, JOURNAL "/checkpoint-b.wj")) {
        return APP_DONE;
    }
    DIR *dir = opendir(path);
    if (dir == NULL) { return app_error(NULL, "data directory '%s': can't be read: %s", path, strerror(errno)); }
    int code = APP_DONE;
    for (struct dirent *entry = readdir(dir); entry != NULL && code == APP_DONE; entry = readdir(dir)) {
        if (!is_log(dirfd(dir), entry->d_name)) { continue; }
        code = app_error(NULL,
                         "data directory '%s' has '%s', but no checkpoint in " JOURNAL
                         ": it has lost its journal, or is another broker's; nothing was changed",
                         path, entry->d_name);
    }
    (void)closedir(dir); /* only read */
    return code;
}

/* Ids that a command line could take for an option (a leading '-') are drawn again, as Kafka does. */
static void random_id(char text_out[23])
{
    struct base_uuid id;
    do {
        app_random(&id, sizeof id);
        id.b[6] = (uint8_t)((id.b[6] & 0x0FU) | 0x40U); /* version 4, RFC 9562 */
        id.b[8] = (uint8_t)((id.b[8] & 0x3FU) | 0x80U);
        base_uuid_to_text(id, text_out);
    } while (text_out[0] == '-');
}

static bool write_whole(int fd, const char *words, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t written = write(fd, words, size_bytes);
        if (written < 0 && errno == EINTR) { continue; }
        if (written <= 0) { return false; }
        words += written;
        size_bytes -= (size_t)written;
    }
    return true;
}

/* Whole or not at all, also when the power goes. */
static bool write_meta(const char *path, const struct app_data_dir *dir)
{
    char temp[PATH_BYTES];
    char name[PATH_BYTES];
    char words[512];
    if (!join(temp, path, META_TEMP) || !join(name, path, META_NAME)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int length =
        snprintf(words, sizeof words, "#\nversion=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n" GROUPS_NAME "=%u\n",
                 dir->cluster_id, (int)dir->node_id, dir->directory_id, dir->coordinator_groups);
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) { return false; }
    bool is_good = write_whole(fd, words, (size_t)length) && fsync(fd) == 0;
    is_good = close(fd) == 0 && is_good;
    return is_good && rename(temp, name) == 0 && sync_dir(path);
}

static struct base_slice meta_value(const struct settings_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (base_slice_equal(list->entries[i].name, base_slice_text(name))) { return list->entries[i].value; }
    }
    return (struct base_slice){0};
}

static bool copy_id(struct base_slice value, char text_out[23])
{
    if (value.size_bytes == 0 || value.size_bytes > 22) { return false; }
    memcpy(text_out, value.at, value.size_bytes);
    text_out[value.size_bytes] = '\0';
    return true;
}

static int read_meta(const char *path, const char *words, size_t size_bytes, struct app_data_dir *dir)
{
    size_t room = size_bytes + sizeof(struct settings_entry) * (SETTINGS_ENTRIES_MAX + 1);
    void *memory = malloc(room);
    if (memory == NULL) { return app_error(NULL, "no memory"); }
    struct base_arena arena;
    struct settings_list list;
    char why_words[512];
    struct base_text why;
    base_text_init(&why, why_words, sizeof why_words);
    base_arena_init(&arena, memory, room);
    int code = APP_DONE;
    int64_t node_id = -1;
    int64_t groups = dir->coordinator_groups;
    struct base_slice groups_value;
    if (settings_list_create(&arena, &list) != BASE_OK ||
        settings_read(&list, &arena, base_slice_of(words, size_bytes), &why) != BASE_OK) {
        code = app_error(NULL, "'%s/" META_NAME "': %s", path, why_words);
    } else if (!base_slice_equal(meta_value(&list, "version"), base_slice_text("1"))) {
        code = app_error(NULL, "'%s/" META_NAME "' is not of version 1", path);
    } else if (!copy_id(meta_value(&list, "cluster.id"), dir->cluster_id)) {
        code = app_error(NULL, "'%s/" META_NAME "' has no cluster.id", path);
    } else if (base_text_parse_i64(meta_value(&list, "node.id"), &node_id) != BASE_OK) {
        code = app_error(NULL, "'%s/" META_NAME "' has no node.id", path);
    } else if (!copy_id(meta_value(&list, "directory.id"), dir->directory_id)) {
        dir->directory_id[0] = '\0'; /* Kafka before 3.7 had none: one is added */
    }
    groups_value = code == APP_DONE ? meta_value(&list, GROUPS_NAME) : base_slice_of(NULL, 0);
    dir->is_complete = dir->directory_id[0] != '\0' && groups_value.size_bytes > 0;
    if (groups_value.size_bytes > 0 && base_text_parse_i64(groups_value, &groups) != BASE_OK) {
        code = app_error(NULL, "'%s/" META_NAME "' has a " GROUPS_NAME " that is no number", path);
    } else if (code == APP_DONE && groups != dir->coordinator_groups) {
        code = app_error(NULL,
                         "data directory '%s' was made with " GROUPS_NAME "=%lld, which can't be changed, but the "
                         "configuration says %u",
                         path, (long long)groups, dir->coordinator_groups);
    }
    if (code == APP_DONE && node_id != dir->node_id) {
        code = app_error(NULL, "data directory '%s' is of node.id=%lld, but the configuration says node.id=%d", path,
                         (long long)node_id, (int)dir->node_id);
    }
    free(memory);
    return code;
}

static int make_meta(const char *path, const char *cluster_id, struct app_data_dir *dir)
{
    bool is_empty = false;
    int code = look_empty(path, &is_empty);
    if (code != APP_DONE) { return code; }
    if (!is_empty) {
        return app_error(NULL,
                         "data directory '%s' is not empty and has no " META_NAME
                         ": it is damaged, or not a data directory at all",
                         path);
    }
    if (cluster_id[0] != '\0') {
        return app_error(
            NULL,
            "data directory '%s' is empty, but weir.cluster.id says that this node belongs to cluster %s: give it "
            "its data back, or leave weir.cluster.id out to begin a new cluster",
            path, cluster_id);
    }
    random_id(dir->cluster_id);
    random_id(dir->directory_id);
    dir->is_new = true;
    if (!write_meta(path, dir)) {
        return app_error(NULL, "'%s/" META_NAME "': can't be written: %s", path, strerror(errno));
    }
    return APP_DONE;
}

int app_data_dir_open(const char *path, int32_t node_id, uint32_t coordinator_groups, const char *cluster_id,
                      struct app_data_dir *dir_out)
{
    *dir_out = (struct app_data_dir){.lock_fd = -1, .node_id = node_id, .coordinator_groups = coordinator_groups};
    if (!make_dirs(path)) { return app_error(NULL, "data directory '%s': can't be made: %s", path, strerror(errno)); }
    int code = app_data_dir_lock(path, false, &dir_out->lock_fd);
    if (code != APP_DONE) { return code; }
    char name[PATH_BYTES];
    if (!join(name, path, META_NAME)) { return app_error(NULL, "data directory '%s': the path is too long", path); }
    size_t size_bytes = 0;
    char *words = app_read_file(name, &size_bytes);
    if (words == NULL && errno != ENOENT) { return app_error(NULL, "'%s': can't be read: %s", name, strerror(errno)); }
    if (words == NULL) { return make_meta(path, cluster_id, dir_out); }
    code = read_meta(path, words, size_bytes, dir_out);
    free(words);
    if (code != APP_DONE) { return code; }
    if (cluster_id[0] != '\0' && strcmp(cluster_id, dir_out->cluster_id) != 0) {
        return app_error(NULL, "data directory '%s' is of cluster %s, but weir.cluster.id says %s", path,
                         dir_out->cluster_id, cluster_id);
    }
    code = look_for_journal(path);
    if (code != APP_DONE || dir_out->is_complete) { return code; }
    if (dir_out->directory_id[0] == '\0') { random_id(dir_out->directory_id); }
    if (write_meta(path, dir_out)) { return APP_DONE; }
    return app_error(NULL, "'%s': can't be written: %s", name, strerror(errno));
}
