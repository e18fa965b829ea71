"""What the measuring scripts share: running a program for its JSON, the bandwidth probe, facts of the machine, and
replacing a marked block of a document.

Must not know: what is measured.
"""

import json
import os
import platform
import re
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class BenchError(Exception):
    """A failure whose text is a complete message for the user."""


def run_json(command, seconds_max, environment=None):
    """Standard output of a command, parsed."""
    words = [str(word) for word in command]
    try:
        run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds_max,
                             env={**os.environ, **(environment or {})}, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"took more than {seconds_max} s: {' '.join(words)}") from None
    if run.returncode != 0:
        detail = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise BenchError(f"ended with {run.returncode}: {' '.join(words)}: {detail}")
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError as error:
        raise BenchError(f"printed no JSON ({error}): {' '.join(words)}") from None


def probe_gb_per_s(program, threads, megabytes=1024, repetitions=5):
    """Best read rate of a short run: what the memory could give at this moment."""
    return run_json([program, "-t", threads, "-s", megabytes, "-r", repetitions], 120)["best_gb_per_s"]


def ork_cache():
    root = os.environ.get("ORK_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ork"


def cpu_name():
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^(?:model name|Hardware|Model)\s*:\s*(.+)$", text, re.M)
    return found.group(1).strip() if found else platform.machine()


def memory_gib():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "cli", "include", "CMakeLists.txt")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if changed else "")


def machine():
    return {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory_gib(), 1),
            "kernel": platform.release(), "date": time.strftime("%Y-%m-%d", time.gmtime()), "commit": commit(),
            "load_before": round(os.getloadavg()[0], 2)}


def machine_line(facts):
    return (f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']:.0f} GiB, Linux {facts['kernel']}; "
            f"commit {facts['commit']}, {facts['date']}")


def replace_block(path, marker, content):
    """Puts content between `<!-- marker: begin -->` and `<!-- marker: end -->`; appends both where they are missing."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    block = f"{begin}\n{content.strip()}\n{end}"
    if begin in text and end in text and text.index(begin) < text.index(end):
        head, rest = text.split(begin, 1)
        text = head + block + rest.split(end, 1)[1]
    else:
        text = text.rstrip("\n") + ("\n\n" if text else "") + block + "\n"
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
