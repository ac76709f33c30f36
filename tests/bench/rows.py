# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: what is run, what is told of it, and the goal that stands beside.

A case runs one load on several arms, the first of which is Weir as the row means it; an arm is a broker and what is different there. Each
figure is a key of what the load measured; a goal is a ratio of the first arm to another ("ideal", 0.5), or a limit of the first arm's own
value ("", 150). Goals of `more` are at least, those of `less` at most.
"""

import contextlib
import dataclasses
import http.client
import os
import resource
import socket
import statistics
import struct
import subprocess
import tempfile
import threading
import time
import typing

import brokers
import loads
import wire  # tests/e2e


@dataclasses.dataclass
class Figure:
    key: str
    label: str
    unit: str
    better: str  # more, less
    goals: tuple = ()
    scale: float = 1.0


@dataclasses.dataclass
class Arm:
    label: str
    kind: str  # of brokers.Stable
    options: dict = dataclasses.field(default_factory=dict)
    is_durable: typing.Optional[bool] = None  # None: as the case


@dataclasses.dataclass
class Case:
    row: int
    name: str
    load: typing.Callable  # (arm's broker, context, arm's options) -> figures
    figures: tuple
    arms: tuple
    is_durable: typing.Optional[bool] = False  # None: it does not matter
    generator: str = "replay"
    sums: dict = dataclasses.field(default_factory=dict)  # what stands beside as an arm: label -> {arm's label: weight}
    after: typing.Optional[typing.Callable] = None  # of each arm's broker, once all is measured
    is_warmed: bool = True  # Kafka runs it before, until its cost is steady
    fills_pages: bool = False  # what it takes is the kernel's for pages of the page cache, most of all


WEIR, KAFKA, IDEAL = Arm("weir", "weir"), Arm("kafka", "kafka"), Arm("ideal", "ideal")
ALL = (WEIR, KAFKA, IDEAL)
SPOKEN = (WEIR, KAFKA)  # generators that speak the whole protocol


@dataclasses.dataclass
class Context:
    """What the one who runs it wants."""
    seconds: int = 3
    bytes_max: int = 1 << 30  # written by one run, so that the disk is not what is measured
    is_tiny: bool = False

    def partitions(self, count):
        return min(20, count) if self.is_tiny else count

    def requests(self, request_bytes):
        return min(300, max(10, (4 << 20) // request_bytes)) if self.is_tiny else max(10, self.bytes_max // request_bytes)


def on_topic(body, partitions=1):
    """A load on a topic of its own, which goes afterwards."""

    def load(broker, context, options, is_durable):
        count = context.partitions(options.get("partitions", partitions))
        topic = broker.fresh_topic(count, is_durable)
        try:
            return body(broker, topic, context, options)
        finally:
            broker.drop_topic(topic)

    return load


def produce(records, size, in_flight, partitions=1, **more):
    """As long as context.seconds, or until so much is written; with less time, where little is written."""

    def body(broker, topic, context, options):
        request_bytes = records * (size + 10) + 80
        count = context.partitions(options.get("partitions", partitions))
        wanted = {"records": records, "size": size, "in_flight": in_flight, "requests": context.requests(request_bytes),
                  "seconds": context.seconds, "acks": "all", **more, **options}
        wanted["partitions"] = count
        before = loads.touch(broker, topic, count)
        figures = loads.replay(broker, topic, "produce", **wanted)
        check_end(broker, topic, count, figures["records"] + before)
        return figures

    return on_topic(body, partitions)


def check_end(broker, topic, partitions, records):
    """What the generator says was written is in the log."""
    if broker.kind != "ideal" or partitions == 1: # the ideal can't be asked for the end of a log that may be empty
        got = broker.end_offsets(topic, partitions)
        if got != records:
            raise loads.Trouble(f"{broker.kind}: {records} records were acknowledged, {got} are in the log")


REQUESTS = Figure("requests_s", "requests", "/s", "more")
MB = Figure("mb_s", "records' bytes", "MB/s", "more")
P50 = Figure("p50_us", "p50", "us", "less")
P99 = Figure("p99_us", "p99", "us", "less")
P999 = Figure("p99_9_us", "p99.9", "us", "less")
CPU_REQUEST = Figure("cpu_us_request", "broker CPU a request", "us", "less")
CPU_RECORD = Figure("cpu_ns_record", "broker CPU a record", "ns", "less")
CPU_GIB = Figure("cpu_ms_gib", "broker CPU a GiB", "ms", "less")
MEMORY = Figure("memory_mib", "resident memory", "MiB", "less")
GENERATOR = Figure("generator_busy", "generator's own CPU", "cores", "less")
REQUESTS_CORE = Figure("requests_core", "requests, a second of one core of the broker", "/s", "more")
FURTHER = Figure("further_ms_gib", "CPU a GiB of a further consumer", "ms", "less")
RECORDS = Figure("records_s", "records", "/s", "more")


def goal(figure, *goals):
    return dataclasses.replace(figure, goals=goals)


def both(make):
    """The page-cache case and the durable one beside it, whose goals are other ones."""
    return [make(False), make(True)]


CACHED, FLOOR = "weir, page cache", "sync floor + 1.2 x page cache"


def durable(case, options=None, ideal=None):
    """A durable case with the goal of all of them: the sync floor, which is what the ideal takes that syncs, and 1.2 of what Weir itself takes
    where nothing is synced. `options` are of Weir's own arms; `ideal` are the options of an ideal that is the floor, where it is not the arm."""
    extra = (Arm(CACHED, "weir", dict(options or {}), is_durable=False),) + ((Arm("ideal, floor", "ideal", ideal),) if ideal is not None else ())
    figures = tuple(goal(figure, *figure.goals, (FLOOR, 1.0)) if figure.key == "p50_us" else figure for figure in case.figures)
    if figures == case.figures:
        raise ValueError(f"{case.name}: a floor is one of p50")
    floor = {"ideal" if ideal is None else "ideal, floor": 1.0, CACHED: 1.2}
    return dataclasses.replace(case, figures=figures, arms=case.arms + extra, sums={FLOOR: floor}, is_durable=True)


