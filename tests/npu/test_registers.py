#!/usr/bin/env python3
"""Guards the register description: the committed registers.h and registers.c are what tools/npu_registers.py makes of it,
and a description that contradicts itself is refused."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import npu_registers  # noqa: E402


class Registers(unittest.TestCase):
    def setUp(self):
        self.description = npu_registers.read_description(npu_registers.SOURCE.read_text(encoding="utf-8"))

    def test_committed_files(self):
        for name, make in (("registers.h", npu_registers.header), ("registers.c", npu_registers.tables)):
            committed = (npu_registers.FOLDER / name).read_text(encoding="utf-8")
            self.assertTrue(make(*self.description) == committed, f"{name} is stale: run tools/npu_registers.py")

    def test_offsets_belong_to_their_blocks(self):
        """Blocks of the register map are 4 KiB apart (TRM 36)."""
        pages = {"PC": 0, "CNA": 1, "CORE": 3, "DPU": 4, "DPU_RDMA": 5, "GLOBAL": 15, "SYNC": 0, "START": 0}
        for register in self.description[2]:
            self.assertEqual(register.offset >> 12, pages[register.block], register.identifier)
            self.assertEqual(register.offset % 4, 0, register.identifier)

    def test_faults(self):
        for text, word in (("block A 0x1\n0x0 R X[3:0] Y[3]", "overlaps"), ("block A 0x1\n0x0 R X[32:0]", "out of"),
                           ("block A 0x1\n0x0 R X[0:3]", "out of"), ("block A 0x1\n0x0 R X", "not a field"),
                           ("0x0 R X[0]", "before the first block"), ("block A 0x1\n0x0 R X[0]:E", "no enum"),
                           ("block A 0x1\n0x0 R X[0]\n0x4 R X[0]", "register stands there twice"),
                           ("block A 0x1\n0x0 R X[0]\n0x0 S X[0]", "offset stands there twice"),
                           ("block A 0x1\nblock B 0x1", "target stands there twice"), ("block A 0x1\n0x0", "expected")):
            with self.assertRaises(npu_registers.Fault) as caught:
                npu_registers.read_description(text)
            self.assertIn(word, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
