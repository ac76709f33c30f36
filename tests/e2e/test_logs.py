#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the log alone tells, as text and as JSON: of a start, of the recovery after a kill -9, of a failed disk, of a stop; that a level which
is changed at run time takes effect; that what is left out is told; and that nothing of it is a secret or a payload, at whatever level."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import harness
import wire
from harness import Broker, Skip, check, equal, until
from wire import Conn, batch

TEXT = re.compile(r"^(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (?P<level>[A-Z]+) (?P<room>\S+) (?P<message>.*)$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
SECRET = "Planted-Secret-5f2c"
PAYLOAD = "Planted-Payload-a91e"
SECRETS = {"ssl.keystore.password": SECRET, "ssl.key.password": SECRET, "sasl.oauthbearer.client.credentials.client.secret": SECRET}


def lines(broker, form):
    """Each line is one of the form; (level, room, message)."""
    found = []
    for line in broker.log().splitlines():
        said = json.loads(line) if form == "json" else TEXT.match(line)
        check(said, f"a line of another form: {line!r}")
        check(TIME.match(said["time"]), f"a time: {line!r}")
        found.append((said["level"], said["room"], said["message"]))
    return found


def story(broker, form, since, *wanted):
    """These lines are there in this order, each (level, room, pattern); gives what the patterns named, and how many lines there are."""
    there = lines(broker, form)
    at = since
    facts = {}
    for level, room, pattern in wanted:
        while at < len(there) and not (there[at][:2] == (level, room) and re.search(pattern, there[at][2])):
            at += 1
        check(at < len(there), lambda p=pattern: f"no line {p!r} behind those before it:\n" + "\n".join(map(str, there[since:])))
        facts.update(re.search(pattern, there[at][2]).groupdict())
        at += 1
    return facts, len(there)


def a_life(broker, form):
    """Start, records, kill -9, recovery, stop."""
    cluster = re.search(r"cluster=(\S+)", broker.ready_line).group(1)
    started, count = story(
        broker, form, 0,
        ("INFO", "app", rf"^weir (?P<version>[0-9.]+) starts: pid=\d+ node=1 cluster={cluster} data='{re.escape(broker.data)}' config='' "
                        r"shards=2 memory=\d+ connections=\d+ files=\d+$"),
        ("INFO", "broker", r"^journal read: states=0 entries=0 bytes=0 in \d+ ms, nothing there yet$"),
        ("INFO", "broker", r"^logs recovered: logs=0 in \d+ ms$"),
        ("INFO", "broker", r"^metadata read: topics=0 partitions=0 in \d+ ms$"),
        ("INFO", "app", rf"^ready, \d+ ms after the start: listeners=PLAINTEXT://127\.0\.0\.1:{broker.port}$"))
    version = subprocess.run([harness.WEIR, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    equal(started["version"], version, "the version of a start")
    with Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic("told", 3)[0], 0, "create")
        for i in range(30):
            made = batch([PAYLOAD.encode() * 20], keys=[PAYLOAD.encode()])
            equal(conn.produce("told", {i % 3: made})[("told", i % 3)][0], 0, "produce")
    broker.kill()
    broker.start()
    recovered, count = story(
        broker, form, count,
        ("INFO", "app", r"^weir \S+ starts: "),
        ("INFO", "broker", r"^journal read: states=\d+ entries=(?P<entries>\d+) bytes=(?P<bytes>\d+) in \d+ ms, the last stop was not clean"),
        ("INFO", "broker", r"^logs recovered: logs=(?P<logs>\d+) in \d+ ms$"),
        ("INFO", "broker", r"^metadata read: topics=1 partitions=3 in \d+ ms$"),
        ("INFO", "app", r"^ready, "))
    check(int(recovered["entries"]) >= 30, f"entries of thirty appends: {recovered}")
    check(int(recovered["bytes"]) >= 30 * 20 * len(PAYLOAD), f"bytes of thirty appends: {recovered}")
    check(int(recovered["logs"]) >= 3, f"logs of three partitions: {recovered}")
    broker.stop()
    stopped, count = story(
        broker, form, count,
        ("INFO", "app", r"^SIGTERM has come: stopping$"),
        ("INFO", "broker", r"^draining: nothing more is taken, and what is in flight has 10000 ms$"),
        ("INFO", "broker", r"^drained in \d+ ms$"),
        ("INFO", "journal", r"^checkpoint written: states=(?P<states>\d+) bytes=\d+ in \d+ ms$"),
        ("INFO", "app", r"^stopped$"))
    check(int(stopped["states"]) >= 3, f"states of three partitions: {stopped}")
    broker.start()
    story(broker, form, count, ("INFO", "broker", rf"^journal read: states={stopped['states']} entries=0 bytes=0 in \d+ ms, the last stop was clean$"))


def a_failed_disk(form):
    """The syncs of the journal fail from some time on: which call, on which file, what the system said, and what follows."""
    if not shutil.which("strace"):
        raise AssertionError("strace is not installed: ci/setup test")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("strace is not allowed here")
    # No leak is looked for, as that can't be done under strace.
    fault = ["strace", "-f", "-E", "ASAN_OPTIONS=detect_leaks=0", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=30+"]
    broker = Broker(2, {"weir.log.format": form}, wrapper=fault, name="fails")
    with broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t")[0], 0, "create")
            for _ in range(60):
                if conn.produce("t", {0: batch([b"x"])})[("t", 0)][0] != 0:
                    break
            else:
                raise AssertionError("no sync failed")
        until(lambda: "off line" in broker.log(), 10, "it is told")
        failed, count = story(
            broker, form, 0,
            ("ERROR", "host/uv", rf"^sync '(?P<file>{re.escape(broker.data)}/\S+)' failed: i/o error \(EIO\)$"),
            ("ERROR", "broker", r"^the log directory is off line until a restart, for reads too: (a write or sync of the journal failed: IO|"
                                r"a sync of a log on shard [01] failed)$"))
        check(os.path.exists(failed["file"]), f"the file that is named: {failed}")
        os.kill(broker.pid, signal.SIGTERM)
        equal(broker.process.wait(60), 1, "the exit code of a stop whose disk had failed")
        story(broker, form, count,
              ("INFO", "app", r"^SIGTERM has come: stopping$"),
              ("INFO", "broker", r"^drained in \d+ ms: no checkpoint, for the log directory is off line$"),
              ("ERROR", "app", r"^stopped; the log directory had failed: a line above says why$"))
        broker.process = None


def a_wrong_password(broker):
    """Of a client that takes this for a broker with SASL: what it says is no request here."""
    for api, body in ((17, wire.string("PLAIN")), (36, struct.pack(">i", 64) + f"\0user\0{SECRET}".encode().ljust(64, b"."))):
        with Conn(broker.host, broker.port) as conn:
            try:
                conn.call(api, 1, body)
            except (ConnectionError, AssertionError):
                pass


def set_level(broker, room, level):
    """kafka-configs --entity-type broker-loggers --alter --add-config ROOM=LEVEL: IncrementalAlterConfigs, version 0."""
    config = wire.string(room) + b"\0" + wire.string(level)
    body = wire.array([struct.pack(">b", 8) + wire.string("1") + wire.array([config])]) + b"\0"
    with Conn(broker.host, broker.port) as conn:
        reader = conn.call(44, 0, body)
        reader.take("i")
        errors = reader.array(lambda: (reader.take("h"), reader.string(), reader.take("b"), reader.string())[0])
    equal(errors, [0], f"errors of {room}={level}")


def levels_at_run_time(form):
    with Broker(2, {"weir.log.format": form}, name="levels") as broker:
        def debug_lines():
            return [line for line in lines(broker, form) if line[0] == "DEBUG"]

        def make(topic):
            with Conn(broker.host, broker.port) as conn:
                equal(conn.create_topic(topic)[0], 0, "create")
                equal(conn.produce(topic, {0: batch([b"x"])})[(topic, 0)][0], 0, "produce")

        make("before")
        equal(debug_lines(), [], "lines at DEBUG that nobody asked for")
        set_level(broker, "plog", "DEBUG")
        make("between")
        begins = ("DEBUG", "plog", "topic=between partition=0: a segment begins at offset 0")
        until(lambda: begins in debug_lines(), 10, "a line of plog at DEBUG")
        equal({room for _, room, _ in debug_lines()}, {"plog"}, "rooms that say lines at DEBUG")
        set_level(broker, "plog", "INFO")
        make("after")
        check(not any("after" in message for _, _, message in debug_lines()), "lines at DEBUG after that")
        set_level(broker, "conn", "DEBUG")
        make("closed")
        until(lambda: any(room == "conn" and message.endswith("closed: by the client") for _, room, message in debug_lines()), 10,
              "why a connection ended")


def a_burst(form):
    """It never comes again: what was left out of it is told all the same."""
    with Broker(1, {"weir.log.format": form}, name="burst") as broker:
        sent = 400
        for _ in range(sent):
            with Conn(broker.host, broker.port) as conn:
                conn.socket.sendall(struct.pack(">i", -1))

        def told():
            closed = [line for line in broker.log().splitlines() if "longer than allowed" in line]
            pattern = r'"left_out":(\d+)' if form == "json" else r"\((\d+) more like it were left out\)"
            left_out = sum(int(count) for line in closed for count in re.findall(pattern, line))
            return len(closed) < sent and len(closed) + left_out == sent

        until(told, 20, "each of them is written or counted")


def no_secret_and_no_payload(form):
    """At the level that says most."""
    settings = {"weir.log.format": form, "weir.log.level": "trace", **SECRETS}
    with Broker(2, settings, name="secrets") as broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", 1, {"segment.bytes": "1048576"})[0], 0, "create")
            planted = batch([PAYLOAD.encode()], keys=[PAYLOAD.encode()])
            equal(conn.produce("t", {0: planted})[("t", 0)][0], 0, "produce")
            bad = planted[:17] + b"\0\0\0\0" + planted[21:]
            check(conn.produce("t", {0: bad})[("t", 0)][0] != 0, "a batch with a wrong checksum")
            conn.fetch("t", {0: 0})
            conn.commit_offsets("g", "t", {0: 1})
        with Conn(broker.host, broker.port) as conn:
            conn.socket.sendall(PAYLOAD.encode() * 100)  # no frame
            time.sleep(0.1)
        a_wrong_password(broker)
        code, out, _ = harness.weir("consume", "t", "--group", "g2", "--from", "beginning", "-n", "1", "--bootstrap", broker.bootstrap)
        check(code == 0 and PAYLOAD in out, "a member of a group reads it")
        check(("DEBUG", "group", "group=g2: generation 1 with 1 members") in lines(broker, form), "a generation is told")
        broker.kill()
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            conn.fetch("t", {0: 0})
            equal(conn.delete_topic("t"), 0, "delete")
        check(any(room == "plog" and message.endswith("partition=0: deleted") for _, room, message in lines(broker, form)), "a deletion is told")
        broker.stop()
        said = broker.log()
        check("DEBUG" in said, "lines at DEBUG")
        check("ssl.keystore.password" in said, "that a setting does nothing is told by its name")
        for word in (SECRET, PAYLOAD):
            check(word not in said, f"{word} is in the log")
        broker.start()


def test_the_log_alone_tells_the_stories_of_a_node():
    for form in ("text", "json"):
        with Broker(2, {"weir.log.format": form}, name="story") as broker:
            a_life(broker, form)
        a_failed_disk(form)
        levels_at_run_time(form)
        a_burst(form)
        no_secret_and_no_payload(form)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
