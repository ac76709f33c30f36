# SPDX-License-Identifier: Apache-2.0
"""What a client may do to a connection: frames that are odd, heads that are, many requests at once, an end in the middle. Each script opens
connections of its own, sends bytes, and compares what came back on each until the broker closed it, or until an answer to a last question."""

import socket
import struct

import messages
import wire
from cases_records import records
from diff import case

KEYS = messages.KEYS
LAST = 0x7FFFFFFE  # the correlation of the question after which nothing more is waited for


def text(words):
    """As heads have it, whose client id is never compact."""
    return struct.pack(">h", -1) if words is None else struct.pack(">h", len(words)) + words


def tags(*pairs):
    return messages.uvarint(len(pairs)) + b"".join(messages.uvarint(tag) + messages.uvarint(len(data)) + data for tag, data in pairs)


def framed(data):
    return struct.pack(">i", len(data)) + data


def ask(api, version, correlation, body=b"", client_id=b"odd", head_tags=None):
    """A frame. Body: bytes, or fields; head_tags: of a flexible head."""
    key = KEYS[api] if isinstance(api, str) else api
    if isinstance(body, dict):
        body = messages.encode(api + "Request", version, body)
    return framed(struct.pack(">hhi", key, version, correlation) + text(client_id) + (b"" if head_tags is None else head_tags) + body)


def ask_version(correlation=LAST):
    return ask("ApiVersions", 0, correlation)


def metadata(t, correlation, version=1, **more):
    """Of a topic that is there, in any version; the head is flexible from 9 on."""
    topics = [{"Name": t.topic("a")}]
    head_tags = tags() if version >= 9 else None
    return ask("Metadata", version, correlation, {"Topics": topics, "AllowAutoTopicCreation": False}, head_tags=head_tags, **more)


def said(t, sent, asked, ends=False):
    """What comes back on a new connection for these bytes: of each answer its correlation and what it says, then 'closed' or 'open'.
    asked: {correlation: (api, version)} of what can be read; ends: the client says that it sends no more."""
    out = []
    with wire.Conn(t.host, t.port) as conn:
        try:
            conn.socket.sendall(sent)
            if ends:
                conn.socket.shutdown(socket.SHUT_WR)
            while True:
                data = conn.receive_exactly(struct.unpack(">i", conn.receive_exactly(4))[0])
                correlation = struct.unpack_from(">i", data)[0]
                if correlation == LAST:
                    out.append("open")
                    break
                api, version = asked.get(correlation, ("ApiVersions", 0))
                answer = messages.response(api, version, data)[1]
                out.append((correlation, answer.get("ErrorCode") if api == "ApiVersions" else t.plain(answer)))
        except ConnectionError:
            out.append("closed")
    return out


def note(t, what, sent, asked=None, **more):
    t.note(what, said(t, sent, asked or {}, **more))


# ---- frames


@case("ApiVersions", 0)
def frames_of_few_bytes(t, _):
    for count in range(12):
        note(t, f"{count} zero bytes", framed(b"\0" * count) + ask_version())
    for length in (-1, -(1 << 31), (1 << 31) - 1, 104857601):
        note(t, f"a length of {length}", struct.pack(">i", length) + b"\0" * 64)
    whole = ask_version()
    for count in range(1, len(whole) - 4):
        note(t, f"{count} bytes of a frame, cut and sized so", framed(whole[4:4 + count]))


@case("ApiVersions", 0)
def keys_and_versions_that_nobody_has(t, _):
    for key in (-1, -(1 << 15), 93, 1000, (1 << 15) - 1):
        note(t, f"key {key}", ask(key, 0, 1, b"\0" * 8) + ask_version())
    for api in ("Produce", "Metadata", "ListOffsets", "FindCoordinator", "CreateTopics", "DescribeConfigs"):
        last = messages.MESSAGES[api + "Request"].versions[1]
        for version in (-1, last + 1, (1 << 15) - 1):
            note(t, f"{api} {version}", ask(api, version, 1, b"\0" * 40, head_tags=tags()) + ask_version())


