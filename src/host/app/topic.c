/* topic.c: weir topic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "app__parts.h"

int app_topic(struct app_args *args)
{
    (void)args;
    return app_error(NULL, "weir topic is not there yet");
}
