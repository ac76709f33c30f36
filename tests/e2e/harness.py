# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a broker to start, stop and kill; clients to drive; a runner.

Broker     `weir serve` on a port of its own and a data directory that goes away; its log is looked at when it ends.
Client     kcat, or one of the helper programs (client_*.py, java/Client.java), all driven by the same words.
main       runs the test_* functions of a module, says how long each took, and exits 0, 1, or 77 when all are left out.

Environment
  WEIR_BUILD        where weir was built (build/release)
  WEIR_LONG=1       the long figures
  WEIR_E2E_SKIP     clients that can't be installed here
  WEIR_E2E_AGAINST  kafka: the tests that need no Weir run against a real Apache Kafka, to try the tests themselves
  WEIR_SEED         of what is random; printed
"""

import base64
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PEER = os.path.join(ROOT, "tests", "peer")
BUILD = os.environ.get("WEIR_BUILD") or os.path.join(ROOT, "build", "release")
CLIENTS = os.environ.get("WEIR_CLIENTS") or os.path.join(ROOT, "build", "clients")
WEIR = os.path.join(BUILD, "weir")
IS_LONG = os.environ.get("WEIR_LONG", "") not in ("", "0")
AGAINST_KAFKA = os.environ.get("WEIR_E2E_AGAINST") == "kafka"
SKIPPED = set(re.split(r"[ ,]+", os.environ.get("WEIR_E2E_SKIP", "").strip())) - {""}
SEED = int(os.environ.get("WEIR_SEED") or random.SystemRandom().randrange(1 << 32))

sys.path.insert(0, PEER)


class Skip(Exception):
    """Raised by a test that can't say anything here."""


def say(*words):
    print(*words, flush=True)


def check(is_so, what):
    """As assert, but never left out."""
    if not is_so:
        raise AssertionError(what() if callable(what) else what)


