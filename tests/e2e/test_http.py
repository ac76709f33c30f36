#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/health tells the truth in every state of a node, and /metrics can be read by Prometheus and counts what clients did."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import harness
import wire
from harness import CLIENTS, Broker, Skip, check, equal, need, say, until
from kafka import free_port
from wire import Conn, batch


def get(port, path, method="GET", headers=None, body=None):
    """(status, content type, text)"""
    conn = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        conn.request(method, path, body=body, headers=headers or {})
        answer = conn.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        conn.close()


def health(port, path="/health"):
    """(status, the JSON); None: nobody listens."""
    try:
        status, kind, text = get(port, path)
    except ConnectionError:
        return None
    equal(kind, "application/json", "the content type")
    return status, json.loads(text)


def ill_health(port):
    """The same, unless it is well or nobody listens."""
    answer = health(port)
    return answer if answer and answer[0] != 200 else None


def metrics(port):
    """{name with labels: value}"""
    status, kind, text = get(port, "/metrics")
    equal((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"), "/metrics")
    values = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            check(name not in values, f"{name} is there twice")
            values[name] = float(value)
    return values, text


def broker_with_http(shards=2, wrapper=(), settings=None, name="http"):
    port = free_port()
    return Broker(shards, {"weir.http.listener": f"127.0.0.1:{port}", **(settings or {})}, wrapper=wrapper, name=name), port


# ---- /health ----


def test_health_of_a_node_that_serves():
    broker, port = broker_with_http()
    with broker:
        equal(health(port), (200, {"status": "ready"}), "/health")
        equal(health(port, "/health/ready"), (200, {"status": "ready"}), "/health/ready")
        equal(health(port, "/health/live"), (200, {"status": "live"}), "/health/live")
    equal(health(port), None, "/health of a node that is gone")


def with_fault(calls, fault):
    """A wrapper of the broker that does to these system calls what strace's inject= says."""
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"]


def test_health_of_a_node_that_starts():
    """Its first syncs take long: until they are done it is alive, but does not serve."""
    broker, port = broker_with_http(1, with_fault("fdatasync", "delay_enter=1500000:when=1..2"))
    starter = threading.Thread(target=broker.start)
    try:
        starter.start()
        status, answer = until(lambda: health(port), 30, "the page is there before the node serves")
        equal((status, answer["status"]), (503, "unavailable"), "/health while it starts")
        check(answer["reason"].startswith("starting"), f"the reason: {answer}")
        equal(health(port, "/health/live")[0], 200, "/health/live while it starts")
        until(lambda: health(port) == (200, {"status": "ready"}), 30, "it serves in the end")
        starter.join(30)
        check(not starter.is_alive(), "the ready line")
        broker.stop()
    finally:
        starter.join(60)
        broker.__exit__(None, None, None)


def test_health_of_a_node_that_stops():
    """A client that does not read its answers holds the stop up for as long as weir.shutdown.timeout.ms."""
    broker, port = broker_with_http(1, settings={"weir.shutdown.timeout.ms": 3000})
    with broker:
        with Conn(broker.host, broker.port) as conn, Conn(broker.host, broker.port, receive_buffer=4096) as deaf:
            equal(conn.create_topic("t")[0], 0, "create")
            for _ in range(12):
                equal(conn.produce("t", {0: batch([b"x" * 900000])})[("t", 0)][0], 0, "produce")
            for _ in range(3):
                deaf.send(wire.FETCH, 11, deaf.fetch_body("t", {0: 0}))
            until(lambda: metrics(port)[0]["weir_requests_in_flight"] >= 1, 10, "answers that nobody reads")
            os.kill(broker.pid, 15)
            status, answer = until(lambda: ill_health(port), 10, "it stops")
            equal((status, answer["reason"]), (503, "stopping"), "/health while it stops")
            equal(broker.process.wait(30), 0, "the exit code")
        broker.process = None


FILE_CALLS = "fdatasync,fsync,pwritev,pwrite64,pwritev2,pread64,preadv2,openat,unlinkat,renameat,ftruncate,fallocate"


def test_health_in_every_state():
    """Each call to the disk takes a while, so that each state between a start after a kill and the end of a stop is there to be seen."""
    broker, port = broker_with_http(2, settings={"weir.shutdown.timeout.ms": 1500}, name="states")
    with broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t")[0], 0, "create")
            equal(conn.create_topic("looked-through", 8, {"weir.durability": "page-cache"})[0], 0, "create")
            for part in range(8):
                equal(conn.produce("looked-through", {part: batch([b"x"])})[("looked-through", part)][0], 0, "produce")
            for _ in range(12):
                equal(conn.produce("t", {0: batch([b"x" * 900000])})[("t", 0)][0], 0, "produce")
        broker.kill()
        broker.wrapper = with_fault(FILE_CALLS, "delay_enter=10000")
        seen = []
        is_over = threading.Event()

        def look():
            while not is_over.is_set():
                answer = health(port)
                if answer and answer not in seen:
                    seen.append(answer)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            broker.start()
            with Conn(broker.host, broker.port, receive_buffer=4096) as deaf:
                for _ in range(3):
                    deaf.send(wire.FETCH, 11, deaf.fetch_body("t", {0: 0}))
                until(lambda: metrics(port)[0]["weir_requests_in_flight"] >= 1, 10, "answers that nobody reads")
                until(lambda: (200, {"status": "ready"}) in seen, 10, "it serves")
                broker.stop()
        finally:
            is_over.set()
            thread.join(60)
        reasons = {"boot": "starting: the journal is read", "recovering": "starting: the journal is read",
                   "loading": "starting: logs and metadata are loaded", "draining": "stopping", "checkpointing": "stopping",
                   "closing": "stopping"}
        for state, reason in reasons.items():
            wanted = (503, {"status": "unavailable", "reason": reason, "shard": 0, "state": state})
            check(wanted in seen, f"{state} is not seen, or told otherwise: {seen}")
        reasons["stopped"] = "stopping"  # the shards have ended, and the page has not: too short to be there each time
        for status, answer in seen:
            if status != 200:
                equal(answer["reason"], reasons.get(answer["state"]), f"the reason of {answer}")


def test_health_of_a_node_whose_disk_is_silent():
    """A sync that does not come back: nobody is acknowledged any more, though every shard answers."""
    broker, port = broker_with_http(1, with_fault("fdatasync", "delay_enter=16000000:when=12"))
    with broker:
        equal(health(port)[0], 200, "/health at first")
        is_over = threading.Event()

        def load():
            with Conn(broker.host, broker.port, 60) as conn:
                conn.create_topic("t")
                while not is_over.is_set():
                    conn.produce("t", {0: batch([b"x"])})

        thread = threading.Thread(target=load)
        thread.start()
        try:
            status, answer = until(lambda: ill_health(port), 40, "the silence shows", every_s=0.2)
            check(re.fullmatch("the disk does not answer, for 1[0-9] s", answer["reason"]), f"the reason: {answer}")
            equal((status, answer["state"]), (503, "serving"), "/health")
            equal(health(port, "/health/live")[0], 200, "/health/live: a restart would wait for the same disk")
            check(metrics(port)[0]["weir_disk_silent_seconds"] >= 10, "weir_disk_silent_seconds")
            until(lambda: health(port)[0] == 200, 40, "it goes on")
        finally:
            is_over.set()
            thread.join(60)


def test_health_of_a_node_whose_disk_has_failed():
    broker, port = broker_with_http(2, with_fault("fdatasync", "error=EIO:when=12+"))
    with broker:
        equal(health(port)[0], 200, "/health at first")
        with Conn(broker.host, broker.port) as conn:
            for i in range(30):
                conn.create_topic(f"t{i}")
                if conn.produce(f"t{i}", {0: batch([b"x"])}).popitem()[1][0] != 0:
                    break
        status, answer = until(lambda: ill_health(port), 20, "the failure shows")
        equal((status, answer["reason"]), (503, "the log directory has failed"), "/health")
        values, _ = metrics(port)
        equal(values["weir_log_directory_failed"], 1, "weir_log_directory_failed")
        equal(health(port, "/health/live")[0], 200, "/health/live: a restart of the process would not mend the disk")
        broker.kill()


def falls(before, after):
    """The counters that are less than they were, or gone."""
    names = re.compile(r"^weir_(?!topic_)\w+_(total|bucket|count|sum)(\{|$)")  # those of topics are told whole or not at all
    return [f"{name}: {before[name]:g}, then {after.get(name)}" for name in before
            if names.match(name) and after.get(name, -1) < before[name]]


def slow_turns(values):
    """Turns of any shard that took more than two seconds."""
    count = 0
    for name, value in values.items():
        if name.startswith("weir_shard_turn_seconds_bucket") and 'le="+Inf"' in name:
            count += value - values[name.replace("+Inf", "2")]
    return count


def test_a_node_that_hangs():
    """A shard whose write does not come back answers nobody. No counter falls meanwhile, and what it was at shows afterwards."""
    broker, port = broker_with_http(1, with_fault("pwritev,pwrite64,pwritev2", "delay_enter=7000000:when=40"))
    with broker:
        equal(health(port)[0], 200, "/health at first")

        def load():
            try:
                with Conn(broker.host, broker.port) as conn:
                    conn.create_topic("t")
                    while not is_over.is_set():
                        conn.produce("t", {0: batch([b"x" * 100000])})
            except OSError:
                pass

        is_over = threading.Event()
        thread = threading.Thread(target=load)
        thread.start()
        try:
            before, _ = metrics(port)
            equal(slow_turns(before), 0, "turns of more than two seconds")
            status, answer = until(lambda: ill_health(port), 40, "the hang shows")
            equal((status, answer["reason"]), (503, "a shard does not answer"), "/health")
            meanwhile, _ = metrics(port)
            equal(meanwhile['weir_shard_answered{shard="0"}'], 0, "weir_shard_answered")
            equal(falls(before, meanwhile), [], "counters that fell while the shard hung")
            equal(meanwhile["weir_topics_answered"], 0, "weir_topics_answered")
            check("weir_topic_size_bytes" not in "".join(meanwhile), "topics that are told by half")
            equal(health(port, "/health/live")[0], 503, "/health/live")
            until(lambda: health(port)[0] == 200, 40, "it goes on")
            after, _ = metrics(port)
            equal(falls(meanwhile, after), [], "counters that fell when it went on")
            equal(after["weir_topics_answered"], 1, "weir_topics_answered")
            check(slow_turns(after) >= 1, "the turn that took seven seconds is seen")
        finally:
            is_over.set()
            thread.join(60)


# ---- the page ----


def test_other_pages_methods_and_long_requests():
    broker, port = broker_with_http(1)
    with broker:
        equal(get(port, "/")[0], 404, "another page")
        equal(get(port, "/metrics/..")[0], 404, "another page")
        equal(get(port, "/health", "POST", body=b"x" * 10000)[0], 405, "POST")
        equal(get(port, "/metrics", "DELETE")[0], 405, "DELETE")
        status = get(port, "/health", headers={"X": "x" * 20000})[0]
        check(status in (400, 413, 431), f"a request of 20 KB: {status}")
        with socket.create_connection(("127.0.0.1", port)) as conn:
            conn.sendall(b"\0\1\2 nonsense\r\n\r\n")
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for conn in half:
            conn.sendall(b"GET /metr")
        equal(health(port)[0], 200, "beside half requests")
        for conn in half:
            conn.close()


def test_a_port_that_is_taken():
    port = free_port()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        broker = Broker(1, {"weir.http.listener": f"127.0.0.1:{port}"}, name="taken")
        broker.check_log = lambda: None  # what refuses a start is fatal
        try:
            broker.start(20)
        except AssertionError as error:
            check("weir.http.listener" in str(error) and "in use" in str(error), f"what is said: {error}")
        else:
            raise AssertionError("it starts without the page that it was asked for")
        finally:
            broker.__exit__(None, None, None)


def test_pages_take_no_descriptors_from_the_broker():
    few = ["sh", "-c", 'ulimit -n 180; "$@"; exit $?', "sh"]
    broker, port = broker_with_http(1, wrapper=few)
    with broker:
        with Conn(broker.host, broker.port) as conn:
            for i in range(8):
                equal(conn.create_topic(f"t{i}", 16)[0], 0, "create")
            idle = []
            for _ in range(64):
                idle.append(socket.create_connection(("127.0.0.1", port)))
                idle[-1].sendall(b"GET /metrics")
            for _ in range(100):
                idle.append(socket.create_connection((broker.host, broker.port)))

            def descriptors():
                return len(os.listdir(f"/proc/{broker.pid}/fd"))

            until(lambda: descriptors() >= 64 + 18, 20, lambda: f"the pages and the broker have all connections that they may: {descriptors()}")
            for i in range(8):
                for part in range(16):
                    equal(conn.produce(f"t{i}", {part: batch([b"x"])})[(f"t{i}", part)][0], 0, f"produce to t{i}-{part}")
            check(descriptors() < 160, lambda: f"{descriptors()} descriptors of 180 are open")
            for one in idle:
                one.close()


# ---- /metrics ----


def test_metrics_count_what_clients_do():
    broker, port = broker_with_http(3, settings={"weir.metrics.group.label": "true"})
    with broker:
        before, _ = metrics(port)
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("orders", 4)[0], 0, "create")
            for part in range(4):
                for _ in range(5):
                    equal(conn.produce("orders", {part: batch([b"one", b"two"])})[("orders", part)][0], 0, "produce")
            bad = wire.patched(batch([b"x"]), 17, "I", 1, with_crc=False)
            check(conn.produce("orders", {0: bad})[("orders", 0)][0] != 0, "a bad batch")
            error, parts = conn.fetch("orders", {0: 0})
            equal(error, 0, "fetch")
            fetched = len(parts[("orders", 0)][2])
            error, parts = conn.fetch("orders", {3: 0}, wait_ms=200, min_bytes=1 << 20)  # read twice, before and after it waits
            equal(error, 0, "fetch")
            fetched += len(parts[("orders", 3)][2])
            until(lambda: metrics(port)[0]['weir_topic_fetch_bytes_total{topic="orders"}'] == fetched, 10, "bytes of the topic in answers")
            equal(conn.commit_offsets('say "g"', "orders", {0: 4, 1: 10}), {0: 0, 1: 0}, "commit")
            equal(conn.commit_offsets(b"\xff\xc3\xa9", "orders", {0: 9}), {0: 0}, "commit of a group whose id is no UTF-8")
            after, text = metrics(port)
            rows = {name: after[name] - before.get(name, 0) for name in after}
            equal(rows["weir_produce_batches_total"], 20, "batches")
            equal(rows["weir_produce_records_total"], 40, "records")
            equal(rows["weir_produce_refused_batches_total"], 1, "refused")
            equal(rows["weir_fetch_bytes_total"], fetched, "fetched bytes")
            equal(rows['weir_request_duration_seconds_count{api="Produce"}'], 21, "produce requests")
            equal(after['weir_topic_records{topic="orders"}'], 40, "records of the topic")
            equal(after['weir_topic_partitions{topic="orders"}'], 4, "its partitions")
            equal(after['weir_topic_size_bytes{topic="orders"}'], rows["weir_produce_bytes_total"], "its bytes")
            equal(after['weir_group_lag_records{topic="orders",group="say \\"g\\""}'], 6, "the lag of the group")
            equal(after['weir_group_lag_records{topic="orders",group="\\\\xFF\u00e9"}'], 1, "the lag of the group whose id is no UTF-8")
            check(after["weir_connections"] >= 1, "connections")
            check(rows["weir_journal_syncs_total"] >= 5, "syncs")
            check(0 < after["process_resident_memory_bytes"] < 1 << 34, "resident memory")
            check(0 < after["process_open_fds"] < after["process_max_fds"], "descriptors")
            for name in re.findall(r"^# TYPE (\w+) counter$", text, re.M):
                check(name.endswith("_total"), f"{name} is a counter")


def rise(port, before, name):
    return metrics(port)[0][name] - before.get(name, 0)


def test_what_is_stored_is_counted_and_nothing_else():
    """What was there already, what comes out of order, and requests that get no answer."""
    broker, port = broker_with_http(2)
    with broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t")[0], 0, "create")
            before, _ = metrics(port)

            def produce(sequence, count=1):
                sent = batch([b"x"] * count, producer_id=5, producer_epoch=0, sequence=sequence)
                return conn.produce("t", {0: sent})[("t", 0)][0]

            equal(produce(0, 3), 0, "the first batch")
            equal(produce(0, 3), 0, "the same once more")
            equal(produce(7), 45, "one that is not the next")
            equal(rise(port, before, "weir_produce_batches_total"), 1, "batches")
            equal(rise(port, before, "weir_produce_records_total"), 3, "records")
            equal(rise(port, before, "weir_produce_duplicate_batches_total"), 1, "duplicates")
            equal(rise(port, before, "weir_produce_refused_batches_total"), 1, "refused")
            values, _ = metrics(port)
            equal(values['weir_topic_size_bytes{topic="t"}'], rise(port, before, "weir_produce_bytes_total"), "bytes")

            requests = 'weir_request_duration_seconds_count{api="Produce"}'
            equal(rise(port, before, requests), 3, "requests")
            conn.produce("t", {0: batch([b"x"])}, acks=0)
            until(lambda: rise(port, before, requests) == 4, 10, "a request without an answer")
            equal(rise(port, before, "weir_produce_records_total"), 4, "records")
            equal(rise(port, before, "weir_requests_closed_total"), 0, "closed")
            conn.produce("t", {9: batch([b"x"])}, acks=0)
            until(lambda: rise(port, before, "weir_requests_closed_total") == 1, 10, "one that closes its connection")
            equal(rise(port, before, requests), 4, "requests")


def test_syncs_and_classes_of_memory():
    broker, port = broker_with_http(2)
    with broker:
        with Conn(broker.host, broker.port) as conn:
            equal(conn.create_topic("t", 4)[0], 0, "create")
            for _ in range(20):
                errors = conn.produce("t", {part: batch([b"x"]) for part in range(4)})
                equal({error for error, _ in errors.values()}, {0}, "produce")
            for i in range(3):
                conn.produce("t", {i: batch([b"x" * 900000])})
        values, _ = metrics(port)
        syncs = values["weir_journal_syncs_total"]
        check(syncs >= 20, f"{syncs} syncs")
        equal(values["weir_journal_sync_entries_count"], syncs, "syncs with a size")
        equal(values["weir_journal_sync_entries_sum"], values["weir_journal_entries_total"], "entries of all of them")
        check(values['weir_journal_sync_entries_bucket{le="1"}'] < syncs, "four appends of one request share a sync")
        check(values['weir_sync_duration_seconds_count{of="journal"}'] >= syncs, "syncs of the journal that were timed")
        check(values['weir_sync_duration_seconds_sum{of="journal"}'] > 0, "how long they took")
        check('weir_sync_duration_seconds_count{of="logs"}' in values, "syncs of logs")

        def classes(values, shard):
            return {name: values[f'weir_memory_class_used_bytes{{shard="{shard}",class="{name}"}}'] for name in ("control", "replication", "clients")}

        with socket.create_connection((broker.host, broker.port)) as half:
            half.sendall(b"\0\x0f\0\0" + b"\0" * 600000)  # of a request of 983,040 bytes
            values = until(lambda: [now for now, _ in [metrics(port)] if sum(classes(now, shard)["clients"] for shard in range(2)) >= 600000],
                           10, "half a request takes clients' memory")[0]
            for shard in range(2):
                equal(sum(classes(values, shard).values()), values[f'weir_memory_used_bytes{{shard="{shard}"}}'], f"the classes of shard {shard}")


def test_long_tables_are_told_whole():
    """More rows than a shard writes down in one turn, of logs and of commits, while producers and consumers go on."""
    logs, groups = 3000, 60
    broker, port = broker_with_http(1, settings={"weir.metrics.group.label": "true"}, name="tables")
    with broker:
        with Conn(broker.host, broker.port, 120) as conn:
            equal(conn.create_topic("many", logs, {"weir.durability": "page-cache"})[0], 0, "create")
            equal(conn.create_topic("read", 100)[0], 0, "create")
            errors = conn.produce("read", {part: batch([b"x"]) for part in range(100)})
            equal({error for error, _ in errors.values()}, {0}, "produce")
            for i in range(groups):
                equal(set(conn.commit_offsets(f"g{i}", "read", {part: 0 for part in range(100)}).values()), {0}, "commit")
            for _ in range(5):
                values, _ = metrics(port)
                equal(values["weir_topics_answered"], 1, "weir_topics_answered")
                equal(values['weir_topic_partitions{topic="many"}'], logs, "partitions")
                equal(values['weir_topic_partitions{topic="read"}'], 100, "partitions")
                for i in range(groups):
                    equal(values[f'weir_group_lag_records{{topic="read",group="g{i}"}}'], 100, f"the lag of g{i}")
                conn.produce("many", {part: batch([b"x"]) for part in range(100)})


def do_something(broker):
    """A topic, a record and a group, so that there are metrics of them."""
    with Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic("t")[0], 0, "create")
        equal(conn.produce("t", {0: batch([b"x"])})[("t", 0)][0], 0, "produce")
        equal(conn.commit_offsets("g", "t", {0: 0}), {0: 0}, "commit")


