"""What the measuring scripts share: running a program for its JSON, the probes, what a model file costs for a token, facts of
the machine, and replacing a marked block of a document.

Must not know: what is measured.
"""

import json
import math
import os
import platform
import re
import resource
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class BenchError(Exception):
    """A failure whose text is a complete message for the user."""


def cause(errors):
    """The line of an error output that says most: one that names an error, else the last."""
    lines = [line for line in errors.strip().splitlines() if line.strip()] or ["no message"]
    return next((line for line in lines if re.search(r"assert|error|fail|abort", line, re.I)), lines[-1]).strip()


def run_json(command, seconds_max):
    """Standard output of a command, parsed."""
    words = [str(word) for word in command]
    try:
        run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds_max,
                             env={**os.environ, "GGML_NO_BACKTRACE": "1"}, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"took more than {seconds_max} s: {' '.join(words)}") from None
    if run.returncode != 0:
        raise BenchError(f"ended with {run.returncode}: {' '.join(words)}: {cause(run.stderr)}")
    # ik_llama.cpp's programs print other lines before their JSON.
    start = re.search(r"^[\[{]", run.stdout, re.M)
    try:
        return json.loads(run.stdout[start.start():] if start else run.stdout)
    except json.JSONDecodeError as error:
        raise BenchError(f"printed no JSON ({error}): {' '.join(words)}") from None


class Probes:
    """What the machine gives at this moment, by short runs of the probe: the yardstick beside every speed that is reported."""

    def __init__(self, ork):
        self.ork = ork

    def read(self, threads, megabytes=1024):
        """What plain reads of a buffer give in GB/s, in the best of several patterns."""
        found = run_json([self.ork, "probe", "bandwidth", "--quick", "--json", "-t", threads, "--size", megabytes], 120)
        return found["ceiling"][0]["gb_per_s"]

    def dots(self, threads):
        """10^9 int8 multiply-accumulates a second in registers."""
        found = run_json([self.ork, "probe", "compute", "--quick", "--json", "-t", threads], 120)
        return next(entry["gmac_per_s"] for entry in found["compute"] if entry["kernel"] == "int8 dot")


class Bystanders:
    """How many cores other programs kept busy since this was made: all processors' time without that of this process and of
    the children that have ended."""

    def __init__(self):
        self.started, self.busy, self.own = time.monotonic(), *self.times()

    @staticmethod
    def times():
        user, nice, system, _idle, _wait, interrupt, soft = (int(word) for word in
                                                             Path("/proc/stat").read_text(encoding="ascii").split()[1:8])
        own = sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF,
                                                                                        resource.RUSAGE_CHILDREN)))
        return (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK"), own

    def cores(self):
        busy, own = self.times()
        return max(0.0, (busy - self.busy - (own - self.own)) / max(time.monotonic() - self.started, 1e-3))


def memory_of(process):
    """{name: bytes} of /proc/PID/smaps_rollup, empty when the process has ended."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return {}
    words = [line.split() for line in text.splitlines()[1:]]
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) >= 3 and word[2] == "kB"}


def watch(command, seconds_max, interval=0.05):
    """Runs a command and looks at its memory while it runs: (its JSON, [(seconds since its start, {name: bytes})])."""
    words = [str(word) for word in command]
    # Into files: a pipe that nobody reads while the program runs would stop it when it is full.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        seen, started = [], time.monotonic()
        while process.poll() is None:
            now = time.monotonic() - started
            if memory := memory_of(process):
                seen.append((now, memory))
            if now > seconds_max:
                process.kill()
                process.wait()
                raise BenchError(f"took more than {seconds_max} s: {' '.join(words)}")
            time.sleep(interval)
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise BenchError(f"ended with {process.returncode}: {' '.join(words)}: {cause(errors.read())}")
        return json.loads(out.read()), seen


def info(ork, path):
    """What `ork info` says about an orkpack or a GGUF, with its tensors."""
    return run_json([ork, "info", "--json", "--tensors", path], 120)


def macs_per_token(facts):
    """Multiply-accumulates of the layers' matrices for one token: without embedding, output head, convolutions and the
    attention over earlier tokens, which a prompt test of 512 tokens hardly sees."""
    total = 0
    for tensor in facts["tensors"]:
        name, count = tensor["name"], math.prod(tensor["shape"])
        if not name.startswith("blk.") or len([size for size in tensor["shape"] if size > 1]) < 2 or ".conv." in name:
            continue
        total += count * facts["experts_used"] // facts["experts"] if "_exps." in name else count
    return total


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
