#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage.py WORKLOAD...: what weir-sim says to words that make no sense, and what --until shows; and that the workloads of --exhaust are
those named, which have a test each."""
import os
import subprocess
import sys

PROGRAM = os.path.join(os.environ["WEIR_BUILD"], "weir-sim")

BAD = [  # the arguments; what the error must name
    (["--sed", "4"], "--sed"),
    (["--seed"], "--seed"),
    (["--seed", "x"], "--seed x"),
    (["--seed", "-1"], "--seed -1"),
    (["--seeds", "5..3"], "--seeds 5..3"),
    (["--seed", "3", "--set", "shards=0"], "shards=0"),
    (["--seed", "3", "--set", "shards=9"], "shards=9"),
    (["--seed", "3", "--set", "region_mb=1"], "region_mb=1"),
    (["--seed", "3", "--set", "segment_max_bytes=0"], "segment_max_bytes=0"),
    (["--seed", "3", "--set", "net_reset=1000001"], "net_reset=1000001"),
    (["--seed", "3", "--set", "net_reset"], "net_reset"),
    (["--seed", "3", "--set", "nothing=1"], "nothing=1"),
    (["--seed", "3", "--set", "limit_files=7"], "limit_files=7"),
    (["--seed", "3", "--set", "limit_nothing=1"], "limit_nothing=1"),
    (["--seed", "3", "--jobs", "0"], "--jobs 0"),
    (["--seed", "3", "--trace", "/no/such/folder/t"], "/no/such/folder/t"),
    (["--seeds", "1..2", "--until", "9"], "--until"),
    (["--exhaust", "--seed", "1", "--only", "first", "--every", "1000000"], "--every 1000000 leaves the workload first without a cut"),
    ([], "--seed"),
]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def main():
    failed = 0

    def expect(holds, what):
        nonlocal failed
        if not holds:
            failed += 1
            print("not so: " + what)

    for arguments, named in BAD:
        got = run(*arguments)
        first = (got.stderr.splitlines() or [""])[0]
        expect(got.returncode == 2 and first.startswith("error: ") and named in first,
               f"{' '.join(arguments)} is refused by name; {got.returncode}: {first}")
    helped = run("--help")
    expect(helped.returncode == 0 and "--until" in helped.stdout and helped.stderr == "", "--help tells the options")
    # Without crashes the broker serves at event 5000, whatever the seed is; and its metadata log begins where it began.
    quiet = [f"--set={knob}=0" for knob in ("crashes", "state_crashes", "crash_power", "crash_process", "crash_kind", "io_errors",
                                            "sync_errors", "refusals")]
    quiet.append(f"--set=metadata_grown_bytes={1 << 40}")
    seed = ["--seed", "3", "--broker", *(word for knob in quiet for word in knob.split("=", 1))]
    whole = run(*seed)
    cut = run(*seed, "--until", "5000")
    again = run(*seed, "--until", "5000")
    expect(whole.returncode == 0 and cut.returncode == 0, "a run that is left is no failure")
    expect(cut.stdout == again.stdout, "the same seed shows the same states")
    for words in ("after step 5000,", "broker shard 0 is ", "log __cluster_metadata-0: start=0 ", "  node 0 is up",
                  "weir-journal/", " durable", "client a1", "result=cut"):
        expect(words in cut.stdout, f"--until shows '{words}'")
    named = run("--exhaust", "--only", "none-of-them")
    names = named.stderr.partition("NAME one of")[2].split()
    expect(named.returncode == 2 and names == sys.argv[1:], f"the workloads are those that have a test: {names}, {sys.argv[1:]}")
    print(f"{failed} of {len(BAD) + 15} did not hold")
    return 1 if failed else 0


sys.exit(main())
