#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hashes.py [--once]: seeds 1 to 50 have the same trace hash twice in a row, and under every build that is there: gcc, clang, asan.

WEIR_BUILD names this build; the others lie beside it. A build whose weir-sim is older than this one's sources is still compared:
ci/test builds all of them before it runs the last one's tests. --once: not twice in a row where there is another build to agree with."""
import json
import os
import subprocess
import sys

SEEDS = "1..50"


def hashes(program, jobs):
    run = subprocess.run([program, "--seeds", SEEDS, "--jobs", jobs, "--keep-going", "--json"], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True, check=False)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {line["seed"]: line["hash"] for line in lines if "hash" in line}


def newest(folder):
    return max(os.path.getmtime(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names)


def main():
    build = os.environ["WEIR_BUILD"]
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    ours = os.path.join(build, "weir-sim")
    expected = hashes(ours, "1")
    if len(expected) != 50:
        print(f"{len(expected)} seeds instead of 50")
        return 1
    others = []
    since = max(newest(os.path.join(source, "src")), newest(os.path.join(source, "sim")))
    for name in ("release", "clang", "asan"):
        program = os.path.join(os.path.dirname(build), name, "weir-sim")
        if os.path.samefile(build, os.path.dirname(program)) if os.path.isdir(os.path.dirname(program)) else True:
            continue
        if not os.path.exists(program) or os.path.getmtime(program) < since:
            print(f"{name}: not built since the last change, left out")
            continue
        others.append((program, name, "2"))
    if "--once" not in sys.argv[1:] or not others:
        others.append((ours, "twice", "2"))
    failed = 0
    for program, name, jobs in others:
        got = hashes(program, jobs)
        bad = [seed for seed in expected if got.get(seed) != expected[seed]]
        print(f"{name}: {len(expected) - len(bad)} of {len(expected)} hashes agree" + (f"; not seeds {bad}" if bad else ""))
        failed += len(bad)
    return 1 if failed else 0


sys.exit(main())
