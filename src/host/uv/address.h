/* address.h: addresses as the system's calls take and give them.
 *
 * Room    host/uv.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_UV_ADDRESS_H
#define HOST_UV_ADDRESS_H

#include "port/port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

union host_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* How many bytes of it count. */
socklen_t host_address_to_system(struct port_address address, union host_address *out);
/* All zero for a family that is neither. */
struct port_address host_address_from_system(const struct sockaddr *from);
/* The one of what getaddrinfo found that is used, here for listening and there for connecting; NULL: the list is empty. IPv4 first: it is
 * what listens when nobody said otherwise, and "localhost" may have both. */
const struct addrinfo *host_address_best(const struct addrinfo *list);

#endif
