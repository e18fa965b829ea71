"""ork explain and ork calibrate: the forms of their output, that totals are those of the card, and what they refuse. Speeds
are not judged: machines differ and are shared."""

import json
import unittest

from support import HELD_OUT, SOURCE, ProgramTest

GROUP = {"group", "layer", "tier", "bytes", "sensitivity", "route", "limit", "why_not_npu", "predicted_us", "cpu_us", "npu_us",
         "npu_rows_min", "matrices", "overlay"}


class Explain(ProgramTest):
    def test_totals(self):
        pack = self.pack()
        report = self.json("explain", pack, "--npu-board", "rk3588")
        self.assertEqual(report["bytes_per_token"], self.json("info", pack)["bytes_per_token"])
        self.assertEqual(report["group_bytes"], sum(group["bytes"] for group in report["groups"]))
        self.assertGreater(report["decode_tokens_per_second"], 0)
        self.assertGreater(report["prefill_tokens_per_second"], report["decode_tokens_per_second"])
        for group in report["groups"]:
            self.assertEqual(set(group), GROUP)
            self.assertEqual(group["route"], "cpu")
        self.assertLess(sum(group["predicted_us"] for group in report["groups"]), report["predicted_us"])

    def test_rows(self):
        pack = self.pack()
        report = self.json("explain", pack, "--npu-board", "rk3588", "--rows", "4096")
        routes = {group["group"]: group["route"] for group in report["groups"]}
        self.assertEqual(routes["dense up"], "npu")
        self.assertEqual(routes["router"], "cpu")
        self.assertEqual({g["why_not_npu"] for g in report["groups"] if g["group"] == "router"}, {"tier"})
        self.assertGreater(report["npu_share"], 0)

    def test_overlay(self):
        """The demo model is too small for any chain; a board whose NPU costs nothing has room for all that is no stack of
        experts."""
        pack = self.pack("n8")
        report = self.json("explain", pack, "--npu-board", "rk3588", "--overlay", "on")
        self.assertEqual((report["overlay"]["groups"], report["overlay"]["limit"]), (0, "window"))
        self.assertGreater(report["overlay"]["sensitive_bytes"], 1 << 20)
        self.assertRegex(self.ork("explain", pack, "--npu-board", "rk3588", "--overlay", "on").stdout,
                         r"(?m)^overlay: 0 groups with a chain, 0 B of .* left out for: window$")
        board = json.loads((SOURCE / "boards" / "rk3588.json").read_text())
        for key in ("submit_us", "complete_us", "task_us", "host_call_us", "host_core_us"):
            board["npu"][key]["value"] = 0
        board["ork_system"]["region_us"]["value"] = 100
        path = self.folder / "quick.json"
        path.write_text(json.dumps(board))
        report = self.json("explain", pack, "--npu-board", path, "--overlay", "on")
        chains = [group for group in report["groups"] if group["overlay"]]
        self.assertEqual(len(chains), report["overlay"]["groups"])
        self.assertEqual(sum(group["overlay"]["bytes"] for group in chains), report["overlay"]["bytes"])
        self.assertGreater(len(chains), 8)
        self.assertEqual(report["overlay"]["limit"], "not resident")
        self.assertLessEqual(report["decode_tokens_per_second"], report["overlay"]["decode_alone_tokens_per_second"])
        for group in report["groups"]:
            self.assertEqual(group["route"], "cpu+overlay" if group["overlay"] else "cpu")
            if group["overlay"]:
                self.assertLessEqual(group["npu_us"], 0.85 * group["overlay"]["window_us"])
        self.assertIsNone(self.json("explain", pack, "--npu-board", path)["overlay"])
        self.assertIn("no matrix is n8", self.ork("explain", self.pack(), "--npu-board", path, "--overlay", "on").stdout)

    def test_without_figures(self):
        pack = self.pack()
        process = self.ork("explain", pack)
        self.assertIn("guesses", process.stderr)
        self.assertRegex(process.stdout, r"(?m)^figures: assumed")
        self.assertRegex(process.stdout, r"(?m)^predicted: prefill [\d.]+ tokens/s")

    def test_refusals(self):
        pack = self.pack()
        self.refused("explain", code=2)
        self.refused("explain", "nosuch.orkpack", code=3)
        self.refused("explain", pack, "--npu-board", "nosuch", code=3)
        self.refused("explain", pack, "--calibration", "nosuch", code=3)
        self.refused("explain", pack, "--rows", "0", code=2)
        self.assertIn("--npu-board", self.refused("explain", pack, "--npu-board", "rk3588", "--npu", "rknpu", code=2))
        self.assertIn("--calibration", self.refused("explain", pack, "--npu-board", "rk3588", "--calibration", "x", code=2))
        path = self.folder / "bad.json"
        path.write_text("{}")
        self.assertIn("format", self.refused("explain", pack, "--calibration", path, code=3))


