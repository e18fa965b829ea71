"""ork simulate: its keys, that it is deterministic, its picture, and what it refuses."""

import json
import unittest
import xml.etree.ElementTree

from support import SOURCE, ProgramTest

BOARD = SOURCE / "boards" / "rk3588.json"


class Simulate(ProgramTest):
    def test_keys(self):
        for shape in ("lfm2.5-8b-a1b", "qwen3.6-35b-a3b", "qwen3-30b-a3b"):
            for policy in ("cpu", "partition", "streaming", "overlay", "late"):
                answer = self.json("simulate", "--board", BOARD, shape, "--policy", policy, "-n", "4")
                self.assertEqual((answer["board"], answer["shape"], answer["policy"]), ("rk3588", shape, policy))
                self.assertGreater(answer["prefill_tokens_per_second"], answer["decode_tokens_per_second"])
                self.assertGreater(answer["decode_tokens_per_second"], 1)
                self.assertTrue(0 <= answer["overlay_hit_rate"] <= 1)
                self.assertEqual("overlay" in answer, policy in ("overlay", "late"))
                self.assertGreater(len(answer["timeline"]), 50)
                for event in answer["timeline"]:
                    self.assertLessEqual(event["begin_us"], event["end_us"])

    def test_deterministic(self):
        arguments = ("simulate", "qwen3.6-35b-a3b", "--policy", "overlay", "--seed", "5")
        self.assertEqual(self.ork(*arguments).stdout, self.ork(*arguments).stdout)
        self.assertNotEqual(self.json(*arguments)["timeline"], self.json(*arguments[:-1], "6")["timeline"])

    def test_text(self):
        text = self.ork("simulate", "lfm2.5-8b-a1b", "--policy", "late").stdout
        self.assertRegex(text, r"(?m)^decode +\d+\.\d\d tokens/s, 64 tokens$")
        self.assertRegex(text, r"(?m)^npu +.* in 3 domains$")
        self.assertRegex(text, r"(?m)^ +[\d.]+ s to fill once$")

    def test_picture(self):
        self.ork("simulate", "lfm2.5-8b-a1b", "--policy", "overlay", "--svg", "token.svg")
        root = xml.etree.ElementTree.parse(self.folder / "token.svg").getroot()
        self.assertGreater(len(root.findall("{http://www.w3.org/2000/svg}rect")), 100)
        self.refused("simulate", "lfm2.5-8b-a1b", "--svg", "no/such/folder.svg", code=1)

    def test_published(self):
        answer = self.json("simulate", "--published")
        self.assertEqual(len(answer["rows"]), 8)
        self.assertLessEqual(answer["fitted"], 4)
        for row in answer["rows"]:
            self.assertLess(abs(row["error"]), 0.1, row)
        page = (SOURCE / "docs" / "simulator.md").read_text()
        for line in self.ork("simulate", "--published").stdout.splitlines()[2:]:
            self.assertIn(line, page)

    def test_predictions(self):
        """The page's table of predictions is what the program says."""
        page = (SOURCE / "docs" / "simulator.md").read_text()
        lines = [line for line in page.splitlines() if line.count("|") == 11 and line.split("|")[2].strip() in ("0", "4096")]
        self.assertEqual(len(lines), 18)
        for line in lines:
            shape, context, policy, prefill, decode, alone, planned, *_, limit, _ = (
                cell.strip() for cell in line.split("|")[1:])
            answer = self.json("simulate", shape, "--policy", policy, "--context", context)
            self.assertEqual(f"{answer['prefill_tokens_per_second']:.1f}", prefill)
            self.assertEqual(f"{answer['decode_tokens_per_second']:.2f}", decode)
            if "overlay" in answer:
                overlay = answer["overlay"]
                self.assertEqual(f"{overlay['decode_alone_tokens_per_second']:.2f}", alone)
                self.assertEqual((str(overlay["planned"]), overlay["limit"]), (planned, limit))
                self.assertIn(f"{100 * overlay['coverage']:.1f} %", line)

    def test_files(self):
        shape = json.loads((SOURCE / "shapes" / "qwen3-30b-a3b.json").read_text())
        path = self.folder / "shape.json"
        path.write_text(json.dumps(shape))
        self.assertEqual(self.json("simulate", path), self.json("simulate", "qwen3-30b-a3b"))
        shape["experts"]["used"] = 1000
        path.write_text(json.dumps(shape))
        self.assertIn("experts.used", self.refused("simulate", path))
        board = json.loads(BOARD.read_text())
        for section, key, value, word in (("ork_system", "bytes_per_s_4", 0, "bytes_per_s_4"), ("ork_system", "bus_bytes_per_s", -1, "bus_bytes_per_s"),
                                          ("ork_system", "memory_bytes", 0, "memory_bytes"), ("ork_system", "lost_chance", 2, "lost_chance"),
                                          ("npu", "core_bytes_per_s", 0, "core_bytes_per_s"), ("npu", "cores", 4, "cores"), ("npu", "cores", 0, "cores"),
                                          ("published_system", "op_us", -1, "op_us")):
            changed = json.loads(json.dumps(board))
            changed[section][key]["value"] = value
            path.write_text(json.dumps(changed))
            self.assertIn(word, self.refused("simulate", "qwen3-30b-a3b", "--board", path))
        for section in ("npu", "published_system", "ork_system"):
            changed = {key: value for key, value in board.items() if key != section}
            path.write_text(json.dumps(changed))
            self.assertIn(section, self.refused("simulate", "qwen3-30b-a3b", "--board", path))
        for section, key in (("ork_system", "region_us"), ("npu", "task_us"), ("published_system", "runs")):
            changed = json.loads(json.dumps(board))
            del changed[section][key]
            path.write_text(json.dumps(changed))
            self.assertIn(key, self.refused("simulate", "qwen3-30b-a3b", "--board", path))
            changed = json.loads(json.dumps(board))
            changed[section]["speed"] = {"value": 1, "source": "none"}
            path.write_text(json.dumps(changed))
            self.assertIn("speed", self.refused("simulate", "qwen3-30b-a3b", "--board", path))
        small = json.loads(json.dumps(board))
        small["ork_system"]["memory_bytes"]["value"] = 4 << 30
        path.write_text(json.dumps(small))
        self.assertIn("memory", self.refused("simulate", "qwen3-30b-a3b", "--board", path))

    def test_model(self):
        """A pack in n8 on a board whose NPU costs nothing: chains for what is no stack of experts."""
        pack = self.pack("n8")
        answer = self.json("simulate", pack, "--policy", "overlay", "-n", "4")
        self.assertEqual((answer["shape"], answer["overlay"]["planned"], answer["overlay"]["limit"]),
                         ("ork demo LFM2-MoE", 0, "window"))
        board = json.loads(BOARD.read_text())
        for key in ("submit_us", "complete_us", "task_us", "host_call_us", "host_core_us"):
            board["npu"][key]["value"] = 0
        board["ork_system"]["region_us"]["value"] = 100
        path = self.folder / "quick.json"
        path.write_text(json.dumps(board))
        for policy in ("overlay", "late"):
            answer = self.json("simulate", pack, "--policy", policy, "-n", "4", "--board", path)
            self.assertGreater(answer["overlay"]["planned"], 4)
            self.assertGreater(answer["overlay_hit_rate"], 0.9)
            mode = ("on",) if policy == "overlay" else ("late",)
            report = self.json("explain", pack, "--npu-board", path, "--overlay", *mode, "-c", "128")
            self.assertEqual(report["overlay"]["groups"], answer["overlay"]["planned"])
        self.assertEqual(self.json("simulate", self.pack(), "--policy", "overlay")["overlay"]["limit"], "not sensitive")
        self.assertIn("GGUF", self.refused("simulate", pack, "--policy", "partition"))
        self.assertIn("positions", self.refused("simulate", pack, "--context", "1000000"))

    def test_swap(self):
        answer = self.json("simulate", "qwen3-30b-a3b", "--policy", "overlay", "-p", "512", "-n", "1", "--npu-memory", "4096")
        swap = answer["prompt_swap"]
        self.assertGreater(swap["exposed_seconds"], 0)
        self.assertAlmostEqual(swap["hidden_seconds"] + swap["exposed_seconds"], swap["bytes"] / 0.93e9, 5)
        text = self.ork("simulate", "qwen3.6-35b-a3b", "--policy", "partition").stdout
        self.assertRegex(text, r"(?m)^swap +[\d.]+ MiB that each token wants")

    def test_refusals(self):
        self.assertIn("shape", self.refused("simulate", code=2))
        self.assertIn("--policy", self.refused("simulate", "lfm2.5-8b-a1b", "--policy", "best", code=2))
        self.assertIn("overlay", self.refused("simulate", "lfm2.5-8b-a1b", "--policy", "overlay", "--published", code=2))
        self.assertIn("positions", self.refused("simulate", "lfm2.5-8b-a1b", "--context", "1000000", code=3))
        self.assertIn("lfm2.5-8b-a1b", self.refused("simulate", "nosuch", code=3))
        self.assertIn("nosuch", self.refused("simulate", "lfm2.5-8b-a1b", "--board", "nosuch", code=3))
        self.refused("simulate", ".", code=3)
        self.refused("simulate", "lfm2.5-8b-a1b", "--slowdown-max", "2", code=2)
        self.refused("simulate", "lfm2.5-8b-a1b", "--delay-us", "-1", code=2)
        (self.folder / "noise.bin").write_bytes(b"noise" * 100)
        self.refused("simulate", self.folder / "noise.bin", code=3)


if __name__ == "__main__":
    unittest.main()
