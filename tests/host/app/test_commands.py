#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program from outside: usage, exit codes, configuration, data directory, signals, and commands against our own broker."""
import base64
import datetime
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

WEIR = os.path.join(os.environ["WEIR_BUILD"], "weir")
LOCAL = ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "weir.http.listener=", "--set", "weir.shards=2"]


def weir(*arguments, stdin=b"", timeout=60):
    return subprocess.run([WEIR, *arguments], input=stdin, capture_output=True, timeout=timeout)


class Broker:
    def __init__(self, directory, *arguments):
        self.process = subprocess.Popen([WEIR, "serve", "--data-dir", directory, *LOCAL, *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = self.process.stdout.readline().strip()
        match = re.fullmatch(r"ready node=(\d+) cluster=(\S{22}) listeners=PLAINTEXT://(127\.0\.0\.1:\d+) shards=(\d+)", self.ready)
        if match is None:
            self.process.kill()
            raise AssertionError(f"not ready: {self.ready!r} {self.process.communicate()}")
        self.node, self.cluster, self.bootstrap, self.shards = match.groups()

    def stop(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def run(self, *arguments, stdin=b""):
        return weir(*arguments, "--bootstrap", self.bootstrap, stdin=stdin)


class Usage(unittest.TestCase):
    def test_each_command_says_how_it_is_used(self):
        for command in ("serve", "topic", "produce", "consume", "group", "version"):
            done = weir(command, "--help")
            self.assertEqual(done.returncode, 0, command)
            self.assertTrue(done.stdout.startswith(b"usage: weir " + command.encode()), done.stdout)
        self.assertIn(b"serve", weir("--help").stdout)

    def test_what_is_not_understood_exits_2(self):
        for arguments in ([], ["frob"], ["topic"], ["topic", "frob"], ["topic", "create"], ["topic", "list", "x"],
                          ["produce"], ["produce", "t", "--acks", "2"], ["produce", "t", "--compression", "rar"],
                          ["produce", "t", "--header", "x"], ["consume"], ["consume", "t", "--from", "yesterday"],
                          ["consume", "t", "-n", "-1"], ["consume", "t", "--partition", "x"], ["consume", "t", "--bogus"],
                          ["consume", "t", "--bootstrap", "nowhere"], ["topic", "list", "--bootstrap"],
                          ["group"], ["group", "frob"], ["group", "list", "x"], ["group", "describe"], ["group", "delete"],
                          ["group", "describe", "g", "--execute"], ["group", "reset", "g", "--topic", "t"],
                          ["group", "reset", "g", "--to-latest"], ["group", "reset", "--topic", "t", "--to-latest"],
                          ["group", "reset", "g", "--topic", "t:x", "--to-latest"], ["group", "reset", "g", "--topic", ":1", "--to-latest"],
                          ["group", "reset", "g", "--topic", "t", "--to-latest", "--shift-by", "1"],
                          ["group", "reset", "g", "--topic", "t", "--to-datetime", "soon"],
                          ["group", "reset", "g", "--topic", "t", "--to-offset", "-1"],
                          ["serve", "--bogus"], ["serve", "--config", "/no/such/file"], ["serve", "--set", "x"],
                          ["serve", "--set", "num.partition=1"], ["serve", "--set", "log.dirs=/a,/b"],
                          ["serve", "--set", "max.connections=1", "--set", "weir.shards=2"],
                          ["serve", "--set", "listeners=SSL://:1"], ["serve", "--set", "a=1", "--set", "a=2"]):
            done = weir(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done))
            self.assertEqual(done.stdout, b"")

    def test_a_broker_that_is_not_there_exits_1(self):
        done = weir("topic", "list", "--bootstrap", "127.0.0.1:1")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, b"error: BROKER_NOT_AVAILABLE: 127.0.0.1:1 can't be reached: connection refused\n")


    def test_input_that_comes_after_the_end_goes_nowhere(self):
        process = subprocess.Popen([WEIR, "produce", "t", "--bootstrap", "127.0.0.1:1"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        with process.stderr:
            self.assertIn(b"can't be reached: connection refused", process.stderr.readline())
            with self.assertRaises(BrokenPipeError):
                while True:  # some lines, to the very end of the process
                    process.stdin.write(b"x\n")
                    process.stdin.flush()
                    time.sleep(0.0003)
            self.assertEqual(process.stderr.read(), b"")
        self.assertEqual(process.wait(20), 1)


class Signals(unittest.TestCase):
    """Against a broker that takes connections and never answers."""

    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)

    def start(self, *arguments):
        process = subprocess.Popen([WEIR, *arguments, "--bootstrap", f"127.0.0.1:{self.listener.getsockname()[1]}"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.listener.settimeout(20)
        peer, _ = self.listener.accept()  # from here on it listens to signals
        self.addCleanup(peer.close)
        return process

    def test_a_question_that_was_not_answered_is_no_success(self):
        for arguments in (["topic", "create", "t"], ["topic", "delete", "t"], ["group", "delete", "g"]):
            process = self.start(*arguments)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=20)
            self.assertEqual((process.returncode, out, err), (1, b"", b"error: stopped by a signal before the broker had answered\n"))

    def test_a_stop_waits_for_no_connection_that_does_not_come(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.addCleanup(listener.close)
        port = listener.getsockname()[1]
        beginning = f":{port:04X} 02 "  # to that port, SYN_SENT

        def begin():
            peer = socket.socket()
            self.addCleanup(peer.close)
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))

        def count():
            with open("/proc/net/tcp", encoding="ascii") as file:
                return sum(beginning in line for line in file)

        while count() == 0:  # until it has no room for one more
            begin()
        for arguments in (["bench", "replay", "produce"], ["topic", "list"]):
            before = count()
            process = subprocess.Popen([WEIR, *arguments, "--bootstrap", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            while count() == before:
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)
            self.assertEqual(process.returncode, 1)

    def test_a_second_signal_is_no_success(self):
        process = self.start("produce", "t")
        process.stdin.write(b"one\n")
        process.stdin.flush()
        process.send_signal(signal.SIGSTOP)  # both are there before it looks
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1)


def closed(streams, *arguments):
    """Runs weir with some of its standard streams closed by whoever starts it."""
    words = 'exec "$0" "$@" ' + " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[stream] for stream in streams)
    return subprocess.run(["sh", "-c", words, WEIR, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


class Serve(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.data = os.path.join(self.temp.name, "a", "data")

    def meta(self):
        with open(os.path.join(self.data, "meta.properties"), encoding="ascii") as file:
            return dict(line.strip().split("=", 1) for line in file if "=" in line)

    def test_it_keeps_its_identity_and_stops_cleanly(self):
        with Broker(self.data, "--set", "node.id=5") as broker:
            self.assertEqual((broker.node, broker.shards), ("5", "2"))
            meta = self.meta()
            self.assertEqual((meta["version"], meta["node.id"], meta["cluster.id"]), ("1", "5", broker.cluster))
            self.assertEqual(len(meta["directory.id"]), 22)
            code, out, _ = broker.stop()
            self.assertEqual((code, out), (0, ""))
        with Broker(self.data, "--set", "node.id=5", "--set", f"weir.cluster.id={meta['cluster.id']}") as broker:
            self.assertEqual(broker.cluster, meta["cluster.id"])
            self.assertEqual(broker.stop(signal.SIGINT)[0], 0)
        self.assertEqual(self.meta(), meta)
        for wrong in ("node.id=6", "weir.cluster.id=AAAAAAAAAAAAAAAAAAAAAA"):
            arguments = [] if wrong.startswith("node") else ["--set", "node.id=5"]
            done = weir("serve", "--data-dir", self.data, *LOCAL, *arguments, "--set", wrong)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(b"is of ", done.stderr)

    def test_the_number_of_coordinators_is_that_of_the_first_start(self):
        with Broker(self.data, "--set", "weir.coordinator.groups=4") as broker:
            self.assertEqual(self.meta()["weir.coordinator.groups"], "4")
            self.assertEqual(broker.stop()[0], 0)
        done = weir("serve", "--data-dir", self.data, *LOCAL)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"was made with weir.coordinator.groups=4", done.stderr)
        with Broker(self.data, "--set", "weir.coordinator.groups=4") as broker:
            self.assertEqual(broker.stop()[0], 0)

    def test_a_terminal_that_goes_stops_it_unless_that_is_ignored(self):
        with Broker(self.data) as broker:
            self.assertEqual(broker.stop(signal.SIGHUP)[0], 0)
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it to its child
        try:
            with Broker(self.data) as broker:
                broker.process.send_signal(signal.SIGHUP)
                self.assertEqual(broker.run("topic", "list").returncode, 0)
                code, _, err = broker.stop()
                self.assertEqual(code, 0)
                self.assertIn("the last stop was clean", err)
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_a_second_process_names_the_first(self):
        with Broker(self.data) as broker:
            done = weir("serve", "--data-dir", self.data, *LOCAL)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"in use by the process with pid {broker.process.pid}\n".encode(), done.stderr)
            self.assertEqual(broker.stop()[0], 0)

    def test_only_an_empty_directory_becomes_a_cluster(self):
        os.makedirs(os.path.join(self.data, "orders-0"))
        done = weir("serve", "--data-dir", self.data, *LOCAL)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"is not empty and has no meta.properties", done.stderr)
        os.rmdir(os.path.join(self.data, "orders-0"))
        done = weir("serve", "--data-dir", self.data, *LOCAL, "--set", "weir.cluster.id=AAAAAAAAAAAAAAAAAAAAAA")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"is empty, but weir.cluster.id", done.stderr)

    def files(self):
        """{path: content} of all but the lock."""
        found = {}
        for folder, _, names in os.walk(self.data):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.join(folder, name)] = file.read()
        found.pop(os.path.join(self.data, ".lock"), None)
        return found

    def refuses_and_leaves_alone(self, name):
        before = self.files()
        done = weir("serve", "--data-dir", self.data, *LOCAL)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"has '{name}', but no checkpoint in weir-journal".encode(), done.stderr)
        self.assertEqual(self.files(), before)

    def test_a_directory_that_lost_its_journal_is_not_begun_anew(self):
        with Broker(self.data) as broker:
            self.assertEqual(broker.stop()[0], 0)
        journal = os.path.join(self.data, "weir-journal")
        for name in os.listdir(journal):
            os.unlink(os.path.join(journal, name))
        self.refuses_and_leaves_alone("__cluster_metadata-0")
        os.rmdir(journal)
        self.refuses_and_leaves_alone("__cluster_metadata-0")

    def test_a_directory_of_kafka_is_left_alone(self):
        os.makedirs(os.path.join(self.data, "orders-0"))
        with open(os.path.join(self.data, "orders-0", "00000000000000000000.log"), "wb") as file:
            file.write(b"x")
        with open(os.path.join(self.data, "meta.properties"), "w", encoding="ascii") as file:
            file.write("version=1\ncluster.id=SO4CfNvwRo-lUG7tj6f5Vg\nnode.id=1\ndirectory.id=wFBl5Y3lSAe5pAJpOJ7vWQ\n")
        self.refuses_and_leaves_alone("orders-0")

    def test_a_first_start_that_did_not_come_far_goes_on(self):
        with Broker(self.data) as broker:
            cluster = broker.cluster
            self.assertEqual(broker.stop()[0], 0)
        shutil.rmtree(os.path.join(self.data, "__cluster_metadata-0"))
        for name in ("weir-journal/0000000000.wj", "weir-journal"):
            journal = os.path.join(self.data, "weir-journal")
            shutil.rmtree(journal)
            if name != "weir-journal":
                os.mkdir(journal)
                with open(os.path.join(self.data, name), "wb"):
                    pass
            with Broker(self.data) as broker:
                self.assertEqual(broker.cluster, cluster)
                self.assertEqual(broker.stop()[0], 0)
            shutil.rmtree(os.path.join(self.data, "__cluster_metadata-0"))

    def test_little_memory_has_one_shard_however_many_cores_there_are(self):
        process = subprocess.Popen([WEIR, "serve", "--data-dir", self.data, "--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set",
                                    "weir.http.listener=", "--set", "weir.memory.max.bytes=67108864"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        with process.stdout, process.stderr:
            self.assertTrue(process.stdout.readline().endswith(b" shards=1\n"))
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)

    def test_a_path_that_is_no_directory_is_named(self):
        path = os.path.join(self.temp.name, "file")
        with open(path, "w", encoding="ascii"):
            pass
        for bad in (path, os.path.join(path, "below")):
            done = weir("serve", "--data-dir", bad, *LOCAL)
            self.assertEqual(done.returncode, 1)
            self.assertIn(bad.encode(), done.stderr)

    def test_an_address_in_use_is_named_and_exits_1(self):
        with Broker(self.data) as broker:
            done = weir("serve", "--data-dir", os.path.join(self.temp.name, "b"), "--set",
                        f"listeners=PLAINTEXT://{broker.bootstrap}", "--set", "weir.http.listener=")
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"FATAL", done.stderr)

    def test_each_listener_with_any_free_port_is_named_with_the_port_it_has(self):
        process = subprocess.Popen([WEIR, "serve", "--data-dir", self.data, "--set", "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0", "--set",
                                    "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT", "--set", "inter.broker.listener.name=IN",
                                    "--set", "weir.shards=2", "--set", "weir.http.listener="], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.kill)
        with process.stdout:
            ports = re.findall(r"(?:IN|OUT)://127\.0\.0\.1:(\d+)", process.stdout.readline())
        self.assertEqual(len(set(ports)), 2, ports)
        for port in ports:
            self.assertEqual(weir("topic", "list", "--bootstrap", "127.0.0.1:" + port).returncode, 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)

    def test_log_lines_are_text_or_json(self):
        with Broker(self.data, "--set", "num.io.threads=4") as broker:
            _, _, err = broker.stop()
        self.assertRegex(err.splitlines()[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARN app 'num\.io\.threads' ")
        with Broker(self.data, "--set", "num.io.threads=4", "--set", "weir.log.format=json") as broker:
            _, _, err = broker.stop()
        for line in err.splitlines():
            self.assertLessEqual({"time", "level", "room", "shard", "message"}, set(json.loads(line)))
        with Broker(self.data, "--set", "num.io.threads=4", "--set", "weir.log.level=fatal") as broker:
            self.assertEqual(broker.stop()[2], "")


    def test_log_lines_in_json_are_json_whatever_they_name(self):
        data = os.fsencode(self.data) + b"-\xff\xc3\xa9"
        process = subprocess.Popen([WEIR, "serve", "--data-dir", data, *LOCAL, "--set", "weir.log.format=json"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertTrue(process.stdout.readline().startswith(b"ready "))
        process.send_signal(signal.SIGTERM)
        lines = process.communicate(timeout=60)[1].splitlines()
        self.assertIn("-\ufffd\u00e9'", json.loads(lines[0].decode())["message"])

    def test_last_words_in_json_are_json(self):
        as_json = ("--set", "weir.log.format=json")
        with Broker(self.data, *as_json) as broker:
            refused = weir("serve", "--data-dir", self.data, *LOCAL, *as_json)
            self.assertEqual(refused.returncode, 1)
            said = json.loads(refused.stderr)
            self.assertEqual((said["level"], said["room"]), ("FATAL", "app"))
            self.assertIn("in use by the process with pid", said["message"])
            os.kill(broker.process.pid, signal.SIGSTOP)  # both are there before it looks
            os.kill(broker.process.pid, signal.SIGTERM)
            os.kill(broker.process.pid, signal.SIGINT)
            code, _, err = broker.stop(signal.SIGCONT)
            self.assertEqual(code, 1)
            said = [json.loads(line) for line in err.splitlines()][-1]
            self.assertEqual(said["level"], "ERROR")
            self.assertIn("second signal", said["message"])
        with Broker(self.data, *as_json) as broker:
            os.kill(broker.process.pid, signal.SIGALRM)  # as after weir.shutdown.timeout.ms and ten seconds more
            said = [json.loads(line) for line in broker.process.stderr.read().splitlines()][-1]
            self.assertEqual(said["level"], "FATAL")
            self.assertIn("did not stop in time", said["message"])

    def test_a_time_of_the_log_is_now(self):
        with Broker(self.data) as broker:
            _, _, err = broker.stop()
        for line in err.splitlines():
            said = datetime.datetime.fromisoformat(line.split()[0].replace("Z", "+00:00"))
            self.assertLess(abs(said.timestamp() - time.time()), 60)

    def test_a_file_without_end_is_no_configuration(self):
        done = weir("serve", "--config", "/dev/zero", "--data-dir", self.data, timeout=30)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"File too large", done.stderr)
        with Broker(self.data, "--config", "/dev/null") as broker:  # it may be no file, if it ends
            self.assertEqual(broker.stop()[0], 0)

    def test_what_is_no_file_is_damage_and_waited_for_by_nobody(self):
        with Broker(self.data) as broker:
            self.assertEqual(broker.run("produce", "t", stdin=b"a\n").returncode, 0)
            self.assertEqual(broker.stop()[0], 0)
        segment = os.path.join(self.data, "t-0", "00000000000000000000.log")
        os.rename(segment, segment + ".old")
        os.mkfifo(segment)
        done = weir("log", "verify", "--data-dir", self.data, timeout=20)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"damage: t-0/00000000000000000000.log at byte 0: can't be read: Invalid argument\n", done.stdout)

    def test_a_log_that_nobody_reads_stops_nobody(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        os.write(writer, b"x" * 4095 + b"\n")  # it is full
        os.set_blocking(writer, True)
        with Broker(self.data + "-read") as broker:
            before = broker.stop()[2].partition("SIGTERM")[0].count("\n")
        process = subprocess.Popen([WEIR, "serve", "--data-dir", self.data, *LOCAL], stdout=subprocess.PIPE, stderr=writer)
        self.addCleanup(process.kill)
        os.close(writer)
        with process.stdout, os.fdopen(reader, "rb") as log:
            self.assertTrue(select.select([process.stdout], [], [], 30)[0], "it waits for its log")
            self.assertTrue(process.stdout.readline().startswith(b"ready "))
            self.assertEqual(log.readline(), b"x" * 4095 + b"\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)
            first, *others = log.read().decode().splitlines()
            self.assertRegex(first, rf"^\S+ INFO app SIGTERM has come: stopping \({before} lines before it were lost: nobody read them\)$")
            self.assertNotIn("lost", "".join(others))

    def test_a_log_that_nobody_wants_goes_nowhere(self):
        for streams in ("2>&-", "<&- 2>&-"):
            words = f'exec "$0" "$@" {streams}'
            process = subprocess.Popen(["sh", "-c", words, WEIR, "serve", "--data-dir", self.data, *LOCAL], stdout=subprocess.PIPE)
            self.addCleanup(process.kill)
            self.assertTrue(process.stdout.readline().startswith(b"ready "))
            process.send_signal(signal.SIGTERM)
            self.assertEqual((process.communicate(timeout=60)[0], process.returncode), (b"", 0))
            self.assertEqual(os.path.getsize(os.path.join(self.data, ".lock")), 0)


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.broker = Broker(os.path.join(cls.temp.name, "data"))

    @classmethod
    def tearDownClass(cls):
        code = cls.broker.stop()[0]
        cls.broker.__exit__()
        cls.temp.cleanup()
        assert code == 0, code

    def good(self, *arguments, stdin=b""):
        done = self.broker.run(*arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def test_topics_are_created_described_and_deleted(self):
        self.good("topic", "create", "made", "--partitions", "3", "--config", "retention.ms=1000")
        done = self.broker.run("topic", "create", "made")
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"error: TOPIC_ALREADY_EXISTS: topic 'made' exists; use --if-not-exists\n"))
        self.good("topic", "create", "made", "--if-not-exists")
        self.assertIn(b"made\n", self.good("topic", "list"))
        text = self.good("topic", "describe", "made").decode()
        self.assertIn("partitions=3 ", text)
        self.assertIn("configs=retention.ms=1000\n", text)
        described = json.loads(self.good("topic", "describe", "made", "--json"))
        self.assertEqual(described["configs"], {"retention.ms": "1000"})
        self.assertEqual([part["partition"] for part in described["partitions"]], [0, 1, 2])
        self.good("topic", "delete", "made")
        self.assertNotIn(b"made\n", self.good("topic", "list"))
        done = self.broker.run("topic", "delete", "made")
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"error: UNKNOWN_TOPIC_OR_PARTITION: topic 'made' does not exist\n"))
        self.assertEqual(self.broker.run("topic", "describe", "made").returncode, 1)
        self.assertEqual(self.broker.run("consume", "made", "--exit").returncode, 1)

    def test_lines_come_back_as_they_went(self):
        lines = b"".join(b"line %d\n" % i for i in range(20000)) + b"\n" + b"last, without a feed"
        done = self.broker.run("produce", "lines", stdin=lines)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(b"20002 records produced, 0 failed", done.stderr)
        self.assertEqual(self.good("consume", "lines", "--exit"), lines + b"\n")
        self.assertEqual(self.good("consume", "lines", "-n", "2"), b"line 0\nline 1\n")
        self.assertEqual(self.good("consume", "lines", "--from", "20000", "--exit"), b"\nlast, without a feed\n")
        self.assertEqual(self.good("consume", "lines", "--from", "end", "--exit"), b"")
        self.assertEqual(self.good("consume", "lines", "--from", "@0", "-n", "1"), b"line 0\n")
        self.assertEqual(self.good("consume", "lines", "--from", "@2020-01-01T00:00:00Z", "-n", "1"), b"line 0\n")
        self.assertEqual(self.good("consume", "lines", "--from", "@2199-01-01", "--exit"), b"")
        done = self.broker.run("consume", "lines", "--from", "99999999", "--exit")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: OFFSET_OUT_OF_RANGE: ", done.stderr)

    def test_a_line_that_is_too_long_is_refused_as_soon_as_it_is_read(self):
        self.good("topic", "create", "long")
        done = weir("produce", "long", "--bootstrap", self.broker.bootstrap, stdin=bytes(65 << 20), timeout=20)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(b"error: MESSAGE_TOO_LARGE: a line is longer than 67108864 bytes\n", done.stderr)

    def test_an_input_without_end_ends_with_a_signal(self):
        self.good("topic", "create", "endless")
        process = subprocess.Popen([WEIR, "produce", "endless", "--bootstrap", self.broker.bootstrap], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)

        def write():
            try:
                while True:
                    process.stdin.write(b"line\n" * 10000)
            except OSError:
                pass  # it has ended

        writer = threading.Thread(target=write)
        writer.start()
        self.good("consume", "endless", "-n", "1")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 0)
        writer.join()
        with process.stderr, process.stdin:
            self.assertRegex(process.stderr.read(), rb"^[1-9]\d* records produced, 0 failed, ")
            try:
                process.stdin.close()
            except OSError:
                pass  # what it did not read

    def test_output_that_can_not_be_written_is_said_and_exits_1(self):
        self.good("produce", "unwritten", stdin=b"line\n" * 10000)
        with open("/dev/full", "wb") as full:
            for arguments in (["consume", "unwritten", "--exit"], ["topic", "list"]):
                done = subprocess.run([WEIR, *arguments, "--bootstrap", self.broker.bootstrap], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, rb"^error: standard output can't be written.*\n$")

    def test_closed_standard_streams_are_no_files_of_ours(self):
        self.good("produce", "streams", stdin=b"line\n" * 10000)
        at = ("--bootstrap", self.broker.bootstrap)
        for streams in ((1,), (0, 1), (0, 1, 2)):
            for arguments in (("consume", "streams", "--exit"), ("topic", "list")):
                done = closed(streams, *arguments, *at)
                self.assertEqual(done.returncode, 1, done)
                if 2 not in streams:
                    self.assertIn(b"error: standard output can't be written", done.stderr)
        done = closed((0,), "produce", "streams", *at)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"error: standard input: Bad file descriptor\n", done.stderr)
        self.assertEqual(closed((0,), "topic", "list", *at).returncode, 0)

    def test_every_compression_and_acks_is_understood(self):
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            for acks in ("all", "1", "0"):
                topic = f"c-{compression}-{acks}"
                self.good("topic", "create", topic)
                self.good("produce", topic, "--compression", compression, "--acks", acks, stdin=b"a\nb\n" * 500)
                self.assertEqual(self.good("consume", topic, "-n", "1000"), b"a\nb\n" * 500)

    def test_json_has_every_part_of_a_record(self):
        raw = bytes(range(128, 256))
        self.good("topic", "create", "parts", "--partitions", "4")
        self.good("produce", "parts", "--key-separator", ":", "--header", "h=v", "--partition", "2",
                  stdin=b"k\xc3\xa9:va\"lue\n:" + raw + b"\n")
        first, second = [json.loads(line) for line in self.good("consume", "parts", "--json", "--exit").splitlines()]
        self.assertEqual((first["topic"], first["partition"], first["offset"]), ("parts", 2, 0))
        self.assertEqual((first["key"], first["value"]), ("k\u00e9", 'va"lue'))
        self.assertEqual(first["headers"], [{"key": "h", "value": "v"}])
        self.assertGreater(first["timestamp"], 1577836800000)
        self.assertEqual(base64.b64decode(second["value_base64"]), raw)
        self.assertEqual(second["key"], "")
        self.assertEqual(self.good("consume", "parts", "--partition", "1", "--exit"), b"")

    def test_a_member_whose_group_has_no_partition_for_it_ends_too(self):
        self.good("produce", "few", stdin=b"a\n")
        arguments = ["consume", "few", "--group", "many", "--assignor", "cooperative-sticky", "--bootstrap", self.broker.bootstrap]
        first = subprocess.Popen([WEIR, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(first.kill)
        with first.stdout:
            self.assertEqual(first.stdout.readline(), b"a\n")  # it has the only partition
            done = weir(*arguments, "--exit", timeout=40)
            self.assertEqual((done.returncode, done.stdout), (0, b""), done)
            first.send_signal(signal.SIGTERM)
            self.assertEqual(first.wait(20), 0)

    def test_a_name_that_a_stranger_chose_is_one_line_and_moves_no_cursor(self):
        self.good("produce", "odd", stdin=b"a\n")
        name = "a\nb\x1b[2J\u009b1m\u00e9"
        self.good("consume", "odd", "--group", name, "--exit")
        shown = "a\\x0ab\\x1b[2J\\xc2\\x9b1m\u00e9".encode()
        self.assertIn(shown, self.good("group", "list").splitlines())
        self.assertTrue(self.good("group", "describe", name).startswith(b"group=" + shown + b" state="))
        self.assertIn(name, [json.loads(line)["group"] for line in self.good("group", "list", "--json").splitlines()])

    def reset(self, *arguments):
        rows = [json.loads(line) for line in self.good("group", "reset", "g", *arguments, "--json").splitlines()]
        return [(row["topic"], row["partition"], row["committed"], row["target"]) for row in rows]

    def test_offsets_of_a_group_are_set_and_described(self):
        self.good("topic", "create", "og", "--partitions", "2")
        self.good("topic", "create", "og2")
        for partition, count in ((0, 10), (1, 4)):
            self.good("produce", "og", "--partition", str(partition), stdin=b"x\n" * count)
        done = self.broker.run("group", "describe", "g")
        self.assertEqual((done.returncode, done.stderr), (1, b"error: GROUP_ID_NOT_FOUND: group 'g' does not exist\n"))
        # A dry run says what would be and changes nothing, so that the group is still not there.
        self.assertEqual(self.reset("--topic", "og", "--to-latest"), [("og", 0, None, 10), ("og", 1, None, 4)])
        self.assertEqual(self.broker.run("group", "describe", "g").returncode, 1)
        self.assertNotIn(b"g\n", self.good("group", "list"))
        self.assertEqual(self.reset("--topic", "og2", "--topic", "og:1", "--topic", "og:0", "--to-offset", "7", "--execute"),
                         [("og", 0, None, 7), ("og", 1, None, 4), ("og2", 0, None, 0)])
        self.assertEqual(self.reset("--topic", "og", "--shift-by", "-5", "--execute"), [("og", 0, 7, 2), ("og", 1, 4, 0)])
        self.assertEqual(self.reset("--topic", "og:0", "--shift-by", "9223372036854775807"), [("og", 0, 2, 10)])
        self.assertEqual(self.reset("--topic", "og", "--to-datetime", "2020-01-01"), [("og", 0, 2, 0), ("og", 1, 0, 0)])
        self.assertEqual(self.reset("--topic", "og", "--to-datetime", "2199-01-01"), [("og", 0, 2, 10), ("og", 1, 0, 4)])
        self.assertEqual(self.reset("--topic", "og", "--to-earliest"), [("og", 0, 2, 0), ("og", 1, 0, 0)])
        self.assertIn(b"g\n", self.good("group", "list"))
        listed = [json.loads(line) for line in self.good("group", "list", "--json").splitlines()]
        self.assertEqual([row["state"] for row in listed if row["group"] == "g"], ["Empty"])
        text = self.good("group", "describe", "g").decode()
        self.assertRegex(text, r"^group=g state=Empty .* members=0\n")
        self.assertIn("  topic=og partition=0 committed=2 start=0 end=10 lag=8 client=- host=-\n", text)
        self.good("topic", "delete", "og2")
        described = json.loads(self.good("group", "describe", "g", "--json"))
        self.assertEqual([(row["topic"], row["partition"], row["committed"], row["lag"]) for row in described["partitions"]
                          if row["topic"] == "og"], [("og", 0, 2, 8), ("og", 1, 0, 4)])
        for arguments, words in ((("--topic", "og2", "--to-latest"), b"UNKNOWN_TOPIC_OR_PARTITION: topic 'og2' does not exist"),
                                 (("--topic", "og:2", "--to-latest"), b"UNKNOWN_TOPIC_OR_PARTITION: topic 'og' has 2 partitions")):
            done = self.broker.run("group", "reset", "g", *arguments)
            self.assertEqual((done.returncode, done.stderr), (1, b"error: " + words + b"\n"))
        self.good("topic", "create", "og3")
        done = self.broker.run("group", "reset", "g", "--topic", "og3", "--shift-by", "1", "--execute")
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"error: topic 'og3' partition 0: there is no committed offset to shift\n"))
        done = self.broker.run("group", "delete", "nowhere", "g")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, b"deleted group 'g'\n", b"error: GROUP_ID_NOT_FOUND: group 'nowhere' does not exist\n"))
        self.assertNotIn(b"g\n", self.good("group", "list"))

    def test_what_fails_is_said_and_exits_1(self):
        self.good("topic", "create", "fails")
        done = self.broker.run("produce", "fails", "--partition", "9", stdin=b"x\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: UNKNOWN_TOPIC_OR_PARTITION: line 1", done.stderr)
        done = self.broker.run("produce", "fails", "--key-separator", ":", stdin=b"a:b\nno key\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"line 2", done.stderr)
        self.assertEqual(self.good("consume", "fails", "--exit"), b"b\n")
        done = self.broker.run("produce", "fails", stdin=b"x" * 2000000 + b"\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: MESSAGE_TOO_LARGE: ", done.stderr)
        done = self.broker.run("topic", "create", "bad name")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"error: INVALID_TOPIC_EXCEPTION: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