@case("Metadata", 1, 9, 13)
def bytes_after_a_request(t, version):
    t.create("a", 1)
    frame = metadata(t, 1, version)
    for more in (b"\0", b"\0" * 4, b"x" * 100):
        note(t, f"{len(more)} bytes more", framed(frame[4:] + more) + ask_version(), {1: ("Metadata", version)})


@case("Metadata", 1, 9, 13)
def requests_that_are_cut(t, version):
    t.create("a", 1)
    frame = metadata(t, 1, version)
    for count in range(8, len(frame) - 4):
        note(t, f"its first {count} bytes", framed(frame[4:4 + count]) + ask_version(), {1: ("Metadata", version)})


# ---- heads


@case("Metadata", 1, 12)
def client_ids_that_are_odd(t, version):
    t.create("a", 1)
    asked = {1: ("Metadata", version)}
    for words in (None, b"", b"x" * 32767, b"\xff\xfe", "ä€😀".encode(), b"\0", b" ", b"a\nb"):
        note(t, f"client id {words and words[:9]!r}", metadata(t, 1, version, client_id=words) + ask_version(), asked)


@case("Metadata", 12)
def tags_of_a_head(t, version):
    t.create("a", 1)
    asked = {1: ("Metadata", version)}
    body = {"Topics": [{"Name": t.topic("a")}], "AllowAutoTopicCreation": False}
    for head_tags in (tags((0, b"")), tags((7, b"words")), tags((7, b"a"), (8, b"b")), tags((8, b"a"), (7, b"b")), tags((7, b"a"), (7, b"b")),
                      tags(((1 << 32) - 1, b"a")), tags((7, b"x" * 5000)), b"\x01\x07\x7f", b"\x80\x00", b"\x80\x80\x80\x80\x80\x00"):
        note(t, f"tags {head_tags[:16]!r}", ask("Metadata", version, 1, body, head_tags=head_tags) + ask_version(), asked)


@case("Metadata", 12)
def tags_of_a_body(t, version):
    t.create("a", 1)
    asked = {1: ("Metadata", version)}
    body = messages.encode("MetadataRequest", version, {"Topics": [{"Name": t.topic("a")}], "AllowAutoTopicCreation": False})
    for body_tags in (tags((0, b"")), tags((7, b"words")), tags((9, b"a"), (3, b"b")), tags((3, b"a"), (3, b"b")), b"\x02\x07\x01a", b"\x01\x07\x05a"):
        note(t, f"tags {body_tags!r}", ask("Metadata", version, 1, body[:-1] + body_tags, head_tags=tags()) + ask_version(), asked)


