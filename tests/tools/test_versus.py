"""Guards bench/versus.py: which runs are made, the ratios and fractions out of them, that a failing or absent peer is named, and
that table, JSON and plot are well-formed. The engines are small scripts with known speeds, so every figure can be foretold."""

import itertools
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ.get("ORK_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "bench"))

import bench_common  # noqa: E402
import versus_models  # noqa: E402
import versus_plot  # noqa: E402
import versus_report  # noqa: E402

# A program that answers as ork or as a llama-bench: speeds are given by WORDS of its command line.
PROGRAM = """#!{python}
import json, pathlib, sys, time
SPEEDS, SLOW, BROKEN, LOG = {speeds!r}, {slow!r}, {broken!r}, pathlib.Path({log!r})
words = sys.argv[1:]
line = " ".join(words)
with LOG.open("a") as log:
    log.write("{name} " + line + "\\n")
def option(name):
    return words[words.index(name) + 1]
if words[0] == "pack":
    pathlib.Path(words[-1]).write_bytes(b"pack")
elif words[0] == "info":
    size = 1000000 if words[-1].endswith("orkpack") else 2000000
    tensors = [("blk.0.ffn_up_exps.weight", [100, 50, 8]), ("blk.0.attn_q.weight", [100, 10]), ("blk.0.attn_norm.weight", [100]),
               ("blk.0.shortconv.conv.weight", [3, 100]), ("token_embd.weight", [100, 1000])]
    print(json.dumps(dict(bytes_per_token=size, file_size_bytes=size * 4, experts=8, experts_used=2,
                          tensors=[dict(name=name, shape=shape) for name, shape in tensors])))
elif words[0] == "probe":
    print(json.dumps(dict(ceiling=[dict(gb_per_s=1.0)], compute=[dict(kernel="float", gmac_per_s=1.0),
                                                                 dict(kernel="int8 dot", gmac_per_s=0.5)])))
else:
    if SLOW and SLOW in line:
        time.sleep(600)
    if BROKEN and BROKEN in line:
        sys.exit("GGML_ASSERT(broken) failed")
    speed = next((value for key, value in SPEEDS.items() if key in line), 100.0)
    rows = [dict(n_prompt=int(count), n_gen=0, samples_ts=[speed * 10]) for count in option("-p").split(",") if int(count)]
    if int(option("-n")):
        rows.append(dict(n_prompt=0, n_gen=int(option("-n")), samples_ts=[speed * 0.9, speed, speed * 1.1]))
    print("a line before the rows")
    print(json.dumps(rows, indent=1))
"""


class Versus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ork-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.model = self.folder / "small.gguf"
        self.model.write_bytes(b"GGUF")

    def program(self, name, speeds=None, slow="", broken=""):
        folder = self.folder / name
        folder.mkdir()
        path = folder / ("ork" if name == "ork" else "llama-bench")
        path.write_text(PROGRAM.format(python=sys.executable, speeds=speeds or {}, slow=slow, broken=broken, log=str(self.log),
                                       name=name), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return folder

    def versus(self, *words, code=0):
        environment = {**os.environ, "ORK_CACHE_DIR": str(self.folder / "cache")}
        for name in ("ORK_PEER_LIBRARY", "ORK_PEER_IK"):
            environment.pop(name, None)
        run = subprocess.run([sys.executable, "-B", SOURCE / "bench/versus.py", "--ork", self.folder / "ork/ork", "--json",
                              self.folder / "versus.json", "--output", self.folder / "page.md", *map(str, words)],
                             capture_output=True, text=True, check=False, timeout=600, env=environment)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def results(self):
        return json.loads((self.folder / "versus.json").read_text(encoding="utf-8"))

    def row(self, engine, label, test):
        return next(row for row in self.results()["rows"] if row["engine"] == engine and row["label"].startswith(label)
                    and row["test"] == test and row["threads"] == 2)

    def test_ratios_fractions_and_the_best_mode(self):
        self.program("ork", {"nf4": 400.0, "i8": 200.0})
        llama = self.program("llama", {"-lm mmap": 150.0, "-lm none": 100.0})
        ik = self.program("ik", {"-mmp 0": 50.0, "-thp 1": 160.0, "-rtr 1": 120.0})
        (self.folder / "page.md").write_text("# Page\n\n<!-- versus: begin -->\nold\n<!-- versus: end -->\n\nafter\n")
        self.versus(self.model, "--llama", llama, "--ik", ik, "--rounds", 2)
        decoding = self.row("ork", "nf4", "tg")
        # 400 tokens/s against 150 of the mapped mode and 160 of the one with huge pages; 1 MB a token at 1 GB/s of memory.
        self.assertAlmostEqual(decoding["ratios"]["llama.cpp"]["median"], 400 / 150)
        self.assertAlmostEqual(decoding["ratios"]["ik_llama.cpp"]["median"], 400 / 160)
        self.assertAlmostEqual(decoding["fraction"], 0.4)
        self.assertEqual(decoding["rounds"], 2)
        # 100 x 50 x 8 of 2 in 8 experts, and 100 x 10: 11,000 multiply-accumulates; norms, convolution, embedding are none.
        prompt = self.row("ork", "nf4", "pp")
        self.assertEqual(prompt["cost"], 11000)
        self.assertAlmostEqual(prompt["fraction"], 4000 * 11000 / 1e9 / 0.5)
        self.assertIn("mapped", self.row("llama.cpp", "", "tg")["label"])
        self.assertIn("huge pages", self.row("ik_llama.cpp", "", "tg")["label"])
        page = (self.folder / "page.md").read_text(encoding="utf-8")
        self.assertNotIn("old", page)
        self.assertTrue(page.startswith("# Page") and page.rstrip().endswith("after"))
        tables = [line for line in page.splitlines() if line.startswith("|")]
        self.assertEqual({line.count("|") for line in tables}, {10})
        self.assertIn("](versus.svg)", page)
        picture = xml.etree.ElementTree.parse(self.folder / "versus.svg").getroot()
        titles = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("small, ork nf4: 400 tokens/s, 1 MB a token", titles)

    def runs(self):
        """The engines in the order of their runs; runs that were made again because the machine was busy count once."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        names = [line.split()[0] for line in lines if line.startswith(("ork bench", "llama"))]
        return [name for name, _ in itertools.groupby(names)]

    def test_engines_take_turns_and_choices_are_remembered(self):
        self.program("ork")
        llama = self.program("llama")
        words = (self.model, "--llama", llama, "--peers", "llama.cpp", "-t", 2, "--tiers", "nf4")
        self.versus(*words, "--rounds", 2)
        self.assertEqual(self.runs(), ["llama", "ork", "llama", "ork", "llama"])  # the trials first
        self.log.unlink()
        self.versus(*words, "--rounds", 1)
        self.assertEqual(self.runs(), ["ork", "llama"])

    def test_what_fails_is_named(self):
        self.program("ork", broken="i8")
        llama, ik = self.program("llama", slow="small.gguf"), self.program("ik", broken="-rtr")
        self.versus(self.model, "--llama", llama, "--ik", ik, "-t", 2, "--rounds", 1, "--timeout", 10)
        page = (self.folder / "page.md").read_text(encoding="utf-8")
        self.assertRegex(page, r"llama\.cpp \| missing: took more than 10 s")
        self.assertRegex(page, r"ik_llama\.cpp \| missing: .*GGML_ASSERT\(broken\) failed")
        self.assertRegex(page, r"ork i8 \| missing: .*GGML_ASSERT")
        (self.folder / "cache/bench/versus-choices.json").unlink(missing_ok=True)
        self.versus(self.model, "-t", 2, "--rounds", 1)
        self.assertRegex((self.folder / "page.md").read_text(encoding="utf-8"), r"llama\.cpp \| missing: there is no build of it")

    def test_a_run_without_end_is_ended(self):
        self.program("ork", slow="bench")
        started = time.monotonic()
        self.versus(self.model, "--peers", "--rounds", 1, "--timeout", 1, "-t", 1, "--tiers", "nf4", code=1)
        self.assertLess(time.monotonic() - started, 300)

    def test_time_ends_the_rounds(self):
        self.program("ork")
        self.versus(self.model, "--peers", "--rounds", 50, "--minutes", 0.001, "-t", 2, "--tiers", "nf4")
        self.assertEqual(self.row("ork", "nf4", "tg")["rounds"], 1)

    def test_wrong_names(self):
        self.program("ork")
        self.assertIn("no such model: nothing", self.versus("nothing", code=1).stderr)
        self.assertIn("no such file: none.gguf", self.versus("none.gguf", code=1).stderr)


class Bystanders(unittest.TestCase):
    def test_own_work_does_not_count_and_that_of_others_does(self):
        spin = [sys.executable, "-c", "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"]
        own = bench_common.Bystanders()
        subprocess.run(spin, check=True)
        before = bench_common.Bystanders()
        other = subprocess.Popen(spin)
        try:
            # Not waited for while it is looked at: its time is nobody's yet.
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
            seen = before.cores() * (time.monotonic() - before.started)
        finally:
            other.wait()
        self.assertGreater(seen, 0.4)
        self.assertGreaterEqual(own.cores(), 0.0)


class Watch(unittest.TestCase):
    def test_a_long_answer_stops_nothing_and_memory_is_seen(self):
        result, seen = bench_common.watch([sys.executable, "-c", "import time; print('\"' + 'a' * 1000000 + '\"'); time.sleep(0.5)"], 120)
        self.assertEqual(len(result), 1000000)
        self.assertTrue(seen and all(memory["Rss"] > 1 << 20 for _, memory in seen[1:]))

    def test_failure_and_time(self):
        with self.assertRaisesRegex(bench_common.BenchError, "ended with 3: .*error: no"):
            bench_common.watch([sys.executable, "-c", "import sys; print('error: no', file=sys.stderr); sys.exit(3)"], 120)
        with self.assertRaisesRegex(bench_common.BenchError, "took more than 1 s"):
            bench_common.watch([sys.executable, "-c", "import time; time.sleep(60)"], 1)


class Report(unittest.TestCase):
    def test_a_stand_in_is_scaled_and_marked(self):
        real = versus_models.Comparison("real", "Real", ("nf4",), {}, stand_in="other")
        other = versus_models.Comparison("other", "Other", ("nf4",), {})

        def sample(comparison, engine, label, rate):
            return {"comparison": comparison, "engine": engine, "label": label, "threads": 1, "round": 1, "test": "tg",
                    "rate": rate, "read_gb_per_s": 50.0, "dot_gmac_per_s": None}
        samples = [sample("real", "ork", "nf4", 90.0), sample("real", "llama.cpp", "Q4_0, copied", 30.0),
                   sample("other", "ik_llama.cpp", "Q4_0, repacked", 50.0)]
        costs = {"real": {("ork", "nf4"): {"bytes_per_token": 100, "macs_per_token": 1},
                          ("llama.cpp", "Q4_0, copied"): {"bytes_per_token": 125, "macs_per_token": 1}},
                 "other": {("ik_llama.cpp", "Q4_0, repacked"): {"bytes_per_token": 100, "macs_per_token": 1}}}
        rows = versus_report.rows_of(samples, costs, {}, [real, other], [1])
        ours = next(row for row in rows if row.engine == "ork")
        # 50 tokens/s of 100 bytes are 40 of 125.
        self.assertAlmostEqual(ours.ratios["ik_llama.cpp"].median, 90 / 40)
        self.assertTrue(ours.ratios["ik_llama.cpp"].scaled)
        self.assertTrue(versus_report.line(ours, "Real").rstrip(" |").endswith("*"))
        self.assertFalse(next(row for row in rows if row.comparison == "other").scaled)

    def test_plot_of_odd_names_and_one_point(self):
        text = versus_plot.draw([(1, None, [("a<b&c", "ork nf4", 1e6, 10.0)]), (2, 50.0, [])], "machine <x>")
        self.assertEqual(xml.etree.ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertEqual(versus_plot.draw([(1, 1.0, [])], ""), "")

    def test_every_comparison_can_be_made(self):
        names = [comparison.name for comparison in versus_models.known()]
        self.assertEqual(len(names), len(set(names)))
        for comparison in versus_models.known():
            self.assertTrue(comparison.plans and comparison.tiers)
            self.assertIn(comparison.stand_in, ["", *names])
            self.assertTrue(bool(comparison.shape) != bool(comparison.source))


if __name__ == "__main__":
    unittest.main()
