"""ork bench: llama-bench's tests, fields and formats, each read back by somebody else's reader."""

import csv
import io
import json
import re
import sqlite3
import statistics
import unittest

from support import ProgramTest

FIELDS = ["build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "model_size",
          "model_n_params", "n_batch", "n_ubatch", "n_threads", "cpu_mask", "cpu_strict", "poll", "type_k", "type_v",
          "n_gpu_layers", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
          "engine", "tier_plan", "bytes_per_token", "npu", "npu_share", "npu_declined", "npu_redone", "npu_faults", "npu_off",
          "repeats", "lookup", "lookup_passes", "lookup_drafted", "lookup_accepted"]
SMALL = ("-p", "6", "-n", "3", "-r", "2", "-t", "1")


class Bench(ProgramTest):
    def rows(self, *arguments):
        return json.loads(self.ork("bench", self.pack(), *arguments, "-o", "json").stdout)

    def test_json(self):
        rows = self.rows(*SMALL)
        self.assertEqual([(row["n_prompt"], row["n_gen"]) for row in rows], [(6, 0), (0, 3)])
        for row in rows:
            for field in FIELDS:
                self.assertIn(field, row)
            self.assertEqual(len(row["samples_ns"]), 2)
            self.assertEqual(len(row["samples_ts"]), 2)
            tokens = row["n_prompt"] + row["n_gen"]
            for ns, speed in zip(row["samples_ns"], row["samples_ts"]):
                self.assertAlmostEqual(speed, tokens / ns * 1e9, delta=speed * 1e-6)
            self.assertAlmostEqual(row["avg_ts"], statistics.mean(row["samples_ts"]), delta=row["avg_ts"] * 1e-6)
            self.assertAlmostEqual(row["stddev_ts"], statistics.stdev(row["samples_ts"]), delta=1 + row["avg_ts"] * 1e-6)
            self.assertAlmostEqual(row["avg_ns"], statistics.mean(row["samples_ns"]), delta=1)
            self.assertRegex(row["test_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertIn(row["engine"], ("scalar", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"))
            self.assertIn("nf4", row["tier_plan"])
            self.assertEqual(row["n_threads"], 1)

    def test_lookup(self):
        common = ("-n", "200", "-r", "1", "-t", "1", "--lookup", "0,4,16")
        rows = self.rows("-p", "6", *common)
        self.assertEqual([(row["n_prompt"], row["lookup"]) for row in rows], [(6, 0), (0, 0), (0, 4), (0, 16)])
        for row in rows[2:]:  # random tokens: nothing to draft
            self.assertEqual(row["lookup_passes"] + row["lookup_accepted"], 200)
            self.assertLess(row["lookup_drafted"], 10)
        rows = self.rows("-p", "0", "-d", "40", *common, "--repeats", "97")
        self.assertEqual([row["lookup_passes"] for row in rows][0], 0)
        for row in rows[1:]:
            self.assertEqual(row["lookup_passes"] + row["lookup_accepted"], 200)
            self.assertGreater(row["lookup_accepted"], 50)
            self.assertEqual(row["repeats"], 97)
        self.assertLess(rows[2]["lookup_passes"], rows[1]["lookup_passes"])
        again = self.rows("-p", "0", "-d", "40", *common, "--repeats", "97")
        for name in ("lookup_passes", "lookup_drafted", "lookup_accepted"):
            self.assertEqual([row[name] for row in rows], [row[name] for row in again])
        table = self.ork("bench", self.pack(), "-p", "0", *common).stdout
        self.assertRegex(table, r"\| +lookup \|")
        self.refused("bench", self.pack(), "--lookup", "32", code=2)
        self.refused("bench", self.pack(), "--repeats", "101", code=2)

    def test_jsonl_csv_sql_say_the_same_fields(self):
        lines = self.ork("bench", self.pack(), *SMALL, "-o", "jsonl").stdout.splitlines()
        self.assertEqual(len(lines), 2)
        names = [name for name in json.loads(lines[0]) if not name.startswith("samples_")]
        table = list(csv.reader(io.StringIO(self.ork("bench", self.pack(), *SMALL, "-o", "csv").stdout)))
        self.assertEqual(table[0], names)
        self.assertEqual([len(row) for row in table], [len(names)] * 3)
        database = sqlite3.connect(":memory:")
        database.executescript(self.ork("bench", self.pack(), *SMALL, "-o", "sql").stdout)
        cursor = database.execute("SELECT * FROM llama_bench")
        self.assertEqual([column[0] for column in cursor.description], names)
        self.assertEqual(len(cursor.fetchall()), 2)
        self.assertEqual(database.execute("SELECT typeof(avg_ts), typeof(n_prompt), typeof(engine) FROM llama_bench")
                         .fetchone(), ("real", "integer", "text"))

    def test_markdown(self):
        lines = self.ork("bench", self.pack(), *SMALL, "-pg", "4,2", "-d", "0,5").stdout.splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        self.assertEqual(cells[0], ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertTrue(all(re.fullmatch(r"-+:?", cell) for cell in cells[1]))
        self.assertEqual([row[5] for row in cells[2:]], ["pp6", "tg3", "pp4+tg2", "pp6 @ d5", "tg3 @ d5", "pp4+tg2 @ d5"])
        for row in cells[2:]:
            self.assertRegex(row[6], r"^\d+\.\d\d ± \d+\.\d\d$")
        self.assertEqual(len({len(line) for line in lines}), 1)  # columns are aligned

    def test_columns_appear_when_they_are_asked_for(self):
        head = self.ork("bench", self.pack(), *SMALL, "-b", "4", "-ub", "2", "-ctk", "f16,f32").stdout.splitlines()[0]
        for name in ("n_batch", "n_ubatch", "type_k"):
            self.assertIn(name, head)
        self.assertNotIn("type_v", head)

    def test_defaults(self):
        rows = self.rows("-r", "1", "-t", "1", "--no-warmup")
        self.assertEqual([(row["n_prompt"], row["n_gen"], row["n_depth"]) for row in rows], [(512, 0, 0), (0, 128, 0)])

    def test_lists_and_ranges_make_a_product(self):
        rows = self.rows("-p", "1-3", "-n", "0", "-r", "1", "-t", "1", "-ub", "1,2", "-d", "1-4*2", "--no-warmup")
        self.assertEqual([(row["n_ubatch"], row["n_depth"], row["n_prompt"]) for row in rows],
                         [(ub, depth, prompt) for ub in (1, 2) for depth in (1, 2, 4) for prompt in (1, 2, 3)])
        rows = self.rows("-p", "2-8+3", "-p", "1", "-n", "0", "-r", "1", "-t", "1", "--no-warmup")
        self.assertEqual([row["n_prompt"] for row in rows], [2, 5, 8, 1])

    def test_only_a_pair(self):
        rows = self.rows("-pg", "3,2", "-r", "1", "-t", "1")
        self.assertEqual([(row["n_prompt"], row["n_gen"]) for row in rows], [(3, 2)])

    def test_both_outputs(self):
        process = self.ork("bench", self.pack(), "-p", "2", "-n", "0", "-r", "1", "-t", "1", "-o", "md", "-oe", "jsonl")
        self.assertTrue(process.stdout.startswith("| model"))
        self.assertEqual(json.loads(process.stderr.splitlines()[-1])["n_prompt"], 2)

    def test_several_models(self):
        rows = json.loads(self.ork("bench", "-m", self.pack(), self.pack("i8"), "-p", "2", "-n", "0", "-r", "1", "-t", "1", "-o",
                                   "json").stdout)
        self.assertEqual([row["model_filename"] for row in rows], [str(self.pack()), str(self.pack("i8"))])
        self.assertNotEqual(rows[0]["tier_plan"], rows[1]["tier_plan"])

    def test_progress(self):
        process = self.ork("bench", self.pack(), "-p", "2", "-n", "0", "-r", "2", "-t", "1", "--progress")
        self.assertIn("test 1 of 1", process.stderr)
        self.assertIn("repetition 2 of 2", process.stderr)

    def test_nothing_is_printed_when_the_model_cannot_be_opened(self):
        self.refused("bench", self.folder / "nothing", "-o", "json", code=3)

    def test_a_depth_beyond_memory_or_context_is_an_error_not_a_number(self):
        process = self.ork("bench", self.pack(), "-p", "1", "-n", "0", "-d", str(1 << 24), "-r", "1", code=1)
        self.assertEqual(process.stdout, "")


if __name__ == "__main__":
    unittest.main()