def equal(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def until(condition, timeout_s, what, every_s=0.01):
    """Waits for a condition; a deadline that passes is a failure. Gives what the condition gave."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(every_s)


def allow_files(count):
    """Lets this process and what it starts have so many descriptors, or as many as may be; how many there are now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


# ---- the broker ----


class Broker:
    """One broker over its whole life: start, stop, kill, start again on the same port and data.

    with Broker(shards=2) as broker: ...   starts it; at the end it must stop cleanly and have nothing fatal in its log.
    with Broker(disk_bytes=...) as ...     its data directory is a disk of that size, in memory.
    """

    def __init__(self, shards=1, settings=None, wrapper=(), name="weir", disk_bytes=0):
        self.shards = shards
        self.settings = dict(settings or {})
        self.wrapper = list(wrapper)
        self.host = "127.0.0.1"
        self.port = 0
        self.process = None
        self.ready_line = None
        self.directory = tempfile.mkdtemp(prefix=f"weir-e2e-{name}.")
        self.data = os.path.join(self.directory, "data")
        self.disk_bytes = disk_bytes
        self.log_path = os.path.join(self.directory, "log")
        self.kafka = None

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    @property
    def pid(self):
        """Of the broker itself, not of what it is wrapped in."""
        if not self.wrapper:
            return self.process.pid
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def start(self, timeout_s=60):
        if AGAINST_KAFKA:
            self._start_kafka()
            return self
        command = [*self.wrapper, WEIR, "serve", "--data-dir", self.data]
        settings = {"listeners": f"PLAINTEXT://{self.host}:{self.port}", "weir.http.listener": "", "weir.shards": self.shards}
        settings.update(self.settings)
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        lines = queue.Queue()
        stdout = self.process.stdout

        def read():
            with stdout:
                for line in stdout:
                    lines.put(line.decode())
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        try:
            line = lines.get(timeout=timeout_s)
        except queue.Empty:
            line = None
        if line is None or not line.startswith("ready "):
            code = self.process.poll()
            self.kill()
            raise AssertionError(f"the broker was not ready within {timeout_s} s (line {line!r}, exit code {code})\n{self.log_tail()}")
        self.ready_line = line.strip()
        listeners = re.search(r"listeners=PLAINTEXT://([0-9.]+):(\d+)", line)
        shards = re.search(r"shards=(\d+)", line)
        check(listeners and shards, f"a strange ready line: {line!r}")
        equal(int(shards.group(1)), int(settings["weir.shards"]), "shards in the ready line")
        if self.port:
            equal(int(listeners.group(2)), self.port, "the port in the ready line")
        self.port = int(listeners.group(2))
        return self

    def _start_kafka(self):
        import kafka  # tests/peer
        if self.kafka is None:
            self.kafka = kafka.Kafka(os.path.join(self.directory, "kafka"))
            self.log_path = self.kafka.log_path
        self.kafka.start()
        self.port = self.kafka.port
        self.process = self.kafka.process

    def stop(self, timeout_s=30):
        """By SIGTERM; the exit code must be 0."""
        if self.kafka is not None:
            self.kafka.stop()
            self.process = None
            return
        os.kill(self.pid, signal.SIGTERM)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the broker did not stop within {timeout_s} s of SIGTERM\n{self.log_tail()}") from None
        self.process = None
        check(code == 0, lambda: f"the broker stopped with exit code {code}\n{self.log_tail()}")

    def kill(self):
        """By SIGKILL, and gone when this returns."""
        if self.process is not None and self.process.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except (OSError, IndexError):
                self.process.kill()
            self.process.wait()
        self.process = None

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log_tail(self, lines=30):
        return f"---- the last lines of {self.log_path}\n" + "\n".join(self.log().splitlines()[-lines:])

    def check_log(self):
        bad = [line for line in self.log().splitlines() if re.search(r"FATAL|CHECK|Sanitizer|runtime error:", line)]
        if not AGAINST_KAFKA:
            check(not bad, lambda: "in the broker's log: " + bad[0])

    def memory_kib(self, word="VmRSS"):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"^{word}:\s+(\d+) kB$", file.read(), re.M).group(1))

    def _mount_disk(self):
        if os.geteuid() != 0:
            raise Skip("mounting a small disk needs root")
        os.makedirs(self.data)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.disk_bytes}", "weir-e2e", self.data], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise Skip(f"a tmpfs can't be mounted here: {done.stderr.strip()}")

    def free_bytes(self):
        """Of the disk that its data are on."""
        stat = os.statvfs(self.data)
        return stat.f_bavail * stat.f_frsize

    def __enter__(self):
        try:
            if self.disk_bytes:
                self._mount_disk()
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and self.process is not None:
                check(self.is_running(), lambda: f"the broker ended by itself: {self.process.poll()}\n{self.log_tail()}")
                self.stop()
            if kind is None:
                self.check_log()
        except BaseException:
            kind = AssertionError
            raise
        finally:
            if kind is not None and os.path.exists(self.log_path):
                say(self.log_tail())
            self.kill()
            if os.path.ismount(self.data):
                subprocess.run(["umount", "-l", self.data], check=False)
            if not (kind is not None and os.environ.get("WEIR_E2E_KEEP")):
                shutil.rmtree(self.directory, ignore_errors=True)


def weir(*args, stdin=None, timeout_s=60):
    """Runs the weir command; (exit code, stdout, stderr), as text."""
    done = subprocess.run([WEIR, *args], input=stdin, capture_output=True, timeout=timeout_s, check=False,
                          text=not isinstance(stdin, bytes))
    return done.returncode, done.stdout, done.stderr


def ask(conn, api, version, **body):
    """Any request of any version over a wire.Conn, by the names of Kafka's schemas; the answer's fields by theirs."""
    import messages  # tests/peer
    conn.socket.sendall(messages.request(api, version, 1, "hand", body))
    size = int.from_bytes(conn.receive_exactly(4), "big")
    return messages.response(api, version, conn.receive_exactly(size))[1]


# ---- clients ----


class ClientError(Exception):
    def __init__(self, client, name, message):
        super().__init__(f"{client}: {name}: {message}")
        self.name = name
        self.message = message


class NoSuchCall(Exception):
    """What was asked of a client is not in it."""


class Record:
    """partition, offset, timestamp, key, value (bytes or None), headers: a list of (name, bytes or None)."""

    __slots__ = ("partition", "offset", "timestamp", "key", "value", "headers")

    def __init__(self, partition, timestamp, key, value, headers=(), offset=None):
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = list(headers)

    def content(self):
        return (self.partition, self.offset, self.timestamp, self.key, self.value, self.headers)


def _pack(data):
    return "-" if data is None else "=" + base64.b64encode(data).decode()


def _unpack(text):
    return None if text == "-" else base64.b64decode(text[1:])


