#!/usr/bin/env python3
"""Makes src/engine/npu/registers.h and registers.c of tools/npu_registers.txt.

registers.h: an enum of all registers, enums of field values and one typed packer for each register that programs write.
registers.c: the same as tables, for the range checks of the packers and for the disassembler.
With --check nothing is written; the committed files are compared. Python's standard library only."""

import argparse
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tools" / "npu_registers.txt"
FOLDER = ROOT / "src" / "engine" / "npu"
WIDTH = 120
FIELD = re.compile(r"(\w+)\[(\d+)(?::(\d+))?\](s?)(?::(\w+))?")


class Fault(Exception):
    """What is wrong with the description, and where."""


class Field:
    def __init__(self, text, line, enums):
        match = FIELD.fullmatch(text)
        if not match:
            raise Fault(f"line {line}: not a field: {text}")
        self.name = match.group(1).lower()
        high, self.low = int(match.group(2)), int(match.group(3) or match.group(2))
        self.bits, self.signed, self.values = high - self.low + 1, bool(match.group(4)), match.group(5)
        if not 0 <= self.low <= high <= 31:
            raise Fault(f"line {line}: bits out of a register: {text}")
        if self.values and self.values not in enums:
            raise Fault(f"line {line}: no enum {self.values}")


class Register:
    def __init__(self, block, words, line, enums):
        self.read_only = words[0] == "read"
        words = words[1:] if self.read_only else words
        if len(words) < 2:
            raise Fault(f"line {line}: OFFSET REGISTER FIELD... expected")
        self.block, self.offset, self.name = block, int(words[0], 16), words[1]
        self.fields = [Field(word, line, enums) for word in words[2:]]
        used = 0
        for field in self.fields:
            mask = (2 ** field.bits - 1) << field.low
            if used & mask:
                raise Fault(f"line {line}: {field.name} overlaps another field")
            used |= mask
        self.identifier = f"{block}_{self.name}"


def read_description(text):
    """(enums: name -> [(name, value)], blocks: [(name, target or None)], registers in the order of the file)."""
    enums, blocks, registers = {}, [], []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "enum":
            enums[words[1]] = [(name, int(value)) for name, value in (word.split("=") for word in words[2:])]
        elif words[0] == "block":
            blocks.append((words[1], None if words[2] == "none" else int(words[2], 16)))
        elif not blocks:
            raise Fault(f"line {number}: a register before the first block")
        else:
            registers.append(Register(blocks[-1][0], words, number, enums))
    for what, keys in (("register", [register.identifier for register in registers]),
                       ("offset", [(register.block, register.offset) for register in registers]),
                       ("target", [target for _, target in blocks if target])):
        if len(set(keys)) != len(keys):
            raise Fault(f"a {what} stands there twice")
    return enums, blocks, registers


