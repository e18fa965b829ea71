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
        self.assertRegex(text, r"(?m)^npu +.* in 1 domain$")

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

    def test_files(self):
        shape = json.loads((SOURCE / "shapes" / "qwen3-30b-a3b.json").read_text())
        path = self.folder / "shape.json"
        path.write_text(json.dumps(shape))
        self.assertEqual(self.json("simulate", path), self.json("simulate", "qwen3-30b-a3b"))
        shape["experts"]["used"] = 1000
        path.write_text(json.dumps(shape))
        self.assertIn("experts.used", self.refused("simulate", path))
        board = json.loads(BOARD.read_text())
        for section, key, value, word in (("ork_system", "margin", 7, "margin"), ("npu", "cores", 0, "cores"),
                                          ("published_system", "op_us", -1, "op_us")):
            changed = json.loads(json.dumps(board))
            changed[section][key]["value"] = value
            path.write_text(json.dumps(changed))
            self.assertIn(word, self.refused("simulate", "qwen3-30b-a3b", "--board", path))
        del board["ork_system"]
        path.write_text(json.dumps(board))
        self.assertIn("ork_system", self.refused("simulate", "qwen3-30b-a3b", "--board", path))

    def test_refusals(self):
        self.assertIn("shape", self.refused("simulate", code=2))
        self.assertIn("--policy", self.refused("simulate", "lfm2.5-8b-a1b", "--policy", "best", code=2))
        self.assertIn("overlay", self.refused("simulate", "lfm2.5-8b-a1b", "--policy", "overlay", "--published", code=2))
        self.assertIn("positions", self.refused("simulate", "lfm2.5-8b-a1b", "--context", "1000000", code=3))
        self.assertIn("lfm2.5-8b-a1b", self.refused("simulate", "nosuch", code=3))
        self.assertIn("nosuch", self.refused("simulate", "lfm2.5-8b-a1b", "--board", "nosuch", code=3))
        self.refused("simulate", ".", code=3)


if __name__ == "__main__":
    unittest.main()
