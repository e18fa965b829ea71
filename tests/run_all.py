#!/usr/bin/env python3
"""Builds and tests the project in every form that it has to pass, and ends with one summary.

Owns: which builds run which tests, the time each may take, and the closing lines. Must not know: any single test.
A skipped test is listed with its reason: ctest entries that exit with 77, and lines "SKIPPED: why" or "LEFT OUT: why"
that a test prints.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
TOTAL_SECONDS_MAX = 80 * 60
SKIP_LINE = re.compile(r"^ *(?:SKIPPED|LEFT OUT): *(.+)|^ *(.+: LEFT OUT,.+)", re.M)
ARM_PACKAGES = ("libpcre2-8", "libxxhash", "jansson", "cmocka")


@dataclasses.dataclass
class Stage:
    """One build and the ctest entries that run in it."""
    name: str
    preset: str
    select: tuple        # ctest's options that choose entries
    build_all: bool = False  # False: only what the chosen entries run
    seconds_max: int = 1500
    prefix: tuple = ()   # command before ctest
    environment: dict = dataclasses.field(default_factory=dict)
    left_out: dict = dataclasses.field(default_factory=dict)  # why: regular expression of entries that only ci runs


STAGES = [
    Stage("ci", "ci", (), build_all=True),
    Stage("asan", "asan", ("-LE", "^(house|slow)$"), build_all=True,
          left_out={"builds a program of its own, without sanitizers": "checkkernels_aarch64|mca_aarch64",
                    "about scripts, and long with an instrumented program": "tools_.*"},
          environment={"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}),
    # setarch: ThreadSanitizer's fixed address layout does not bear every kernel's randomization.
    Stage("tsan", "tsan", ("-R", "pool|engine|session", "-LE", "^(house|slow)$"), prefix=("setarch", "-R"),
          environment={"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"}),
    Stage("aarch64", "aarch64", ("-LE", "^(house|slow)$"), build_all=True,
          # Kernels, packs, sessions, register programs and layouts stay; what is left out computes what they compute too,
          # or nothing that could differ.
          left_out={"about bytes and bounds that are the same on every processor, and long under emulation":
                    "fuzz_.*|.*_fuzz|gguf_damage|text_(limits|golden)|pack_memory|greedy_.*",
                    "the same program runs on four emulated processors, by checkkernels_aarch64": "checkkernels",
                    "rows of drafts are rows as model_session cuts them, and a large model computes them": "model_lookup",
                    "about scripts": "fetch_models|tools_.*",
                    "about arguments, terminals and files; what is computed there is computed by other entries too":
                    "cli_(cache|files|bench|perplexity|prefill|overlay|documents|usage|chat)",
                    "plans and predictions, double arithmetic alone": "cli_(dispatch|simulate)|sched_simulate"}),
]


class Summary:
    """What happened, by stage."""

    def __init__(self):
        self.rows = []
        self.failures = []
        self.skips = []
        self.notes = []

    def add(self, stage, passed, failed, skipped, seconds):
        self.rows.append((stage, passed, failed, skipped, seconds))

    def fail(self, stage, what, seconds=0.0):
        self.failures.append(f"{stage}: {what}")
        self.add(stage, 0, 1, 0, seconds)

    def skip(self, stage, why):
        self.skips.append(f"{stage}: {why}")
        self.add(stage, 0, 0, 1, 0.0)

    def print(self):
        print("\n== summary " + "=" * 70)
        print(f"{'stage':12s} {'passed':>7s} {'failed':>7s} {'skipped':>8s} {'seconds':>8s}")
        for stage, passed, failed, skipped, seconds in self.rows:
            print(f"{stage:12s} {passed:7d} {failed:7d} {skipped:8d} {seconds:8.0f}")
        for note in self.notes:
            print(f"note     {note}")
        for skip in self.skips:
            print(f"skipped  {skip}")
        for failure in self.failures:
            print(f"FAILED   {failure}")
        passed, failed, skipped = (sum(row[i] for row in self.rows) for i in (1, 2, 3))
        print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
        return 0 if failed == 0 and passed > 0 else 1


class Runner:
    def __init__(self, summary):
        self.summary = summary
        self.end = time.monotonic() + TOTAL_SECONDS_MAX
        self.logs = BUILD / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    def run(self, command, log, seconds_max, environment=None, echo=False):
        """Runs a command with its output in build/logs/LOG (and on the screen if `echo`). Returns its exit code, None
        when its time was over: then the whole process group is ended."""
        seconds = min(seconds_max, self.end - time.monotonic())
        with open(self.logs / log, "wb") as file:
            process = subprocess.Popen([str(part) for part in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                       stdout=None if echo else file, stderr=None if echo else subprocess.STDOUT,
                                       env={**os.environ, **(environment or {})}, start_new_session=True)
            try:
                return process.wait(timeout=max(seconds, 1))
            except subprocess.TimeoutExpired:
                return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def tail(self, log, count=60):
        lines = (self.logs / log).read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-count:]), flush=True)


def say(text):
    print(f"\n== {text} ".ljust(82, "="), flush=True)


def why_no_aarch64():
    """The reason why the aarch64 build cannot be tested here, None if it can."""
    if os.uname().machine == "aarch64":
        return "this machine is aarch64 itself, the ci build has tested it"
    for tool in ("aarch64-linux-gnu-gcc", "qemu-aarch64-static"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    for package in ARM_PACKAGES:
        if not Path(f"/usr/lib/aarch64-linux-gnu/pkgconfig/{package}.pc").is_file():
            return f"the arm64 development package of {package} cannot be installed or is missing"
    return None


def targets_of(stage, entries):
    """What ctest entries need built: the files in the build folder that their commands name and that ninja makes."""
    folder = BUILD / stage.preset
    listing = subprocess.run(["ninja", "-C", str(folder), "-t", "targets", "all"], capture_output=True, text=True,
                             check=True, timeout=120).stdout
    made = {line.rsplit(": ", 1)[0] for line in listing.splitlines()}
    commands = written_commands(folder)
    named = {os.path.relpath(part, folder) for entry in entries
             for value in [*commands[entry["name"]], *environment_values(entry)]
             for part in value.split(":") if os.path.isabs(part)}
    return sorted(named & made)


def written_commands(folder):
    """Commands of all entries by name, from the files that cmake writes for ctest: ctest itself does not show the command
    of a program that is not built yet."""
    commands = {}
    for path in folder.rglob("CTestTestfile.cmake"):
        for name, rest in re.findall(r"^add_test\((?:\[=\[)?(.+?)(?:\]=\])? (.*)\)$", path.read_text(encoding="utf-8"),
                                     re.M):
            commands[name] = re.findall(r'"([^"]*)"', rest)
    return commands


def environment_values(entry):
    """Right sides of the environment variables that an entry sets."""
    return [setting.split("=", 1)[1] for item in entry.get("properties", []) if item["name"] == "ENVIRONMENT"
            for setting in item["value"]]


def selection(stage):
    return [*stage.select, *(("-E", f"^({'|'.join(stage.left_out.values())})$") if stage.left_out else ())]


def chosen_entries(stage):
    listing = subprocess.run(["ctest", "--test-dir", str(BUILD / stage.preset), "--show-only=json-v1", *selection(stage)],
                             capture_output=True, text=True, check=True, timeout=120).stdout
    return json.loads(listing)["tests"]


def read_results(stage, path, summary, seconds):
    """Adds what ctest's JUnit file says; a missing or broken file is a failure."""
    try:
        cases = xml.etree.ElementTree.parse(path).getroot().findall(".//testcase")
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        summary.fail(stage.name, f"no results of ctest: {error}", seconds)
        return
    passed = failed = skipped = 0
    for case in cases:
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        reasons = [(match.group(1) or match.group(2)).strip() for match in SKIP_LINE.finditer(output)]
        if status == "fail":
            failed += 1
            failure = case.find("failure")
            why = failure.get("message", "") if failure is not None else ""
            summary.failures.append(f"{stage.name}: {name} {why}".rstrip())
            continue
        if status == "run":
            passed += 1
            skipped += len(reasons)
        else:
            skipped += max(len(reasons), 1)
            reasons = reasons or ["not run"]
        summary.skips += [f"{stage.name}: {name}: {reason}" for reason in reasons]
    if not cases:
        failed += 1
        summary.failures.append(f"{stage.name}: no test was found")
    summary.add(stage.name, passed, failed, skipped, seconds)


