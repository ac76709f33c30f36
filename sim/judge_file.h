/* judge_file.h: judges histories that lie in files, whoever wrote them: weir-sim --judge FILE...
 *
 * Room    sim. Prints to stdout, complaints to stderr.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_JUDGE_FILE_H
#define SIM_JUDGE_FILE_H

/* What main returns. 0: no invariant is broken; 1: one is; 2: a file can't be read, or is no history. */
int judge_files(char *const *paths, int count);

#endif
