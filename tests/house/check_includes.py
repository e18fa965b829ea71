#!/usr/bin/env python3
"""Includes point one way: base <- format <- quant <- kernels <- engine <- sched <- model <- {cli, server}; text stands
beside model on base; pack uses what it needs of them; only the command line and the server are above the public header.
"""

import re

import house

PUBLIC = "ork/ork.h"
# A room may include its own files, the public header and files of these rooms (or these files).
USES = {
    "base": [],
    "format": ["base"],
    "quant": ["base", "format"],
    "kernels": ["base", "quant"],
    "engine": ["base", "format", "quant", "kernels"],
    "sched": ["base", "format", "quant", "kernels", "engine"],
    "text": ["base", "format/meta.h"],
    "model": ["base", "format", "quant", "kernels", "engine", "sched", "text"],
    "pack": ["base", "format", "quant", "kernels", "model"],
}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
# Folders whose files may be reached only by the rooms named.
ABOVE_THE_HEADER = ("cli", "server")


def allowed(room, target):
    if target == PUBLIC or target.startswith(f"{room}/"):
        return True
    return any(target == use or target.startswith(f"{use}/") for use in USES[room])


def check_room_file(root, path, room, target):
    if not (root / "src" / target).is_file() and target != PUBLIC:
        return f'"{target}" is not a path from src/'
    if not allowed(room, target):
        return f'{room} must not include "{target}" (it may use: {", ".join(USES[room]) or "nothing"})'
    return None


def check_program_file(root, path, target):
    top = path.parts[0]
    if target == PUBLIC or (root / path.parent / target).is_file() or (root / top / target).is_file():
        return None
    return f'{top} must not include "{target}" (only {PUBLIC} and files of {top}/)'


def check(root):
    problems = []
    for path in house.project_files(root):
        if path.suffix not in (".c", ".h") or path.parts[0] not in ("src", "include", *ABOVE_THE_HEADER):
            continue
        if path.parts[0] == "src" and (len(path.parts) < 3 or path.parts[1] not in USES):
            problems.append(f"{path}: belongs to no room of src/ ({', '.join(USES)})")
            continue
        text = house.without_comments((root / path).read_text(encoding="utf-8"), keep_strings=True)
        for match in INCLUDE.finditer(text):
            quote, target = match.groups()
            if quote == "<":
                rooms = (*USES, *ABOVE_THE_HEADER, "ork")
                problem = f"<{target}> is ours: write it in quotes" if target.split("/")[0] in rooms else None
            elif path.parts[0] == "include":
                problem = f'the public header must stand alone, without "{target}"'
            elif path.parts[0] == "src":
                problem = check_room_file(root, path, path.parts[1], target)
            else:
                problem = check_program_file(root, path, target)
            if problem:
                problems.append(f"{path}:{house.line_of(text, match.start())}: {problem}")
    return problems


if __name__ == "__main__":
    house.main(__doc__, check, "all includes point one way")