MOCK = Arm("mock", "mock") # the ceiling of librdkafka's generator


def rdkafka_case(row, name, records_of, size, goals, is_durable=False, arms=None, partitions=1, **wanted):
    """librdkafka's generator; records_of(context.bytes_max) records. It makes each record anew, and mostly it is it that is measured."""

    def body(broker, topic, context, options):
        asked = {"acks": -1 if is_durable else 1, **wanted, **options}
        count = asked.pop("partitions", partitions)
        before = loads.touch(broker, topic, count)
        figures = loads.rdkafka(broker, topic, records_of(context.bytes_max), size, **asked)
        if broker.kind != "mock":
            check_end(broker, topic, count, figures["records"] + before)
        return figures

    return Case(row, name, on_topic(body, partitions), (goal(RECORDS, *goals.get("records", ())), MB, goal(CPU_RECORD, *goals.get("cpu", ())),
                                                        CPU_GIB, MEMORY, GENERATOR),
                arms or (SPOKEN if is_durable else (*SPOKEN, MOCK)), is_durable, generator="rdkafka_performance", fills_pages=True)


def row_1():
    """librdkafka's and Java's generators make the records one by one: mostly it is they that are measured. The replayer is not."""

    def java(is_durable):
        def body(broker, topic, context, options):
            del options
            records = context.bytes_max // 4 // 100
            figures = loads.java(broker, topic, records, 100, acks=-1 if is_durable else 1)
            check_end(broker, topic, 1, records)
            return figures

        return Case(1, acks(is_durable), on_topic(body), (goal(RECORDS, *cached(is_durable, ("kafka", 1.5))),
                                                          goal(CPU_RECORD, *cached(is_durable, ("kafka", 0.2))), CPU_GIB, MEMORY, GENERATOR),
                    SPOKEN, is_durable, generator="kafka-producer-perf-test", fills_pages=True)

    def acks(is_durable):
        return "produce 100 B, big batches, " + ("acks=all" if is_durable else "acks=1")

    def replayed(is_durable):
        return Case(1, "produce 100 B, batches of 8,000, 5 in flight", produce(8000, 100, 5),
                    (RECORDS, P50, goal(CPU_RECORD, *cached(is_durable, ("kafka", 0.2))), CPU_GIB, MEMORY, GENERATOR), ALL, is_durable, fills_pages=True)

    goals = {"records": (("mock", 0.95), ("kafka", 1.5)), "cpu": (("kafka", 0.2),)}
    return [*both(lambda is_durable: rdkafka_case(1, acks(is_durable), lambda size: size // 4 // 100, 100, {} if is_durable else goals, is_durable)),
            *both(java), replayed(False), durable(replayed(True))]


def cached(is_durable, *goals):
    """Goals of the page-cache case only."""
    return () if is_durable else goals


def row_2():
    def replayed(size, is_durable):
        return Case(2, f"produce {size // 1000} KB, 1 MB batches, 5 in flight", produce(1_000_000 // size, size, 5),
                    (goal(MB, *cached(is_durable, ("ideal", 0.8))), P50, goal(CPU_GIB, *cached(is_durable, ("ideal", 1.25))), MEMORY, GENERATOR),
                    ALL, is_durable, fills_pages=True)

    def made(size, is_durable):
        return rdkafka_case(2, f"produce {size // 1000} KB, 1 MB batches", lambda size_bytes: size_bytes // size, size,
                            {"records": cached(is_durable, ("mock", 0.95))}, is_durable)

    return [case for size in (1000, 10000) for case in (replayed(size, False), durable(replayed(size, True)), made(size, False), made(size, True))]


def row_3():
    def case(is_durable):
        return Case(3, "produce 100 B, 1 in flight", produce(1, 100, 1),
                    (goal(REQUESTS, *cached(is_durable, ("ideal", 0.95))), goal(P50, *cached(is_durable, ("kafka", 0.35))), P99, CPU_REQUEST, MEMORY,
                     GENERATOR), ALL, is_durable)

    return [case(False), durable(case(True))]


def row_4():
    def case(is_durable):
        return Case(4, "produce 100 B, 64 in flight", produce(1, 100, 64),
                    (REQUESTS, goal(REQUESTS_CORE, *cached(is_durable, ("ideal", 0.5), ("", 400_000), ("kafka", 8))), P50, P99, CPU_REQUEST, MEMORY,
                     GENERATOR), ALL, is_durable)

    return [case(False), durable(case(True))]


def row_6():
    """Every acknowledgement after a sync: one producer, and many that share syncs; of those the bytes, too."""
    return [
        Case(6, "acks=all, synced, 1 producer", produce(1, 100, 1),
             (goal(REQUESTS, ("ideal", 0.9), ("kafka", 10)), P50, goal(P99, ("ideal", 1.3)), CPU_REQUEST, GENERATOR), ALL, True),
        Case(6, "acks=all, synced, 64 producers", produce(1, 100, 1, connections=64),
             (goal(REQUESTS, ("ideal", 0.85), ("kafka", 10)), P50, goal(P99, ("ideal", 1.3)), CPU_REQUEST, GENERATOR), ALL, True),
        Case(6, "acks=all, synced, 8 producers of 1 MB batches", produce(1000, 1000, 1, connections=8),
             (goal(MB, ("ideal", 0.85), ("kafka", 10)), P50, goal(P99, ("ideal", 1.3)), CPU_GIB, GENERATOR), ALL, True)]


def row_7():
    """16 KB a request over so many partitions in turn, beside the same over one. The ideal syncs each file by itself, as a broker with a journal
    need not: the floor of the durable case is the ideal with one."""
    def case(partitions, ratio, is_durable):
        one = f"weir, 1 of {partitions}"
        return Case(7, f"produce 16 KB over {partitions} partitions, 64 in flight", produce(16, 1000, 64),
                    (goal(MB, *cached(is_durable, (one, ratio))), P50, CPU_GIB, MEMORY, GENERATOR),
                    (Arm("weir", "weir", {"partitions": partitions}), Arm(one, "weir", {"partitions": 1}),
                     Arm("kafka", "kafka", {"partitions": partitions}), Arm("ideal", "ideal", {"partitions": partitions})), is_durable)

    def made(partitions, ratio):
        """Records go anywhere, and a batch has 100 ms to grow: with 1,000 partitions, too, a request is not one record."""
        one = f"weir, 1 of {partitions}"
        return rdkafka_case(7, f"produce 1 KB over {partitions} partitions", lambda size: size // 2 // 1000, 1000, {"records": ((one, ratio),)},
                            arms=(Arm("weir", "weir", {"partitions": partitions}), Arm(one, "weir", {"partitions": 1}),
                                  Arm("kafka", "kafka", {"partitions": partitions})), partition="", linger_ms=100)

    return [each for partitions, ratio in ((100, 0.95), (1000, 0.9))
            for each in (case(partitions, ratio, False), durable(case(partitions, ratio, True), {"partitions": partitions}, {"partitions": 1}),
                         made(partitions, ratio))]


def row_8():
    """Small batches are requests, not bytes: the goal is that they cost what those of row 4 do, whose load stands beside as an arm."""
    as_4 = "weir, load of row 4"
    like_4 = Arm(as_4, "weir", {"partitions": 1, "connections": 1, "in_flight": 64, "records": 1})

    def case(producers, is_durable):
        return Case(8, f"{producers} producers over 100 partitions, 10 x 100 B a request", produce(10, 100, 1, partitions=100, connections=producers),
                    (goal(MB, *cached(is_durable, ("kafka", 3))), P50, P99, goal(CPU_REQUEST, *cached(is_durable, (as_4, 1 / 0.9))), MEMORY, GENERATOR),
                    ALL if is_durable else (*ALL, like_4), is_durable)

    made = rdkafka_case(8, "50 producers over 100 partitions, 100 B", lambda size: size // 50 // 1000, 100, {"records": (("kafka", 3),)}, arms=SPOKEN,
                        partitions=100, partition="", linger_ms=0, producers=50)
    return [each for producers in (50, 200, 400)
            for each in (case(producers, False), durable(case(producers, True), ideal={"partitions": 1}))] + [made]


def e2e(**wanted):
    def body(broker, topic, context, options):
        asked = {"seconds": context.seconds, "requests": 1_000_000_000, **wanted, **options}
        if context.is_tiny:
            asked.update(requests=30, followers=min(3, asked.get("followers", 1)))
        figures = loads.replay(broker, topic, "e2e", **asked)
        check_end(broker, topic, 1, (figures["requests"] + 1) * asked["records"])
        if figures["records"] != figures["requests"] * asked["records"] * asked.get("followers", 1):
            raise loads.Trouble(f"{broker.kind}: {figures['records']} records arrived of {figures['requests']} requests")
        figures["cpu_us_delivery"] = figures["cpu_s"] * 1e6 * asked["records"] / max(1, figures["records"])
        return figures

    return body


def row_9():
    """The generator keeps a core busy, to send in time, in all arms: on two cores that takes something from a broker of many threads."""
    def case(size, rate, is_durable):
        return Case(9, f"end to end, {size} B at {rate:,}/s", on_topic(e2e(records=1, size=size, rate=rate, in_flight=1000, spin=True)),
                    (goal(P50, *cached(is_durable, ("ideal", 1.2), ("kafka", 0.25))), goal(P99, *cached(is_durable, ("ideal", 1.3), ("kafka", 0.1))),
                     goal(P999, *cached(is_durable, ("ideal", 1.5))), CPU_REQUEST), ALL, is_durable)

    return [each for size, rate in ((100, 1000), (1000, 10000)) for each in (case(size, rate, False), durable(case(size, rate, True)))]


def row_10():
    def further(followers, rate):
        """Processor time of one more consumer, by GiB: what N take beyond one, while all see the same."""
        def of(count):
            return on_topic(e2e(followers=count, records=100, size=10000, rate=rate, max_bytes=4 << 20))

        def load(*asked):
            one = of(1)(*asked)
            many = of(followers)(*asked)
            gib = (many["bytes"] - one["bytes"]) / loads.GIB
            many["further_ms_gib"] = (many["cpu_s"] - one["cpu_s"]) * 1e3 / gib if gib > 0 else 0.0
            return many

        return load

    def again(connections):
        """The replayer's Fetch asks for the same offset each time: what is measured is how answers leave, not how a log is walked."""
        def body(broker, topic, context, options):
            del options
            loads.replay(broker, topic, "produce", records=1000, size=1000, requests=5, in_flight=1)
            asked = {"requests": 50 if context.is_tiny else 1_000_000_000, "seconds": context.seconds}
            return loads.replay(broker, topic, "fetch", connections=connections, in_flight=1, max_bytes=1 << 20, **asked)

        return on_topic(body)

    def walk(broker, topic, context, options):
        del options
        count = context.bytes_max // 100_000
        loads.replay(broker, topic, "produce", records=100, size=1000, requests=count)
        return loads.rdkafka_consume(broker, topic, count * 100, 1000)

    def end(followers, rate, is_durable):
        figure = goal(FURTHER, *cached(is_durable, ("ideal", 1.15), ("kafka", 0.5)))
        return Case(10, f"{followers} consumers at the end, 1 MB batches at {rate}/s", further(followers, rate), (figure, P50, GENERATOR), ALL, is_durable)

    gb = Figure("mb_s", "bytes", "GB/s", "more", (("ideal", 0.9),), scale=1e-3)
    return [end(10, 100, False), durable(end(10, 100, True)), end(100, 10, False)] + [
        Case(10, f"{connections} consumers that read the same 1 MB again and again", again(connections), (gb, CPU_GIB, GENERATOR),
             ALL) for connections in (1, 10, 100)] + [
        Case(10, "a consumer that walks the log from its beginning, 1 KB", on_topic(walk),
             (RECORDS, MB, goal(CPU_GIB, ("kafka", 0.5)), GENERATOR), SPOKEN, generator="rdkafka_performance")]


def row_11():
    figure = Figure("cpu_us_delivery", "broker CPU a delivery", "us", "less")

    def case(is_durable):
        return Case(11, "100 long polls that wait, 1 KB at 50/s", on_topic(e2e(records=1, size=1000, rate=50, followers=100)),
                    (goal(figure, *cached(is_durable, ("ideal", 1.3), ("kafka", 0.2))), P50, P99, GENERATOR), ALL, is_durable)

    return [case(False), durable(case(True))]


def produce_frame(topic):
    """(a whole Produce of one record, where its answer has the error)"""
    body = wire.Conn.produce_body(topic, {0: wire.batch([b"x"])})
    return wire.Conn.frame(wire.PRODUCE, 7, 1, body), 4 + 4 + 4 + 2 + len(topic) + 4 + 4


def topic_frame(topic):
    """As produce_frame, of a CreateTopics."""
    body = wire.array([wire.string(topic) + struct.pack(">ih", 1, 1) + wire.array([]) + wire.array([])]) + struct.pack(">ib", 30000, 0)
    return wire.Conn.frame(wire.CREATE_TOPICS, 4, 1, body), 4 + 4 + 4 + 4 + 2 + len(topic)


def time_start(kind, port, command, frame_of, topic):
    """Milliseconds from exec until the request that frame_of(topic) gives is answered without an error."""
    data, error_at = frame_of(topic)
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(data)
        frame.flush()
        done = subprocess.run([os.path.join(brokers.BUILD, "bench-start"), str(port), frame.name, str(error_at), *command], capture_output=True,
                              text=True, check=False)
    if done.returncode != 0:
        raise loads.Trouble(f"{kind} did not start: {done.stderr[-1000:]}")
    return int(done.stdout) / 1e3


def with_partitions(kind, partitions, options):
    """(a broker that has stopped, with so many partitions in its data directory; the name of a topic of one of them)"""
    place = tempfile.mkdtemp(prefix="start.", dir=options["directory"])
    own = brokers.Kafka(place, options["heap"]) if kind == "kafka" else brokers.Weir(place)
    own.start()
    try:
        topic = own.fresh_topic(1)
        left, each = partitions - 1, 5000 # 10,000 in one request are refused
        while left > 0:
            with own.conn() as conn:
                error = conn.create_topic(f"more{left}", min(each, left))[0]
            if error != 0:
                raise loads.Trouble(f"{kind}: {partitions} partitions: error {error}")
            left -= each
    finally:
        own.stop()
    return own, topic


def second_start(broker, context, options, is_durable):
    """From exec to the first acknowledgement, of a data directory that a broker before has left: partitions are made in it first."""
    del broker, is_durable
    kind, partitions = options["kind"], options["partitions"] if not context.is_tiny else min(50, options["partitions"])
    if "own" not in options:
        options["own"], options["topic"] = with_partitions(kind, partitions, options)
    own = options["own"]
    port = brokers.kafka.free_port() if kind == "weir" else own.kafka.port
    command = own.command(port) if kind == "weir" else own.kafka.command()
    return {"start_ms": time_start(kind, port, command, produce_frame, options["topic"])}


def first_start(broker, context, options, is_durable):
    """From exec to the first topic that is made, which is durable, of no data directory at all."""
    del broker, context, is_durable
    own = brokers.Weir(tempfile.mkdtemp(prefix="start.", dir=options["directory"]))
    port = brokers.kafka.free_port()
    return {"start_ms": time_start("weir", port, own.command(port), topic_frame, "b0001")}


PARTITIONS_MAX = 20000  # of a node, and no property raises it: docs/OPERATING.md, Limits


def row_13():
    """A hundred thousand partitions, which a goal of 80 ms was for, a node does not have: the goal at its limit lies between those of 10,000
    and 100,000, by the count."""
    def case(name, partitions, limit, with_kafka):
        figure = Figure("start_ms", "exec to first acknowledgement", "ms", "less", (("", limit), *((("kafka", 1 / 200),) if with_kafka else ())))
        arms = (Arm("weir", "", {"kind": "weir", "partitions": partitions}),
                *((Arm("kafka", "", {"kind": "kafka", "partitions": partitions}),) if with_kafka else ()))
        return Case(13, f"second start, {name}", second_start, (figure,), arms, None, generator="bench-start", is_warmed=False)

    first = Figure("start_ms", "exec to the first topic made", "ms", "less", (("", 8),))
    return [case("1 partition", 1, 3, True), case("10,000 partitions", 10000, 15, False),
            case(f"{PARTITIONS_MAX:,} partitions, the limit of a node", PARTITIONS_MAX, 15 + (80 - 15) * (PARTITIONS_MAX - 10000) / 90000, False),
            Case(13, "first start, which formats the disk", first_start, (first,), (Arm("weir", ""),), None, generator="bench-start", is_warmed=False)]


def idle_memory(broker, context, options, is_durable):
    """Of a broker that was started, and left alone for as long as a run takes."""
    del options, is_durable
    time.sleep(0 if context.is_tiny else context.seconds)
    return {"rss_mib": broker.memory_kib("VmRSS") / 1024, "anon_mib": broker.memory_kib("RssAnon") / 1024}


def shard_memory(broker, context, options, is_durable):
    """What each shard takes beyond the second."""
    del broker, is_durable
    seen, shards = [], (2, 10)
    for count in shards:
        own = brokers.Weir(tempfile.mkdtemp(prefix="idle.", dir=options["directory"]), count)
        own.start()
        try:
            seen.append(idle_memory(own, context, {}, None))
        finally:
            own.stop()
    return {key: (seen[1][key + "_mib"] - seen[0][key + "_mib"]) * 1024 / (shards[1] - shards[0]) for key in ("rss", "anon")}


def row_14():
    def goals(*more):
        return (Figure("rss_mib", "resident memory", "MiB", "less", (("", 3), *more)), Figure("anon_mib", "of it anonymous", "MiB", "less", (("", 1),)))

    return [Case(14, "idle, 2 shards, without the http listener", idle_memory, goals(("kafka", 0.01)),
                 (Arm("weir", "weir-2:fresh"), Arm("kafka", "kafka:fresh")), None, generator="-", is_warmed=False),
            Case(14, "idle, 2 shards, with it, as a node is by default", idle_memory, goals(), (Arm("weir", "weir-2+http:fresh"),), None,
                 generator="-", is_warmed=False),
            Case(14, "idle, of 10 shards each beyond the second", shard_memory,
                 (Figure("rss", "resident memory", "KiB", "less", (("", 150),)), Figure("anon", "of it anonymous", "KiB", "less")),
                 (Arm("weir", ""),), None, generator="-", is_warmed=False)]


def connections_memory(broker, context, options, is_durable):
    """What each further connection takes of the broker's own memory, once each has asked for ApiVersions and been answered."""
    del options, is_durable
    few, many = (50, 200) if context.is_tiny else (1000, 10000)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    many = min(many, limit - 100)
    open_ones, seen = [], {}
    try:
        for i in range(many):
            conn = broker.conn()
            open_ones.append(conn)
            conn.call(wire.API_VERSIONS, 0, b"")
            if i + 1 in (few, many):
                seen[i + 1] = broker.memory_kib("RssAnon")
    finally:
        for conn in open_ones:
            conn.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            conn.close()
    return {"bytes_connection": (seen[many] - seen[few]) * 1024 / (many - few)}


def row_15():
    return [Case(15, "10,000 idle connections", connections_memory,
                 (Figure("bytes_connection", "anonymous memory a connection", "bytes", "less", (("", 600),)),),
                 (Arm("weir", "weir:fresh"),), None, generator="own sockets", is_warmed=False)]


def row_21():
    made = {} # the topics of each kind of broker

    def load(broker, context, options, is_durable):
        del options, is_durable
        wanted = 20 if context.is_tiny else 1000
        names = made.setdefault(broker.kind, [])
        if not names:
            names += broker.fresh_topics(wanted)
        asked = {"requests": 50 if context.is_tiny else 1_000_000_000, "seconds": context.seconds}
        return loads.replay(broker, names[0], "metadata", in_flight=16, **asked)

    return [Case(21, "Metadata of 1,000 topics, 16 in flight", load,
                 (goal(REQUESTS, ("", 100_000), ("kafka", 20)), CPU_REQUEST, GENERATOR), SPOKEN, None,
                 after=lambda broker: broker.drop_topics(made.pop(broker.kind)))]


def row_28():
    plain = "weir, not compressed"

    def case(codec):
        figure = Figure("cpu_ms_sent_gib", "broker CPU a GiB received", "ms", "less", ((plain, 1.3),))
        return Case(28, f"produce 1 KB, 1 MB batches, {codec}", produce(1000, 1000, 5),
                    (figure, CPU_GIB, MB, GENERATOR),
                    (Arm("weir", "weir", {"compression": codec}), Arm(plain, "weir"), Arm("kafka", "kafka", {"compression": codec})), fills_pages=True)

    def made(codec):
        """Its records are all alike, so that hardly a byte is left of them: a record is what is counted."""
        return rdkafka_case(28, f"produce 1 KB, 1 MB batches, {codec}", lambda size: size // 2 // 1000, 1000, {"cpu": ((plain, 1.3),)},
                            arms=(Arm("weir", "weir", {"codec": codec}), Arm(plain, "weir"), Arm("kafka", "kafka", {"codec": codec})))

    return [case("lz4"), case("zstd"), made("lz4"), made("zstd")]


def binary_size(broker, context, options, is_durable):
    del broker, context, options, is_durable
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run(["strip", "-o", stripped.name, brokers.WEIR], check=True)
        return {"mib": os.path.getsize(stripped.name) / (1 << 20)}


def row_29():
    return [Case(29, "weir, stripped, dynamically linked", binary_size, (Figure("mib", "size", "MiB", "less", (("", 1.5),)),), (Arm("weir", ""),),
                 None, generator="strip", is_warmed=False)]


def row_31():
    def case(in_flight):
        one = "weir, 1 shard"
        return Case(31, f"2 shards: 8 connections, {in_flight} in flight each, 16 partitions, 100 B", produce(1, 100, in_flight, partitions=16, connections=8),
                    (goal(CPU_REQUEST, (one, 1.1)), REQUESTS, P99, GENERATOR), (Arm("weir", "weir-2"), Arm(one, "weir")), False)

    return [case(1), case(16)]


class Scraper(threading.Thread):
    """Asks for /metrics ten times a second while it is entered."""

    def __init__(self, port):
        super().__init__()
        self.conn = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.is_over = threading.Event()
        self.times, self.trouble = [], None

    def run(self):
        try:
            while not self.is_over.wait(0.1):
                began_s = time.monotonic()
                self.conn.request("GET", "/metrics")
                answer = self.conn.getresponse()
                text = answer.read()
                if answer.status != 200 or b"weir_topic" not in text:
                    raise loads.Trouble(f"/metrics answers {answer.status}")
                self.times.append(time.monotonic() - began_s)
        except (loads.Trouble, OSError, http.client.HTTPException) as trouble:
            self.trouble = trouble

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.join()
        self.conn.close()
        if self.trouble or not self.times:
            raise loads.Trouble(f"scraping: {self.trouble or 'nothing was asked for'}")


def commit_offsets(broker, topics, partitions, groups):
    for group in range(groups):
        with broker.conn() as conn:
            brokers.until(lambda conn=conn, group=group: conn.find_coordinator(f"group{group}")[0] == 0, 30, "a coordinator")
            for topic in topics:
                errors = conn.commit_offsets(f"group{group}", topic, {partition: 0 for partition in range(partitions)})
                if set(errors.values()) != {0}:
                    raise loads.Trouble(f"commits: {errors}")


def row_scrape():
    """What a producer at a fixed rate sees of scrapes, on a node that has much to tell."""
    made = []

    def load(broker, context, options, is_durable):
        topics, partitions, groups = (10, 2, 2) if context.is_tiny else (500, 10, 4)
        if not made:
            made.extend(broker.fresh_topics(topics, partitions))
            commit_offsets(broker, made[:topics // 5], partitions, groups)

        def body(broker, topic, context, options):
            del options
            asked = {"requests": 500 if context.is_tiny else 1_000_000_000, "seconds": context.seconds, "rate": 2000, "in_flight": 1000, "spin": True}
            before = loads.touch(broker, topic, partitions)
            figures = loads.replay(broker, topic, "produce", records=1, size=100, partitions=partitions, **asked)
            check_end(broker, topic, partitions, figures["records"] + before)
            return figures

        with Scraper(broker.http_port) if options["is_scraped"] else contextlib.nullcontext() as scraper:
            figures = on_topic(body, partitions)(broker, context, {}, is_durable)
        if scraper:
            figures["scrape_ms"] = statistics.median(scraper.times) * 1e3
        return figures

    alone = "weir, not scraped"
    return [Case("scrape", "2,000 requests/s, /metrics 10 times a second, 5,000 partitions, 4,000 committed offsets", load,
                 (goal(P50, (alone, 1.1)), goal(P99, (alone, 1.1)), P999, CPU_REQUEST, Figure("scrape_ms", "a scrape", "ms", "less")),
                 (Arm("weir, scraped", "weir+http", {"is_scraped": True}), Arm(alone, "weir+http", {"is_scraped": False})),
                 after=lambda broker: broker.drop_topics([made.pop() for _ in range(len(made))]))]


ROWS = {1: row_1, 2: row_2, 3: row_3, 4: row_4, 6: row_6, 7: row_7, 8: row_8, 9: row_9, 10: row_10, 11: row_11, 13: row_13, 14: row_14,
        15: row_15, 21: row_21, 28: row_28, 29: row_29, 31: row_31, "scrape": row_scrape}
