#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""judge_files.py: weir-sim --judge on files: a good history is good, each bad one is told by its id, what is no history is refused.

WEIR_BUILD names the build."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), "e2e"))

import history as histories  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(os.environ["WEIR_BUILD"], "weir-sim")


def good():
    history = histories.History()
    op = history.begin("a1", "create", topic="t", count=1)
    history.end(op, "ok")
    for number in range(4):
        op = history.begin("p1", "produce", topic="t", partition=0, acks=-1, idempotent=1, record=f"1.1.{number}")
        history.end(op, "ok", offset=number)
    for number in range(2):
        history.once("c1", "read", topic="t", partition=0, record=f"1.1.{number}", session=1, offset=number)
    history.once("-", "note", topic="crash", count=2)
    for at, offset in ((-2, 0), (-1, 4)):
        op = history.begin("v1", "offsets", topic="t", partition=0, at=at, final=1)
        history.end(op, "ok", offset=offset)
    for number in range(4):
        history.once("v1", "read", topic="t", partition=0, record=f"1.1.{number}", session=2, final=1, offset=number)
    history.once("v1", "end", topic="t", partition=0, final=1, offset=4)
    return history


def judge_text(text, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return subprocess.run([PROGRAM, "--judge", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def main():
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "history")
        broken, counts = histories.judge(PROGRAM, good(), path)
        if broken or counts["acknowledged"] != 4 or counts["final_reads"] != 4 or counts["ends"] != 1:
            failed.append(f"a good history: {broken}, {counts}")
        failed += histories.find_missed(PROGRAM, good(), path)
        head = "weir-history 1\n"
        for text, words in (("", ":0: no line"), ("weir-history 2\n", ":1: no line"), (head + "1 a1 0 ok\n", ":2: no line"),
                            (head + "1 a1 1 invoke create topic=t\n", ":2: no line"),  # the first is number 0
                            (head + "1 a1 0 invoke create topic=t\n2 a1 0 ok delete topic=t\n", ":3: no line"),
                            (head + "1 a1 0 invoke create topic=t", ":2: no line")):  # cut off
            run = judge_text(text, path)
            if run.returncode != 2 or words not in run.stderr:
                failed.append(f"{text!r}: exit code {run.returncode}, {run.stderr!r}")
        # the simulator's own, by the same way
        run = subprocess.run([PROGRAM, "--broker", "--seed", "1", "--history", path], stdout=subprocess.DEVNULL, check=False)
        told = subprocess.run([PROGRAM, "--judge", path, path], stdout=subprocess.PIPE, text=True, check=False)
        if told.returncode != run.returncode or told.stdout.count(" broken=0\n") != 2:
            failed.append(f"a run's own history: {told.stdout}")
    for line in failed:
        print(f"FAILED {line}")
    print(f"{len(histories.DOCTORED)} bad histories, {len(failed)} failures")
    return 1 if failed else 0


sys.exit(main())
