/* consume.c: weir consume.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

int app_consume(struct app_args *args)
{
    (void)args;
    return app_error(NULL, "weir consume is not there yet");
}