def configure_and_build(runner, stage):
    """Returns what went wrong, None if nothing did."""
    log = f"{stage.name}-build.log"
    if runner.run(["cmake", "--preset", stage.preset], log, 300) != 0:
        runner.tail(log)
        return "cmake failed"
    command = ["cmake", "--build", "--preset", stage.preset]
    if not stage.build_all:
        command += ["--target", *targets_of(stage, chosen_entries(stage))]
    code = runner.run(command, log, stage.seconds_max)
    if code != 0:
        runner.tail(log)
        return "the build took too long" if code is None else "the build failed"
    return None


def run_stage(runner, stage):
    started = time.monotonic()
    say(f"{stage.name}: build")
    problem = configure_and_build(runner, stage)
    if problem:
        runner.summary.fail(stage.name, problem, time.monotonic() - started)
        return
    say(f"{stage.name}: test (built in {time.monotonic() - started:.0f} s)")
    for why, entries in stage.left_out.items():
        runner.summary.notes.append(f"{stage.name}: left to the ci build ({why}): {entries}")
    results = BUILD / stage.preset / "results.xml"
    results.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="ork-packs-") as packs:
        code = runner.run([*stage.prefix, "ctest", "--test-dir", BUILD / stage.preset, "-j", "2", "--output-on-failure",
                           "--test-output-size-passed", "200000", "--timeout", "600", "--output-junit", results,
                           *selection(stage)],
                          f"{stage.name}-test.log", stage.seconds_max, {**stage.environment, "ORK_TEST_PACKS": packs},
                          echo=True)
    seconds = time.monotonic() - started
    if code is None:
        runner.summary.fail(stage.name, "the tests took too long", seconds)
        return
    failures = len(runner.summary.failures)
    read_results(stage, results, runner.summary, seconds)
    if code != 0 and len(runner.summary.failures) == failures:
        runner.summary.fail(stage.name, f"ctest ended with {code}")


