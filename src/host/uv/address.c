/* address.c: see address.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "address.h"

#include <string.h>

static const uint8_t v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

socklen_t host_address_to_system(struct port_address address, union host_address *out)
{
    memset(out, 0, sizeof *out);
    if (memcmp(address.ip, v4_prefix, sizeof v4_prefix) == 0) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(address.port);
        memcpy(&out->v4.sin_addr, address.ip + 12, 4);
        return sizeof out->v4;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(address.port);
    memcpy(&out->v6.sin6_addr, address.ip, 16);
    return sizeof out->v6;
}

struct port_address host_address_from_system(const struct sockaddr *from)
{
    struct port_address address = {.port = 0};
    union host_address at;
    if (from->sa_family == AF_INET) {
        memcpy(&at.v4, from, sizeof at.v4);
        memcpy(address.ip, v4_prefix, sizeof v4_prefix);
        memcpy(address.ip + 12, &at.v4.sin_addr, 4);
        address.port = ntohs(at.v4.sin_port);
    } else if (from->sa_family == AF_INET6) {
        memcpy(&at.v6, from, sizeof at.v6);
        memcpy(address.ip, &at.v6.sin6_addr, 16);
        address.port = ntohs(at.v6.sin6_port);
    }
    return address;
}

const struct addrinfo *host_address_best(const struct addrinfo *list)
{
    const struct addrinfo *best = list;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        if (best->ai_family != AF_INET && at->ai_family == AF_INET) { best = at; }
    }
    return best;
}
