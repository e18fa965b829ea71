#!/usr/bin/env python3
"""The functions marked ORK_API in ork.h, the names in src/ork.map and, when a library is given, the symbols that it
exports are one and the same list."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import house

DECLARATION = re.compile(r"\bORK_API\b([^;{]*?)\b(ork_\w+)\s*\(")


def header_names(root):
    text = house.without_comments((root / "include/ork/ork.h").read_text(encoding="utf-8"))
    text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
    return {match.group(2) for match in DECLARATION.finditer(text)}, text.count("ORK_API")


def map_names(root):
    text = house.without_comments((root / "src/ork.map").read_text(encoding="utf-8"))
    exported = re.search(r"global:(.*?)local:\s*\*\s*;", text, re.S)
    return set(re.findall(r"(\S+)\s*;", exported.group(1))) if exported else None


def library_names(library, nm):
    listing = subprocess.run([nm, "--dynamic", "--defined-only", "--format=posix", str(library)], capture_output=True,
                             text=True, check=True).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines() if line.strip()}


def differences(name_a, a, name_b, b):
    return [f"{name}: in {name_a} but not in {name_b}" for name in sorted(a - b)] + \
           [f"{name}: in {name_b} but not in {name_a}" for name in sorted(b - a)]


def check(root, library=None, nm="nm"):
    declared, mark_count = header_names(root)
    exported = map_names(root)
    if exported is None:
        return ["src/ork.map: no list between 'global:' and 'local: *;'"]
    problems = differences("ork.h", declared, "ork.map", exported)
    if mark_count != len(declared):
        problems.append(f"ork.h: {mark_count} ORK_API marks but {len(declared)} functions found")
    if library:
        problems += differences("ork.map", exported, library.name, library_names(library, nm))
    return problems


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="?", type=Path)
    parser.add_argument("--nm", default="nm")
    options = parser.parse_args()
    sys.exit(house.report(check(house.ROOT, options.library, options.nm), "ork.h, ork.map and the library agree"))