def need(*whats):
    """Gets what clients need: see tests/peer/get."""
    done = subprocess.run([os.path.join(PEER, "get"), *whats], capture_output=True, text=True, check=False)
    check(done.returncode == 0, lambda: f"tests/peer/get {' '.join(whats)} failed:\n{done.stdout}{done.stderr}")


def python_helper(file):
    """The command of a helper program of this folder that needs the clients' Python."""
    need("python")
    return [os.path.join(CLIENTS, "venv", "bin", "python"), os.path.join(HERE, file)]


def aiokafka_helper(file):
    """The same with aiokafka's Python."""
    need("aiokafka")
    return [os.path.join(CLIENTS, "aiokafka", "bin", "python"), os.path.join(HERE, file)]


def java_helper(name, heap="256m"):
    """The same for a class of java/."""
    need("java")
    with open(os.path.join(CLIENTS, "java.classpath"), encoding="utf-8") as file:
        path = os.path.join(CLIENTS, "java") + ":" + file.read().strip()
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", path, name]


def node_helper(file):
    """The same for a program of node/."""
    need("node")
    return ["env", "NODE_PATH=" + os.path.join(CLIENTS, "node", "node_modules"), "node", os.path.join(HERE, "node", file)]


def rust_helper():
    """The same for the program of rust/."""
    need("rust")
    return [os.path.join(CLIENTS, "rust", "weir-e2e")]


GO_PROGRAMS = {"franz-go": "franz", "sarama": "sarama"}


def go_helper(name):
    """The same for a program of go/."""
    need("go")
    return [os.path.join(CLIENTS, "go", "bin", name)]


def strategies(kind):
    """How the members of a client can be asked to share partitions: an eager one, and the best that the client has."""
    return {"aiokafka": ("range", "sticky"), "kafkajs": ("roundrobin",)}.get(kind, ("range", "cooperative-sticky"))


def member_helper(kind):
    """The command of a member of a group, by its client; it takes BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]: see member_confluent.py."""
    if kind == "aiokafka":
        return aiokafka_helper("member_aiokafka.py")
    if kind == "kafkajs":
        return [*node_helper("kafkajs.js"), "member"]
    if kind == "rust-rdkafka":
        return [*rust_helper(), "member"]
    if kind in GO_PROGRAMS:
        return [*go_helper(GO_PROGRAMS[kind]), "member"]
    if kind == "kafka-python":
        return python_helper("member_kafka_python.py")
    return java_helper("Member", "128m") if kind == "java" else python_helper("member_confluent.py")


