"""ork explain and ork calibrate: the forms of their output, that totals are those of the card, and what they refuse. Speeds
are not judged: machines differ and are shared."""

import json
import unittest

from support import SOURCE, ProgramTest

GROUP = {"group", "layer", "tier", "bytes", "sensitivity", "route", "limit", "why_not_npu", "predicted_us", "cpu_us", "npu_us",
         "npu_rows_min", "overlay"}


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
        self.assertIn("--npu-board", self.refused("explain", pack, "--npu-board", "rk3588", "--npu", "soft", code=2))
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


if __name__ == "__main__":
    unittest.main()
