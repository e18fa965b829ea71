"""Runs the real program for the tests beside this file. Python's standard library alone."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ORK_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
PROGRAM = os.environ.get("ORK_PROGRAM", str(SOURCE / "build" / "cli" / "ork"))
COMMAND = [*shlex.split(os.environ.get("ORK_EMULATOR", "")), PROGRAM]
DEMO = SOURCE / "models" / "demo-lfm2moe.gguf"
HELD_OUT = SOURCE / "models" / "demo-heldout.txt"
COMMANDS = ["pack", "info", "verify", "run", "chat", "bench", "perplexity", "probe", "doctor", "explain", "calibrate", "npu", "simulate", "completion", "help", "version"]
TIMEOUT = 600


def environment(folder, **changes):
    """A clean environment: no variable of the caller changes what the program does."""
    names = ("PATH", "ORK_CPU_MASK", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "QEMU_LD_PREFIX")
    result = {name: os.environ[name] for name in names if name in os.environ}
    result.update(HOME=str(folder), ORK_CACHE_DIR=str(folder / "cache"), LC_ALL="C.UTF-8", TERM="dumb")
    result.update(changes)
    return {name: value for name, value in result.items() if value is not None}


class ProgramTest(unittest.TestCase):
    """A folder of its own for each test class; packs of the demo model are made once for the class."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ork-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.packs = {}

    @classmethod
    def pack(cls, tier="auto"):
        """The demo model packed with a default tier; made once, for all classes where ORK_TEST_PACKS names a folder."""
        if tier not in cls.packs:
            path = cls.folder / f"demo-{tier}.orkpack"
            shared = os.environ.get("ORK_TEST_PACKS")
            shared = pathlib.Path(shared) / path.name if shared else None
            if shared and shared.exists():
                shutil.copyfile(shared, path)
            else:
                subprocess.run([*COMMAND, "pack", str(DEMO), str(path), "--default-tier", tier, "-q"], check=True,
                               env=environment(cls.folder), timeout=TIMEOUT, stdin=subprocess.DEVNULL)
                if shared:
                    # Under another name first: other programs look for it meanwhile.
                    part = shared.with_name(f"{shared.name}.{os.getpid()}")
                    shutil.copyfile(path, part)
                    part.rename(shared)
            cls.packs[tier] = path
        return cls.packs[tier]

    def ork(self, *arguments, code=0, stdin=None, env=None, **more):
        """Runs the program and checks its exit code. stdin: text, or nothing to read."""
        process = subprocess.run([*COMMAND, *map(str, arguments)], input=stdin if stdin is not None else "",
                                 capture_output=True, encoding="utf-8", errors="replace", timeout=TIMEOUT,
                                 env=environment(self.folder, **(env or {})), cwd=self.folder, **more)
        self.assertEqual(process.returncode, code,
                         f"ork {' '.join(map(str, arguments))}\nstdout: {process.stdout[-2000:]}\nstderr: {process.stderr[-2000:]}")
        return process

    def json(self, *arguments, **more):
        """Standard output as JSON; anything else on it fails."""
        return json.loads(self.ork(*arguments, "--json", **more).stdout)

    def refused(self, *arguments, code=3, **more):
        """The program refuses with one clear line and nothing on standard output; returns the line."""
        process = self.ork(*arguments, code=code, **more)
        lines = [line for line in process.stderr.splitlines() if not line.startswith("try: ")]
        self.assertEqual(process.stdout, "")
        self.assertEqual(len(lines), 1, process.stderr)
        self.assertTrue(lines[0].startswith("ork: "), lines[0])
        return lines[0]
