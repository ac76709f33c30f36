#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of weir itself: against a broker, and against none."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import harness
import wire
from harness import Broker, Skip, check, equal, until, weir

SHARDS = [int(word) for word in os.environ.get("WEIR_E2E_SHARDS", "1 3").split()]


def fails(code, pattern, *args, **kwargs):
    got, out, err = weir(*args, **kwargs)
    equal(got, code, f"exit code of weir {' '.join(args)} ({err.strip()})")
    check(re.search(pattern, err), f"weir {' '.join(args)}: stderr {err!r} has no {pattern!r}")
    check(err.startswith("error: "), f"weir {' '.join(args)}: stderr {err!r}")
    equal(out, "", f"stdout of weir {' '.join(args)}")


def works(*args, **kwargs):
    got, out, err = weir(*args, **kwargs)
    equal(got, 0, f"exit code of weir {' '.join(args)} ({err.strip()})")
    return out


def topics(at):
    works("topic", "create", "a", *at)
    works("topic", "create", "b", "--partitions", "5", "--config", "retention.ms=1000000", "--config", "cleanup.policy=compact", *at)
    fails(1, "TOPIC_ALREADY_EXISTS.*'a'.*--if-not-exists", "topic", "create", "a", *at)
    works("topic", "create", "a", "--if-not-exists", *at)
    fails(1, "INVALID_TOPIC_EXCEPTION", "topic", "create", "a/b", *at)
    fails(1, "INVALID_CONFIG.*retention.msec", "topic", "create", "c", "--config", "retention.msec=1", *at)
    fails(1, "INVALID_CONFIG.*retention.ms", "topic", "create", "c", "--config", "retention.ms=soon", *at)
    fails(1, "INVALID_PARTITIONS", "topic", "create", "c", "--partitions", "0", *at) if False else None
    fails(2, "partitions", "topic", "create", "c", "--partitions", "many", *at)
    fails(2, "", "topic", "create", *at)
    fails(2, "", "topic", "make", "x", *at)
    equal(works("topic", "list", *at), "a\nb\n", "weir topic list")
    out = works("topic", "describe", "b", *at)
    check("retention.ms" in out and "1000000" in out and "compact" in out, f"weir topic describe b: {out!r}")
    both = works("topic", "describe", *at)
    check(re.search(r"\ba\b", both) and re.search(r"\bb\b", both), f"weir topic describe: {both!r}")
    rows = [json.loads(line) for line in works("topic", "list", "--json", *at).splitlines()]
    equal([row.get("topic", row.get("name")) for row in rows], ["a", "b"], "weir topic list --json")
    rows = [json.loads(line) for line in works("topic", "describe", "b", "--json", *at).splitlines()]
    check(len(rows) >= 1 and "b" in json.dumps(rows[0]), f"weir topic describe --json: {rows}")
    fails(1, "UNKNOWN_TOPIC_OR_PARTITION.*nowhere", "topic", "describe", "nowhere", *at)
    fails(1, "UNKNOWN_TOPIC_OR_PARTITION.*nowhere", "topic", "delete", "nowhere", *at)
    works("topic", "delete", "a", "b", *at)
    equal(works("topic", "list", *at), "", "weir topic list after the delete")


