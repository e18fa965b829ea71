#!/usr/bin/env python3
"""Documents keep up with the program: README and the manual page of `ork` mention every command that `ork help` lists,
those with a page of their own have it in docs/man, and every relative link in a Markdown file leads to a file."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import house

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def output_of(program, *words):
    return subprocess.run([*program, *words], capture_output=True, text=True, check=True, timeout=500).stdout


def commands(help_text):
    """Names from the list in `ork help`: two or more blanks, a name, blanks, a summary."""
    listed = re.search(r"^commands:\n((?:[ \t].*\n)+)", help_text, re.M | re.I)
    return re.findall(r"^ {2,}([a-z][\w-]*) {2,}", listed.group(1), re.M) if listed else []


def missing_commands(root, names, manual):
    """Names that README or the manual page (troff) leaves out, and pages in docs/man of commands that do not exist."""
    problems = [] if names else ["`ork help` lists no commands"]
    readme = (root / "README.md").read_text(encoding="utf-8") if (root / "README.md").is_file() else ""
    problems += [f"README.md: does not mention `ork {name}`" for name in names if f"ork {name}" not in readme]
    plain = re.sub(r"\\f[BIPR]|\\", "", manual)
    problems += [f"the manual page of ork does not mention `{name}`" for name in names
                 if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", plain)]
    pages = [page.name.split(".")[0] for page in sorted(root.glob("docs/man/ork-*.1.in"))]
    problems += [f"docs/man: there is a page {page}, but no such command" for page in pages
                 if page.removeprefix("ork-") not in names]
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
        names = commands(output_of(options.program, "help"))
        problems += missing_commands(house.ROOT, names, output_of(options.program, "help", "--manual"))
    return house.report(problems, "documents and program agree")


if __name__ == "__main__":
    sys.exit(main())
