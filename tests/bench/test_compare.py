#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/bench/compare itself, with loads and brokers that are made up: what becomes of a case that fails, and of what was
measured."""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def load_program(name):
    """A program without an ending, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
compare = load_program("compare")
brokers, report, rows = compare.brokers, compare.report, compare.rows


class FakeStable:
    """Brokers that are their own kind."""

    def __init__(self):
        self.directory, self.heap, self.renewed = "", "1g", 0

    @staticmethod
    def get(kind):
        return kind or None

    def renew(self):
        self.renewed += 1

    def close(self):
        pass


def case_of(load, name="a case", row=3, arms=rows.SPOKEN, figures=(rows.CPU_REQUEST,), **more):
    return rows.Case(row, name, load, figures, arms, **{"is_warmed": False, **more})


def run(cases, **wanted):
    """(exit code, what it said, the results it has left, the brokers it had)"""
    stable = FakeStable()
    with tempfile.TemporaryDirectory() as out:
        args = argparse.Namespace(**{"rows": [], "pairs": 2, "seconds": 1, "only": "", "durability": None, "out": out, "dir": None, "heap": "1g",
                                     "without": [], "check": False, **wanted})
        kept = compare.rows.ROWS, compare.brokers.Stable
        compare.rows.ROWS = {row: lambda row=row: [case for case in cases if case.row == row] for row in sorted({case.row for case in cases})}
        compare.brokers.Stable = lambda *_: stable
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                code = compare.compare(args)
        finally:
            compare.rows.ROWS, compare.brokers.Stable = kept
        return code, said.getvalue(), report.read(out), stable


def steady(value):
    return lambda *_: {"cpu_us_request": value}


class Failures(unittest.TestCase):
    def test_a_case_that_fails_is_named_and_the_next_is_measured(self):
        for trouble in (brokers.Trouble("no such thing"), subprocess.TimeoutExpired("a generator", 300), RuntimeError("Kafka did not start"),
                        ConnectionResetError("by the broker"), AssertionError("answer 3 where 4 is due")):
            def fails(*_, trouble=trouble):
                raise trouble

            code, said, results, stable = run([case_of(fails, "fails"), case_of(steady(2.0), "goes on", row=4)])
            self.assertEqual(code, 1)
            self.assertIn("not measured: row 3: fails", said)
            self.assertEqual([result["case"] for result in results], ["goes on"])
            self.assertEqual(stable.renewed, 1)

    def test_what_is_no_trouble_of_a_case_ends_the_run(self):
        def fails(*_):
            raise KeyError("a mistake of the comparison")

        with self.assertRaises(KeyError):
            run([case_of(fails)])

    def test_all_well(self):
        code, _, results, stable = run([case_of(steady(2.0))])
        self.assertEqual((code, len(results), stable.renewed), (0, 1, 0))


class Durable(unittest.TestCase):
    def test_the_floor_is_what_the_ideal_takes_and_a_part_of_what_weir_takes_where_nothing_is_synced(self):
        def load(broker, _, options, is_durable):
            return {"p50_us": {("weir", True): 200.0, ("weir", False): 50.0, ("kafka", True): 900.0,
                               ("ideal", True): options.get("floor", 70.0)}[(broker, is_durable)]}

        plain = case_of(load, arms=rows.ALL, figures=(rows.P50,), is_durable=True)
        for case, floor in ((rows.durable(plain), 130.0), (rows.durable(plain, ideal={"floor": 100.0}), 160.0)):
            code, said, (result,), _ = run([case])
            self.assertEqual((code, result["arms"][rows.FLOOR]["median"]), (0, floor))
            self.assertAlmostEqual(result["ratios"][rows.FLOOR]["median"], 200.0 / floor)
            self.assertEqual([(goal["of"], goal["met"] > 0.7) for goal in result["goals"]], [(rows.FLOOR, floor > 150)])
            report.markdown([result])
        _, said, (result,), _ = run([rows.durable(plain)], without=["ideal"])
        self.assertIn("no ratio, left out", said)

    def test_every_row_can_be_made_and_its_goals_are_of_arms_it_has(self):
        for row, make in rows.ROWS.items():
            for case in make():
                labels = {arm.label for arm in case.arms} | set(case.sums) | {""}
                for figure in case.figures:
                    self.assertLessEqual({of for of, _ in figure.goals}, labels, f"row {row}: {case.name}: {figure.label}")
                for weights in case.sums.values():
                    self.assertLessEqual(set(weights), labels)


class Pages(unittest.TestCase):
    @staticmethod
    def order(**case):
        """What was done, in turn: of each run its broker, and the bytes of memory made ready."""
        done = []
        kept, compare.ready_pages = compare.ready_pages, lambda directory, size_bytes: done.append(size_bytes)
        try:
            run([case_of(lambda broker, *_: done.append(broker) or {"cpu_us_request": 1.0}, **case)], pairs=1)
        finally:
            compare.ready_pages = kept
        return done

    def test_each_run_that_fills_pages_finds_those_that_were_used_a_moment_ago(self):
        size = rows.Context().bytes_max
        self.assertEqual(self.order(fills_pages=True), [size, "weir", size, "kafka", size, "weir"])
        self.assertEqual(self.order(), ["weir", "kafka", "weir"])

    def test_they_were_in_a_file_of_that_size_which_is_gone(self):
        sizes = []
        with tempfile.TemporaryDirectory() as directory:
            kept, compare.tempfile.TemporaryFile = tempfile.TemporaryFile, lambda dir: Counted(kept(dir=dir), sizes)
            try:
                compare.ready_pages(directory, 3 << 20)
            finally:
                compare.tempfile.TemporaryFile = kept
            self.assertEqual((sizes, os.listdir(directory)), ([3 << 20], []))


