#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the system calls say: no acks=all answer leaves before the sync that it depends on; many answers share a sync; fetches are sent by
sendfile.

kill -9 keeps the page cache, so a broker that never synced would pass test_kill9.py; this one looks at the order of the calls themselves.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time

import harness
import wire
from harness import IS_LONG, Broker, Skip, check, equal, say

CALLS = "pwrite64,pwritev,pwritev2,write,writev,fsync,fdatasync,sendto,sendmsg,sendfile,openat,renameat,unlink"

# 1234 1700000000.123456 fdatasync(12</tmp/x>) = 0
LINE = re.compile(r"^(?P<pid>\d+) +(?:[\d.]+ )?(?P<rest>.*)$")
START = re.compile(r"^(?P<call>\w+)\((?P<fd>\d+|AT_FDCWD)?(?:<(?P<path>.*?)>)?(?=[,) ])(?P<args>.*)$", re.S)
RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>(?P<args>.*)$", re.S)
RESULT = re.compile(r"\) += (?P<result>-?\d+)(?:<[^>]*>)?(?: .*)?$")
MARK = re.compile(rb"mark-(\d{8})")


class Call:
    """One call: `start` and `end` are the numbers of the lines where it began and returned; `data` is what it wrote."""

    def __init__(self, name, path, start):
        self.name = name
        self.path = path or ""
        if self.path.startswith("\\x"):  # -xx writes file names so too
            self.path = bytes.fromhex(self.path.replace("\\x", "")).decode(errors="replace")
        self.start = start
        self.end = None
        self.result = None
        self.args = ""

    def data(self):
        return b"".join(bytes.fromhex(text.replace("\\x", "")) for text in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', self.args))


def read_trace(lines):
    """The calls of `strace -f -yy -xx`, in the order in which they began."""
    calls = []
    open_calls = {}
    for number, line in enumerate(lines):
        match = LINE.match(line.rstrip("\n"))
        if not match:
            continue
        pid, rest = match["pid"], match["rest"]
        resumed = RESUMED.match(rest)
        if resumed:
            call = open_calls.pop(pid, None)
            if call is None:
                continue
            text = resumed["args"]
        else:
            begun = START.match(rest)
            if not begun:
                continue
            call = Call(begun["call"], begun["path"], number)
            calls.append(call)
            text = begun["args"]
            if text.endswith("<unfinished ...>"):
                call.args += text
                open_calls[pid] = call
                continue
        call.args += text
        result = RESULT.search(text)
        if result:
            call.end = number
            call.result = int(result["result"])
    return calls


def judge(calls):
    """Every acks=all answer leaves after a sync, begun after its write had returned, has returned: in the journal, whose entry says that the
    record is there, and for a record that is not in the journal itself in its segment before that.

    A produce request has the mark 'mark-N' in its only record and N as its correlation id, on connections that only produce.
    Gives (answers, syncs, what is wrong)."""
    writes = {}  # mark: calls that wrote it, with the file
    files = {}  # path: (writes, syncs)
    answers = []
    for call in calls:
        if call.name in ("pwrite64", "pwritev", "pwritev2") and call.result is not None and call.result > 0:
            for mark in MARK.findall(call.data()):
                writes.setdefault(int(mark), []).append(call)
            files.setdefault(call.path, ([], []))[0].append(call)
        elif call.name in ("fdatasync", "fsync") and call.result == 0:
            files.setdefault(call.path, ([], []))[1].append(call)
        elif call.name in ("sendto", "sendmsg", "writev", "write") and call.path.startswith("TCP:"):
            data = call.data()
            at = 0
            while at + 8 <= len(data):
                size = int.from_bytes(data[at:at + 4], "big")
                answers.append((int.from_bytes(data[at + 4:at + 8], "big"), call))
                at += 4 + size
    wrong = []
    judged = 0
    for number, sent in answers:
        if number not in writes:
            continue
        judged += 1
        if not is_synced(writes[number], files, sent.start):
            wrong.append(f"answer {number} leaves at line {sent.start + 1} before a sync of what it depends on")
    return judged, sum(len(syncs) for _, syncs in files.values()), wrong


def is_synced(writes, files, before):
    for write in writes:
        syncs = [s for s in files[write.path][1] if s.start > write.end and s.end < before]
        if "weir-journal" in write.path:
            if syncs:
                return True
            continue
        for sync in syncs:  # the segment's bytes are down; then an entry of the journal says so
            for path, (entries, journal_syncs) in files.items():
                if "weir-journal" not in path:
                    continue
                for entry in entries:
                    if entry.start > sync.end and any(s.start > entry.end and s.end < before for s in journal_syncs):
                        return True
    return False


# ---- the parser and the judge, on planted traces ----

GOOD = r'''
10 1.000001 pwritev(7</d/weir-journal/0000000001.wj>, [{iov_base="\x6d\x61\x72\x6b\x2d\x30\x30\x30\x30\x30\x30\x30\x31", iov_len=13}], 1, 0) = 13
11 1.000002 fdatasync(7</d/weir-journal/0000000001.wj> <unfinished ...>
10 1.000003 pwritev(8</d/t-0/0.log>, [{iov_base="\x6d\x61\x72\x6b\x2d\x30\x30\x30\x30\x30\x30\x30\x32", iov_len=13}], 1, 0) = 13
11 1.000004 <... fdatasync resumed>) = 0
10 1.000005 sendmsg(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, {msg_name=NULL, msg_iov=[{iov_base="\x00\x00\x00\x04\x00\x00\x00\x01", iov_len=8}], msg_iovlen=1}, 0) = 8
11 1.000006 fdatasync(8</d/t-0/0.log>) = 0
11 1.000007 pwritev(7</d/weir-journal/0000000001.wj>, [{iov_base="\x01", iov_len=1}], 1, 13) = 1
11 1.000008 fdatasync(7</d/weir-journal/0000000001.wj>) = 0
10 1.000009 sendmsg(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, {msg_name=NULL, msg_iov=[{iov_base="\x00\x00\x00\x04\x00\x00\x00\x02", iov_len=8}], msg_iovlen=1}, 0) = 8
'''.strip().splitlines()


def test_planted_traces():
    """A good trace passes; the same with any two neighbouring steps that matter exchanged does not."""
    equal(judge(read_trace(GOOD)), (2, 3, []), "a good trace")

    def moved(line, to):
        lines = list(GOOD)
        lines.insert(to, lines.pop(line))
        return judge(read_trace(lines))[2]

    for what, line, to in (("an answer before its sync returned", 4, 3), ("an answer before its sync began", 4, 1),
                           ("a sync that began before the write", 1, 0), ("an answer without the journal's sync", 8, 7),
                           ("an answer without a journal entry", 8, 6), ("an answer before its segment's sync", 8, 5),
                           ("a journal entry before the segment's sync", 6, 5)):
        check(len(moved(line, to)) == 1, f"{what} is not found: {moved(line, to)}")
    failed = [line.replace("= 0", "= -1 EIO (Input/output error)") if "resumed" in line else line for line in GOOD]
    equal(len(judge(read_trace(failed))[2]), 1, "a sync that failed")


# ---- a real broker ----


class Traced:
    """A broker under strace; .calls() ends it and gives what it did."""

    def __init__(self, shards, string_bytes, calls=CALLS, settings=None):
        if not shutil.which("strace"):
            raise AssertionError("strace is not installed: ci/setup test")
        probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            raise Skip(f"strace is not allowed here: {probe.stderr.decode()}")
        self.broker = Broker(shards, settings, name="strace")
        self.path = os.path.join(self.broker.directory, "trace")
        self.broker.wrapper = ["strace", "-f", "-yy", "-xx", "-s", str(string_bytes), "-o", self.path, "-e", f"trace={calls}"]

    def __enter__(self):
        self.broker.__enter__()
        return self

    def __exit__(self, *error):
        return self.broker.__exit__(*error)

    def calls(self):
        self.broker.stop()
        with open(self.path, encoding="ascii", errors="replace") as file:
            return read_trace(file)


def values_of(dice_bytes, number):
    return b"mark-%08d" % number + b"." * dice_bytes


def produce_marked(broker, topic, numbers, partitions, sizes, pipeline):
    """One connection; each request has one record with a mark; up to `pipeline` requests under way."""
    with wire.Conn(broker.host, broker.port) as conn:
        under_way = []

        def finish_one():
            number = under_way.pop(0)
            for where, (error, _) in conn.produce_answer(conn.receive(number)).items():
                equal(error, 0, f"produce {number} to {where}")

        for i, number in enumerate(numbers):
            body = conn.produce_body(topic, {number % partitions: wire.batch([values_of(sizes[i % len(sizes)], number)])})
            conn.socket.sendall(conn.frame(wire.PRODUCE, 7, number, body))
            under_way.append(number)
            if len(under_way) >= pipeline:
                finish_one()
        while under_way:
            finish_one()


def answers_wait(shards):
    with Traced(shards, 400000) as traced:
        broker = traced.broker
        with wire.Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", 6)[0], 0, "create t")
        threads = []
        failures = []

        def run(first, sizes, count, pipeline):
            try:
                produce_marked(broker, "t", range(first, first + count), 6, sizes, pipeline)
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)

        for i, (sizes, count, pipeline) in enumerate((([10, 1000], 150, 1), ([100], 150, 5), ([20000, 100000, 300000], 20, 2))):
            threads.append(threading.Thread(target=run, args=(1000000 * (i + 1), sizes, count, pipeline)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        judged, syncs, wrong = judge(traced.calls())
        check(not wrong, lambda: f"{len(wrong)} answers too early: {wrong[:3]}")
        equal(judged, 320, "answers found in the trace")
        say(f"       {shards} shards: {judged} acks=all answers, each after its sync; {syncs} syncs")


def test_answers_wait_for_their_sync_one_shard():
    answers_wait(1)


def test_answers_wait_for_their_sync_two_shards():
    answers_wait(2)


def test_a_new_data_directory_is_there_after_a_power_cut():
    """Each directory that a first start makes is synced in the one above it."""
    traced = Traced(1, 4096, "mkdir,fsync")
    traced.broker.wrapper.remove("-xx")
    traced.broker.data = os.path.join(traced.broker.directory, "a", "b")
    with traced:
        traced.broker.stop()
        made = []
        unsynced = []
        with open(traced.path, encoding="ascii", errors="replace") as file:
            for line in file:
                match = re.search(r'mkdir\("([^"]+)", 0755\) += 0', line)
                if match:
                    made.append(match[1])
                    unsynced.append(os.path.dirname(match[1]))
                match = re.search(r"fsync\(\d+<([^>]+)>\) += 0", line)
                if match and match[1] in unsynced:
                    unsynced.remove(match[1])
        equal(made, [os.path.dirname(traced.broker.data), traced.broker.data], "the directories that were made")
        equal(unsynced, [], "directories that were not synced after one was made in them")


def test_answers_share_syncs():
    producers, partitions = 64, 100
    each = 200 if IS_LONG else 40
    with Traced(2, 32, "fdatasync,fsync") as traced:
        broker = traced.broker
        with wire.Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", partitions)[0], 0, "create t")
            batch = wire.batch([b"x" * 100])
            conn.produce("t", {p: batch for p in range(partitions)})  # the directories' own syncs are not counted
            before = sync_count(traced.path)
        failures = []

        def run(index):
            try:
                with wire.Conn(broker.host, broker.port, 60) as conn:
                    for i in range(each):
                        for where, (error, _) in conn.produce("t", {(index * 7 + i) % partitions: batch}).items():
                            equal(error, 0, f"produce to {where}")
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(producers)]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - began
        if failures:
            raise failures[0]
        syncs = sync_count(traced.path) - before
        broker.stop()
        answers = producers * each
        say(f"       {producers} producers, {partitions} partitions: {answers} answers, {syncs} syncs, "
            f"{answers / max(1, syncs):.1f} answers a sync ({took:.1f} s under strace)")
        check(syncs > 0, "no sync at all")
        check(answers >= 4 * syncs, f"{syncs} syncs for {answers} answers are too many")


def sync_count(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return sum(1 for line in file if re.search(r"f(?:data)?sync\(", line))


def test_fetch_is_sendfile():
    total = (1024 if IS_LONG else 256) << 20
    piece = 1 << 20
    with Traced(1, 16, "sendto,sendmsg,sendfile,write,writev") as traced:
        broker = traced.broker
        with wire.Conn(broker.host, broker.port, 60) as conn:
            equal(conn.create_topic("big", 1, {"max.message.bytes": "2000000"})[0], 0, "create big")
            batch = wire.batch([os.urandom(piece - 100)])
            for _ in range(total // len(batch) + 1):
                (error, _), = conn.produce("big", {0: batch}, acks=1).values()
                equal(error, 0, "produce to big")
            harness.until(lambda: conn.list_offsets("big", {0: -1})[0][2] == total // len(batch) + 1, 60, "all of it is visible")
            offset = received = 0
            port = None
        with wire.Conn(broker.host, broker.port, 60) as conn:
            port = conn.socket.getsockname()[1]
            while received < total:
                error, parts = conn.fetch("big", {0: offset}, max_bytes=50 << 20, partition_bytes=50 << 20)
                code, _, data = parts[("big", 0)]
                equal((error, code), (0, 0), "errors of a fetch")
                for _, last, _, _, whole in wire.batches(data):
                    check(whole[12:16] + whole[21:] == batch[12:16] + batch[21:], f"other bytes at {last}")
                    offset = last + 1
                    received += len(whole)
        by_file = by_memory = 0
        for call in traced.calls():
            if f":{port}]" not in call.path or call.result is None or call.result <= 0:
                continue
            if call.name == "sendfile":
                by_file += call.result
            else:
                by_memory += call.result
        say(f"       {received >> 20} MiB fetched: {by_file} bytes by sendfile, {by_memory} by other calls")
        check(by_file >= received, "sendfile sent less than was received")
        check(by_memory < 64 * 1024, f"{by_memory} bytes went through memory")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
