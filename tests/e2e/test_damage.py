#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that were changed behind the broker's back: damage is told, stays where it is, and is never taken for a torn tail.

What the journal names was synced: a change there is KAFKA_STORAGE_ERROR on that partition and nothing else. What it does not name
may be cut. A disk that is full refuses writes, serves reads, and is well again when there is room.
"""

import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys

import harness
import wire
from harness import SEED, Broker, Skip, check, equal, until, weir
from wire import Conn, batch, crc32c

NONE, STORAGE_ERROR = 0, 56
PARTITIONS = 3
RECORDS = 5
GROUP_HEAD = 128


def fill(broker, topic="data", records=RECORDS, value=b"value %d of %d "):
    """The same number of records, one a batch, in each partition, in sorted rounds."""
    with Conn(broker.host, broker.port) as conn:
        equal(conn.create_topic(topic, PARTITIONS)[0], NONE, f"create {topic}")
        for i in range(records):
            answers = conn.produce(topic, {p: batch([value % (i, p) * 10]) for p in range(PARTITIONS)})
            equal(set(answers.values()), {(NONE, i)}, f"record {i}")


def read(conn, topic, partition, records=RECORDS, value=b"value %d of %d "):
    """The error of a read of all of it from the start; every record that came is the right one."""
    offset = 0
    while offset < records:
        _, parts = conn.fetch(topic, {partition: offset}, wait_ms=0)
        error, _, data = parts[(topic, partition)]
        if error:
            return error
        before = offset
        for base, last, _, _, whole in wire.batches(data):
            if base >= records:
                return NONE
            equal(base, offset, f"{topic}-{partition}: offset")
            check(value % (base, partition) * 10 in whole, f"{topic}-{partition}: what stands at {base}")
            offset = last + 1
        check(offset > before, f"{topic}-{partition}: nothing at {offset} of {records}")
    return NONE


def errors(broker, topic="data", records=RECORDS):
    with Conn(broker.host, broker.port) as conn:
        return [read(conn, topic, p, records) for p in range(PARTITIONS)]


def segment(broker, topic="data", partition=1, suffix=".log"):
    return os.path.join(broker.data, f"{topic}-{partition}", "00000000000000000000" + suffix)


def flip(path, at, bit=0x10):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ bit]))


def journal(broker):
    files = sorted(glob.glob(os.path.join(broker.data, "weir-journal", "*[0-9].wj")))
    check(files, "there is a journal")
    return files


def groups(path):
    """(at, bytes) of each group that is there, by the header's magic and crc (docs/formats/journal.md)."""
    with open(path, "rb") as file:
        data = file.read()
    out = []
    for at in range(0, len(data) - GROUP_HEAD, 4096):
        head = data[at:at + GROUP_HEAD]
        if head[:4] == b"WJG1" and crc32c(head[:124]) == struct.unpack(">I", head[124:])[0]:
            flags, = struct.unpack_from(">H", head, 6)
            rows, = struct.unpack_from(">I", head, 28)
            size, = struct.unpack_from(">Q", head, 48)
            if flags == 0 and rows > 0:
                out.append((at, size))
    return out


# ---- partitions -----------------------------------------------------------------------------------------------------------


def test_a_flipped_bit_below_the_line_is_an_error_of_that_partition_only():
    dice = random.Random(SEED)
    for is_clean in (True, False):
        with Broker(shards=2, name="flip") as broker:
            fill(broker)
            broker.stop()  # a checkpoint: the journal's copies of the bytes no longer matter
            if not is_clean:
                broker.start()
                broker.kill()
            path = segment(broker)
            size = os.path.getsize(path)
            flip(path, dice.choice((8, 9, 16)), 1)  # of the first header: length or magic
            broker.start()
            equal(errors(broker), [NONE, STORAGE_ERROR, NONE], f"reads after a bit of partition 1 flipped (clean stop: {is_clean})")
            equal(broker.log().count("topic=data partition=1: a part of it is damaged"), 1, "lines that name the partition")
            check("partition=0: a part" not in broker.log(), "the others are not damaged")
            code, _, err = weir("consume", "data", "--exit", "--bootstrap", broker.bootstrap)
            equal(code, 1, "weir consume --exit, where an end can't be reached")
            check(err.startswith("error: KAFKA_STORAGE_ERROR: topic 'data' partition 1 offset 0"), f"weir consume --exit: {err!r}")
            with Conn(broker.host, broker.port) as conn:
                answers = conn.produce("data", {0: batch([b"on"]), 2: batch([b"on"])})
                equal(set(answers.values()), {(NONE, RECORDS)}, "the others take records")
                check(os.path.getsize(path) >= size, "nothing of it was cut")
            broker.stop()
            broker.start()
            equal(errors(broker)[1], STORAGE_ERROR, "damage is damage after one more start")


