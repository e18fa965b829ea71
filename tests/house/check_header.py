#!/usr/bin/env python3
"""ork.h compiles alone, first and twice in a file, as C11, C17 and C++, without a warning."""

import argparse
import shutil
import subprocess
import sys

import house

SOURCE = '#include "ork/ork.h"\n#include "ork/ork.h"\nint main(void) { return ork_version() == NULL; }\n'
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wconversion"]


def compile_alone(compiler, language, standard):
    command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-I", str(house.ROOT / "include"),
               "-"]
    run = subprocess.run(command, input=SOURCE, capture_output=True, text=True, check=False)
    return [] if run.returncode == 0 else [f"{compiler} -std={standard}: {line}" for line in run.stderr.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    options = parser.parse_args()
    problems = compile_alone(options.cc, "c", "c11") + compile_alone(options.cc, "c", "c17")
    if not shutil.which(options.cxx):
        print(f"SKIPPED: {options.cxx} is not installed, ork.h was compiled as C only")
        return house.SKIP if not problems else house.report(problems, "")
    problems += compile_alone(options.cxx, "c++", "c++11") + compile_alone(options.cxx, "c++", "c++20")
    return house.report(problems, "ork.h stands alone in C and C++")


if __name__ == "__main__":
    sys.exit(main())