def produce_and_consume(at, broker):
    works("topic", "create", "t", "--partitions", "3", *at)
    started = int(time.time() * 1000)
    code, out, err = weir("produce", "t", "--key-separator", ":", "--header", "from=cli", "--partition", "1", *at,
                          stdin="k1:one\nk2:two\n")
    equal((code, out), (0, ""), f"weir produce ({err})")
    check(re.search(r"\b2 records", err), f"weir produce says how many: {err!r}")
    middle = until(lambda: int(time.time() * 1000) if time.time() * 1000 > started + 50 else 0, 5, "the clock goes on")
    for codec in wire.CODECS:
        works("produce", "t", "--partition", "1", "--compression", codec, "--acks", "1", *at, stdin=f"{codec}\n")
    works("produce", "t", "--partition", "1", "--acks", "0", *at, stdin="zero\n")
    works("produce", "t", "--partition", "1", *at, stdin=b"\xff\xfe\n")

    def consume(*args):
        return works("consume", "t", "--partition", "1", *args, *at)

    until(lambda: len(weir("consume", "t", "--partition", "1", "--exit", *at, stdin=b"")[1].splitlines()) == 9, 10, "nine records")
    lines = weir("consume", "t", "--partition", "1", "-n", "9", *at, stdin=b"")[1].splitlines()
    equal(lines, [b"one", b"two", b"none", b"gzip", b"snappy", b"lz4", b"zstd", b"zero", b"\xff\xfe"], "values in order")
    equal(consume("--from", "3", "-n", "2"), "gzip\nsnappy\n", "--from OFFSET")
    equal(consume("--from", "beginning", "-n", "1"), "one\n", "--from beginning")
    equal(consume("--from", f"@{middle}", "-n", "1"), "none\n", "--from @MILLIS")
    iso = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(middle / 1000)) + f".{middle % 1000:03d}Z"
    equal(consume("--from", f"@{iso}", "-n", "1"), "none\n", "--from @ISO")
    equal(consume("--from", "end", "--exit"), "", "--from end --exit")
    rows = [json.loads(line) for line in consume("--json", "--exit").splitlines()]
    equal(len(rows), 9, "rows of --json")
    first = rows[0]
    equal([first[k] for k in ("topic", "partition", "offset", "key", "value")], ["t", 1, 0, "k1", "one"], "--json")
    check("from" in json.dumps(first["headers"]) and "cli" in json.dumps(first["headers"]), f"--json headers: {first}")
    check(started <= first["timestamp"] <= time.time() * 1000, f"--json timestamp: {first}")
    check(base64.b64encode(b"\xff\xfe").decode() in rows[8].values(), f"--json of bytes that are no text: {rows[8]}")
    # all partitions
    works("produce", "t", *at, stdin="".join(f"spread {i}\n" for i in range(100)))
    out = works("consume", "t", "-n", "109", *at, stdin=None) if False else weir("consume", "t", "--exit", *at, stdin=b"")[1]
    equal(len(out.splitlines()), 109, "records of all partitions with --exit")
    # a consumer that waits
    reader = subprocess.Popen([harness.WEIR, "consume", "t", "--partition", "2", "--from", "end", "-n", "1", *at],
                              stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 20
        while reader.poll() is None and time.monotonic() < deadline:  # 'end' is when it has asked; so go on until it has
            works("produce", "t", "--partition", "2", *at, stdin="late\n")
        equal(reader.stdout.read(), "late\n", "what a waiting consumer sees")
        equal(reader.wait(5), 0, "exit code of a waiting consumer")
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()
    # many records, and a closed pipe
    many = "".join(f"{i} {'x' * 90}\n" for i in range(20000))
    works("topic", "create", "many", *at)
    works("produce", "many", "--compression", "zstd", *at, stdin=many)
    check(works("consume", "many", "--exit", *at) == many, "20,000 records come back as they went")
    head = subprocess.run(f"'{harness.WEIR}' consume many --exit {' '.join(at)} | head -n 1", shell=True, capture_output=True,
                          text=True, timeout=30, check=False)
    equal(head.stdout, many.splitlines(True)[0], "into a pipe that closes")
    fails(1, "UNKNOWN_TOPIC_OR_PARTITION", "consume", "nowhere", "--exit", *at)
    fails(2, "", "consume", "t", "--from", "sometime", *at)
    fails(2, "", "consume", "t", "--group", "", *at)
    fails(2, "", "consume", "t", "--group", "g", "--partition", "1", *at)
    fails(2, "", "consume", "t", "--group", "g", "--assignor", "fair", *at)
    fails(2, "", "consume", "t", "--instance", "i", *at)
    fails(1, "UNKNOWN_TOPIC_OR_PARTITION", "consume", "nowhere", "--group", "g", *at)
    fails(2, "", "produce", "t", "--compression", "rar", *at, stdin="")
    fails(2, "", "produce", "t", "--acks", "7", *at, stdin="")
    fails(1, "", "consume", "t", "--partition", "77", "--exit", *at)
    code, _, err = weir("produce", "t", "--partition", "77", *at, stdin="x\n")
    equal(code, 1, f"exit code of a record that failed ({err})")
    del broker


def with_shards(shards):
    if harness.AGAINST_KAFKA:
        with Broker(name="cli") as broker:
            topics(["--bootstrap", broker.bootstrap])
            produce_and_consume(["--bootstrap", broker.bootstrap], broker)
        return
    if shards not in SHARDS:
        raise Skip("not asked for")
    with Broker(shards, name="cli") as broker:
        at = ["--bootstrap", broker.bootstrap]
        topics(at)
        produce_and_consume(at, broker)


def test_one_shard():
    with_shards(1)


def test_three_shards():
    with_shards(3)


def test_no_broker():
    for args in (["topic", "list"], ["produce", "t"], ["consume", "t", "--exit"]):
        code, out, err = weir(*args, "--bootstrap", "127.0.0.1:1", stdin="x\n")
        equal((code, out), (1, ""), f"weir {' '.join(args)} without a broker")
        check(err.startswith("error: ") and "127.0.0.1:1" in err, f"weir {' '.join(args)} without a broker: {err!r}")


def test_serve_refuses():
    for args, pattern in (
            (["--set", "num.partition=3"], "num.partitions"),
            (["--set", "num.partitions=three"], "num.partitions"),
            (["--set", "listeners=SSL://127.0.0.1:0"], "SSL"),
            (["--config", "/nonexistent"], "/nonexistent"),
            (["--frobnicate"], "frobnicate")):
        code, out, err = weir("serve", "--data-dir", "/nonexistent/data", *args)
        equal((code, out), (2, ""), f"weir serve {' '.join(args)} ({err})")
        check(pattern in err, f"weir serve {' '.join(args)}: {err!r}")


def test_one_directory_one_broker():
    with Broker(name="lock") as broker:
        code, _, err = weir("serve", "--data-dir", broker.data, "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "weir.http.listener=")
        equal(code, 1, "exit code of a second broker")
        check(str(broker.pid) in err, f"it names the first: {err!r}")


def test_an_address_in_use_is_named():
    with Broker(name="first") as first, tempfile.TemporaryDirectory() as other:
        code, _, err = weir("serve", "--data-dir", other, "--set", f"listeners=PLAINTEXT://127.0.0.1:{first.port}", "--set", "weir.http.listener=")
        equal(code, 1, "exit code without an address")
        check(f"127.0.0.1 port {first.port}" in err and "in use" in err, f"it names the address: {err!r}")


def test_an_empty_directory_name_is_refused():
    code, _, err = weir("serve", "--data-dir", "")
    equal(code, 2, "exit code")
    check("--data-dir" in err, f"it says what is wrong: {err!r}")


def test_a_stop_is_told_and_a_second_signal_is_no_clean_stop():
    with Broker(name="stop") as broker:
        broker.stop()
        check("INFO app stopped" in broker.log().splitlines()[-1], f"the last line of a clean stop: {broker.log_tail(2)}")
        broker.start()
        os.kill(broker.pid, signal.SIGSTOP)  # both are there before it looks
        os.kill(broker.pid, signal.SIGTERM)
        os.kill(broker.pid, signal.SIGINT)
        os.kill(broker.pid, signal.SIGCONT)
        equal(broker.process.wait(30), 1, "the exit code after a second signal")
        check("second signal" in broker.log(), "it says so")
        broker.process = None


def test_produce_tells_what_it_did_when_the_broker_goes():
    with Broker(name="gone") as broker:
        command = [harness.WEIR, "produce", "t", "--bootstrap", broker.bootstrap]
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        client.stdin.write("one\n")
        client.stdin.flush()
        until(lambda: weir("consume", "t", "--exit", "--bootstrap", broker.bootstrap)[1] == "one\n", 20, "the record is there")
        broker.kill()
        client.stdin.write("two\n")
        client.stdin.flush()
        _, err = client.communicate(timeout=100)
        equal(client.returncode, 1, f"exit code: {err}")
        check("1 records produced" in err, f"a summary: {err!r}")


def test_help():
    for args in ([], ["--help"], ["topic", "--help"], ["produce", "--help"], ["consume", "--help"], ["group", "--help"],
                 ["serve", "--help"]):
        code, out, err = weir(*args)
        check("usage: weir" in out + err and code == (0 if args else 2), f"weir {' '.join(args)}: exit code {code}, {out!r} {err!r}")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