def test_a_named_file_that_is_gone_is_damage_and_an_unnamed_one_is_left_alone():
    with Broker(name="gone") as broker:
        fill(broker)
        broker.stop()
        os.unlink(segment(broker))
        stranger = os.path.join(broker.data, "stranger-0")
        os.makedirs(stranger)
        with open(os.path.join(stranger, "00000000000000000000.log"), "wb") as file:
            file.write(b"not ours")
        broker.start()
        equal(errors(broker), [NONE, STORAGE_ERROR, NONE], "reads after partition 1's log was removed")
        equal(os.listdir(stranger), ["00000000000000000000.log"], "what nobody names stays")
        with Conn(broker.host, broker.port) as conn:
            (when, _), = {row[:2] for row in conn.list_offsets("data", {0: -1}).values()}
            equal(when, NONE, "ListOffsets of another partition")
            equal(conn.create_topic("after", 1)[0], NONE, "a topic can be made")


def test_a_tail_that_no_entry_names_is_cut():
    with Broker(name="tail") as broker:
        fill(broker)
        broker.kill()
        for partition, garbage in ((0, b"\0" * 100), (1, os.urandom(500)), (2, batch([b"never acknowledged"]))):
            with open(segment(broker, partition=partition), "ab") as file:
                file.write(garbage)
        broker.start()
        equal(errors(broker), [NONE] * PARTITIONS, "what was acknowledged")
        with Conn(broker.host, broker.port) as conn:
            answers = conn.produce("data", {p: batch([b"value %d of %d " % (RECORDS, p) * 10]) for p in range(PARTITIONS)})
            equal(set(answers.values()), {(NONE, RECORDS)}, "the next records follow what was acknowledged")
        equal(errors(broker, records=RECORDS + 1), [NONE] * PARTITIONS, "all of it")


