#!/usr/bin/env python3
"""Documents keep up with the program: README and the man page mention every command that `ork help` lists, and every
relative link in a Markdown file leads to a file."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import house

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def commands(program):
    """Names from the list that `ork help` prints: two or more blanks, a name, blanks, a summary."""
    text = subprocess.run([*program, "help"], capture_output=True, text=True, check=True, timeout=60).stdout
    listed = re.search(r"^commands:\n((?:[ \t].*\n|\n)+)", text, re.M | re.I)
    return re.findall(r"^ {2,}([a-z][\w-]*)\b", listed.group(1), re.M) if listed else []


def missing_commands(root, names):
    problems = [] if names else ["`ork help` lists no commands"]
    readme = (root / "README.md").read_text(encoding="utf-8")
    problems += [f"README.md: does not mention `ork {name}`" for name in names if f"ork {name}" not in readme]
    pages = sorted(root.glob("docs/man/ork*.[1-8]*"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    text = re.sub(r"\\f[BIPR]|\\", "", text).replace("ork-", "ork ")
    if pages:
        problems += [f"docs/man: no page mentions `{name}`" for name in names
                     if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)]
    return problems


def broken_links(root):
    problems = []
    for path in house.project_files(root):
        if path.suffix != ".md":
            continue
        text = (root / path).read_text(encoding="utf-8")
        for match in LINK.finditer(text):
            target = match.group(1)
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (root / path.parent / target).exists():
                problems.append(f"{path}:{house.line_of(text, match.start())}: {target} does not exist")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", nargs="*", help="the ork program, with an emulator before it if it needs one")
    options = parser.parse_args()
    problems = broken_links(house.ROOT)
    if options.program:
        problems += missing_commands(house.ROOT, commands(options.program))
    return house.report(problems, "documents and program agree")


if __name__ == "__main__":
    sys.exit(main())
