#!/usr/bin/env python3
"""Words that no project file may hold: unfinished work, hosts of package registries, paths of one workplace."""

import re

import house

# In pieces, so that this file does not hold them.
HOSTS = [".".join(parts) for parts in (
    ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("crates", "io"), ("golang", "org"), ("maven", "org"),
    ("deb", "debian", "org"), ("security", "debian", "org"), ("archive", "ubuntu", "com"), ("ports", "ubuntu", "com"))]
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X"]
WORDS = re.compile(r"(?<![\w.-])(?:[\w-]+\.)*(%s)(?![\w-])" % "|".join(re.escape(host) for host in HOSTS))
MARKS = re.compile(r"\b(%s)\b" % "|".join(UNFINISHED))
PLACES = re.compile(r"(?<![\w.])(/" + r"work/)(?!\S*\*)")
# Recorded texts of other people's models; their words are data.
DATA = ("tests/compat/golden/", "tests/compat/nasty.json", "models/")


def check(root):
    problems = []
    for path in house.project_files(root):
        text = house.read_text(root / path)
        if text is None or path.as_posix().startswith(DATA):
            continue
        for pattern, what in ((WORDS, "names a package registry's host"), (MARKS, "marks unfinished work"),
                              (PLACES, "names a path of one workplace")):
            problems += [f"{path}:{house.line_of(text, match.start())}: {what}: {match.group(1)}"
                         for match in pattern.finditer(text)]
    return problems


if __name__ == "__main__":
    house.main(__doc__, check, "no forbidden words")
