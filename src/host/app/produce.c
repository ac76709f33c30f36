/* produce.c: weir produce.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

int app_produce(struct app_args *args)
{
    (void)args;
    return app_error(NULL, "weir produce is not there yet");
}
