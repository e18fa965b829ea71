"""Guards bench/overlay_quality.py, and with it the overlay's curve on the demo model: all chains in time are the CPU reading both
planes, none is the CPU reading the base, divergence falls with the hit rate, and a seed says it all."""

import argparse
import copy
import json
import os
import pathlib
import shlex
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ORK_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
COMMAND = [*shlex.split(os.environ.get("ORK_EMULATOR", "")), os.environ.get("ORK_PROGRAM", str(SOURCE / "build/release/cli/ork"))]
TIMEOUT = 1100
sys.path.insert(0, str(SOURCE / "bench"))

import overlay_quality  # noqa: E402
import overlay_report  # noqa: E402


def program(folder):
    """One executable, as the script wants it."""
    path = folder / "ork"
    path.write_text(f"#!/bin/sh\nexec {shlex.join(COMMAND)} \"$@\"\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class OverlayQuality(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            cls.process = subprocess.run(
                [sys.executable, "-B", SOURCE / "bench/overlay_quality.py", "--ork", program(folder), "--model",
                 SOURCE / "models/demo-lfm2moe.gguf", "--text", SOURCE / "models/demo-heldout.txt", "--quick", "-c", "128",
                 "--chunks", "2", "--seeds", "1", "--json", folder / "rows.json"],
                capture_output=True, text=True, timeout=TIMEOUT, check=False)
            file = folder / "rows.json"
            cls.result = json.loads(file.read_text()) if file.is_file() else {}
        cls.rows = {tuple(row["key"]): row for row in cls.result.get("rows", [])}

    def figures(self, *key):
        return {name: value for name, value in self.rows[key].items() if name not in overlay_report.NOT_FIGURES}

    def results(self):
        """As the script has them."""
        return {key: (self.figures(*key), copy.deepcopy(row["overlay"])) for key, row in self.rows.items()}

    def test_nothing_is_wrong(self):
        self.assertEqual(self.process.returncode, 0, self.process.stderr)
        self.assertEqual(self.result["problems"], [])
        self.assertIn("| overlay, 75 % |", self.process.stdout)

    def test_the_ends_are_the_cpu_alone(self):
        self.assertEqual(self.figures("all", "join", 100, 1), self.figures("all", "full"))
        self.assertEqual(self.figures("all", "join", 0, 1), self.figures("all", "base"))
        self.assertNotEqual(self.figures("all", "full"), self.figures("all", "base"))
        self.assertEqual(self.rows["all", "join", 100, 1]["overlay"]["hit_rate"], 1)
        self.assertEqual(self.rows["all", "join", 0, 1]["overlay"]["in_time"], 0)

    def test_each_step_of_the_hit_rate_brings_something(self):
        rows = [self.rows["all", "join", rate, 1] for rate in (0, 25, 50, 75, 100)]
        for worse, better in zip(rows, rows[1:]):
            self.assertLess(worse["overlay"]["hit_rate"] + 0.15, better["overlay"]["hit_rate"])
            self.assertLess(better["kld"], worse["kld"])

    def test_late_corrections_bring_something_and_less(self):
        for name in ("all", "residual"):
            late = self.rows[name, "late", 1]
            self.assertEqual(late["overlay"]["hit_rate"], 1)
            self.assertLess(late["kld"], self.rows[name, "base"]["kld"])
            self.assertGreater(late["kld"], self.rows[name, "full"]["kld"])

    def test_a_seed_says_it_all(self):
        again, before = self.rows["all", "again"], self.rows["all", "join", 50, 1]
        self.assertEqual(again["overlay"], before["overlay"])
        self.assertEqual(self.figures("all", "again"), self.figures("all", "join", 50, 1))

    def test_the_checks_see_what_is_wrong(self):
        def problems(change):
            results = self.results()
            change(results)
            return " ".join(overlay_quality.check(results, 1))

        def add(key, name, value):
            return lambda results: results[key][0].update({name: results[key][0][name] + value})
        self.assertEqual(problems(lambda results: None), "")
        self.assertIn("full", problems(add(("all", "join", 100, 1), "perplexity", 1e-6)))
        self.assertIn("base", problems(add(("all", "join", 0, 1), "same_top", -1e-6)))
        self.assertIn("is not below", problems(add(("all", "join", 75, 1), "kld", 1)))
        self.assertIn("differs", problems(add(("all", "again"), "kld", 1e-9)))
        self.assertIn("other counts", problems(lambda results: results["all", "again"][1].update(late=1)))
        self.assertIn("busy", problems(lambda results: results["all", "late", 1][1].update(busy=1)))

    def test_known_rows_are_taken_where_the_options_are_the_same(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "rows.json"
            file.write_text(json.dumps(self.result))
            options = argparse.Namespace(resume=file, quick=True, seeds=1)
            work = overlay_quality.cases(options)
            self.assertEqual(overlay_quality.take_known(options, work), self.results())
            work["all", "full"] = "all-n8", ["--another"]
            self.assertNotIn(("all", "full"), overlay_quality.take_known(options, work))

    def test_how_much_of_a_gap_is_closed(self):
        def row(divergence):
            return {"kld": divergence, "perplexity": 20.0, "same_top": 0.5}, None
        table = overlay_report.Table({("all", "base"): row(0.5), ("all", "full"): row(0.1), "a": row(0.4), "b": row(0.3)}, "all")
        table.add("half", ["a", "b", "not measured"])
        table.add("nothing", ["not measured"])
        self.assertEqual(table.lines, ["| half |  | 20.0000 | 0.35000 (0.30000 to 0.40000) | 50.0 % | 38 % |"])

    def test_coverage_leaves_out_what_the_limit_does_not_change(self):
        def row(divergence, mebibytes):
            return {"kld": divergence, "perplexity": 20.0}, {"resident_bytes": mebibytes << 20, "chains": mebibytes}
        results = {("all", "base"): row(0.5, 0), ("all", "full"): row(0.1, 0), ("all", "join", 100, 1): row(0.1, 100),
                   ("all", "late", 2): row(0.3, 40), ("coverage", "late", 25): row(0.4, 25), ("coverage", "late", 50): row(0.3, 40)}
        self.assertEqual(overlay_report.coverage_table(results, "late")[-2:],
                         ["| 25.0 % | 25.00 | 25 | 20.0000 | 0.40000 | 25.0 % |", "| 40.0 % | 40.00 | 40 | 20.0000 | 0.30000 | 50.0 % |"])
        self.assertEqual(overlay_report.coverage_table(results, "measured"), [])
        options = argparse.Namespace(rules=None)
        self.assertEqual(set(overlay_quality.coverage_cases(options, 20 << 20)),
                         {("coverage", order, percent) for order in ("size", "late") for percent in (5, 10, 25, 50)})

    def test_bad_input(self):
        with tempfile.TemporaryDirectory() as name:
            for words, message in ((["--chunks", "0"], "must be 1 or more"), (["--model", "nothing.gguf"], "nothing.gguf")):
                process = subprocess.run([sys.executable, "-B", SOURCE / "bench/overlay_quality.py", "--ork",
                                          program(pathlib.Path(name)), "--model", SOURCE / "models/demo-lfm2moe.gguf", "--text",
                                          "nothing.txt", *words], capture_output=True, text=True, timeout=TIMEOUT, check=False)
                self.assertNotEqual(process.returncode, 0)
                self.assertIn(message, process.stderr)


if __name__ == "__main__":
    unittest.main()
