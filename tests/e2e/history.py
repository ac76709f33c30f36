# SPDX-License-Identifier: Apache-2.0
"""Histories of clients, written as docs/formats/history.md says, and judged by weir-sim --judge.

    history = History()
    op = history.begin("p1", "produce", topic="t", partition=0, acks=-1, record="1.1.0")
    history.end(op, "ok", offset=17)
    history.once("v1", "read", topic="t", partition=0, record="1.1.0", offset=17, final=1)
    broken, counts = judge(program, history, path)     # ["I4: ..."], {"operations": 2, ...}

DOCTORED has, for every invariant that a history can break, what makes a good history of one topic break it.
"""

import re
import subprocess
import time

NOBODY = "0.4294967295.0"  # a record that no one can have produced


class History:
    def __init__(self):
        self.began_ns = time.monotonic_ns()
        self.events = []  # (at_ns, op, what): sorted and numbered when it is written; times may come from other processes

    def begin(self, actor, kind, at_ns=None, **fields):
        op = {"actor": actor, "kind": kind, "fields": fields}
        self._add(op, "invoke", at_ns)
        return op

    def end(self, op, what, at_ns=None, **fields):
        op["answer"] = fields
        self._add(op, what, at_ns)

    def once(self, actor, kind, at_ns=None, **fields):
        self._add({"actor": actor, "kind": kind, "fields": {}, "answer": fields}, "ok", at_ns)

    def _add(self, op, what, at_ns):
        self.events.append((time.monotonic_ns() if at_ns is None else at_ns, op, what))

    def write(self, path):
        numbers = {}
        with open(path, "w", encoding="utf-8") as file:
            file.write("weir-history 1\n")
            for at_ns, op, what in sorted(self.events, key=lambda event: event[0]):
                number = numbers.setdefault(id(op), len(numbers))
                fields = op["fields"] if what == "invoke" else {**op["fields"], **op["answer"]}
                words = [str(at_ns - self.began_ns), op["actor"], str(number), what, op["kind"]]
                file.write(" ".join(words + [f"{key}={value}" for key, value in fields.items()]) + "\n")

    # What doctors it.

    def all(self, kind, what="ok", **fields):
        """The events of that kind whose answer has these fields, in the order of the history."""
        def has_all(op):
            return all(op["answer"].get(key, op["fields"].get(key)) == value for key, value in fields.items())

        return sorted((event for event in self.events if event[1]["kind"] == kind and event[2] == what and has_all(event[1])),
                      key=lambda event: event[0])

    def copy(self):
        other = History()
        other.began_ns = self.began_ns
        ops = {}
        for at_ns, op, what in self.events:
            if id(op) not in ops:
                ops[id(op)] = {key: dict(value) if isinstance(value, dict) else value for key, value in op.items()}
            other.events.append((at_ns, ops[id(op)], what))
        return other

    def drop(self, event):
        self.events = [other for other in self.events if other is not event]


def judge(program, history, path):
    """What it breaks, and how much there was to judge."""
    history.write(path)
    run = subprocess.run([program, "--judge", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode not in (0, 1):
        raise AssertionError(f"weir-sim --judge ended with {run.returncode}: {run.stderr}")
    lines = [line[len(path) + 2:] for line in run.stdout.splitlines()]
    counts = {key: int(value) for key, value in (word.split("=") for word in lines.pop().split())}
    if (run.returncode == 0) != (not lines) or (counts["broken"] == 0) != (not lines):
        raise AssertionError(f"exit code {run.returncode} with {run.stdout}")
    return lines, counts


# ---- bad histories: each takes a good one, of a topic with records in partition 0, and spoils it ----


def _finals(history):
    return history.all("read", partition=0, final=1)


def _lose_the_last(history):
    """An acknowledged record is gone: the log ends before it, and so says the latest offset."""
    last = _finals(history)[-1][1]["answer"]
    history.drop(_finals(history)[-1])
    history.all("end", partition=0, final=1)[0][1]["answer"]["offset"] = last["offset"]
    for _, op, _ in history.all("offsets", partition=0, at=-1):
        op["answer"]["offset"] = last["offset"]
    for event in history.all("read", partition=0, offset=last["offset"]):  # nor did anyone read it
        history.drop(event)


def _read_past_the_end(history):
    end = history.all("end", partition=0, final=1)[0][1]["answer"]["offset"]
    answer = dict(_finals(history)[-1][1]["answer"], offset=end + 5, session=999)
    del answer["final"]
    history.once("c9", "read", at_ns=_finals(history)[0][0] - 1, **answer)


def _leave_a_hole(history):
    history.drop(_finals(history)[1])


def _give_one_offset_twice(history):
    first, second = history.all("produce", partition=0, acks=-1)[:2]
    second[1]["answer"]["offset"] = first[1]["answer"]["offset"]


def _append_one_twice(history):
    first, second = _finals(history)[:2]
    second[1]["answer"]["record"] = first[1]["answer"]["record"]


def _serve_rubbish(history):
    _finals(history)[1][1]["answer"]["record"] = NOBODY


def _never_answer(history):
    history.drop(history.all("produce", partition=0)[0])


def _fail_and_do_it(history):
    at_ns, op, _ = event = history.all("produce", partition=0)[0]
    history.drop(event)
    op["answer"] = {"error": 10}
    history.events.append((at_ns, op, "fail"))


def _tell_too_low_an_offset(history):
    history.all("offsets", partition=0, at=-1)[-1][1]["answer"]["offset"] = 0


DOCTORED = [("I1", _lose_the_last), ("I4", _read_past_the_end), ("I8", _leave_a_hole), ("I8", _give_one_offset_twice),
            ("I9", _append_one_twice), ("I20", _serve_rubbish), ("I21", _never_answer), ("I22", _fail_and_do_it),
            ("I23", _tell_too_low_an_offset)]


def find_missed(program, history, path):
    """Spoils the history in every way, has it judged, and tells which way was not told by its id."""
    missed = []
    for name, spoil in DOCTORED:
        bad = history.copy()
        spoil(bad)
        broken, _ = judge(program, bad, path)
        ids = {re.match(r"I\d+", line).group() for line in broken}
        if name not in ids:
            missed.append(f"{name} by {spoil.__name__}: told was {sorted(ids) or 'nothing'}")
    return missed
