"""ork probe: the forms of its output, and what it refuses. Speeds are not judged: machines differ and are shared."""

import resource
import subprocess
import unittest

from support import COMMAND, DEMO, TIMEOUT, ProgramTest, environment

SMALL = ("--size", "2", "-r", "1")
PAGES = {"4k", "huge", "file"}
INTEGER_TIERS = {"g8", "i8", "i4", "nf4"}  # at least


class Bandwidth(ProgramTest):
    def check_read(self, read, median):
        self.assertIn(read["pages"], PAGES)
        self.assertIn(read["streams"], (1, 2, 4, 8, 16))
        self.assertIn(read["prefetch_bytes"], (0, 1024, 4096))
        self.assertGreater(read[median], 0)
        self.assertGreaterEqual(read["best_gb_per_s"], read[median])

    def test_json(self):
        report = self.json("probe", "bandwidth", "-t", "1,2", *SMALL)
        self.assertEqual(set(report), {"machine", "read", "ceiling", "tiers"})
        self.assertEqual(report["machine"]["buffer_bytes"], 2 << 20)
        for read in report["read"]:
            self.assertEqual(set(read), {"threads", "streams", "pages", "prefetch_bytes", "best_gb_per_s", "median_gb_per_s"})
            self.check_read(read, "median_gb_per_s")
        self.assertEqual([ceiling["threads"] for ceiling in report["ceiling"]], [1, 2])
        for ceiling in report["ceiling"]:
            self.check_read(ceiling, "gb_per_s")
            rates = [read["median_gb_per_s"] for read in report["read"] if read["threads"] == ceiling["threads"]]
            self.assertEqual(max(rates), ceiling["gb_per_s"])
        self.assertLessEqual(INTEGER_TIERS, {tier["tier"] for tier in report["tiers"]})
        for tier in report["tiers"]:
            self.assertEqual(set(tier), {"tier", "threads", "gb_per_s", "fraction"})
            self.assertGreater(tier["gb_per_s"], 0)
            self.assertGreater(tier["fraction"], 0)

    def test_quick(self):
        report = self.json("probe", "bandwidth", "-t", "1", "--size", "2", "--quick")
        self.assertEqual(len(report["ceiling"]), 1)
        self.assertEqual(report["tiers"], [])

    def test_text(self):
        process = self.ork("probe", "bandwidth", "-t", "1", "--tier", "nf4", *SMALL)
        self.assertRegex(process.stdout, r"(?m)^threads  pages +prefetch +1 stream +2 streams +4 streams +8 streams +16 streams$")
        self.assertRegex(process.stdout, r"(?m)^ +1  4k +0( +\d+\.\d){5}$")
        self.assertRegex(process.stdout, r"(?m)^nf4 +1 +\d+\.\d +\d+%$")
        self.assertNotIn("i8 ", process.stdout)
        self.assertIn("may lie in the caches", process.stderr)

    def test_a_mapped_file(self):
        report = self.json("probe", "bandwidth", "-t", "1", "-m", self.pack(), "--quick", "--size", "2")
        self.assertIn("file", {read["pages"] for read in report["read"]})
        self.assertIn("file", {read["pages"] for read in self.json("probe", "bandwidth", "-t1", "-m", DEMO, *SMALL)["read"]})

    def test_refusals(self):
        for arguments, word in ((("-t", "0"), "-t"), (("-t", "300"), "-t"), (("-t", "1-64"), "64 thread counts"),
                                (("--size", "0"), "--size"), (("--size", "16000000"), "available"),
                                (("--size", "1", "-t", "2"), "1 MiB each"), (("-r", "0"), "-r"), (("--tier", "i9"), "'i9'"),
                                (("--tier", "f16"), "f16"), (("-m", "a", "-m", "b"), "two models"), (("-C", "0"), "-C")):
            self.assertIn(word, self.refused("probe", "bandwidth", *arguments, code=2))
        self.assertIn("nosuch", self.refused("probe", "bandwidth", "-m", "nosuch.orkpack", code=3))
        path = self.folder / "text"
        path.write_text("no pack")
        self.refused("probe", "bandwidth", "-m", path, code=3)
        self.assertIn("bandwidth or compute?", self.refused("probe", code=2))
        self.assertIn("'disk'", self.refused("probe", "disk", code=2))

    def test_short_memory_is_said(self):
        """An address space too small for the buffer; sanitizers need more than that for themselves."""
        limit = 400 << 20

        def shorten():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        def run(*arguments):
            return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment(self.folder),
                                  preexec_fn=shorten, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False)

        if run("version").returncode != 0:
            self.skipTest("the program does not start in 400 MiB of address space")
        process = run("probe", "bandwidth", "--size", "600", "-t", "1")
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertIn("memory", process.stderr)
        self.assertEqual(process.stdout, "")


class Compute(ProgramTest):
    def test_json(self):
        report = self.json("probe", "compute", "-t", "1,2", "-r", "1")
        self.assertEqual(set(report), {"machine", "compute", "tiers"})
        self.assertEqual([(peak["kernel"], peak["threads"]) for peak in report["compute"]],
                         [(kernel, threads) for threads in (1, 2) for kernel in ("int8 dot", "float multiply-add")])
        for peak in report["compute"]:
            self.assertEqual(peak["isa"], report["machine"]["kernels"])
            self.assertGreater(peak["gmac_per_s"], 0)
        self.assertLessEqual(INTEGER_TIERS, {tier["tier"] for tier in report["tiers"]})
        for tier in report["tiers"]:
            self.assertEqual(set(tier), {"tier", "threads", "m", "gmac_per_s", "fraction"})
            self.assertEqual(tier["m"], 64)

    def test_quick_and_the_mask(self):
        report = self.json("probe", "compute", "-t", "1", "--quick", env={"ORK_CPU_MASK": "scalar"})
        self.assertEqual({peak["isa"] for peak in report["compute"]}, {"scalar"})
        self.assertEqual(report["tiers"], [])

    def test_text(self):
        text = self.ork("probe", "compute", "-t", "1", "-r", "1", "--tier", "i8").stdout
        self.assertRegex(text, r"(?m)^int8 dot +1 +\d+\.\d +\d+\.\d  \S")
        self.assertRegex(text, r"(?m)^i8 +1 +\d+\.\d +\d+%$")

    def test_refusals(self):
        self.assertIn("--size", self.refused("probe", "compute", "--size", "5", code=2))
        self.assertIn("-m", self.refused("probe", "compute", "-m", DEMO, code=2))
        self.assertIn("'q4'", self.refused("probe", "compute", "--tier", "q4", code=2))


if __name__ == "__main__":
    unittest.main()
