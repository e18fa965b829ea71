#!/usr/bin/env python3
"""What is installed works on its own: the program finds its library, its pages and completion are there, and a program of
somebody else's can be built against the header and the library. Nothing is installed outside the prefix."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import house

SOURCE = """#include <ork/ork.h>
#include <stdio.h>
int main(void)
{
    ork_error error;
    ork_model *model;
    if (ork_model_open("no such file", NULL, &model, &error) != ORK_NOT_FOUND)
        return 1;
    return puts(ork_version()) < 0;
}
"""
WANTED = ("bin/ork", "include/ork/ork.h", "share/man/man1/ork.1", "share/man/man1/ork-run.1",
          "lib/udev/rules.d/60-ork-npu.rules")


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=500, **options)


def check(build, cmake, compiler):
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "stage"
        done = run([cmake, "--install", build, "--prefix", "/opt/x"], env={"DESTDIR": str(stage), "PATH": "/usr/bin:/bin"})
        if done.returncode != 0:
            return [f"cmake --install failed: {done.stderr.strip()}"]
        prefix = stage / "opt/x"
        problems = [f"{name} is not installed" for name in WANTED if not (prefix / name).is_file()]
        problems += [f"{path} is outside the prefix" for path in stage.rglob("*")
                     if path.is_file() and prefix not in path.parents]
        version = run([prefix / "bin/ork", "version"], env={"PATH": "/usr/bin:/bin"})
        if version.returncode != 0:
            problems.append(f"the installed program does not run: {version.stderr.strip()}")
        libraries = sorted(prefix.rglob("libork.so"))
        if not libraries:
            return problems + ["libork.so is not installed"]
        program = Path(folder) / "user"
        built = run([compiler, "-x", "c", "-", "-o", program, "-I", prefix / "include", "-L", libraries[0].parent, "-lork",
                     f"-Wl,-rpath,{libraries[0].parent}"], input=SOURCE)
        if built.returncode != 0:
            return problems + [f"a program cannot be built against the library: {built.stderr.strip()}"]
        used = run([program])
        if used.returncode != 0 or used.stdout.strip() not in version.stdout:
            problems.append(f"that program failed with {used.returncode}: {used.stdout}{used.stderr}")
        return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--cc", default="cc")
    options = parser.parse_args()
    return house.report(check(options.build, options.cmake, options.cc), "the installed program and library work")


if __name__ == "__main__":
    sys.exit(main())