def test_the_metrics_that_the_documents_name_are_there():
    docs = os.path.join(harness.ROOT, "docs")
    broker, port = broker_with_http(1)
    with broker:
        do_something(broker)
        values, _ = metrics(port)
        there = {name.split("{")[0] for name in values}
        there |= {re.sub("_(bucket|sum|count)$", "", name) for name in there}
        for file in ("OPERATING.md", "grafana.json"):
            with open(os.path.join(docs, file), encoding="utf-8") as text:
                named = set(re.findall(r"\b(?:weir|process)_[a-z_]+\b", text.read()))
            check(len(named) > 10, f"{file} names metrics")
            equal(named - there, set(), f"metrics that {file} names and that are not there")


def promtool(what, text):
    """(exit code, what it says) of promtool check."""
    if "promtool" in harness.SKIPPED:
        raise Skip("promtool")
    need("promtool")
    done = subprocess.run([os.path.join(CLIENTS, "promtool", "usr", "bin", "promtool"), "check", what, *(["/dev/stdin"] if what == "rules" else [])],
                          input=text.encode(), capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def rules(expressions):
    """A file of rules, which is YAML, of which JSON is a part."""
    lines = [{"record": f"expression:{i}", "expr": expression} for i, expression in enumerate(expressions)]
    return json.dumps({"groups": [{"name": "dashboard", "rules": lines}]})


def test_the_dashboard_asks_what_promtool_can_read():
    with open(os.path.join(harness.ROOT, "docs", "grafana.json"), encoding="utf-8") as text:
        panels = json.load(text)["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    check(len(expressions) > 10, "the dashboard asks something")
    code, words = promtool("rules", rules(expressions))
    equal((code, f"{len(expressions)} rules found" in words.decode()), (0, True), f"what promtool says: {words.decode()}")
    check(promtool("rules", rules([expressions[0].replace("[1m]", "")]))[0] != 0, "promtool finds a rate of no range")


def test_metrics_are_read_by_promtool():
    broker, port = broker_with_http(2)
    with broker:
        do_something(broker)
        _, text = metrics(port)
        equal(promtool("metrics", text), (0, b""), "what promtool says")
        broken = text.replace("# TYPE weir_connections gauge", "# TYPE weir_connections counter")
        check(promtool("metrics", broken)[0] != 0, "promtool finds a counter with a bad name")


def test_scrapes_do_not_slow_producers_down():
    broker, port = broker_with_http(2)
    with broker:
        with Conn(broker.host, broker.port) as conn:
            for i in range(20):
                equal(conn.create_topic(f"t{i}", 10)[0], 0, "create")

            def p99():
                times = []
                for i in range(400):
                    began = time.monotonic()
                    equal(conn.produce(f"t{i % 20}", {i % 10: batch([b"x" * 100])}).popitem()[1][0], 0, "produce")
                    times.append(time.monotonic() - began)
                return sorted(times)[len(times) * 99 // 100] * 1000

            quiet = p99()
            is_over = threading.Event()
            count = [0]

            def scrape():
                while not is_over.wait(0.02):
                    metrics(port)
                    count[0] += 1

            thread = threading.Thread(target=scrape)
            thread.start()
            scraped = p99()
            is_over.set()
            thread.join()
        check(count[0] > 3, "it was scraped meanwhile")
        say(f"       p99 of a produce request: {quiet:.1f} ms, and {scraped:.1f} ms beside {count[0]} scrapes")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