@case("ApiVersions", 3)
def a_request_with_the_head_of_another_version(t, version):
    body = messages.encode("ApiVersionsRequest", version, {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"})
    note(t, "no tags", ask("ApiVersions", version, 1, body) + ask_version(), {1: ("ApiVersions", version)})
    note(t, "tags where none are", ask("ApiVersions", 0, 1, tags()) + ask_version(), {1: ("ApiVersions", 0)})
    note(t, "no body", ask("ApiVersions", version, 1, head_tags=tags()) + ask_version(), {1: ("ApiVersions", 0)})


@case("Metadata", 1, 12)
def correlations_that_are_odd(t, version):
    t.create("a", 1)
    for number in (0, -1, -(1 << 31), (1 << 31) - 1):
        note(t, f"correlation {number}", metadata(t, number, version) + ask_version(), {number: ("Metadata", version)})
    note(t, "the same again and again", metadata(t, 5, version) * 3 + ask_version(), {5: ("Metadata", version)})
    sent = b"".join(metadata(t, number, version) for number in (9, -9, 3, 9, 0))
    note(t, "in no order", sent + ask_version(), {number: ("Metadata", version) for number in (9, -9, 3, 0)})


# ---- many at once, and an end


def many(t):
    """Requests of several apis and versions, and how to read their answers."""
    asked = {1: ("ApiVersions", 0), 2: ("Metadata", 1), 3: ("Metadata", 12), 4: ("ListOffsets", 1), 5: ("ListOffsets", 10), 7: ("Produce", 9),
             8: ("Metadata", 0)}
    rows = [{"Name": t.topic("a"), "Partitions": [{"PartitionIndex": 0, "Timestamp": -2}]}]

    def produced(acks):
        data = [{"Index": 0, "Records": records("x")}]
        return {"Acks": acks, "TimeoutMs": 1000, "TopicData": [{"Name": t.topic("a"), "PartitionData": data}]}

    return asked, [ask("ApiVersions", 0, 1), metadata(t, 2, 1), metadata(t, 3, 12), ask("ListOffsets", 1, 4, {"ReplicaId": -1, "Topics": rows}),
                   ask("ListOffsets", 10, 5, {"ReplicaId": -1, "Topics": rows}, head_tags=tags()), ask("Produce", 9, 6, produced(0), head_tags=tags()),
                   ask("Produce", 9, 7, produced(1), head_tags=tags()), metadata(t, 8, 0)]


@case("ApiVersions", 0)
def many_requests_at_once(t, _):
    t.create("a", 1)
    asked, frames = many(t)
    note(t, "all", b"".join(frames) + ask_version(), asked)
    note(t, "the other way round", b"".join(frames[::-1]) + ask_version(), asked)
    note(t, "ApiVersions in the middle, in a version that nobody has",
         frames[1] + ask("ApiVersions", 77, 1, b"\0" * 9) + frames[2] + ask_version(), asked)
    note(t, "one that can't be read in the middle", b"".join(frames[:3]) + framed(b"\0" * 3) + b"".join(frames[3:]) + ask_version(), asked)


@case("ApiVersions", 0)
def a_client_that_sends_no_more(t, _):
    t.create("a", 1)
    asked, frames = many(t)
    note(t, "after all", b"".join(frames), asked, ends=True)
    for frame in frames[:3]:
        note(t, "after one", frame, asked, ends=True)
    note(t, "in the middle of the second", frames[1] + frames[2][:20], asked, ends=True)
    note(t, "at once", b"", asked, ends=True)
    rows = [{"Topic": t.topic("a"), "Partitions": [{"Partition": 0, "FetchOffset": 4, "PartitionMaxBytes": 1000}]}]
    wait = ask("Fetch", 11, 1, {"MaxWaitMs": 300, "MinBytes": 1, "MaxBytes": 1000, "SessionId": 0, "SessionEpoch": -1, "Topics": rows})
    answer = said(t, wait, {1: ("Fetch", 11)}, ends=True)
    t.note("while it waits for records", answer)


# ---- bodies


@case("Metadata", 1, 4, 8)
def counts_that_lie(t, version):
    for count in (-1, 1, 1 << 20, (1 << 31) - 1):
        t.note(f"a count of {count}", brokers_told(t, version, struct.pack(">i", count) + flags(version)))


def flags(version):
    return (b"\0" if version >= 4 else b"") + (b"\0\0" if version >= 8 else b"")


def brokers_told(t, version, body, **head):
    answer = said(t, ask("Metadata", version, 1, body, **head) + ask_version(), {1: ("Metadata", version)})
    return [line if isinstance(line, str) else line[1]["Brokers"] for line in answer]


@case("Metadata", 8, 12)
def numbers_that_nobody_means(t, version):
    """Kafka takes a length below -1 for null, and of a long varint what fits."""
    if version < 9:
        for count in (-2, -(1 << 31)):
            t.note(f"a count of {count}", brokers_told(t, version, struct.pack(">i", count) + flags(version)))
    else:
        for head_tags in (tags((1 << 32, b"a")), b"\xff\xff\xff\xff\x0f"):
            t.note(f"tags {head_tags!r}", brokers_told(t, version, b"\0\0\0\0\0", head_tags=head_tags))
    for length in (-2, -(1 << 15)):
        frame = struct.pack(">hhih", KEYS["Metadata"], version, 1, length) + b"\0" * 20
        t.note(f"a client id of length {length}", said(t, framed(frame) + ask_version(), {1: ("Metadata", version)})[-1])


@case("Metadata", 1, 12)
def names_that_are_no_text(t, version):
    """Refused by both; the answer names them as they came, Kafka's with what stands for what is no text."""
    for name in (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"a\xffb", b"\xf5\x80\x80\x80", b"\xe2\x82"):
        if version >= 9:
            body = b"\x02" + bytes(16) + messages.uvarint(len(name) + 1) + name + b"\0" + b"\0\0\0"
        else:
            body = struct.pack(">i", 1) + text(name)
        head_tags = tags() if version >= 9 else None
        answer = said(t, ask("Metadata", version, 1, body, head_tags=head_tags) + ask_version(), {1: ("Metadata", version)})
        t.note(f"the name {name!r}", [line if isinstance(line, str) else [topic["ErrorCode"] for topic in line[1]["Topics"]] for line in answer])


@case("Produce", 3, 8, 9, 12)
def acks_that_nobody_knows(t, version):
    t.create("a", 1)
    for acks in (2, -2, 127, 32767, -32768):
        data = [{"Index": 0, "Records": records("a")}, {"Index": 7, "Records": records("b")}]
        t.call("Produce", version, Acks=acks, TimeoutMs=1000, TopicData=[{"Name": t.topic("a"), "PartitionData": data},
                                                                       {"Name": t.topic("none"), "PartitionData": data[:1]}])
    t.call("ListOffsets", 7, ReplicaId=-1, Topics=[{"Name": t.topic("a"), "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}])


@case("Metadata", 4, 12)
def names_that_come_by_asking(t, version):
    """Of two that collide, of the longest and of those that are none."""
    word = t.topic("a.b")
    for name in (word, word.replace(".", "_"), word.replace(".", "-"), "x" * 250, ".", "..", "a" * 248 + "\0", "", t.topic("é")):
        t.quietly("Metadata", version, Topics=[{"Name": name}], AllowAutoTopicCreation=True)
        t.settle()
        answer = t.quietly("Metadata", version, Topics=[{"Name": name}], AllowAutoTopicCreation=False)["Topics"]
        t.note(f"{name[:20]!r}", [(topic["ErrorCode"], len(topic["Partitions"])) for topic in answer])


@case("CreateTopics", 4, 7)
def no_time_to_wait_for_a_new_topic(t, version):
    for timeout_ms in (0, -1, -(1 << 31)):
        rows = [{"Name": t.topic(word), "NumPartitions": count, "ReplicationFactor": 1} for word, count in (("a", 1), ("b", 0), ("a", 2))]
        for some in (rows[:1], rows[1:2], rows[:2], rows, []):
            t.call("CreateTopics", version, Topics=some, timeoutMs=timeout_ms)
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}], AllowAutoTopicCreation=False)


@case("CreatePartitions", 0, 3)
def no_time_to_wait_for_partitions(t, version):
    t.create("a", 1)
    for timeout_ms in (0, -1):
        for counts in ((2,), (1,), (2, 3)):
            rows = [{"Name": t.topic("a"), "Count": count} for count in counts] + [{"Name": t.topic("none"), "Count": 2}]
            t.call("CreatePartitions", version, Topics=rows, TimeoutMs=timeout_ms)
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}], AllowAutoTopicCreation=False)


@case("DeleteTopics", 1, 5, 6)
def no_time_to_wait_for_a_deletion(t, version):
    topic_id = t.create("a", 1)
    for timeout_ms in (0, -1):
        if version < 6:
            t.call("DeleteTopics", version, TopicNames=[t.topic("a"), t.topic("none"), t.topic("a")], TimeoutMs=timeout_ms)
        else:
            for rows in ([{"Name": t.topic("a")}], [{"Name": None, "TopicId": topic_id}], [{"Name": t.topic("none")}], []):
                t.call("DeleteTopics", version, Topics=rows, TimeoutMs=timeout_ms)
    t.call("Metadata", 12, Topics=[{"Name": t.topic("a")}], AllowAutoTopicCreation=False)
