#!/usr/bin/env python3
"""Fits the free figures of boards/rk3588.json to the published measurements marked "fit".

fit_npu_timing.py BENCH_NPU_TIMING [BOARD.json]: the model is the program's own (bench/npu_timing.c --raw), run with changed
board files; nothing of it is repeated here. Least fourth powers (the worst rows count) of the logarithms of model over published, each figure in turn
by shrinking steps. Prints the figures; the file is edited by hand."""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

FREE = ("submit_us", "core_bytes_per_s_i4", "host_call_us", "host_core_us", "host_surface_bytes_per_s", "host_bytes_per_s")


def cost(program, board, values, scratch):
    for name, value in values.items():
        board["npu"][name]["value"] = value
    scratch.write_text(json.dumps(board), encoding="utf-8")
    lines = subprocess.run([program, "--raw", scratch], check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [(use, float(published), float(model)) for use, published, model in map(str.split, lines)]
    errors = [math.log(model / published) for use, published, model in rows if use == "fit"]
    return sum(error**4 for error in errors) / len(errors)


def main():
    program = sys.argv[1]
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent.parent / "boards" / "rk3588.json"
    board = json.loads(path.read_text(encoding="utf-8"))
    values = {name: float(board["npu"][name]["value"]) for name in FREE}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "board.json"
        best, step = cost(program, board, values, scratch), 0.3
        while step > 0.002:
            better = False
            for name in FREE:
                for factor in (1 + step, 1 / (1 + step)):
                    trial = {**values, name: values[name] * factor}
                    now = cost(program, board, trial, scratch)
                    if now < best:
                        best, values, better = now, trial, True
            step = step if better else step / 2
    for name, value in values.items():
        print(f"{name}: {value:.4g}")
    print(f"fourth root of the mean fourth power of the rows in the fit: {100 * best**0.25:.1f} %")


if __name__ == "__main__":
    main()
