#!/usr/bin/env python3
"""Size and manners of C files: an opening comment, fewer than 1000 lines, functions of at most 120 lines (those over 70
are listed), and no printing, exiting or unbounded string functions in the library."""

import re
import sys

import house

LINES_MAX = 1000
FUNCTION_LINES_MAX = 120
FUNCTION_LINES_AIM = 70
FOLDERS = ("src", "cli", "server", "include", "tests", "bench")
LIBRARY_MUST_NOT_CALL = ("printf", "vprintf", "puts", "putchar", "putc", "perror", "psignal", "exit", "_exit", "_Exit",
                         "quick_exit", "abort", "system", "popen", "error", "err", "errx", "warn", "warnx",
                         "signal", "sigaction", "setlocale", "rand", "srand", "strtok")
UNBOUNDED = ("gets", "strcpy", "strcat", "sprintf", "vsprintf", "alloca", "tmpnam", "mktemp")
PROGRAMS = ("cli", "server")
CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(LIBRARY_MUST_NOT_CALL + UNBOUNDED))
STREAM = re.compile(r"\b(stdout|stderr|stdin)\b")


def functions(text):
    """(name, first line, length in lines) of every function body in C text without comments and strings.

    A body is a brace at depth 0 after a closing parenthesis; braces of `extern "C"`, structs and initialisers are not."""
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.M)
    depth, start, head_start, result = 0, None, 0, []
    for match in re.finditer(r"[{};]", text):
        mark, at = match.group(0), match.start()
        if mark == "{":
            if depth == 0:
                head = text[head_start:at]
                if re.search(r'extern\s+""\s*$', head):
                    head_start = at + 1
                    continue
                name = re.search(r"(\w+)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*(?:__attribute__\s*\(\(.*\)\)\s*)?$",
                                 head, re.S)
                start = (name.group(1), text.rfind("\n", 0, head_start + len(head) - len(head.lstrip())) + 1) if name else None
            depth += 1
        elif mark == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                if start:
                    first = house.line_of(text, start[1])
                    result.append((start[0], first, house.line_of(text, at) - first + 1))
                start, head_start = None, at + 1
        elif depth == 0:
            head_start = at + 1
    return result


def check_calls(path, text):
    problems = []
    for match in CALL.finditer(text):
        name = match.group(1)
        if path.parts[0] == "src" or (name in UNBOUNDED and path.parts[0] in PROGRAMS):
            problems.append(f"{path}:{house.line_of(text, match.start())}: calls {name}()")
    if path.parts[0] == "src":
        problems += [f"{path}:{house.line_of(text, match.start())}: uses {match.group(1)}"
                     for match in STREAM.finditer(text)]
    return problems


def check(root, long_functions=None):
    problems = []
    for path in house.project_files(root):
        if path.suffix not in (".c", ".h") or path.parts[0] not in FOLDERS:
            continue
        source = (root / path).read_text(encoding="utf-8")
        count = source.count("\n") + (not source.endswith("\n"))
        if count >= LINES_MAX:
            problems.append(f"{path}: {count} lines, must stay under {LINES_MAX}")
        if not source.lstrip().startswith("/*") or not re.match(r"\s*/\*\s*\w", source):
            problems.append(f"{path}: does not open with a comment that says what it owns")
        text = house.without_comments(source)
        problems += check_calls(path, text)
        for name, line, length in functions(text):
            if length > FUNCTION_LINES_MAX:
                problems.append(f"{path}:{line}: {name}() has {length} lines, at most {FUNCTION_LINES_MAX} are allowed")
            elif length > FUNCTION_LINES_AIM and long_functions is not None:
                long_functions.append(f"{path}:{line}: {name}() has {length} lines (aim: {FUNCTION_LINES_AIM})")
    return problems


if __name__ == "__main__":
    long_ones = []
    found = check(house.ROOT, long_ones)
    for entry in long_ones:
        print(entry)
    sys.exit(house.report(found, f"all C files keep the limits; {len(long_ones)} functions are over the aim"))
