#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same scripts of requests to Weir and to a real Apache Kafka; every field of every answer must be the same.

  tests/peer/diff.py                    all cases; starts both brokers
  tests/peer/diff.py metadata create    only cases with one of these words in their name
  --kafka HOST:PORT, --weir HOST:PORT   a broker that runs already; --show prints what was asked and answered
  --against FILE                        Weir with the answers of Kafka that are on file, and no Kafka
  --record FILE                         writes what Kafka answers, and asks no Weir; with words, only those cases anew

A case is a function in a file cases_*.py beside this one:

    @case("DescribeCluster", 0, 2)                       # the api it is about, and the versions it runs with
    def the_cluster_tells_who_is_there(t, version):
        t.call("DescribeCluster", version, IncludeClusterAuthorizedOperations=True)

    @case("JoinGroup", 4, settings={...})                # with brokers of its own, which have these settings besides

`t` is a Talk: what t.call sends and gets is compared, what t.quietly sends is not. A case names its topics t.topic("a"), another
name for each case and version. Topic ids, producer ids, members' ids, the brokers' ports and their clocks are made comparable (Talk.plain);
a list of structs is compared in the order of its contents, since Kafka keeps much in hash tables.
What may differ stands in wanted.py: at most 25 entries, and one that no case needs is a failure.
What Kafka answers is on file (answers.json), and that the file still says so is looked at whenever Kafka is asked.
"""

import argparse
import contextlib
import copy
import hashlib
import importlib
import json
import os
import re
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
sys.dont_write_bytecode = True
import answers  # noqa: E402  pylint: disable=wrong-import-position
import harness  # noqa: E402  pylint: disable=wrong-import-position
import messages  # noqa: E402  pylint: disable=wrong-import-position
import wire  # noqa: E402  pylint: disable=wrong-import-position

START_MS = int(time.time() * 1000)
T0 = START_MS - 3600 * 1000  # of records that cases produce: not of retention's age, and not to be taken for a broker's clock
# What both are started with. Groups: small, at once, and with members that may be gone soon.
SETTINGS = {"node.id": 1, "group.initial.rebalance.delay.ms": 0, "group.max.size": 3, "group.min.session.timeout.ms": 100}
CASES = []
WANTED_MAX = 25
PLAIN_MAX = 300  # of text and bytes, what is longer is compared by its length and digest
DAY_MS = 24 * 3600 * 1000
UUID_END = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


def case(api, *versions, settings=None):
    def add(function):
        for version in versions:
            CASES.append((function, api, version, settings or {}))
        return function
    return add


def name_of(function, version):
    """Of one case on file."""
    return f"{function.__module__[6:]}:{function.__name__} {version}"


class Differs(Exception):
    """A case that can't go on against one of the two."""