class Counted:
    """A file that says how large it was when it is closed."""

    def __init__(self, file, sizes):
        self.file, self.sizes = file, sizes

    def __enter__(self):
        return self.file.__enter__()

    def __exit__(self, *error):
        self.file.flush()
        self.sizes.append(os.fstat(self.file.fileno()).st_size)
        return self.file.__exit__(*error)


class WarmUp(unittest.TestCase):
    @staticmethod
    def warmed(*costs):
        """The case's result, where Kafka's runs cost so much, each more than those as the last."""
        left = list(costs)

        def load(broker, *_):
            return {"cpu_us_request": 10.0 if broker == "weir" else left.pop(0) if len(left) > 1 else left[0]}

        _, said, (result,), _ = run([case_of(load, is_warmed=True)])
        return result, said

    def test_until_two_runs_in_a_row_cost_the_same(self):
        result, said = self.warmed(100.0, 50.0, 40.0, 37.0, 20.0)
        self.assertEqual(result["warm"]["kafka"]["runs"], 4)
        self.assertEqual(result["arms"]["kafka"]["median"], 20.0)
        self.assertIn("kafka warmed by 4 runs", said)

    def test_it_may_rise(self):
        self.assertEqual(self.warmed(20.0, 30.0, 32.0)[0]["warm"]["kafka"]["runs"], 3)

    def test_never_steady(self):
        result, said = self.warmed(*[100.0, 50.0] * 20)
        self.assertEqual(result["warm"]["kafka"]["runs"], 8)
        self.assertIn("kafka not warm after 8 runs: the last two differed by 50 %", said)

    def test_weir_is_not_warmed(self):
        self.assertEqual(list(self.warmed(10.0)[0]["warm"]), ["kafka"])


class Commands(unittest.TestCase):
    def test_each_result_says_how_and_when_it_was_measured(self):
        cases = [case_of(steady(2.0), is_durable=is_durable) for is_durable in (False, True, None)]
        _, said, results, _ = run(cases, pairs=1, seconds=7, without=["ideal"])
        rest = " --pairs 1 --seconds 7 --without ideal"
        self.assertEqual([result["command"] for result in results],
                         [f"tests/bench/compare 3 --only 'a case'{own}{rest}" for own in (" --durability page-cache", " --durability durable", "")])
        at = f", at {results[0]['commit']}, {results[0]['when'][:10]}"
        self.assertIn(results[1]["command"] + at, said)
        text = report.markdown(results)
        self.assertEqual(text.count("### Row"), 1)
        self.assertIn(f"### Row 3: `tests/bench/compare 3{rest}`{at}", text)

    def test_what_was_measured_otherwise_has_a_heading_of_its_own(self):
        _, _, results, _ = run([case_of(steady(2.0)), case_of(steady(2.0), "another")])
        results[1]["commit"] = "1234abc"
        self.assertEqual(report.markdown(results).count("### Row 3"), 2)

    def test_durable_cases_refuse_a_disk_in_memory(self):
        kept = brokers.file_system
        brokers.file_system = lambda directory=None: "tmpfs"
        try:
            code, said, results, _ = run([case_of(steady(2.0), "durable", is_durable=True), case_of(steady(2.0), "cached")])
        finally:
            brokers.file_system = kept
        self.assertEqual((code, [result["case"] for result in results]), (1, ["cached"]))
        self.assertIn("--dir must be on a disk", said)


class Ratios(unittest.TestCase):
    @staticmethod
    def figures(kafka, weir=10.0):
        goals = (("kafka", 0.5), ("ideal", 2))
        load = lambda broker, *_: {"cpu_us_request": {"weir": weir, "kafka": kafka}[broker]} # noqa: E731
        return run([case_of(load, figures=(rows.goal(rows.CPU_REQUEST, *goals),))])

    def test_a_ratio_and_how_far_the_goal_is_met(self):
        code, said, (result,), _ = self.figures(40.0)
        self.assertEqual((code, result["ratios"]["kafka"]["median"], result["no_ratio"]), (0, 0.25, {"ideal": "left out"}))
        self.assertEqual([goal["met"] for goal in result["goals"]], [2.0, None])
        self.assertIn("<= 2.00 x ideal: no ratio, left out", said)

    def test_why_there_is_no_ratio_is_said(self):
        for kafka, weir, why in ((0.0, 10.0, "a run of kafka gave 0"), (10.0, 0.0, "a run of weir gave 0")):
            _, said, (result,), _ = self.figures(kafka, weir)
            self.assertEqual((result["ratios"], result["no_ratio"]["kafka"]), ({}, why))
            self.assertIn(f"/kafka no ratio: {why}", said)
            self.assertIn(f"no ratio: {why}", report.markdown([result]))
            report.picture([result])

    def test_a_figure_that_the_load_does_not_give(self):
        code, said, results, _ = run([case_of(steady(2.0), figures=(rows.CPU_REQUEST, rows.P50))])
        self.assertEqual((code, results), (1, []))
        self.assertIn("does not say p50_us", said)

    def test_processor_time_is_of_the_process_and_finer_than_a_tick(self):
        served = brokers.Served()
        served.pid = os.getpid()
        before = served.cpu_s()
        while served.cpu_s() == before:
            pass
        self.assertLess(served.cpu_s() - before, 0.005)


if __name__ == "__main__":
    unittest.main()