class Calibrate(ProgramTest):
    def test_calibration(self):
        path, pack = self.folder / "calibration.json", self.pack()
        figures = self.json("calibrate", "--npu", "soft", "-o", path)
        stored = json.loads(path.read_text())
        self.assertEqual(figures["identity"], stored["identity"])
        self.assertEqual(set(figures["cpu"]), set(stored["cpu"]))
        self.assertEqual(figures["npu"]["cores"], 3)
        self.assertEqual(figures["identity"]["npu_driver"], "soft")
        self.assertEqual((figures["npu"]["chain_fixed_s"], figures["npu"]["chain_bytes_per_s"]), (0, 0))  # nothing to be measured
        for tier in figures["cpu"]["tiers"].values():
            self.assertGreater(tier["bytes_per_s"], 0)
        with_npu = self.json("explain", pack, "--calibration", path, "--npu", "soft", "--rows", "512")
        self.assertEqual(with_npu["figures"], "calibration")
        self.assertTrue(any(group["npu_us"] for group in with_npu["groups"]))
        alone = self.json("explain", pack, "--calibration", path, "--rows", "512")
        self.assertFalse(any(group["npu_us"] for group in alone["groups"]))
        for key, value in (("cpu", "another"), ("kernels", "none"), ("threads", 99), ("ork_version", "9.9.9")):
            changed = json.loads(path.read_text())
            changed["identity"][key] = value
            (self.folder / "other.json").write_text(json.dumps(changed))
            self.assertIn(str(value), self.refused("explain", pack, "--calibration", self.folder / "other.json", code=3))
        self.refused("calibrate", "-o", self.folder / "none" / "c.json", code=1)
        self.check_choice(path, pack)

    def test_in_real_time(self):
        """The figures are those that this machine reaches playing the device, for such devices alone."""
        path, pack = self.folder / "real.json", self.pack()
        figures = self.json("calibrate", "--npu", "soft", "--npu-real-time", "-o", path)
        self.assertEqual(figures["identity"]["npu_driver"], "soft-real-time")
        for key in ("chain_fixed_s", "chain_bytes_per_s"):
            self.assertGreater(figures["npu"][key], 0)
        self.assertGreater(figures["cpu"]["bus_bytes_per_s"], 0)
        explained = self.json("explain", pack, "--calibration", path, "--npu", "soft", "--npu-real-time", "--rows", "512")
        self.assertEqual(explained["figures"], "calibration")
        self.assertTrue(any(group["npu_us"] for group in explained["groups"]))
        self.assertIn("soft-real-time", self.refused("explain", pack, "--calibration", path, "--npu", "soft", code=3))
        for command in (("calibrate",), ("explain", pack)):
            for npu in ((), ("--npu", "off"), ("--npu", "rknpu")):
                self.assertIn("--npu-real-time is for --npu soft", self.refused(*command, *npu, "--npu-real-time", code=2))
        self.assertIn("--npu-board is for --npu soft", self.refused("calibrate", "--npu-board", "rk3588", code=2))
        self.refused("calibrate", "--npu", "soft", "--npu-board", "nosuch", code=3)

    def check_choice(self, path, pack):
        """Which figures a session goes by, and explain: a file that is given or refused; the cache's where it counts."""
        def session(*arguments):
            process = self.ork("perplexity", pack, "-f", HELD_OUT, "-c", "64", "--chunks", "1", "--json", "--npu", "soft",
                               *arguments)
            return json.loads(process.stdout)["npu"], process.stderr

        def explained(*arguments):
            return self.ork("explain", pack, "--json", "--npu", "soft", *arguments)

        cached = self.folder / "cache" / "calibration.json"
        self.assertEqual(session()[0]["routed_by"], "board rk3588")
        self.assertEqual(json.loads(explained().stdout)["figures"], "board")
        cached.parent.mkdir(exist_ok=True)
        cached.write_text(path.read_text())
        npu, errors = session()
        self.assertEqual(npu["routed_by"], f"calibration {cached}")
        self.assertNotIn("passed over", errors)
        self.assertEqual(json.loads(explained().stdout)["figures"], "calibration")
        self.assertEqual(session("--npu-board", "rk3588")[0]["routed_by"], "board rk3588")
        npu, _ = session("--npu-rows", "7")
        self.assertEqual((npu["routed_by"], npu["rows_least"], npu["rows_most"]), ("--npu-rows", 7, 7))
        self.assertEqual(session("--calibration", path, "--npu-board", "rk3588")[0]["routed_by"], f"calibration {path}")
        for key, value, word in (("cpu", "another", "another"), ("npu_driver", "rknpu", "rknpu"), ("npu_driver", "", "none"),
                                 ("ork_version", "9.9.9", "9.9.9"), (None, None, "format"), (None, "{", "calibration.json")):
            changed = json.loads(path.read_text())
            if key:
                changed["identity"][key] = value
            cached.write_text(value if not key and value else json.dumps(changed if key else {}))
            for process in (explained(), session()[1]):
                errors = process if isinstance(process, str) else process.stderr
                self.assertRegex(errors, rf"(?m)^ork: .*{word}.*; it is passed over$")
            self.assertEqual(session()[0]["routed_by"], "board rk3588")
            self.assertEqual(json.loads(explained().stdout)["figures"], "board")
            self.assertIn(word, self.refused("run", pack, "-p", "a", "-n", "1", "--npu", "soft", "--calibration", cached, code=3))
        cached.unlink()
        cached.mkdir()
        self.assertIn("passed over", session()[1])
        cached.rmdir()


