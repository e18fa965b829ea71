"""--npu: prompts through the software NPU give the CPU's text and perplexity, faults change nothing but the counters, and
whatever the NPU did not do is said."""

import json
import os
import pathlib
import re
import unittest

from support import HELD_OUT, ProgramTest

ROWS = ("--activation-block", "-1")
# By its figures alone the NPU would be given little of a model as small as the demo.
SOFT = ("--npu", "soft", "--npu-rows", "32")
STORM = ("seed=7;late:p=0.02,from=200;stop:p=0.02,after=1,from=200;flip:p=0.02,words=3,from=200;never:p=0.01,from=200;"
         "refuse:p=0.01,from=200")
FAULTS = {"storm": STORM, "dead core": "dead:core=1,from=200", "wedged": "wedge:from=200,every=50",
          "no resets": "reset-fails;never:from=200,p=0.05", "wrong": "constant:from=200,every=7;tail:from=200,every=11"}


class Prefill(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prompt = cls.folder / "prompt.txt"
        cls.prompt.write_bytes(pathlib.Path(HELD_OUT).read_bytes()[:3000])
        cls.alone = {}

    def answer(self, tier, *arguments, **more):
        return self.json("run", self.pack(tier), "-no-cnv", "-f", self.prompt, "--temp", "0", "-n", "20", "-c", "2048",
                         "-t", "2", *arguments, **more)

    def perplexity(self, tier, *arguments, **more):
        return self.json("perplexity", self.pack(tier), "-f", HELD_OUT, "-c", "256", "--chunks", "3", "-t", "2",
                         *arguments, **more)

    def on_cpu(self, tier):
        if tier not in self.alone:
            self.alone[tier] = (self.answer(tier, *ROWS)["text"], self.perplexity(tier, *ROWS))
            self.assertIsNone(self.alone[tier][1]["npu"])
        return self.alone[tier]

    def check_same(self, tier, *arguments):
        """Text and all digits of the perplexity are the CPU's; returns what both reports say of the NPU."""
        text, wanted = self.on_cpu(tier)
        answer = self.answer(tier, *ROWS, *arguments)
        result = self.perplexity(tier, *ROWS, *arguments)
        self.assertEqual(answer["text"], text)
        for key in ("perplexity", "perplexity_error", "mean_nll", "tokens"):
            self.assertEqual(result[key], wanted[key], (tier, key, arguments))
        return answer["npu"], result["npu"]

    def test_same_text_and_perplexity(self):
        for tier in ("i8", "auto", "n8"):
            for npu in self.check_same(tier, *SOFT, "--npu-required"):
                self.assertEqual((npu["name"], npu["used"], npu["off"], npu["why"]), ("soft", True, False, ""))
                self.assertGreater(npu["share"], 0.9)
                self.assertLessEqual(npu["share"], 1)
                self.assertGreaterEqual(npu["multiply_adds"], npu["session_multiply_adds"])
                self.assertAlmostEqual(npu["share"], npu["session_multiply_adds"] / npu["session_batch_multiply_adds"], delta=1e-8)
                for trouble in ("declined", "redone", "late", "never_started", "stopped", "failed_checks", "resets"):
                    self.assertEqual(npu[trouble], 0, trouble)

    def test_faults_change_nothing_but_the_counters(self):
        for name, script in FAULTS.items():
            for npu in self.check_same("auto", *SOFT, "--npu-faults", script):
                self.assertGreater(npu["redone"] + npu["declined"], 0, name)
                self.assertLess(npu["share"], 1, name)
                self.assertGreater(npu["late"] + npu["never_started"] + npu["stopped"] + npu["failed_checks"] +
                                   npu["refused_submits"], 0, name)

    def test_weights_are_swapped_where_memory_is_short(self):
        for npu in self.check_same("auto", *SOFT, "--npu-memory", "2"):
            self.assertGreater(npu["share"], 0)
            self.assertLessEqual(npu["resident_bytes"], 2 << 20)
            self.assertGreater(npu["declined"], 0)  # what is not there yet when it is wanted

    def test_the_drivers_of_the_kernel(self):
        """The real code of both drivers, on kernels that a preloaded library plays."""
        shim = os.environ.get("ORK_NPU_SHIM")
        if not shim or os.environ.get("ORK_EMULATOR"):
            self.skipTest("no library that can be preloaded into the program")
        _, wanted = self.on_cpu("auto")
        for driver in ("rknpu", "rocket"):
            for kind in (driver, "auto"):
                # Time is real here: on a busy machine the played hardware may not get a core for long.
                result = self.perplexity("auto", *ROWS, "--npu", kind, "--npu-rows", "32",
                                         "--npu-timeout", "20000000",
                                         env={"LD_PRELOAD": shim, "ORK_SHIM": driver})
                self.assertEqual(result["npu"]["name"], driver)
                self.assertGreater(result["npu"]["share"], 0.01)
                for key in ("perplexity", "perplexity_error", "mean_nll", "tokens"):
                    self.assertEqual(result[key], wanted[key], (driver, key))

    def test_one_core_and_many_rows(self):
        npu, _ = self.check_same("auto", *SOFT, "--npu-cores", "1")
        self.assertEqual(npu["cores"], 1)
        npu, _ = self.check_same("i8", "--npu", "soft", "--npu-rows", "100000")
        self.assertEqual((npu["share"], npu["session_multiply_adds"]), (0, 0))

    def test_what_was_not_done_is_said(self):
        errors = self.ork("run", self.pack(), "-no-cnv", "-f", self.prompt, "-n", "1", "-c", "2048", *SOFT,
                          "--stats").stderr
        self.assertRegex(errors, r"NPU soft: \d+\.\d % of the multiply-adds")
        self.assertNotIn("less than asked", errors)
        errors = self.ork("perplexity", self.pack(), "-f", HELD_OUT, "-c", "256", "--chunks", "16", *SOFT,
                          "--npu-faults", "flip:from=150").stderr
        self.assertRegex(errors, r"NPU did less than asked: .*wrong results \d+")
        self.assertIn("switched itself off", errors)

    def test_no_npu_here(self):
        for kind in ("rknpu", "rocket", "auto"):
            result = self.perplexity("auto", "--npu", kind, env={"ORK_NPU": None})
            self.assertEqual((result["npu"]["used"], result["npu"]["share"]), (False, 0))
            self.assertTrue(result["npu"]["why"])
            self.assertEqual(result["perplexity"], self.perplexity("auto")["perplexity"])
            self.assertIn("NPU", self.refused("run", self.pack(), "-p", "a", "-n", "1", "--npu", kind, "--npu-required", code=4))
        process = self.ork("run", self.pack(), "-no-cnv", "-p", "a", "-n", "1", env={"ORK_NPU": "rknpu"})
        self.assertEqual(len(re.findall(r"(?m)^ork: no NPU, the CPU computes everything: ", process.stderr)), 1)

    def test_required_means_that_it_works(self):
        arguments = ("perplexity", self.pack(), "-f", HELD_OUT, "-c", "256", "--chunks", "2", *SOFT, "--npu-required")
        self.assertIn("computed nothing", self.ork(*arguments, "--npu-rows", "100000", code=4).stderr)
        self.assertIn("off", self.ork(*arguments, "--chunks", "16", "--npu-faults", "dead:from=150", code=4).stderr)
        self.assertIn("self-test", self.ork(*arguments, "--npu-faults", "flip:from=0", code=4).stderr)
        self.ork("perplexity", self.pack("f32"), *arguments[2:], code=4)

    def test_bench(self):
        arguments = ("bench", self.pack(), "-p", "128", "-n", "4", "-r", "1", "-t", "1")
        rows = json.loads(self.ork(*arguments, *SOFT, "-o", "json").stdout)
        self.assertGreater(rows[0]["npu_share"], 0.5)
        self.assertEqual([row["backends"] for row in rows], ["CPU,NPU", "CPU"])
        self.assertEqual([row["npu"] for row in rows], ["soft", "soft"])
        self.assertEqual(rows[1]["npu_share"], 0)
        rows = json.loads(self.ork(*arguments, "-o", "json").stdout)
        self.assertEqual([(row["npu"], row["npu_share"], row["backends"]) for row in rows], [("off", 0, "CPU")] * 2)
        lines = self.ork(*arguments, *SOFT).stdout.splitlines()
        self.assertRegex(lines[2], r"soft \d+\.\d %")
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_mistakes_are_refused(self):
        model = self.pack()
        for arguments, word, code in ((("--npu", "gpu"), "'gpu'", 2), (("--npu-required",), "--npu", 2),
                                      (("--calibration", "x"), "--calibration", 2),
                                      (("--npu", "soft", "--calibration", "nosuch"), "nosuch", 3),
                                      (("--npu", "soft", "--calibration", str(HELD_OUT)), "", 3),
                                      (("--npu-faults", "late:p=1"), "--npu-faults", 2),
                                      (("--npu", "rocket", "--npu-board", "x"), "--npu-board", 2),
                                      (("--npu", "soft", "--npu-board", "nosuch"), "nosuch", 3),
                                      (("--npu", "soft", "--npu-board", str(HELD_OUT)), "", 3),
                                      (("--npu", "soft", "--npu-faults", "nonsense"), "nonsense", 2),
                                      (("--npu", "soft", "--npu-cores", "4"), "--npu-cores", 2),
                                      (("--npu", "soft", "--npu-memory", "-1"), "--npu-memory", 2)):
            for command in (("run", model, "-p", "a", "-n", "1"), ("bench", model, "-p", "2", "-n", "0", "-r", "1")):
                self.assertIn(word, self.refused(*command, *arguments, code=code))


if __name__ == "__main__":
    unittest.main()
