"""What the house rules share: the list of project files, C without comments and strings, and how a check reports.

Owns: reading. Must not know: any rule. Python's standard library only.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIP = 77


def project_files(root):
    """Paths relative to root: what git tracks, or all files but build folders where there is no git."""
    try:
        listing = subprocess.run(["git", "-C", str(root), "-c", f"safe.directory={root}", "ls-files", "-z"],
                                 capture_output=True, check=True).stdout
        names = [os.fsdecode(name) for name in listing.split(b"\0") if name]
        names = [name for name in names if (root / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        names = []
    if not names:
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in (".git", "build", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(Path(name) for name in names)


def read_text(path):
    """The file's text, None when it is not UTF-8 text."""
    try:
        data = path.read_bytes()
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


C_TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def without_comments(text, keep_strings=False):
    """C with comments (and, unless kept, the insides of strings) made blank; line numbers stay."""
    def blank(match):
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] + token[0]
        return " " + "\n" * token.count("\n")
    return C_TOKENS.sub(blank, text)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def report(problems, good):
    """Prints problems, one a line, and returns the exit code."""
    for problem in problems:
        print(problem)
    if not problems:
        print(good)
    return 1 if problems else 0


def main(description, check, good):
    """Runs check(root) -> list of problems on the repository, or on another tree given as argument."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    sys.exit(report(check(parser.parse_args().root), good))