def fetch_models(runner):
    """Real models for the tests that need them; without them those tests say so one by one."""
    say("real models and vocabularies")
    log = "fetch-models.log"
    code = runner.run([sys.executable, "-B", ROOT / "tools/fetch_models.py", "--models", "SmolLM2-135M-Instruct",
                       "vocabularies", "chat-templates"], log, 600)
    runner.tail(log)
    if code != 0:
        runner.summary.skip("models", "real models could not be fetched, tests on them are left out")


def demo(runner):
    """What a new user sees first, within the five minutes that the README promises."""
    say("demo")
    started = time.monotonic()
    code = runner.run(["make", "demo-run", "ORK=build/ci/cli/ork"], "demo.log", 300)
    runner.tail("demo.log")
    seconds = time.monotonic() - started
    if code == 0:
        runner.summary.add("demo", 1, 0, 0, seconds)
    else:
        runner.summary.fail("demo", "took more than five minutes" if code is None else f"ended with {code}", seconds)


def main():
    names = [stage.name for stage in STAGES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"{', '.join(names)} (default: all, and the demo)")
    chosen = parser.parse_args().stages
    for name in chosen:
        if name not in names:
            parser.error(f"no stage {name}; there are {', '.join(names)}")
    # An ended or interrupted run must not leave its tests behind: the exception passes through Runner.run().
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(130))
    summary = Summary()
    runner = Runner(summary)
    fetch_models(runner)
    for stage in STAGES:
        if chosen and stage.name not in chosen:
            continue
        why = why_no_aarch64() if stage.name == "aarch64" else None
        if why:
            summary.skip("aarch64", f"all tests: {why}")
            continue
        run_stage(runner, stage)
        if stage.name == "ci" and not chosen:
            demo(runner)
    return summary.print()


if __name__ == "__main__":
    sys.exit(main())
