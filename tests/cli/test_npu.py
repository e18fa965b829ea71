"""ork npu: the form of its output, what it refuses, and that any file is an answer and not a crash."""

import os
import struct
import unittest

from support import ProgramTest

SHAPE = ("--rows", "1", "--inputs", "2048", "--channels", "256")


class Device(ProgramTest):
    def test_soft(self):
        info = self.json("npu", "--device", "soft")
        self.assertEqual(info["driver"], "soft")
        self.assertEqual(info["soc"], "rk3588")
        self.assertEqual(info["cores"], 3)
        self.assertGreaterEqual(info["domains"], 1)
        self.assertEqual(set(info), {"driver", "version", "soc", "node", "cores", "domains", "domain_bytes", "clock_hz"})
        self.assertRegex(info["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(self.ork("npu", "--device", "soft").stdout, r"(?m)^driver +soft \d.*\nsoc +rk3588\nnode ")

    def test_self_test(self):
        test = self.json("npu", "--device", "soft", "--self-test")["self_test"]
        self.assertGreater(test["shapes"], 0)
        self.assertGreater(test["checked"], test["shapes"])
        self.assertRegex(self.ork("npu", "--device", "soft", "--self-test").stdout, r"(?m)^passed +\d+ products of \d+ shapes")

    def test_a_device_that_is_wrong(self):
        for faults in ("flip:from=0", "never:from=0", "untouched:from=0", "dead:from=0"):
            self.refused("npu", "--device", "soft", "--self-test", "--faults", faults, code=4)

    def test_refusals(self):
        self.assertIn("--faults", self.refused("npu", "--faults", "late:p=1", code=2))
        self.assertIn("--board", self.refused("npu", "--device", "rocket", "--board", "x.json", code=2))
        self.assertIn("nosuch", self.refused("npu", "--device", "soft", "--board", "nosuch", code=3))
        self.assertIn("--device", self.refused("npu", "--device", "gpu", code=2))
        self.assertIn("for dump", self.refused("npu", *SHAPE, code=2))
        self.assertIn("no device", self.refused("npu", "dump", "--self-test", *SHAPE, code=2))
        self.refused("npu", "--device", "soft", "--faults", "nonsense", code=2)


class Dump(ProgramTest):
    def file(self, data):
        path = self.folder / "words.bin"
        path.write_bytes(data)
        return path

    def test_a_shape(self):
        lines = self.ork("npu", "dump", *SHAPE).stdout.splitlines()
        self.assertEqual(len(lines), 107)
        for index, line in enumerate(lines):
            self.assertRegex(line, rf"^ *{index}  [a-z_]+(\.[a-z0-9_]+)? += 0x[0-9a-f]{{8}}")
        self.assertIn("weight_bytes=524288", "\n".join(lines))
        int4 = self.ork("npu", "dump", *SHAPE, "--bits", "4").stdout
        self.assertIn("out_precision=int16", int4)
        self.assertIn("weight_bytes=262144", int4)
        self.assertEqual(self.json("npu", "dump", *SHAPE), {"program": lines})

    def test_a_file(self):
        words = self.file(struct.pack("<3Q", 0x0201000000B11040, 0x0101000000370014, 0x00810000000D0008))
        text = self.ork("npu", "dump", words).stdout
        self.assertRegex(text, r"(?m)^ +0  cna\.cbuf_con0 += 0x000000b1  data_bank=1 weight_bank=11$")
        self.assertRegex(text, r"(?m)^ +1  pc\.register_amounts += 0x00000037  pc_data_amount=55  \(112 words of the next program\)$")
        self.assertRegex(text, r"(?m)^ +2  start\.operation_enable += 0x0000000d  cna_op_en=1 core_op_en=1 dpu_op_en=1  \(start\)$")

    def test_any_file(self):
        for _ in range(5):
            lines = self.ork("npu", "dump", self.file(os.urandom(8 * 300))).stdout.splitlines()
            self.assertEqual(len(lines), 300)
        self.assertIn("whole number of words", self.refused("npu", "dump", self.file(b"1234567")))
        self.assertIn("0 words", self.refused("npu", "dump", self.file(b"")))
        self.assertIn("nosuch", self.refused("npu", "dump", "nosuch"))
        self.refused("npu", "dump", self.file(bytes((1 << 20) + 8)))

    def test_refusals(self):
        for arguments, word in ((("list",), "'list'"), (("dump",), "--rows"), (("dump", "--rows", "1"), "--inputs"),
                                (("dump", "--rows", "0"), "--rows"), (("dump", "file", *SHAPE), "not both"),
                                (("dump", *SHAPE, "--bits", "5"), "5 bits"), (("dump", *SHAPE, "--bits", "16"), "--bits"),
                                (("dump", "--rows", "1", "--inputs", "40", "--channels", "64"), "40 inputs"),
                                (("dump", "--rows", "999", "--inputs", "2048", "--channels", "64"), "at most 128")):
            self.assertIn(word, self.refused("npu", *arguments, code=2))


if __name__ == "__main__":
    unittest.main()