def filled(prefix, items, separator, suffix, indent):
    """prefix + items + suffix, wrapped to the line width."""
    items = [item.replace(" ", "\0") for item in items]
    return textwrap.fill(prefix + separator.join(items) + suffix, WIDTH, subsequent_indent=" " * indent,
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def packer(register):
    """Struct of the fields and the function that appends the register's word."""
    name = register.identifier.lower()
    head = filled(f"static inline void ork_npu_put_{name}(", ["struct ork_npu_writer *writer", f"struct ork_npu_{name} fields"],
                  ", ", ")", 4)
    fields = [field.name for field in register.fields] or ["none"]
    values = [f"fields.{field}" for field in fields]
    return "\n".join((
        filled(f"struct ork_npu_{name} {{ int64_t ", fields, ", ", "; };", 4),
        head + "\n{",
        filled(f"    ork_npu_writer_put(writer, ORK_NPU_REGISTER_{register.identifier}, (const int64_t[]){{", values, ", ",
               "});", 8) + "\n}"))


def header(enums, blocks, registers):
    lines = ["/* The NPU's registers and their packers. Made by tools/npu_registers.py of tools/npu_registers.txt, which names the",
             " * sources; change that. ork_npu_put_BLOCK_REGISTER appends one command word; a field that is not named is 0. */",
             "#ifndef ORK_ENGINE_NPU_REGISTERS_H", "#define ORK_ENGINE_NPU_REGISTERS_H", "",
             '#include "engine/npu/writer.h"', "", "/* clang-format off */", ""]
    lines.append("/* Targets: the upper 16 bits of a command word. */")
    lines.append(filled("enum ork_npu_target { ", [f"ORK_NPU_TARGET_{name} = 0x{target:04x}" for name, target in blocks if target],
                        ", ", " };", 4))
    lines.append("")
    lines.append("/* Indices into ork_npu_registers. */")
    lines.append(filled("enum ork_npu_register_index { ", [f"ORK_NPU_REGISTER_{register.identifier}" for register in registers]
                        + ["ORK_NPU_REGISTER_COUNT"], ", ", " };", 4))
    lines.append("")
    lines.append("/* Offsets: the lower 16 bits of a command word. */")
    lines.append(filled("enum ork_npu_offset { ", [f"ORK_NPU_OFFSET_{register.identifier} = 0x{register.offset:04x}"
                                                   for register in registers], ", ", " };", 4))
    for name, values in enums.items():
        lines.append("")
        lines.append(filled(f"enum ork_npu_{name.lower()} {{ ", [f"ORK_NPU_{name}_{key.upper()} = {value}" for key, value in values],
                            ", ", " };", 4))
    lines.append("")
    lines += [packer(register) for register in registers if not register.read_only]
    lines += ["", "/* clang-format on */", "", "#endif", ""]
    return "\n".join(lines)


def tables(enums, blocks, registers):
    lines = ["/* The NPU's registers as tables. Made by tools/npu_registers.py of tools/npu_registers.txt; change that. */",
             '#include "engine/npu/registers.h"', "", "/* clang-format off */", ""]
    numbers = {None: 0}
    for number, (name, values) in enumerate(enums.items(), 1):
        numbers[name] = number
        lines.append(filled(f"static const struct ork_npu_field_value values_{name.lower()}[] = {{",
                            [f'{{"{key}", {value}}}' for key, value in values], ", ", "};", 4))
    lines.append("const struct ork_npu_enumeration ork_npu_enumerations[] = {")
    lines.append("    {NULL, 0},")
    lines += [f"    {{values_{name.lower()}, {len(values)}}}," for name, values in enums.items()]
    lines += ["};", "", "const struct ork_npu_block ork_npu_blocks[] = {"]
    indices = {name: index for index, (name, _) in enumerate(blocks)}
    lines += [f'    {{"{name.lower()}", 0x{target or 0:04x}}},' for name, target in blocks]
    lines += ["};", "const size_t ork_npu_block_count = sizeof ork_npu_blocks / sizeof *ork_npu_blocks;", "",
              "/* Name, lowest bit, bits, two's complement, enumeration. */", "const struct ork_npu_field ork_npu_fields[] = {"]
    first, rows = 0, []
    for register in registers:
        items = [f'{{"{field.name}", {field.low}, {field.bits}, {int(field.signed)}, {numbers[field.values]}}}'
                 for field in register.fields]
        if items:
            lines.append(filled("    ", items, ", ", ",", 4))
        rows.append(f'    {{"{register.name.lower()}", {indices[register.block]}, 0x{register.offset:04x}, {first}, '
                    f"{len(register.fields)}}}, /* {register.block} */")
        first += len(register.fields)
    lines += ["};", "", "/* Name, block, offset, first field, fields. */",
              "const struct ork_npu_register ork_npu_registers[ORK_NPU_REGISTER_COUNT] = {", *rows, "};", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files that are there")
    check = parser.parse_args().check
    description = read_description(SOURCE.read_text(encoding="utf-8"))
    wrong = 0
    for name, text in (("registers.h", header(*description)), ("registers.c", tables(*description))):
        path = FOLDER / name
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.relative_to(ROOT)} is not what {SOURCE.relative_to(ROOT)} says: run tools/npu_registers.py")
            wrong = 1
    return wrong


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Fault as fault:
        sys.exit(f"{SOURCE.name}: {fault}")