class Sessions(ProgramTest):
    """What explain says and what a session does."""

    def board(self, slower):
        """The RK3588 with other fixed costs; with an eighth, crossovers of the demo model lie between few rows and many."""
        board = json.loads((SOURCE / "boards" / "rk3588.json").read_text())
        for key in ("submit_us", "complete_us", "task_us", "host_call_us", "host_core_us"):
            board["npu"][key]["value"] *= slower
        path = self.folder / f"{slower}.json"
        path.write_text(json.dumps(board))
        return path

    def test_they_agree(self):
        rows = 256
        for board in ("rk3588", self.board(1 / 8)):
            for tier in ("auto", "n8", "i4"):
                use = ("--npu", "soft", "--npu-board", board)
                report = self.json("explain", self.pack(tier), *use, "--rows", rows)
                npu = self.json("perplexity", self.pack(tier), "-f", HELD_OUT, "-c", rows, "--chunks", "1", *use)["npu"]
                matrices = [matrix for group in report["groups"] for matrix in group["matrices"]]
                taken = [matrix for matrix in matrices if matrix["npu_rows_min"]]
                self.assertEqual(npu["matrices"], len(taken))
                self.assertEqual(npu["matrices_left"], sum(matrix["tier"] != "f32" for matrix in matrices) - len(taken))
                self.assertEqual(npu["rows_least"], min(matrix["npu_rows_min"] for matrix in taken))
                self.assertEqual(npu["rows_most"], max(matrix["npu_rows_min"] for matrix in taken))
                now = [matrix for matrix in taken if matrix["npu_rows_min"] <= rows]
                # Not every expert has the rows of the average, and not every row its logits.
                macs = {some: sum(rows * matrix["experts_used"] * matrix["channels"] * matrix["inputs"] for matrix in now
                                  if (matrix["experts"] > 1 or matrix["name"] == "head") == some) for some in (False, True)}
                self.assertGreater(macs[False], 0)
                self.assertGreaterEqual(npu["session_multiply_adds"], macs[False])
                self.assertLessEqual(npu["session_multiply_adds"], macs[False] + macs[True])
                for group in report["groups"]:
                    if group["group"] not in ("head", "experts up", "experts down"):
                        on_npu = all(matrix in now for matrix in group["matrices"])
                        self.assertEqual(group["route"], "npu" if on_npu else "cpu")
                        self.assertEqual(on_npu, (group["npu_rows_min"] or rows + 1) <= rows)

    def test_stats(self):
        prompt = self.folder / "prompt.txt"
        prompt.write_bytes(HELD_OUT.read_bytes()[:3000])
        arguments = ("run", self.pack(), "-no-cnv", "-f", prompt, "-n", "1", "-c", "2048", "--stats", "--npu", "soft")
        self.assertRegex(self.ork(*arguments).stderr,
                         r"(?m)^ork: NPU takes \d+ matrices from \d+ to \d+ rows on, 0 stay on the CPU: by board rk3588$")
        self.assertRegex(self.ork(*arguments, "--npu-rows", "9").stderr, r"(?m)from 9 rows on, 0 stay on the CPU: by --npu-rows$")
        slow = self.board(100)
        report = self.json("explain", self.pack(), "--npu", "soft", "--npu-board", slow)
        self.assertFalse(any(matrix["npu_rows_min"] for group in report["groups"] for matrix in group["matrices"]))
        self.assertRegex(self.ork(*arguments, "--npu-board", slow).stderr,
                         r"(?m)^ork: NPU takes no matrices, \d+ stay on the CPU: by board .*: the CPU is quicker on all ")


if __name__ == "__main__":
    unittest.main()