class HelperClient:
    """A helper program that lives as long as the test: a line of words in, lines out, then 'ok' or 'error'."""

    makes_timestamps = True
    reports_offsets = True

    def __init__(self, name, command, bootstrap):
        self.name = name
        self.process = subprocess.Popen([*command, bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self.process.stdout as stdout:
            for line in stdout:
                self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def ask(self, words, rows=(), timeout_s=60):
        text = "\t".join(str(word) for word in words) + "\n" + "".join("\t".join(row) + "\n" for row in rows)
        self.process.stdin.write(text)
        self.process.stdin.flush()
        out = []
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{self.name}: no answer within {timeout_s} s to {words!r}") from None
            check(line is not None, f"{self.name}: ended while it was asked {words!r}")
            if line == "ok":
                return out
            fields = line.split("\t")
            if fields[:2] == ["error", "NO_SUCH_CALL"]:
                raise NoSuchCall(f"{self.name}: {words[0]}")
            if fields[0] == "error":
                raise ClientError(self.name, fields[1], fields[2] if len(fields) > 2 else "")
            out.append(fields)

    def create(self, topic, partitions, configs=None):
        self.ask(["create", topic, partitions, ",".join(f"{k}={v}" for k, v in (configs or {}).items())])

    def delete(self, topic):
        self.ask(["delete", topic])

    def topics(self):
        return [row[0] for row in self.ask(["topics"])]

    def configs(self, topic):
        return {row[0]: row[1] for row in self.ask(["configs", topic])}

    def broker_configs(self):
        return {row[0]: row[1] for row in self.ask(["broker_configs"])}

    def produce(self, topic, codec, records):
        """Fills in the offsets that the broker gave, as the client reports them."""
        rows = [(str(r.partition), str(r.timestamp), _pack(r.key), _pack(r.value),
                 ",".join(f"{base64.b64encode(name.encode()).decode()}:{_pack(value)}" for name, value in r.headers)) for r in records]
        answers = self.ask(["produce", topic, codec, len(rows)], rows)
        equal(len(answers), len(records), f"{self.name}: reports of delivery")
        for record, (partition, offset) in zip(records, answers):
            equal(int(partition), record.partition, f"{self.name}: partition in the report")
            record.offset = int(offset)

    def alter_configs(self, topic, configs):
        self.ask(["alter_configs", topic, ",".join(f"{k}={v}" for k, v in configs.items())])

    def replace_configs(self, topic, configs):
        self.ask(["replace_configs", topic, ",".join(f"{k}={v}" for k, v in configs.items())])

    def add_partitions(self, topic, count):
        self.ask(["add_partitions", topic, count])

    def list_offsets(self, topic, when):
        return {int(row[0]): int(row[1]) for row in self.ask(["list_offsets", topic, when])}

    def delete_records(self, topic, before):
        self.ask(["delete_records", topic, ",".join(f"{p}:{offset}" for p, offset in before.items())])

    def groups(self):
        return [row[0] for row in self.ask(["groups"])]

    def group(self, name):
        """Its state, and rows of member, instance, client, host."""
        rows = self.ask(["group", name])
        equal(int(rows[0][1]), len(rows) - 1, f"{self.name}: members of {name}")
        return rows[0][0], rows[1:]

    def committed(self, group, topic):
        return {int(row[0]): int(row[1]) for row in self.ask(["committed", group, topic])}

    def delete_group(self, name):
        self.ask(["delete_group", name])

    def consume(self, topic, ends, where="beginning"):
        """By assignment, up to {partition: end offset}; where: beginning, offset:N, time:MS."""
        rows = self.ask(["consume", topic, ",".join(f"{p}:{end}" for p, end in ends.items()), where], timeout_s=180 if AGAINST_KAFKA else 60)
        out = []
        for partition, offset, timestamp, key, value, headers in rows:
            pairs = [item.split(":") for item in headers.split(",") if item]
            out.append(Record(int(partition), int(timestamp), _unpack(key), _unpack(value),
                              [(base64.b64decode(n).decode(), _unpack(v)) for n, v in pairs], int(offset)))
        return out

    def close(self):
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(10)
            except (OSError, subprocess.TimeoutExpired):
                self.process.kill()
                self.process.wait()


class Kcat:
    """Debian's kcat, one process a call. It has no admin calls: topics come by themselves, with num.partitions partitions."""

    name = "kcat"
    makes_timestamps = False
    reports_offsets = False

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def run(self, *args, stdin=b"", timeout_s=60, is_checked=True):
        done = subprocess.run(["kcat", "-b", self.bootstrap, *args], input=stdin, capture_output=True, timeout=timeout_s, check=False)
        if is_checked and done.returncode != 0:
            raise ClientError("kcat", f"exit code {done.returncode}", done.stderr.decode(errors="replace"))
        return done

    def produce(self, topic, codec, records):
        """All records of a call have the same headers."""
        by_partition = {}
        for record in records:
            by_partition.setdefault(record.partition, []).append(record)
        for partition, rows in by_partition.items():
            args = ["-P", "-t", topic, "-p", str(partition), "-K", "\t", "-X", "acks=all"]
            if codec != "none":
                args += ["-z", codec]
            for name, value in rows[0].headers:
                args += ["-H", f"{name}={value.decode()}"]
            self.run(*args, stdin=b"".join(r.key + b"\t" + r.value + b"\n" for r in rows))

    def list_offsets(self, topic, when):
        at = {"earliest": -2, "latest": -1}.get(when, when)
        partitions = re.findall(r"^    partition (\d+),", self.run("-L", "-t", topic).stdout.decode(), re.M)
        text = self.run("-Q", *(word for p in partitions for word in ("-t", f"{topic}:{p}:{at}"))).stdout.decode()
        return {int(p): int(offset) for p, offset in re.findall(r"\[(\d+)\] offset (-?\d+)", text)}

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoSuchCall(f"kcat: {name}")

    def consume(self, topic, ends, where="beginning"):
        kind, _, number = where.partition(":")
        start = {"beginning": "beginning", "offset": number, "time": f"s@{number}"}[kind]
        out = []
        for partition, end in ends.items():
            if end == 0:
                continue
            count = [] if kind == "time" else ["-c", str(end - (int(number) if kind == "offset" else 0))]
            data = self.run("-C", "-q", "-t", topic, "-p", str(partition), "-o", start, *(count or ["-e"]), "-f",
                            "%o %T %K %S\n%k%s%h\n", "-X", "check.crcs=true").stdout
            at = 0
            while at < len(data):
                stop = data.index(b"\n", at)
                offset, timestamp, key_bytes, value_bytes = (int(word) for word in data[at:stop].split())
                at = stop + 1
                parts = []
                for size in (key_bytes, value_bytes):
                    parts.append(None if size < 0 else data[at:at + size])
                    at += max(0, size)
                stop = data.index(b"\n", at)
                pairs = [item.split(b"=", 1) for item in data[at:stop].split(b",") if item]
                at = stop + 1
                out.append(Record(partition, timestamp, parts[0], parts[1],
                                  [(n.decode(), None if v == b"NULL" else v) for n, v in pairs], offset))
        return out

    def close(self):
        pass


FIRST_CLIENTS = ("kcat", "confluent-kafka", "java", "kafka-python")
CLIENT_NAMES = (*FIRST_CLIENTS, "franz-go", "sarama", "aiokafka", "kafkajs", "rust-rdkafka")


def open_client(name, bootstrap):
    if name == "kcat":
        check(shutil.which("kcat"), "kcat is not installed: ci/setup test")
        return Kcat(bootstrap)
    if name == "confluent-kafka":
        return HelperClient(name, python_helper("client_confluent.py"), bootstrap)
    if name == "kafka-python":
        return HelperClient(name, python_helper("client_kafka_python.py"), bootstrap)
    if name == "aiokafka":
        return HelperClient(name, aiokafka_helper("client_aiokafka.py"), bootstrap)
    if name == "kafkajs":
        return HelperClient(name, node_helper("kafkajs.js"), bootstrap)
    if name == "rust-rdkafka":
        return HelperClient(name, rust_helper(), bootstrap)
    if name in GO_PROGRAMS:
        return HelperClient(name, go_helper(GO_PROGRAMS[name]), bootstrap)
    return HelperClient(name, java_helper("Client"), bootstrap)


def create(client, topic, partitions, configs=None):
    """kafkajs asks who leads its topic the moment that it is made, when a Kafka may not know of it yet, and takes that for a failure."""
    try:
        client.create(topic, partitions, configs)
    except ClientError as error:
        if not AGAINST_KAFKA or error.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise


def create_anew(client, topic, partitions):
    """A topic that was deleted; a producer that still knows it may ask for it just then, and has it made by that."""
    def is_made():
        try:
            create(client, topic, partitions)
        except ClientError as error:
            if error.name != "TOPIC_ALREADY_EXISTS":
                raise
            client.delete(topic)
            return False
        return True
    until(is_made, 10, f"{topic} is created anew", 0.1)


def open_clients(bootstrap, names=CLIENT_NAMES):
    return {name: open_client(name, bootstrap) for name in names if name not in SKIPPED}


# ---- the runner ----


def main(module_globals, argv=None):
    """Runs the test_* functions of a module, or those named on the command line."""
    wanted = (argv if argv is not None else sys.argv)[1:]
    tests = {name: f for name, f in module_globals.items() if name.startswith("test_") and callable(f)}
    unknown = [name for name in wanted if name not in tests]
    if unknown:
        say(f"no such test: {' '.join(unknown)}; there are: {' '.join(tests)}")
        return 2
    if not AGAINST_KAFKA and not os.path.exists(WEIR):
        say(f"{WEIR} is not there: build it first")
        return 1
    random.seed(SEED)
    say(f"WEIR_SEED={SEED}")
    failed = passed = 0
    for name, test in tests.items():
        if wanted and name not in wanted:
            continue
        start = time.monotonic()
        try:
            test()
        except Skip as why:
            say(f"skip   {name}: {why}")
            continue
        except BaseException as error:  # pylint: disable=broad-except
            if isinstance(error, KeyboardInterrupt):
                raise
            traceback.print_exc()
            say(f"FAILED {name}  {time.monotonic() - start:.1f} s  (WEIR_SEED={SEED})")
            failed += 1
            continue
        say(f"ok     {name}  {time.monotonic() - start:.1f} s")
        passed += 1
    if SKIPPED:
        say("clients left out by WEIR_E2E_SKIP: " + " ".join(sorted(SKIPPED)))
    return 1 if failed else (0 if passed else 77)
