# SPDX-License-Identifier: Apache-2.0
"""Members of groups, each in a process of its own, of any client; topics that are filled for them; and what they must have seen."""

import collections
import json
import os
import re
import signal
import struct
import subprocess
import threading

import harness
import wire
from harness import check, equal, until

PARTITIONS = 6
NO_LEADER_YET = (3, 6)  # nothing was appended: a Kafka says so right after a topic was made
# For a static member that is to come back before its session ends: a JVM took 10 s for that where others used the processors.
PATIENT = {"WEIR_SESSION_MS": "60000"}
SAYS_NO_COMMITS = ("kcat", "weir")  # they commit by themselves


class Member:
    """A consumer in a group; what it says is kept.

    owned      partitions, as far as it has said
    records    (partition, offset), in its order
    doubtful   how many of the last are not known to be committed, or those whose commit has failed: another one may see them again
    """

    def __init__(self, kind, broker, group, topic, strategy="range", instance="", environment=None):
        self.kind = kind
        self.says_commits = kind not in SAYS_NO_COMMITS
        self.owned = set()
        self.records = []
        self.commits = 0
        self.pending = []  # said, and not said to be committed yet
        self.doubtful = set()
        self.failures = []
        self.last_words = collections.deque(maxlen=3)  # on its standard error
        self.moves = 0
        self.losses = 0
        self.is_closed = False
        self.was_killed = False
        self.process = subprocess.Popen(self._command(broker, group, topic, strategy, instance, environment or {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace", env={**os.environ, **(environment or {})})
        takes_other = {"weir": self._take_weir, "kcat": self._take_kcat}.get(kind, self.last_words.append)
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self._take), (self.process.stderr, takes_other))]
        for reader in self.readers:
            reader.start()

    def _command(self, broker, group, topic, strategy, instance, environment):
        if self.kind == "weir":
            return [harness.WEIR, "consume", topic, "--group", group, "--bootstrap", broker.bootstrap, "--json", "--assignor", strategy,
                    *(["--instance", instance] if instance else [])]
        if self.kind == "kcat":
            settings = {"auto.offset.reset": "earliest", "session.timeout.ms": environment.get("WEIR_SESSION_MS", "10000"),
                        "heartbeat.interval.ms": 500, "auto.commit.interval.ms": 500,
                        "topic.metadata.refresh.interval.ms": 2000, "reconnect.backoff.max.ms": 500, "partition.assignment.strategy": strategy}
            if instance:
                settings["group.instance.id"] = instance
            return ["kcat", "-b", broker.bootstrap, "-G", group, "-E", "-u", "-f", "record %p %o\n",
                    *(word for name, value in settings.items() for word in ("-X", f"{name}={value}")), topic]
        return [*harness.member_helper(self.kind), broker.bootstrap, group, topic, strategy, instance]

    @staticmethod
    def _read(stream, take):
        with stream:
            for line in stream:
                take(line)

    def _moved(self, word, partitions):
        self.moves += 1
        if word == "assigned":
            self.owned |= partitions
        else:
            self.owned -= partitions
        if word == "lost" and partitions:
            self.losses += 1
            self.doubtful |= {record for record in self.records if record[0] in partitions} if not self.says_commits else set()

    def _pending(self, words):
        """Those that a commit was about, which says for which partition alone it speaks, if for one."""
        return [record for record in self.pending if not words or record[0] == int(words[0])]

    def _take(self, line):
        if self.kind == "weir":
            row = json.loads(line)
            self.records.append((row["partition"], row["offset"]))
            self.commits = 1  # it gives no partition up without a commit
            return
        words = line.split()
        if words[0] in ("assigned", "revoked", "lost"):
            self._moved(words[0], {int(p) for p in words[1].split(",")} if len(words) > 1 else set())
        elif words[0] == "record":
            self.records.append((int(words[1]), int(words[2])))
            self.pending.append(self.records[-1])
            self.commits += 0 if self.says_commits else 1
        elif words[0] == "committed":
            self.commits += 1
            done = set(self._pending(words[1:]))
            self.pending = [record for record in self.pending if record not in done]
        elif words[0] == "uncommitted":
            self.failures.append(words[1])
            self.doubtful |= set(self._pending(words[2:]))
        elif words[0] == "failed":
            self.failures.append(line.strip())
        elif words[0] == "closed":
            self.is_closed = True

    def _take_weir(self, line):
        found = re.match(r"group '[^']*': (assigned|revoked|lost)((?: \d+)*)$", line)
        if found:
            self._moved(found.group(1), {int(p) for p in found.group(2).split()})
        else:
            self.failures.append(line.strip())

    def _take_kcat(self, line):
        found = re.search(r"rebalanced.*?\): (\w+)(.*)$", line)
        if found:
            self._moved("assigned" if found.group(1) == "assigned" else "revoked", {int(p) for p in re.findall(r"\[(\d+)\]", found.group(2))})

    def close(self):
        """It leaves the group as it should."""
        if self.says_commits:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            self.process.wait(60)
        else:
            self.process.send_signal(signal.SIGTERM)
            equal(self.process.wait(60), 0, f"the exit code of {self.kind} ({self.failures[-3:]})")
        for reader in self.readers:
            reader.join(10)
        check(self.is_closed or not self.says_commits, f"a member ({self.kind}) ended without closing")

    def state(self):
        """For whoever reads why a test failed."""
        if self.process.poll() is None:
            return self.kind, "runs", sorted(self.owned), self.failures[-2:]
        return self.kind, "is gone", self.process.poll(), self.failures[-2:], [line.strip() for line in self.last_words]

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.was_killed = True
        self.process.wait()
        for reader in self.readers:
            reader.join(10)
        self.doubtful |= set(self.pending) if self.says_commits else set(self.records)