class Talk:
    """One case with one broker."""

    def __init__(self, name, address):
        self.case = name
        self.host, self.port = address
        self.is_kafka = False
        self.said = []  # (api, version, request, answer made plain)
        self.ids = {}  # topic id -> word
        self.producers = {}
        self.members = {}
        self.friends = []
        self.client_id = "diff"
        self.sessions = {}
        self.due = {}  # connection -> correlations of what was sent on it and not yet answered
        self.conn = None
        self.correlation = 0

    # ---- asking ----

    def topic(self, word):
        return f"{self.case}-{word}"

    def friend(self, client_id="diff"):
        """Another connection in the same case: what it says is compared with the rest."""
        other = copy.copy(self)
        other.client_id = client_id
        other.conn = None
        self.friends.append(other)
        return other

    def connect(self):
        self.close()
        self.conn = wire.Conn(self.host, self.port)

    def close(self):
        if self.conn is not None:
            self.conn.close()
            self.conn = None

    def _frame(self, api, version, body):
        """The next request, and a connection to send it on."""
        if self.conn is None:
            self.connect()
        self.correlation += 1
        return messages.request(api, version, self.correlation, self.client_id, body)

    def _send(self, api, version, body):
        frame = self._frame(api, version, body)
        self.due.setdefault(self.conn, []).append(self.correlation)
        with contextlib.suppress(ConnectionError):
            self.conn.socket.sendall(frame)

    def _receive(self, api, version, answer_version=None):
        """The answer, or 'closed'."""
        try:
            data = self.conn.receive_exactly(struct.unpack(">i", self.conn.receive_exactly(4))[0])
        except ConnectionError:
            self.close()
            return "closed"
        correlation, answer = messages.response(api, version if answer_version is None else answer_version, data)
        due = self.due[self.conn]
        if correlation not in due:
            raise Differs(f"answer {correlation} where one of {due} is due")
        del due[:due.index(correlation) + 1]  # some requests have no answer
        self._learn(answer)
        return answer

    def _ask(self, api, version, body, answer_version=None):
        self._send(api, version, body)
        return self._receive(api, version, answer_version)

    def quietly(self, api, version, **body):
        return self._ask(api, version, body)

    def call(self, api, version, answer_version=None, **body):
        """Asks; what comes back is compared. 'closed': the broker closed the connection, the next call opens another."""
        return self.raw(api, version, body, answer_version)

    def raw(self, api, version, body, answer_version=None):
        answer = self._ask(api, version, body, answer_version)
        self._say(api, version, body, answer)
        return answer

    def _say(self, api, version, body, answer):
        self.said.append((self.plain(api), version, body, self.plain(answer)))

    def tell(self, api, version, **body):
        """Sends what has no answer, or one that is waited for later (hear)."""
        self._send(api, version, body)

    def hear(self, api, version, is_quiet=False):
        """The answer to what was told; compared, unless it is quiet."""
        answer = self._receive(api, version)
        if not is_quiet:
            self._say(api, version, {}, answer)
        return answer

    def together(self, *asked):
        """Requests (api, version, body) in one send; their answers, which must come in this order, are compared."""
        frames = []
        for api, version, body in asked:
            frames.append(self._frame(api, version, body))
            self.due.setdefault(self.conn, []).append(self.correlation)
        self.conn.socket.sendall(b"".join(frames))
        return [self.hear(api, version) for api, version, _ in asked]

    def note(self, what, value, version=0):
        """Something that the case found out, to be compared; what is left of an answer, when `what` is an api."""
        self._say(what, version, None, value)

    # ---- what cases need often; none of it is compared ----

    def settle(self):
        """Until the broker's image has all that the controller decided: a real Kafka answers some changes before."""
        if not self.is_kafka:
            return
        name = "barrier"
        value = str(time.monotonic_ns())
        change = {"ResourceType": 2, "ResourceName": name, "Configs": [{"Name": "retention.ms", "ConfigOperation": 0, "Value": value}]}
        while self.quietly("IncrementalAlterConfigs", 1, Resources=[change])["Responses"][0]["ErrorCode"] == 3:
            self.quietly("CreateTopics", 7, Topics=[{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}], timeoutMs=10000)
        asked = [{"ResourceType": 2, "ResourceName": name, "ConfigurationKeys": ["retention.ms"]}]
        for _ in range(1000):
            result = self.quietly("DescribeConfigs", 4, Resources=asked)["Results"][0]
            if result["Configs"] and result["Configs"][0]["Value"] == value:
                return
            time.sleep(0.002)
        raise Differs("Kafka's metadata did not settle")

    def create(self, word, partitions=1, configs=None):
        """A topic, ready to be used; its id."""
        name = self.topic(word)
        pairs = [{"Name": n, "Value": v} for n, v in (configs or {}).items()]
        answer = self.quietly("CreateTopics", 7, timeoutMs=30000, Topics=[
            {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": pairs}])["Topics"][0]
        if answer["ErrorCode"] != 0:
            raise Differs(f"create {name}: error {answer['ErrorCode']} {answer['ErrorMessage']}")
        self.settle()
        for _ in range(1000):
            topic = self.quietly("Metadata", 12, Topics=[{"Name": name}], AllowAutoTopicCreation=False)["Topics"][0]
            if topic["ErrorCode"] == 0 and all(p["ErrorCode"] == 0 for p in topic["Partitions"]):
                break
            time.sleep(0.005)
        for index in range(partitions):  # its leader is told, but may not have taken it yet
            for _ in range(1000):
                rows = [{"PartitionIndex": index, "Timestamp": -1}]
                answer_ = self.quietly("ListOffsets", 4, ReplicaId=-1, Topics=[{"Name": name, "Partitions": rows}])
                if answer_["Topics"][0]["Partitions"][0]["ErrorCode"] == 0:
                    break
                time.sleep(0.005)
        return answer["TopicId"]

    def delete(self, word):
        self.quietly("DeleteTopics", 5, TopicNames=[self.topic(word)], TimeoutMs=30000)
        self.settle()

    def group(self, word="g"):
        """The name of a group whose coordinator is ready."""
        name = self.topic(word)
        for _ in range(3000):
            if self.quietly("OffsetFetch", 5, GroupId=name, Topics=None)["ErrorCode"] not in (14, 15, 16):
                return name
            self.quietly("FindCoordinator", 2, Key=name)
            time.sleep(0.005)
        raise Differs("the coordinator is not there")

    def fill(self, word, *batches, partition=0):
        """Produces batches (bytes), one a request; the base offsets."""
        out = []
        for data in batches:
            parts = [{"Index": partition, "Records": data}]
            answer = self.quietly("Produce", 9, Acks=-1, TimeoutMs=30000, TopicData=[{"Name": self.topic(word), "PartitionData": parts}])
            part = answer["Responses"][0]["PartitionResponses"][0]
            if part["ErrorCode"] != 0:
                raise Differs(f"fill {word}: error {part['ErrorCode']}")
            out.append(part["BaseOffset"])
        return out

    # ---- making answers comparable ----

    def _learn(self, value):
        if isinstance(value, list):
            for item in value:
                self._learn(item)
        elif isinstance(value, dict):
            member = value.get("MemberId")
            if isinstance(member, str) and UUID_END.search(member):
                word = f"member {len(self.members) + 1} of {UUID_END.sub('', member)}"
                self.members.setdefault(member, word)
            name = value.get("Name", value.get("Topic"))
            topic_id = value.get("TopicId", messages.ZERO_UUID)
            if isinstance(name, str) and topic_id != messages.ZERO_UUID and topic_id not in self.ids:
                count = sum(1 for word in self.ids.values() if word.startswith(f"id of {name} "))
                self.ids[topic_id] = f"id of {name} ({count + 1})"
            for item in value.values():
                self._learn(item)

    def producer_word(self, producer_id):
        return self.producers.setdefault(producer_id, f"producer {len(self.producers) + 1}") if producer_id >= 0 else producer_id

    def _records(self, data):
        out = []
        for base, last, codec, count, whole in wire.batches(data):
            epoch = struct.unpack_from(">i", whole, 12)[0]
            attributes = struct.unpack_from(">h", whole, 21)[0]
            first_time, max_time, producer, producer_epoch, sequence = struct.unpack_from(">qqqhi", whole, 27)
            out.append({"Base": base, "Last": last, "Codec": codec, "Count": count, "LeaderEpoch": epoch, "Attributes": attributes,
                        "FirstTimestamp": self._time(first_time), "MaxTimestamp": self._time(max_time),
                        "Producer": self.producer_word(producer), "ProducerEpoch": producer_epoch, "Sequence": sequence,
                        "Payload": shortened(whole[61:])})
        used = sum(len(whole) for *_, whole in wire.batches(data))
        return {"Batches": out, "Rest": len(data) - used}

    @staticmethod
    def _time(value):
        """What does not depend on when it was asked: the clock is the clock, and times of records are told from T0."""
        if START_MS - 60000 <= value <= START_MS + DAY_MS:
            return "the broker's clock"
        return f"T0{value - T0:+}" if T0 - DAY_MS <= value < START_MS else value

    def _text(self, value):
        value = self.members.get(value, value)
        value = re.sub(rf"(?<!\d){self.port}(?!\d)", "PORT", value)
        value = re.sub(r"should be within \[[^]]*\]", "should be within [its limits]", value)  # of a time
        value = re.sub(r"\b\d{13}\b", lambda match: str(self._time(int(match.group()))), value)
        return shortened(value.replace(self.case, "case"))

    def plain(self, value, name=""):
        """Of words, numbers, lists and dictionaries alone, as JSON has them; nothing in it depends on the run."""
        if isinstance(value, dict):
            return {self._text(str(key)): self.plain(item, key) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.plain(item, name) for item in value]
            return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
        if isinstance(value, bytes):
            if name == "Records":
                return self._records(value)
            return self._text(self.ids[value]) if value in self.ids else "no id" if value == messages.ZERO_UUID else shortened(value)
        if isinstance(value, str):
            return "the cluster's id" if name == "ClusterId" and value else "its directory" if name == "LogDir" else self._text(value)
        return value if value is None or isinstance(value, bool) else self._number(value, name)

    def _number(self, value, name):
        if name == "ProducerId":
            return self.producer_word(value)
        if name == "SessionId" and value != 0:
            return self.sessions.setdefault(value, f"session {len(self.sessions) + 1}")
        if name == "Port" and value == self.port:
            return "the broker's port"
        if name in ("TotalBytes", "UsableBytes") and value >= 0:
            return "of its disk"
        return self._time(value) if "Time" in name and isinstance(value, int) else value


def shortened(value):
    """Text, or bytes as Python writes them; of much, its length and a digest."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= PLAIN_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:40]}... {len(value)} {'letters' if isinstance(value, str) else 'bytes'}, digest {digest}"


# ---- comparing ----


def differences(a, b, path=""):
    """[(path, of Weir, of Kafka)]"""
    if isinstance(a, dict) and isinstance(b, dict):
        out = []
        for key in [*a, *(k for k in b if k not in a)]:
            out += differences(a.get(key, "nothing"), b.get(key, "nothing"), f"{path}.{key}" if path else key)
        return out
    if isinstance(a, list) and isinstance(b, list):
        ours, theirs = labelled(a), labelled(b)
        out = []
        for key in [*ours, *(k for k in theirs if k not in ours)]:
            out += differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), f"{path}[{key}]")
        return out
    return [] if a == b and isinstance(a, type(b)) else [(path, a, b)]


LABELS = ("Name", "Topic", "GroupId", "MemberId", "Key", "ResourceName", "LogDir", "PartitionIndex", "Index", "Partition", "ApiKey")


def labelled(items):
    """The items by what they are about; the same once more is 'it (2)'."""
    out = {}
    for index, item in enumerate(items):
        word = index
        if isinstance(item, dict):
            word = next((item[key] for key in LABELS if item.get(key) is not None), index)
        count = 1
        while (word if count == 1 else f"{word} ({count})") in out:
            count += 1
        out[word if count == 1 else f"{word} ({count})"] = item
    return out


def short(value, limit=400):
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def without_indexes(path):
    bare = []
    depth = 0
    for c in path:
        depth += c == "["
        if depth == 0:
            bare.append(c)
        depth -= c == "]"
    return "".join(bare)


def is_wanted(entry, name, api, path):
    """Entry: (api, field, reason[, where]); a field is a path without its indexes, a trailing star takes what begins so; where is
    the name of a case, or a part of the path."""
    bare = without_indexes(path)
    if entry[0] not in (api, "*"):
        return False
    if len(entry) > 3 and entry[3] != name and entry[3] not in path + "]":
        return False
    return bare.startswith(entry[1][:-1]) if entry[1].endswith("*") else bare == entry[1]


def version_class(api, version):
    first, last = messages.MESSAGES[api + "Request"].versions
    if version >= last:
        return "newest"
    return "oldest" if version <= first else "between"


def codes(value, out):
    if isinstance(value, list):
        for item in value:
            codes(item, out)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "ErrorCode":
                out.add(item)
            else:
                codes(item, out)


# ---- running ----


def run_case(function, version, name, address, is_kafka, settings):
    talk = Talk(name, address)
    talk.is_kafka = is_kafka
    if settings:
        talk.note("settings", settings)
    try:
        function(talk, version)
        trouble = None
    except (Differs, OSError, messages.Bad, KeyError, IndexError, TypeError) as error:
        trouble = f"{type(error).__name__}: {error}"
    finally:
        for one in (talk, *talk.friends):
            one.close()
    return talk.said, trouble


def compare(name, weir, kafka, wanted, used, triples, show, fields):
    """The lines of what differs; counts in `fields` where."""
    lines = []
    (weir_said, weir_trouble), (kafka_said, kafka_trouble) = weir, kafka
    for who, trouble in (("Weir", weir_trouble), ("Kafka", kafka_trouble)):
        if trouble:
            lines.append(f"{who} could not end the case: {trouble}")
    for step, ((api, version, request, ours), (of, of_version, _, theirs)) in enumerate(zip(weir_said, kafka_said), 1):
        if (api, version) != (of, of_version):
            lines.append(f"step {step} is {api} {version} with Weir, {of} {of_version} with Kafka")
            break
        if show:
            print(f"  {name} {step} {api} {version}\n    asked {short(request, 2000)}\n    weir  {short(ours, 3000)}\n    kafka {short(theirs, 3000)}")
        if api in messages.KEYS:
            found = set()
            codes(theirs, found)
            if theirs == "closed":
                found.add("closed")
            triples.update((api, version_class(api, version), code) for code in found)
        for path, a, b in differences(ours, theirs):
            entries = [i for i, entry in enumerate(wanted) if is_wanted(entry, name, api, path)]
            used.update(entries)
            if not entries:
                where = f"{api} {without_indexes(path)}"
                fields[where] = fields.get(where, 0) + 1
                lines.append(f"step {step} {api} {version}: {path or 'the answer'}: weir {short(a, 150)}, kafka {short(b, 150)}")
    if len(weir_said) != len(kafka_said):
        lines.append(f"{len(weir_said)} steps with Weir, {len(kafka_said)} with Kafka")
    return lines


def address_of(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def load_cases():
    """The codes that are to be met: {api: {code: None, or why it is not}}, of those modules that say so."""
    out = {}
    for file in sorted(os.listdir(HERE)):
        if file.startswith("cases_") and file.endswith(".py"):
            out.update(getattr(importlib.import_module(file[:-3]), "CODES", {}))
    names = [name_of(f, v) for f, _, v, _ in CASES]
    if len(set(names)) != len(names):
        raise SystemExit(f"twice: {sorted(name for name in set(names) if names.count(name) > 1)}")
    return out


def codes_amiss(expected, by_api):
    """What was said and stands in no table, or stands there and was not said."""
    lines = []
    for api, table in sorted(expected.items()):
        met = by_api.get(api, set()) - {"closed"}
        lines += [f"{api} answered {code}, which its table does not have" for code in sorted(met - set(table))]
        lines += [f"no case makes {api} answer {code}" for code, why in sorted(table.items()) if why is None and code not in met]
    return lines


def stale(name, now, then, wanted):
    """The lines of where Kafka answers other than is on file; of what Weir is not held to, nothing."""
    lines = []
    for step, ((api, version, _, here), (of, of_version, _, there)) in enumerate(zip(now, then), 1):
        if (api, version) != (of, of_version):
            lines.append(f"step {step} is {api} {version}, on file {of} {of_version}")
            break
        lines += [f"step {step} {api} {version}: {path or 'the answer'}: kafka {short(a, 150)}, on file {short(b, 150)}"
                  for path, a, b in differences(here, there) if not any(is_wanted(entry, name, api, path) for entry in wanted)]
    if len(now) != len(then):
        lines.append(f"{len(now)} steps with Kafka, {len(then)} on file")
    return lines


def on_file(cases, function, version):
    """What is on file of one case, as run_case has it; None: nothing."""
    said = cases.get(name_of(function, version))
    return None if said is None else ([(api, of_version, None, answer) for api, of_version, answer in said], None)


def not_on_file(runs, cases):
    """Of each case without answers, and of answers without a case."""
    names = {name_of(f, v) for f, _, v, _ in CASES}
    lines = [f"{name_of(f, v)} has no answers on file: {answers.COMMAND} {f.__name__}" for f, _, v, _ in runs if name_of(f, v) not in cases]
    return lines + [f"on file is {name}, which is no case: {answers.COMMAND}" for name in cases if name not in names]


def complain(title, lines, show):
    print(title)
    for line in lines if show else lines[:12]:
        print("    " + line)


def compare_all(runs, wanted, expected, run_id, pairs, file, args):
    """How many failed; prints what differs, and how much was compared. file: Kafka's answers, in its place or to be looked at as well."""
    failed = 0
    used = set()
    triples = set()
    fields = {}
    is_whole = len(runs) == len(CASES)
    for number, (function, api, version, settings) in enumerate(runs):
        name = f"{run_id}-{number:04}"
        weir_at, kafka_at = pairs.with_settings(settings)
        then = on_file(file, function, version)
        theirs = then if args.against else run_case(function, version, name, kafka_at, True, settings)
        ours = run_case(function, version, name, weir_at, False, settings)
        lines = compare(function.__name__, ours, theirs, wanted, used, triples, args.show, fields)
        if not ours[0] and not lines:
            lines = ["it compared nothing"]
        if lines:
            failed += 1
            complain(f"DIFFERS {function.__name__} ({api} {version})", lines, args.show)
        lines = [] if then is None or args.against else stale(function.__name__, theirs[0], then[0], wanted)
        if lines:
            failed += 1
            complain(f"STALE   {function.__name__} ({api} {version}): Kafka answers so no more: {answers.COMMAND} {function.__name__}", lines, args.show)
    if is_whole:
        for i, entry in enumerate(wanted):
            if i not in used:
                failed += 1
                print(f"FAILED: no case needs the wanted difference {entry}")
    for where, count in sorted(fields.items()):
        print(f"differs {count:4} x  {where}")
    by_api = {}
    for api, _, code in triples:
        by_api.setdefault(api, set()).add(code)
    for line in codes_amiss(expected, by_api) if is_whole else []:
        failed += 1
        print(f"FAILED: {line}")
    for api, found in sorted(by_api.items()):
        print(f"{api:28} cases {sum(1 for run in runs if run[1] == api):3}  codes {' '.join(str(c) for c in sorted(found, key=str))}")
    print(f"{len(runs)} cases in {len({run[0] for run in runs})} scripts, {failed} failed; "
          f"{len(triples)} triples of api, version class and error code; {len(wanted)} wanted differences")
    return failed


class Pairs:
    """The two brokers, or the one that is asked, and others in their place for cases that have settings of their own. A Weir of ours must be
    there until then, and stop cleanly."""

    def __init__(self, args):
        self.has_weir, self.has_kafka = not args.record, not args.against
        self.given_weir = address_of(args.weir) if args.weir else None
        self.given_kafka = address_of(args.kafka) if args.kafka else None
        self.settings = None
        self.stack = contextlib.ExitStack()
        self.weir = None
        self.places = None

    def with_settings(self, settings):
        """The addresses: (of Weir, of Kafka)."""
        if settings == self.settings:
            return self.places
        self.stack.close()
        self.settings = settings
        kafka_at = self.given_kafka
        if kafka_at is None and self.has_kafka:
            import kafka as peer  # pylint: disable=import-outside-toplevel
            directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-diff.", ignore_cleanup_errors=True))
            kafka = peer.Kafka(directory, settings={**SETTINGS, **settings})
            self.stack.callback(kafka.kill)
            kafka.start()
            kafka_at = (kafka.host, kafka.port)
        weir_at = self.given_weir
        if weir_at is None and self.has_weir:
            self.weir = self.stack.enter_context(harness.Broker(shards=2, settings={**SETTINGS, **settings}, name="diff"))
            weir_at = (self.weir.host, self.weir.port)
        self.places = (weir_at, kafka_at)
        return self.places

    def __enter__(self):
        return self

    def __exit__(self, *why):
        return self.stack.__exit__(*why)


def runs_of(args):
    """What is to be run; what needs settings of its own comes last, or not at all where a broker was given."""
    runs = [run for run in CASES if not args.words or any(w in run[0].__name__ or w == run[1] for w in args.words)]
    if args.kafka or args.weir:
        runs = [run for run in runs if not run[3]]
    return sorted(runs, key=lambda run: sorted((name, str(value)) for name, value in run[3].items()))


def record(runs, run_id, pairs, args):
    """How many cases Kafka could not end; else writes what it said in the others' place, or in that of all."""
    of, cases = answers.load(args.record) if args.words else ({}, {})
    why = answers.amiss(of, SETTINGS) if args.words else None
    if why:
        print(f"FAILED: the answers can't be changed one by one: {why}")
        return 1
    failed = 0
    for number, (function, api, version, settings) in enumerate(runs):
        kafka_at = pairs.with_settings(settings)[1]
        said, trouble = run_case(function, version, f"{run_id}-{number:04}", kafka_at, True, settings)
        steps = [[api_, version_, answer] for api_, version_, _, answer in said]
        if trouble or json.loads(json.dumps(steps)) != steps:
            failed += 1
            print(f"FAILED {function.__name__} ({api} {version}): {trouble or 'it is not plain'}")
        cases[name_of(function, version)] = steps
    if failed:
        return failed
    answers.save(args.record, SETTINGS, {name: cases[name] for name in (name_of(f, v) for f, _, v, _ in CASES) if name in cases})
    print(f"{len(runs)} cases recorded, {os.path.getsize(args.record)} bytes")
    return 0


def run_word():
    """Four letters, as "case" has, by which a run knows its own topics on a broker that others use: another one each second."""
    return "".join("0123456789abcdefghijklmnopqrstuvwxyz"[START_MS // 1000 // 36 ** i % 36] for i in range(4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--kafka")
    parser.add_argument("--weir")
    parser.add_argument("--against", metavar="FILE")
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    if "kafka" in harness.SKIPPED and not args.against:
        print("skip: left out by WEIR_E2E_SKIP")
        return 77
    sys.modules["diff"] = sys.modules[__name__]
    expected = load_cases()
    wanted = importlib.import_module("wanted").WANTED
    if len(wanted) > WANTED_MAX:
        print(f"FAILED: {len(wanted)} wanted differences, {WANTED_MAX} are allowed")
        return 1
    runs = runs_of(args)
    of, file = ({}, {}) if args.record else answers.load(args.against or answers.FILE)
    why = None if args.record else answers.amiss(of, SETTINGS)
    lines = [f"the answers on file do not hold: {why}: {answers.COMMAND}"] if why else [] if args.record else not_on_file(runs, file)
    for line in lines:
        print(f"FAILED: {line}")
    if args.against and lines:
        return 1
    run_id = run_word() if args.kafka or args.weir else "case"
    with Pairs(args) as pairs:
        if args.record:
            return 1 if record(runs, run_id, pairs, args) else 0
        failed = len(lines) + compare_all(runs, wanted, expected, run_id, pairs, file, args)
        if failed and pairs.weir is not None:
            print(pairs.weir.log_tail(20))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
