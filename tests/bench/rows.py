# SPDX-License-Identifier: Apache-2.0
"""The rows of the table: what is run, what is told of it, and the goal that stands beside.

A case runs one load on several arms, the first of which is Weir as the row means it; an arm is a broker and what is different there. Each
figure is a key of what the load measured; a goal is a ratio of the first arm to another ("ideal", 0.5), or a limit of the first arm's own
value ("", 150). Goals of `more` are at least, those of `less` at most.
"""

import dataclasses
import typing

import loads


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


@dataclasses.dataclass
class Case:
    row: int
    name: str
    load: typing.Callable  # (arm's broker, context, arm's options) -> figures
    figures: tuple
    arms: tuple
    is_durable: typing.Optional[bool] = False  # None: it does not matter
    generator: str = "replay"
    warm: int = 1  # runs before the first that counts, on Kafka


WEIR, KAFKA, IDEAL = Arm("weir", "weir"), Arm("kafka", "kafka"), Arm("ideal", "ideal")
ALL = (WEIR, KAFKA, IDEAL)
SPOKEN = (WEIR, KAFKA)  # generators that speak the whole protocol


@dataclasses.dataclass
class Context:
    """What the one who runs it wants."""
    seconds: int = 3
    bytes_max: int = 1 << 30  # written by one run, so that the disk is not what is measured
    is_tiny: bool = False

    def requests(self, request_bytes):
        return min(300, max(10, (4 << 20) // request_bytes)) if self.is_tiny else max(10, self.bytes_max // request_bytes)


def on_topic(body, partitions=1):
    """A load on a topic of its own, which goes afterwards."""

    def load(broker, context, options, is_durable):
        count = options.get("partitions", partitions)
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
        count = options.get("partitions", partitions)
        wanted = {"records": records, "size": size, "in_flight": in_flight, "requests": context.requests(request_bytes),
                  "seconds": context.seconds, "acks": "all", **more, **options}
        wanted["partitions"] = count
        figures = loads.replay(broker, topic, "produce", **wanted)
        check_end(broker, topic, count, figures["records"])
        return figures

    return on_topic(body, partitions)


def check_end(broker, topic, partitions, records):
    """What the generator says was written is in the log."""
    if broker.kind != "ideal" or partitions == 1:
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


def goal(figure, *goals):
    return dataclasses.replace(figure, goals=goals)


def both(make):
    """The page-cache case and the durable one beside it, whose goals are other ones."""
    return [make(False), make(True)]


def row_2():
    cases = []
    for size in (1000, 10000):
        records = 1_000_000 // size
        cases += both(lambda is_durable, size=size, records=records: Case(
            2, f"produce {size // 1000} KB, 1 MB batches, 5 in flight", produce(records, size, 5),
            (goal(MB, *(() if is_durable else (("ideal", 0.8),))), goal(CPU_GIB, *(() if is_durable else (("ideal", 1.25),))), MEMORY, GENERATOR),
            ALL, is_durable))
    return cases


def row_3():
    return both(lambda is_durable: Case(
        3, "produce 100 B, 1 in flight", produce(1, 100, 1),
        (goal(REQUESTS, ("ideal", 0.95)), goal(P50, ("kafka", 0.35), *((("ideal", 1.2),) if is_durable else ())), P99, CPU_REQUEST, MEMORY, GENERATOR),
        ALL, is_durable))


def row_4():
    return both(lambda is_durable: Case(
        4, "produce 100 B, 64 in flight", produce(1, 100, 64),
        (goal(REQUESTS, *((("ideal", 0.5), ("kafka", 8)) if not is_durable else ())), P99, CPU_REQUEST, MEMORY, GENERATOR),
        ALL, is_durable))


ROWS = {2: row_2, 3: row_3, 4: row_4}
