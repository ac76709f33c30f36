/* broker_stream.h: what the parts of fuzz_broker_stream share: the script's bytes, and requests made from them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FUZZ_BROKER_STREAM_H
#define FUZZ_BROKER_STREAM_H

#include "base/base.h"
#include "wire/kafka/kafka.h"

#define STREAM_REQUEST_BYTES_MAX ((size_t)1 << 17)
#define STREAM_IDS_MAX           8

/* The rest of the script. Past its end everything is 0. */
struct stream_input {
    const uint8_t *at;
    size_t left;
};
uint32_t stream_take(struct stream_input *input, uint32_t bytes);

/* Topic ids that exist now, for requests that name topics by id. */
struct stream_ids {
    struct base_uuid ids[STREAM_IDS_MAX];
    uint32_t count;
};

/* A whole frame, well formed, of an api that is served, with values as odd as the script asks for. 0: they can't be said. */
size_t stream_request(struct stream_input *input, const struct stream_ids *ids, int32_t correlation,
                      uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);
/* The same with values at random: any of the apis, served or not. */
size_t stream_random_request(struct stream_input *input, int32_t correlation,
                             uint8_t frame_out[STREAM_REQUEST_BYTES_MAX]);

#endif