def fill(broker, topic, first, count, partitions=PARTITIONS):
    """Records number first .. first + count - 1, one in turn to each partition."""
    with wire.Conn(broker.host, broker.port) as conn:
        for partition in range(partitions):
            values = [b"%d" % i for i in range(first, first + count) if i % partitions == partition]
            batch = wire.batch(values)

            def is_written(p=partition, b=batch):
                error = conn.produce(topic, {p: b})[(topic, p)][0]
                check(error in (0, *NO_LEADER_YET), lambda: f"error {error} of a produce")
                return error == 0

            until(is_written, 10, "a leader is there")


def make(broker, topic, partitions=PARTITIONS):
    with wire.Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic(topic, partitions)[0], 0, "create " + topic)


def grow(broker, topic, partitions):
    """CreatePartitions; records that are written to the new ones before members know them must not be missed."""
    with wire.Conn(broker.host, broker.port) as conn:
        body = wire.array([wire.string(topic) + struct.pack(">ii", partitions, -1)]) + struct.pack(">ib", 30000, 0)
        answer = conn.call(37, 0, body)
        answer.take("i")
        equal(answer.array(lambda: (answer.string(), answer.take("h"), answer.string())), [(topic, 0, None)], "more partitions")


def seen(members):
    return [record for member in members for record in list(member.records)]


def share_all(members, partitions=PARTITIONS):
    """Each has as many as the others, or one more, and nobody has what another has."""
    owned = [p for member in members for p in list(member.owned)]
    each = partitions // len(members)
    return len(owned) == partitions and len(set(owned)) == partitions and all(each <= len(member.owned) <= each + 1 for member in members)


def expect_exactly(members, count, twice_at_most=0):
    want = {(i % PARTITIONS, i // PARTITIONS) for i in range(count)}
    got = seen(members)
    missing = want - set(got)
    check(not missing, lambda: f"never processed: {sorted(missing)[:10]} of {len(missing)}")
    equal(set(got) - want, set(), "records that were not produced")
    check(len(got) - len(want) <= twice_at_most, lambda: f"{len(got) - len(want)} records were seen twice, {twice_at_most} may be")


def judge(members, want, twice_anyway=False):
    """Every record wanted was seen; again only where whoever saw it first could not commit it. How many were seen again.

    twice_anyway   the broker was killed: one that does not say what it has committed may see again what came at the end
    """
    sightings = {}
    for member in members:
        for record in list(member.records):
            excused = record in member.doubtful or (twice_anyway and not member.says_commits)
            sightings.setdefault(record, []).append(excused)
    missing = want - set(sightings)
    check(not missing, lambda: f"never processed: {sorted(missing)[:10]} of {len(missing)}")
    equal(set(sightings) - want, set(), "records that were not produced")
    bad = sorted(record for record, excuses in sightings.items() if excuses.count(False) > 1)
    check(not bad, lambda: f"seen again though committed: {bad[:10]} of {len(bad)}")
    return sum(len(excuses) - 1 for excuses in sightings.values())
