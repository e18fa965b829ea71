#!/usr/bin/env python3
"""Guards the specification: a reader written from docs/orkpack-format.md alone decodes every tier to ork's bits, accepts
its checksums, and refuses a changed file.

Usage: test_second_reader.py READER [EMULATOR ...] SECOND_READER GGUF ...
"""

import subprocess
import sys
import tempfile
from pathlib import Path

TIERS = ["f32", "f16", "bf16", "g8", "i8", "i4", "nf4", "i5", "i6", "n8", "auto"]


def main():
    reader, *rest = sys.argv[1:]
    sources = [argument for argument in rest if argument.endswith(".gguf")]
    program = [argument for argument in rest if not argument.endswith(".gguf")]
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        pack, raw, again = (Path(directory) / name for name in ("p.orkpack", "raw", "again"))
        for source in sources:
            for tier in TIERS:
                subprocess.run([*program, source, pack, raw, tier, r"attn_v\.weight=i4", r"attn_k\.weight=nf4", r"attn_q\.weight=i5"]
                               if tier == "auto" else [*program, source, pack, raw, tier], check=True)
                subprocess.run([sys.executable, "-B", reader, pack, "--decode", again], check=True)
                same = raw.read_bytes() == again.read_bytes() and raw.stat().st_size > 0
                print(f"{Path(source).name} {tier}: {'same' if same else 'DIFFERENT'}, {raw.stat().st_size // 4} weights")
                failures += not same
        data = bytearray(pack.read_bytes())
        for at in (8, 40, 4100, len(data) - 4096):
            data[at] ^= 1
            pack.write_bytes(data)
            result = subprocess.run([sys.executable, "-B", reader, pack], capture_output=True, text=True)
            print(f"changed byte {at}: {result.stderr.strip()}")
            failures += result.returncode != 3
            data[at] ^= 1
    return 1 if failures or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
