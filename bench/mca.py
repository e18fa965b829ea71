#!/usr/bin/env python3
"""Estimates the AArch64 kernels with llvm-mca. Two tables: the hot loops as the compiler left them in the objects of the
build, and whole calls, whose instructions an emulator recorded one by one. Run it through mca.sh, which builds.

Must not know: what a kernel computes; only how many multiply-accumulates its instructions make.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_common import ROOT, BenchError, commit, replace_block

# RK3588 as published by ork-driver (github.com/oRKLLM/ork-driver, matmuls of one row from memory): four Cortex-A76 read
# 23 GB/s together; plain reads of one core alone reach 21.9 GB/s.
CLOCK_GHZ, CORES, SHARED_GB_PER_S, ALONE_GB_PER_S = 2.3, 4, 23.0, 21.9
BRICK_BYTES = 1024
DECODE_WIDTH = 4  # instructions a cycle that a Cortex-A76 decodes; llvm-mca does not know

BITS = {"i4": 4, "nf4": 4, "i5": 5, "i6": 6, "i8": 8, "g8": 8.5}  # of a weight; g8 with its scales
# Multiply-accumulates of an instruction.
MACS = {"sdot": 16, "smmla": 32, "smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8}
# Instruction set: what llvm-mca takes it for (version, processor), the first one counts; the most multiply-accumulates a
# cycle of that core. Neoverse N1 is the A76's sister; LLVM's own "cortex-a76" is the model of the much older A57.
MODELS = {
    "dotprod": ((("19", "neoverse-n1"), ("22", "neoverse-n1"), ("19", "cortex-a55")), 32),
    "i8mm": ((("19", "neoverse-n2"), ("22", "neoverse-n2")), 64),
    "neon": ((("19", "cortex-a53"),), None),
}
ATTRIBUTES = {"dotprod": "+dotprod", "i8mm": "+dotprod,+i8mm", "neon": "+neon"}


def output_of(*command, **options):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if run.returncode != 0:
        raise BenchError(f"ended with {run.returncode}: {' '.join(map(str, command))}: {run.stderr.strip()[:300]}")
    return run.stdout


# ---- disassembly ----

LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*(?://.*)?$")
TARGET = re.compile(r"\b([0-9a-f]+) <[^>]*>")
BRANCH = re.compile(r"^(?:b|b\.\w+|cbz|cbnz|tbz|tbnz)\s")


def functions(path):
    """{name: [(address, text)]} of an object file or program."""
    found, name = {}, None
    for line in output_of("aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", path).splitlines():
        head = re.match(r"^[0-9a-f]+ <(\S+)>:$", line)
        if head:
            name = re.sub(r"\.(isra|constprop|part)\.\d+", "", head.group(1))
            found.setdefault(name, [])
        elif name and (at := LINE.match(line)):
            found[name].append((int(at.group(1), 16), " ".join(at.group(2).split())))
    return found


def mnemonic(text):
    return text.split()[0]


def macs_of(texts):
    return sum(MACS.get(mnemonic(text), 0) for text in texts)


def inner_loops(instructions):
    """Loops without a loop inside: lists of instruction texts."""
    spans = []
    for address, text in instructions:
        if BRANCH.match(text) and (target := TARGET.search(text)) and int(target.group(1), 16) <= address:
            spans.append((int(target.group(1), 16), address))
    spans = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [[text for address, text in instructions if first <= address <= last] for first, last in sorted(set(spans))]


def stack_accesses(texts):
    """What a spill would be: loads and stores of vector registers relative to the stack."""
    return sum(1 for text in texts if re.search(r"\[(sp|x29)\b", text) and re.match(r"(ld|st)\w+ [qdv]\d", text))


# ---- llvm-mca ----

def cycles(texts, isa, model, iterations):
    version, processor = model
    source = "top:\n" + "\n".join(TARGET.sub("top", text) for text in texts) + "\n"
    text = output_of(f"llvm-mca-{version}", "-mtriple=aarch64-linux-gnu", f"-mcpu={processor}",
                     f"-mattr={ATTRIBUTES[isa]}", f"-iterations={iterations}", "-instruction-info=0",
                     "-resource-pressure=0", "-", input=source)
    return int(re.search(r"Total Cycles:\s+(\d+)", text).group(1)) / iterations


def models_of(isa):
    models, _ = MODELS[isa]
    return [model for model in models if shutil.which(f"llvm-mca-{model[0]}")]


# ---- hot loops ----

def hot_loops(build):
    """(isa, tier, kind, texts): of each kernel the loop that costs most, for one row and for a full register tile."""
    for path in sorted((build / "kernels/CMakeFiles/ork_kernels.dir/arm").glob("matmul_*.o")):
        file_tier, isa = re.match(r"matmul_(\w+?)_(\w+)\.c", path.name).groups()
        for name, instructions in functions(path).items():
            one_row = re.fullmatch(r"stream_(\w+)", name)
            if one_row and isa != "i8mm":  # that one streams with the loops of dotprod
                tier, kind = one_row.group(1) if one_row.group(1) in BITS else file_tier, "one row"
            elif name == "g8_matmul":
                tier, kind = "g8", "one row"
            elif name in ("multiply_full_tile", "multiply_full_groups"):
                tier, kind = {"4bit": "i4, nf4"}.get(file_tier, file_tier), "tile"
            else:
                continue
            loops = [loop for loop in inner_loops(instructions) if macs_of(loop)]
            if loops:
                yield isa, tier, kind, max(loops, key=lambda texts: (macs_of(texts), len(texts)))


def loop_rows(build):
    for isa, tier, kind, texts in hot_loops(build):
        macs = macs_of(texts)
        for model in models_of(isa):
            count = cycles(texts, isa, model, 1000)
            row = {"kernel": f"{tier} {isa}", "kind": kind, "llvm": model[0], "model": model[1],
                   "instructions": len(texts), "stack_accesses": stack_accesses(texts), "cycles": round(count, 1),
                   "macs": macs, "macs_per_cycle": round(macs / count, 1)}
            if kind == "one row" and tier in BITS:
                row["weight_bytes"] = macs * BITS[tier] / 8
                row |= against_memory(count, row["weight_bytes"], isa, model)
            yield row


def against_memory(count, weight_bytes, isa, model):
    """Cycles a brick of 1024 bytes, beside what memory gives a Cortex-A76; the decoder is counted in by the caller."""
    brick = count * BRICK_BYTES / weight_bytes
    row = {"cycles_per_brick": round(brick, 1)}
    if isa == "dotprod" and model[1] == "neoverse-n1":
        row["of_shared"] = round(brick / (BRICK_BYTES * CLOCK_GHZ * CORES / SHARED_GB_PER_S), 3)
        row["of_alone"] = round(brick / (BRICK_BYTES * CLOCK_GHZ / ALONE_GB_PER_S), 3)
    return row


# ---- whole calls ----

# Tiers of the table, and shapes: channels, inputs, rows, inputs that share an activation scale (the engine's default).
CALL_TIERS = ("nf4", "i4", "i5", "i6", "i8", "g8")
CALL_SHAPES = ((64, 1024, 1, 64), (64, 512, 8, 64), (64, 512, 32, 64))


def recorded_call(build, disassembly, isa, tier, shape, folder):
    """Texts of the instructions of one call in their order, or None when the level has no such row of its own."""
    log = Path(folder) / "trace"
    program = build / "mca_call"
    words = [str(word) for word in shape]
    run = subprocess.run(["qemu-aarch64-static", "-cpu", "max", "-singlestep", "-d", "exec,nochain", "-D", log, program,
                          isa, tier, *words], capture_output=True, text=True, check=False)
    if run.returncode != 0 or not run.stdout.strip().endswith(isa):
        return None
    by_address = {address: text for instructions in disassembly.values() for address, text in instructions}
    caller = {address for name in ("main", "call") for address, _ in disassembly.get(name, [])}
    start = disassembly["ork_" + run.stdout.strip()][0][0]
    texts, inside = [], False
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            at = re.match(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", line)
            address = int(at.group(1), 16) if at else -1
            inside = inside or address == start
            if inside and address in caller:
                return texts
            if inside and address in by_address:
                texts.append(by_address[address])
    raise BenchError(f"the record of {run.stdout.strip()} has no end")


def call_rows(build):
    disassembly = functions(build / "mca_call")
    with tempfile.TemporaryDirectory() as folder:
        for isa in MODELS:
            for tier in CALL_TIERS:
                for shape in CALL_SHAPES:
                    channels, inputs, rows, _ = shape
                    if isa == "i8mm" and rows == 1 or isa == "neon" and rows > 1:
                        continue  # the same as dotprod's; of little interest
                    texts = recorded_call(build, disassembly, isa, tier, shape, folder)
                    if not texts:
                        continue
                    for model in models_of(isa)[:None if rows == 1 else 1]:
                        count = cycles([text for text in texts if mnemonic(text) != "ret"], isa, model, 1)
                        macs = channels * inputs * rows
                        row = {"kernel": f"{tier} {isa}", "rows": rows, "shape": list(shape), "llvm": model[0],
                               "model": model[1], "instructions": len(texts), "cycles": round(count),
                               "macs_per_cycle": round(macs / count, 1)}
                        if isa == "dotprod" and model[1] == "neoverse-n1":
                            row["decoder_cycles"] = round(len(texts) / DECODE_WIDTH)
                        if rows == 1:
                            slowest = max(count, row.get("decoder_cycles", 0))
                            row |= against_memory(slowest, macs * BITS[tier] / 8, isa, model)
                        yield row


# ---- output ----

def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "|".join("---" if i < 2 else "---:" for i in range(len(head))) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def percent(value):
    return "" if value is None else f"{100 * value:.0f} %"


def markdown(result):
    model = lambda row: f"{row['model']}, LLVM {row['llvm']}"
    limit = lambda row: MODELS[row["kernel"].split()[-1]][1]
    peak = lambda row: percent(row["macs_per_cycle"] / limit(row)) if limit(row) and row["model"].startswith("neo") else ""
    parts = [f"By `bench/mca.sh`, commit {result['commit']}.", "", "Hot loop, one row:", "", table(
        ["kernel", "model", "bytes of weights", "instructions", "cycles", "cycles a brick", "of 23 GB/s over four",
         "of 21.9 GB/s alone", "vector spills"],
        [[r["kernel"], model(r), f"{r['weight_bytes']:g}", r["instructions"], r["cycles"], r["cycles_per_brick"],
          percent(r.get("of_shared")), percent(r.get("of_alone")), r["stack_accesses"]]
         for r in result["loops"] if "cycles_per_brick" in r])]
    parts += ["", "Hot loop, register tile of several rows:", "", table(
        ["kernel", "model", "multiply-accumulates", "instructions", "cycles", "a cycle", "of the core's most", "vector spills"],
        [[r["kernel"], model(r), r["macs"], r["instructions"], r["cycles"], r["macs_per_cycle"], peak(r),
          r["stack_accesses"]] for r in result["loops"] if r["kind"] == "tile"])]
    if result["calls"]:
        parts += ["", "Whole calls, recorded (channels x inputs, rows):", "", table(
            ["kernel", "model", "shape", "rows", "instructions", "cycles", "decoder", "cycles a brick",
             "of 23 GB/s over four", "multiply-accumulates a cycle", "of the core's most"],
            [[r["kernel"], model(r), f"{r['shape'][0]} x {r['shape'][1]}", r["rows"], r["instructions"], r["cycles"],
              r.get("decoder_cycles", ""), r.get("cycles_per_brick", ""), percent(r.get("of_shared")),
              r["macs_per_cycle"], peak(r)] for r in result["calls"]])]
    return "\n".join(parts)


# ---- check ----

LOOP = """ldp q0, q1, [x0]
ldp q2, q3, [x1]
ldp q4, q5, [x1, #32]
ldp q6, q7, [x1, #64]
ldp q16, q17, [x1, #96]
sdot v20.4s, v2.16b, v0.16b
sdot v20.4s, v3.16b, v1.16b
sdot v21.4s, v4.16b, v0.16b
sdot v21.4s, v5.16b, v1.16b
sdot v22.4s, v6.16b, v0.16b
sdot v22.4s, v7.16b, v1.16b
sdot v23.4s, v16.16b, v0.16b
sdot v23.4s, v17.16b, v1.16b
add x0, x0, #32
add x1, x1, #128""".splitlines()


def problems_of(result):
    """What must hold: the model that counts is as narrow as a loop of known cost says, no loop spills vectors, and 4-bit
    kernels need at most 75 % of what memory gives each of four cores."""
    problems = []
    known = cycles(LOOP, "dotprod", ("19", "neoverse-n1"), 1000)
    if not 4.9 <= known <= 5.1:
        problems.append(f"ten loads and eight dots take {known} cycles instead of 5: another model than expected")
    problems += [f"{r['kernel']}, {r['kind']}: {r['stack_accesses']} vector spills in the hot loop"
                 for r in result["loops"] if r["stack_accesses"]]
    judged = [r for r in result["loops"] + result["calls"] if "of_shared" in r and r["llvm"] == "19"]
    problems += [f"{r['kernel']}: {percent(r['of_shared'])} of what memory gives" for r in judged
                 if r["kernel"].split()[0] in ("i4", "nf4") and r["of_shared"] > 0.75]
    kernels = {r["kernel"] for r in judged}
    problems += [f"{tier} dotprod was not found" for tier in ("i4", "nf4", "i8", "g8")
                 if f"{tier} dotprod" not in kernels]
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--loops", action="store_true", help="only the hot loops")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--output", type=Path, help="replace the block between <!-- mca: begin --> and end")
    parser.add_argument("--check", action="store_true", help="end with 1 when a kernel spills or is bound by instructions")
    arguments = parser.parse_args()
    try:
        result = {"commit": commit(), "loops": list(loop_rows(arguments.build)), "calls": []}
        if not arguments.loops and shutil.which("qemu-aarch64-static"):
            result["calls"] = list(call_rows(arguments.build))
        text = markdown(result)
        print(text)
        if arguments.json:
            arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        if arguments.output:
            replace_block(ROOT / arguments.output, "mca", text)
        problems = problems_of(result) if arguments.check else []
    except BenchError as error:
        print(f"mca.py: {error}", file=sys.stderr)
        return 1
    for problem in problems:
        print(f"mca.py: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