def test_indexes_may_be_wrong_or_gone():
    with Broker(name="index", settings={"log.index.interval.bytes": 100}) as broker:
        fill(broker, records=40)
        broker.stop()
        for partition, change in ((0, "flip"), (1, "remove"), (2, "cut")):
            for suffix in (".index", ".timeindex"):
                path = segment(broker, partition=partition, suffix=suffix)
                if not os.path.exists(path):
                    continue
                size = os.path.getsize(path)
                if change == "remove":
                    os.unlink(path)
                elif change == "cut":
                    os.truncate(path, size // 2 + 3)
                else:
                    for at in range(0, size, 5):
                        flip(path, at)
        broker.start()
        with Conn(broker.host, broker.port) as conn:
            for partition in range(PARTITIONS):
                equal(read(conn, "data", partition, 40), NONE, f"reads of partition {partition}")
                for offset in range(0, 40, 7):
                    _, parts = conn.fetch("data", {partition: offset}, wait_ms=0)
                    error, _, data = parts[("data", partition)]
                    equal(error, NONE, f"fetch at {offset} of partition {partition}")
                    base, last = next(wire.batches(data))[:2]
                    check(base <= offset <= last, f"a fetch at {offset} begins with {base}..{last}")
                error, when, offset = conn.list_offsets("data", {partition: 1})[partition]
                equal((error, offset), (NONE, 0), f"the first record by time of partition {partition}")


# ---- the journal ----------------------------------------------------------------------------------------------------------


def test_a_journal_torn_in_its_last_group_loses_nothing_before_it():
    """Cut, zeroed and garbled at a sample of places; the segment of that round may go with it or stay, the rounds before may not."""
    dice = random.Random(SEED)
    with Broker(name="torn") as broker:
        fill(broker)
        broker.kill()
        kept = broker.data + ".kept"
        os.rename(broker.data, kept)
        for turn in range(12):
            shutil.rmtree(broker.data, ignore_errors=True)
            shutil.copytree(kept, broker.data)
            path = journal(broker)[-1]
            at, size = groups(path)[-1]
            place = at + (0, 1, GROUP_HEAD, size - 1)[turn] if turn < 4 else at + dice.randrange(size)
            with open(path, "r+b") as file:  # what came after it was written when it was synced: it had not come yet
                file.seek(place)
                rest = at + size - place
                file.write((b"\0" * rest, os.urandom(rest))[turn % 2])
                after = os.path.getsize(path) - at - size
                file.write(b"\0" * min(after, 1 << 20))
            broker.start()
            with Conn(broker.host, broker.port) as conn:
                for partition in range(PARTITIONS):
                    end = conn.list_offsets("data", {partition: -1})[partition]
                    check(end[0] == NONE and end[2] >= RECORDS - 1, f"torn at {place - at} of {size}: partition {partition} ends at {end}")
                    equal(read(conn, "data", partition, end[2]), NONE, f"torn at {place - at} of {size}: partition {partition}")
            broker.stop()
        check("its last group was not whole" in broker.log(), "a group that is bad behind its header is told")


def test_a_journal_changed_before_its_last_group_is_damage_or_does_not_matter():
    dice = random.Random(SEED)
    with Broker(name="middle") as broker:
        fill(broker)
        broker.kill()
        kept = broker.data + ".kept"
        os.rename(broker.data, kept)
        for _ in range(6):
            shutil.rmtree(broker.data, ignore_errors=True)
            shutil.copytree(kept, broker.data)
            path = journal(broker)[-1]
            at, size = dice.choice(groups(path)[:-2])
            flip(path, at + dice.randrange(size))
            broker.start()
            with Conn(broker.host, broker.port) as conn:
                for partition in range(PARTITIONS):
                    check(read(conn, "data", partition) in (NONE, STORAGE_ERROR, 3), "records, or an error; never fewer records")
            broker.stop()


def test_what_made_the_logs_of_the_node_itself_may_be_bad():
    """Of the metadata and of a coordinator: a byte of the name that their first entry has in the journal."""
    with Broker(shards=2, name="birth") as broker:
        fill(broker)
        with Conn(broker.host, broker.port) as conn:
            until(lambda: conn.commit_offsets("readers", "data", {1: 3}) == {1: NONE}, 10, "an offset is committed")
        broker.kill()
        path = journal(broker)[0]
        with open(path, "rb") as file:
            data = file.read()
        for log in (b"__cluster_metadata", b"__coordinator"):
            place = data.find(log)
            check(place > 0, lambda log=log: f"the journal names {log}")
            flip(path, place + len(log) // 2)
        equal(len(verify(broker)), 2, "damages that verify names")
        for _ in range(2):  # the second start meets them as the first did: no checkpoint came between
            broker.start()
            equal(errors(broker), [NONE] * PARTITIONS, "reads of the topic")
            with Conn(broker.host, broker.port) as conn:
                until(lambda: conn.fetch_offsets("readers", "data", [1])[1][1][2] == NONE, 10, "the coordinator has loaded")
                equal(conn.fetch_offsets("readers", "data", [1])[1][1][0], 3, "what was committed")
            broker.kill()
        for log in ("__cluster_metadata-0", "__coordinator-"):
            equal(broker.log().count(f" {log}"), 2, f"lines of the two starts that speak of {log}")


def test_one_checkpoint_may_be_bad():
    for name in ("checkpoint-a.wj", "checkpoint-b.wj"):
        with Broker(name="checkpoint") as broker:
            fill(broker)
            broker.stop()
            broker.start()
            broker.stop()
            path = os.path.join(broker.data, "weir-journal", name)
            if not os.path.exists(path):
                continue
            for at in range(8, os.path.getsize(path), 977):
                flip(path, at)
            broker.start()
            for partition, error in enumerate(errors(broker)):
                check(error in (NONE, STORAGE_ERROR), f"{name} bad: partition {partition}: error {error}")


# ---- weir log verify --------------------------------------------------------------------------------------------------------


def verify(broker):
    """The damages that 'weir log verify' names, as it says them in JSON."""
    code, out, err = weir("log", "verify", "--data-dir", broker.data, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    check(rows and rows[-1]["kind"] == "summary", lambda: f"a summary at the end: {out}{err}")
    damages = rows[:-1]
    equal(rows[-1]["damages"], len(damages), "the number of damages")
    equal(code, 1 if damages else 0, "the exit code of verify: " + err)
    return damages


def name(path, broker):
    return os.path.relpath(path, broker.data)


def test_verify_finds_nothing_where_nothing_is_damaged():
    with Broker(shards=2, name="sound", settings={"log.index.interval.bytes": 100}) as broker:
        fill(broker, records=60)
        code, _, err = weir("log", "verify", "--data-dir", broker.data)
        check(code == 1 and str(broker.pid) in err, lambda: f"a directory in use: exit {code}, {err}")
        broker.kill()
        equal(verify(broker), [], "after a kill")
        broker.start()
        fill(broker, topic="more", records=3)
        with Conn(broker.host, broker.port) as conn:
            equal(conn.delete_topic("more"), NONE, "delete more")
        broker.stop()
        equal(verify(broker), [], "after a clean stop")
        broker.start()
        broker.stop()
        equal(verify(broker), [], "after another")
    equal(weir("log", "verify")[0], 2, "no directory named")
    equal(weir("log", "guess")[0], 2, "an unknown thing to do")
    equal(weir("log", "verify", "--data-dir", "/nowhere/at/all")[0], 1, "a directory that is not there")


def test_verify_reads_a_directory_that_can_not_be_written_to():
    if os.geteuid() != 0:
        raise Skip("mounting a directory a second time needs root")
    with Broker(name="view") as broker:
        fill(broker, records=3)
        view = os.path.join(broker.directory, "view")
        os.mkdir(view)
        if subprocess.run(["mount", "--bind", broker.data, view], capture_output=True, check=False).returncode != 0:
            raise Skip("nothing can be mounted here")
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", view], check=True)
            code, _, err = weir("log", "verify", "--data-dir", view)
            check(code == 1 and str(broker.pid) in err, lambda: f"a directory in use: exit {code}, {err}")
            broker.stop()
            code, out, err = weir("log", "verify", "--data-dir", view)
            check(code == 0 and "0 damages" in out, lambda: f"exit {code}, {out}{err}")
        finally:
            subprocess.run(["umount", "-l", view], check=True)


def test_verify_names_a_flipped_bit_of_a_segment_and_the_rest_is_served():
    """Payload, base offset, leader epoch, length: the last three are not covered by the batch's crc."""
    with Broker(name="verify", settings={"log.index.interval.bytes": 100}) as broker:
        fill(broker, records=40)
        broker.stop()
        path = segment(broker)
        with open(path, "rb") as file:
            data = file.read()
        ats = []
        at = 0
        while at < len(data):
            ats.append(at)
            at += 12 + struct.unpack_from(">I", data, at + 8)[0]
        equal(len(ats), 40, "a batch a record")
        at = ats[20]
        for what, place in (("payload", 70), ("base offset", 7), ("leader epoch", 15), ("crc", 18), ("length", 10)):
            flip(path, at + place)
            damages = verify(broker)
            equal(len(damages), 1, f"{what}: damages: {damages}")
            damage = damages[0]
            equal((damage["file"], damage["topic"], damage["partition"]), (name(path, broker), "data", 1), what)
            equal((damage["position"], damage["size"]), (at, ats[21] - at), f"{what}: the place")
            equal((damage["offset_first"], damage["offset_last"]), (20, 20), f"{what}: the offsets")
            code, out, _ = weir("log", "verify", "--data-dir", broker.data)
            check(code == 1 and "data-1 offsets 20 to 20" in out, lambda: f"{what}: in words: {out}")
            if what != "length":
                flip(path, at + place)
                equal(verify(broker), [], f"{what}: the bit is back")
        broker.start()
        equal([errors(broker, records=40)[p] for p in (0, 2)], [NONE, NONE], "the other partitions are served")
        broker.stop()
        with open(path, "r+b") as file:
            file.write(data)
        equal([d for d in verify(broker) if "knows" not in d["what"]], [], "the bit is back")


def test_verify_names_a_segment_that_is_short_or_gone():
    with Broker(name="short") as broker:
        fill(broker)
        broker.stop()
        os.truncate(segment(broker, partition=0), 100)
        os.unlink(segment(broker, partition=2))
        damages = {d["partition"]: d for d in verify(broker)}
        equal(set(damages), {0, 2}, "the partitions that are damaged")
        equal((damages[2]["offset_first"], damages[2]["offset_last"]), (0, RECORDS - 1), "what is gone")
        equal(damages[0]["offset_last"], RECORDS - 1, "what is short")


def test_verify_names_indexes_checkpoints_and_owners():
    with Broker(name="small", settings={"log.index.interval.bytes": 100}) as broker:
        fill(broker, records=150)  # so many entries that some are in the files for good
        broker.stop()
        folder = os.path.join(broker.data, "weir-journal")
        places = [(segment(broker, suffix=".index"), 3), (segment(broker, suffix=".timeindex"), 7),
                  (os.path.join(broker.data, "data-1", "partition.metadata"), 30)]
        newest = os.path.join(folder, "checkpoint-b.wj")  # the other is of the format; an older one may have been torn
        places += [(newest, at) for at in (20, 150, 220, 1000)]
        for path, at in places:
            flip(path, at)
            damages = verify(broker)
            equal([d["file"] for d in damages], [name(path, broker)], f"byte {at} of {name(path, broker)}: {damages}")
            flip(path, at)
        equal(verify(broker), [], "all bits are back")


def test_verify_names_each_part_of_the_journal():
    dice = random.Random(SEED)
    with Broker(name="chain") as broker:
        fill(broker)
        broker.kill()
        path = journal(broker)[-1]
        for turn in range(30):
            at, size = dice.choice(groups(path)[:-1])
            place = at + (0, GROUP_HEAD, GROUP_HEAD + 92, size - 1, size - 33)[turn] if turn < 5 else at + dice.randrange(size)
            flip(path, place)
            damages = verify(broker)
            check(damages, lambda place=place, at=at: f"byte {place - at} of the group at {at}: nothing was found")
            named = [d for d in damages if d["file"] == name(path, broker) and d["position"] <= place < d["position"] + max(d["size"], 1)]
            check(named, lambda place=place, damages=damages: f"byte {place} is not in {damages}")
            flip(path, place)
        equal(verify(broker), [], "all bits are back")


def test_an_entry_of_no_known_partition_does_not_keep_the_rest_from_being_served():
    """Both copies of a row: of which partition it was is not known. What goes on where it ended lost nothing."""
    with Broker(name="norow") as broker:
        fill(broker)
        broker.kill()
        path = journal(broker)[-1]
        at, size = groups(path)[len(groups(path)) // 2]
        with open(path, "rb") as file:
            file.seek(at + 28)
            rows, = struct.unpack(">I", file.read(4))
        table = GROUP_HEAD + 96 * rows
        flip(path, at + GROUP_HEAD + 40)
        flip(path, at + size - 32 - table + GROUP_HEAD + 40)
        check(any("not known" in d["what"] for d in verify(broker)), "verify says so")
        for _ in range(2):
            broker.start()
            found = errors(broker)
            check(set(found) <= {NONE, STORAGE_ERROR}, f"records or an error: {found}")
            check(found.count(NONE) >= PARTITIONS - 1, f"at most the partition that was hit: {found}")
            with Conn(broker.host, broker.port) as conn:
                equal(conn.metadata(["data"])["data"][0], NONE, "the topic is known")
                whole = [p for p in range(PARTITIONS) if found[p] == NONE]
                answers = conn.produce("data", {p: batch([b"on"]) for p in whole})
                equal({error for error, _ in answers.values()}, {NONE}, "the partitions that are whole take records")
            broker.stop()


# ---- a full disk ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_writes_and_heals():
    with Broker(name="full", disk_bytes=200 << 20) as broker:
        fill(broker)
        reserve = os.path.join(broker.data, "weir-journal", "reserve")  # made some time after the start: it must not meet the ballast
        until(lambda: os.path.exists(reserve) and os.stat(reserve).st_blocks * 512 >= 16 << 20, 10, "the journal has its reserve")
        ballast = os.path.join(broker.data, "ballast")
        with open(ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, broker.free_bytes() - (4 << 20))
        with Conn(broker.host, broker.port) as conn:
            error = NONE
            taken = 0
            for _ in range(20):
                (error, _), = conn.produce("data", {0: batch([b"x" * 900000])}).values()
                if error != NONE:
                    break
                taken += 1
            equal(error, STORAGE_ERROR, "a write that finds no room")
            for partition in range(PARTITIONS):
                equal(read(conn, "data", partition), NONE, "reads go on")
            equal(conn.metadata(["data"])["data"][0], NONE, "metadata goes on")
            os.unlink(ballast)
            until(lambda: list(conn.produce("data", {0: batch([b"again"])}).values())[0][0] == NONE, 20, "writes go on when there is room",
                  every_s=0.2)
            equal(conn.list_offsets("data", {0: -1})[0][2], RECORDS + taken + 1, "what was refused is not there")
        broker.stop()
        broker.start()
        equal(errors(broker)[1:], [NONE] * (PARTITIONS - 1), "reads after a restart")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
