"""--overlay: what is used, late, dropped and why is said in text, JSON and bench rows; the same seed has the same text and
statistics; without results the text is the base's; chains that are never in time rest, but not where all are measured; mistakes
are refused."""

import json
import re
import unittest

from support import SOURCE, ProgramTest

# One token at a time; the NPU for chains alone.
COMMON = ("-no-cnv", "--temp", "0", "-t", "2", "--activation-block", "-1")
SOFT = ("--npu", "soft", "--npu-rows", "100000")
ALL = ("--overlay", "on", "--overlay-all", "--overlay-window", "100000")
SOME = ("--overlay", "on", "--overlay-all", "--overlay-window", "500")
COUNTS = ("planned", "submitted", "busy", "rested", "in_time", "late", "faulted", "bytes")
FIELDS = {"mode", "on", "why", "chains", "resident_bytes", "sensitive_bytes", "hit_rate", *COUNTS}


class Overlay(ProgramTest):
    def answer(self, *arguments, tier="n8", tokens=12, **more):
        return self.json("run", self.pack(tier), *COMMON, "-p", "The old house", "-n", tokens, *arguments, **more)

    def check(self, overlay):
        self.assertEqual(set(overlay), FIELDS)
        self.assertEqual(overlay["planned"], overlay["submitted"] + overlay["busy"] + overlay["rested"])
        self.assertEqual(overlay["submitted"], overlay["in_time"] + overlay["late"] + overlay["faulted"])
        wanted = overlay["in_time"] / overlay["submitted"] if overlay["submitted"] else 0
        self.assertAlmostEqual(overlay["hit_rate"], wanted, delta=1e-6)
        return overlay

    def test_all_in_time(self):
        overlay = self.check(self.answer(*SOFT, *ALL)["npu"]["overlay"])
        self.assertEqual((overlay["mode"], overlay["on"], overlay["why"]), ("on", True, ""))
        self.assertEqual((overlay["hit_rate"], overlay["in_time"]), (1, overlay["planned"]))
        self.assertGreater(overlay["chains"], 10)
        self.assertEqual(overlay["planned"] % overlay["chains"], 0)  # whole tokens
        self.assertLess(overlay["resident_bytes"], overlay["sensitive_bytes"])  # of which experts are a part
        self.assertEqual(overlay["bytes"], overlay["resident_bytes"] * overlay["planned"] // overlay["chains"])

    def test_none_in_time(self):
        base = self.answer("--nested", "base")["text"]
        for mode in (("on",), ("late",), ("late", "--overlay-layers", "1")):
            result = self.answer(*SOFT, "--overlay", *mode, "--overlay-all", "--overlay-window", "1")
            overlay = self.check(result["npu"]["overlay"])
            self.assertEqual(result["text"], base)
            self.assertEqual((overlay["in_time"], overlay["bytes"], overlay["hit_rate"]), (0, 0, 0))
            self.assertGreater(overlay["late"], 0)

    def test_off(self):
        overlay = self.check(self.answer(*SOFT)["npu"]["overlay"])
        self.assertEqual((overlay["mode"], overlay["on"], overlay["why"], overlay["planned"]), ("off", False, "", 0))
        self.assertNotIn("overlay", self.ork("run", self.pack("n8"), *COMMON, "-p", "a", "-n", "1", *SOFT, "--stats").stderr)

    def test_the_seed_alone(self):
        outcomes = []
        for mode in (SOME, ("--overlay", "late", *SOME[2:])):
            for script in ("seed=1;late:p=0.3,us=3000,from=40",
                           "seed=2;late:p=0.3,us=3000,from=40;flip:p=0.02,from=40;never:p=0.01,from=40"):
                one, two = (self.answer(*SOFT, *mode, "--npu-faults", script) for _ in range(2))
                self.assertEqual(one["text"], two["text"])
                self.assertEqual(one["npu"]["overlay"], two["npu"]["overlay"])
                overlay = self.check(one["npu"]["overlay"])
                self.assertTrue(0 < overlay["in_time"] < overlay["planned"], overlay)
                outcomes.append([overlay[name] for name in COUNTS])
        self.assertEqual(len({tuple(outcome) for outcome in outcomes}), len(outcomes))

    def test_rests(self):
        board = json.loads((SOURCE / "boards" / "rk3588.json").read_text(encoding="utf-8"))
        for key in ("submit_us", "complete_us", "task_us", "host_call_us", "host_core_us"):
            board["npu"][key]["value"] = 0.3
        figures = self.folder / "quick.json"
        figures.write_text(json.dumps(board), encoding="utf-8")
        base = self.answer("--nested", "base", tokens=60)["text"]
        quick = (*SOFT, "--npu-board", figures, "--overlay", "on")
        late = ("--npu-faults", "late:us=50")
        good = self.check(self.answer(*quick, tokens=60)["npu"]["overlay"])
        self.assertGreater(good["chains"], 0)
        self.assertEqual((good["rested"], good["in_time"]), (0, good["planned"]))
        one, two = (self.answer(*quick, *late, tokens=60) for _ in range(2))
        rested = self.check(one["npu"]["overlay"])
        self.assertEqual(one["text"], base)
        self.assertEqual(rested, two["npu"]["overlay"])
        self.assertEqual((rested["in_time"], rested["planned"]), (0, good["planned"]))
        self.assertGreater(rested["rested"], rested["planned"] / 2)
        # Measurements have every chain begun.
        for all_of_them in (("--overlay-all",), ("--overlay-window", "1")):
            self.assertEqual(self.check(self.answer(*quick, *late, *all_of_them, tokens=60)["npu"]["overlay"])["rested"], 0)

    def test_in_words(self):
        errors = self.ork("run", self.pack("n8"), *COMMON, "-p", "a", "-n", "5", *SOFT, *ALL, "--stats").stderr
        said = re.search(r"(?m)^ork: overlay: (\d+) chains a token, (\S+ \S+) of (\S+ \S+) sensitive weights; (\d+) planned, "
                         r"(\d+) submitted, (\d+) in time \(100\.0 %\), 0 late, 0 faulted, 0 found the NPU busy, 0 rested; "
                         r"\S+ \S+ of int8 weights used$", errors)
        self.assertTrue(said, errors)
        self.assertEqual(len({said.group(4), said.group(5), said.group(6)}), 1)
        self.assertEqual(int(said.group(4)) % int(said.group(1)), 0)

    def test_none_is_said(self):
        for arguments, tier, why in ((SOFT, "i8", "no matrices in tier n8"), ((*SOFT, "--npu-faults", "memory:from=40"), "n8", ""),
                                     ((*SOFT, "--npu-memory", "1"), "n8", "")):
            process = self.ork("run", self.pack(tier), *COMMON, "-p", "a", "-n", "2", *arguments, *ALL, "--json")
            overlay = json.loads(process.stdout)["npu"]["overlay"]
            self.assertEqual(set(overlay), FIELDS)
            if overlay["on"]:  # a smaller plan that fits
                self.assertLess(overlay["resident_bytes"], overlay["sensitive_bytes"])
                continue
            self.assertIn(why, overlay["why"])
            self.assertTrue(overlay["why"])
            self.assertIn(f"no overlay, decoding has what the CPU computes: {overlay['why']}", process.stderr)
        self.assertIn("no matrices in tier n8",
                      self.refused("run", self.pack("i8"), *COMMON, "-p", "a", "-n", "2", *SOFT, *ALL, "--npu-required", code=4))

    def test_real_time(self):
        # On a busy machine the threads that play the NPU may not get a core for long.
        overlay = self.check(self.answer(*SOFT, "--npu-real-time", "--npu-timeout", "20000000", "--overlay", "on",
                                         "--overlay-all")["npu"]["overlay"])
        self.assertTrue(overlay["on"])
        self.assertGreater(overlay["planned"], 0)

    def test_bench(self):
        names = ["overlay_" + name for name in ("planned", "submitted", "busy", "rested", "in_time", "late", "faulted", "bytes")]
        arguments = ("bench", self.pack("n8"), "-p", "8", "-n", "4", "-r", "1", "-t", "1", "-o", "json")
        prompt, decoding = json.loads(self.ork(*arguments, *SOFT, *ALL).stdout)
        self.assertEqual([prompt[name] for name in names], [0] * len(names))
        self.assertEqual(decoding["overlay_planned"], decoding["overlay_in_time"])
        self.assertEqual(decoding["overlay_planned"], decoding["overlay_submitted"])
        self.assertGreater(decoding["overlay_bytes"], decoding["overlay_planned"])
        for row in json.loads(self.ork(*arguments, *SOFT).stdout):
            self.assertEqual([row[name] for name in names], [0] * len(names))

    def test_mistakes_are_refused(self):
        for arguments, word in ((("--overlay", "on"), "--overlay needs --npu"), ((*SOFT, "--overlay", "maybe"), "'maybe'"),
                                ((*SOFT, "--overlay-all"), "--overlay-all needs --overlay"),
                                ((*SOFT, "--overlay-window", "9"), "--overlay-window needs --overlay"),
                                ((*SOFT, "--overlay-layers", "2"), "--overlay-layers needs --overlay"),
                                ((*SOFT, "--overlay", "on", "--overlay-layers", "2"), "--overlay-layers needs --overlay late"),
                                ((*SOFT, "--overlay", "late", "--overlay-layers", "65"), "--overlay-layers"),
                                ((*SOFT, "--overlay", "on", "--nested", "full"), "--nested full"),
                                ((*SOFT, "--overlay", "late", "--overlay-layers", "0"), "--overlay-layers"),
                                ((*SOFT, *ALL[:3], "--overlay-window", "0"), "--overlay-window"),
                                ((*SOFT, *ALL[:3], "--overlay-window", "1000001"), "--overlay-window"),
                                (("--npu-real-time",), "--npu-real-time is for --npu soft"),
                                (("--npu", "rocket", "--npu-real-time"), "--npu-real-time is for --npu soft")):
            for command in (("run", self.pack("n8"), "-p", "a", "-n", "1"), ("bench", self.pack("n8"), "-n", "1", "-r", "1")):
                self.assertIn(word, self.refused(*command, *arguments, code=2))
        self.assertIn("maybe", self.refused("run", self.pack("n8"), "-p", "a", "-n", "1", *SOFT, code=2, env={"ORK_OVERLAY": "maybe"}))

    def test_from_the_environment(self):
        self.assertTrue(self.answer(*SOFT, *ALL[2:], env={"ORK_OVERLAY": "on"})["npu"]["overlay"]["on"])


if __name__ == "__main__":
    unittest.main()
