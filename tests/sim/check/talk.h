/* talk.h: what a client and a broker say to each other, as a watched stream sees it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECK_TALK_H
#define CHECK_TALK_H

#include "stream.h"

struct talk {
    struct check_stream *stream;
    uint64_t now_ns;
    struct port_conn conn;
    int16_t api_key, version;
    int32_t correlation;
};

/* Comes in two pieces, as a network gives it. */
void talk_ask(struct talk talk, const void *request);
void talk_end(struct talk talk); /* whoever asks sends no more */
void talk_answer(struct talk talk, const void *response);

#endif
