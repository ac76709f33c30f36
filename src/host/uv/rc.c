/* rc.c: the one table from errno to the error words of port.h.
 *
 * Room    host/uv.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "host/uv/host.h"

#include <errno.h>

static const struct {
    int error;
    enum port_rc rc;
} words[] = {
    {0, PORT_OK},
    {ECONNREFUSED, PORT_REFUSED},
    {ECONNRESET, PORT_RESET},
    {EPIPE, PORT_RESET},
    {ECONNABORTED, PORT_RESET},
    {ENOTCONN, PORT_RESET},
    {ESHUTDOWN, PORT_RESET},
    {ENETUNREACH, PORT_UNREACHABLE},
    {EHOSTUNREACH, PORT_UNREACHABLE},
    {ENETDOWN, PORT_UNREACHABLE},
    {EHOSTDOWN, PORT_UNREACHABLE},
    {EADDRNOTAVAIL, PORT_UNREACHABLE},
    {EAFNOSUPPORT, PORT_UNREACHABLE},
    {ETIMEDOUT, PORT_TIMED_OUT},
    {EADDRINUSE, PORT_IN_USE},
    {EIO, PORT_IO},
    {EUCLEAN, PORT_IO},
    {ENODEV, PORT_IO},
    {ENXIO, PORT_IO},
    {ENOSPC, PORT_NO_SPACE},
    {EDQUOT, PORT_NO_SPACE},
    {EFBIG, PORT_NO_SPACE},
    {EMFILE, PORT_NO_HANDLES},
    {ENFILE, PORT_NO_HANDLES},
    {ENOMEM, PORT_NO_MEMORY},
    {ENOBUFS, PORT_NO_MEMORY},
    {EEXIST, PORT_EXISTS},
    {ENOENT, PORT_MISSING},
    {ENOTDIR, PORT_NOT_DIR},
    {EISDIR, PORT_NOT_DIR},
    {ENOTEMPTY, PORT_NOT_EMPTY},
    {EACCES, PORT_DENIED},
    {EPERM, PORT_DENIED},
    {EROFS, PORT_DENIED},
    {ENAMETOOLONG, PORT_BAD_NAME},
    {ELOOP, PORT_BAD_NAME},
    {EILSEQ, PORT_BAD_NAME},
};

enum port_rc host_rc_of_errno(int error)
{
    for (size_t i = 0; i < BASE_ARRAY_COUNT(words); i++) {
        if (words[i].error == error) { return words[i].rc; }
    }
    return PORT_OTHER;
}
