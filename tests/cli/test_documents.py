"""Manual pages and completion say what the program does: they are made from the same table."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from support import COMMANDS, SOURCE, TIMEOUT, ProgramTest

DOCUMENTS = pathlib.Path(os.environ.get("ORK_DOCUMENTS", SOURCE / "build" / "cli"))
PAGES = ["ork.1"] + [f"ork-{name}.1" for name in ("pack", "info", "verify", "run", "chat", "bench", "perplexity", "probe", "doctor", "explain", "calibrate", "npu", "simulate")]


class Manual(ProgramTest):
    def page(self, name):
        path = DOCUMENTS / name
        if not path.exists():
            self.skipTest(f"{path} is not built")
        return path

    def test_every_page_is_well_formed(self):
        tools = 0
        for name in PAGES:
            path = self.page(name)
            text = path.read_text()
            for heading in (".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH SEE ALSO"):
                self.assertIn(heading, text, name)
            for line in text.splitlines():
                self.assertLess(len(line), 400, name)
                self.assertEqual(line, line.rstrip(), f"{name}: {line!r}")
            for command in (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z", "-K", "utf8"]):
                if shutil.which(command[0]):
                    tools += 1
                    lint = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=TIMEOUT)
                    problems = [line for line in (lint.stdout + lint.stderr).splitlines()
                                if "missing date" not in line and line.strip()]
                    self.assertEqual(problems, [], name)
        if not tools:
            self.skipTest("neither mandoc nor groff is there")

    def test_every_option_of_the_help_is_in_the_page(self):
        for command in PAGES[1:]:
            command = command[4:-2]
            page = re.sub(r"\\f[BIR]", "", self.page(f"ork-{command}.1").read_text()).replace("\\-", "-")
            names = re.findall(r"(?m)^  (-\S+)", self.ork(command, "--help").stdout)
            self.assertGreater(len(names), 3)
            for name in names:
                self.assertIn(name.rstrip(","), page, command)

    def test_pages_are_the_programs_own(self):
        for name in PAGES:
            command = [] if name == "ork.1" else [name[4:-2]]
            head = self.ork("help", "--manual", *command).stdout
            self.assertEqual(self.page(name).read_text(), head + (SOURCE / "docs" / "man" / f"{name}.in").read_text())


class Completion(ProgramTest):
    def complete(self, *words):
        """What the shell offers for the last word."""
        quoted = " ".join(f"'{word}'" for word in words)
        script = (f"{self.script}\ncompopt() {{ :; }}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _ork; "
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        process = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((process.returncode, process.stderr), (0, ""), words)
        return process.stdout.split()

    def setUp(self):
        if not shutil.which("bash"):
            self.skipTest("bash is not there")
        self.script = self.ork("completion", "bash").stdout

    def test_syntax(self):
        path = self.folder / "completion.bash"
        path.write_text(self.script)
        subprocess.run(["bash", "-n", str(path)], check=True, timeout=TIMEOUT)
        self.assertEqual(self.script, self.ork("--completion-bash").stdout)
        self.assertIn("only bash", self.refused("completion", "tcsh", code=2))

    def test_commands(self):
        self.assertEqual(sorted(self.complete("ork", "")), sorted([*COMMANDS, "--help", "--version"]))
        self.assertEqual(self.complete("ork", "pe"), ["perplexity"])
        self.assertEqual(self.complete("ork", "help", "ver"), ["verify", "version"])

    def test_options_and_values(self):
        self.assertEqual(self.complete("ork", "run", "--repeat-p"), ["--repeat-penalty"])
        self.assertEqual(self.complete("ork", "ppl", "--kl"), ["--kl-divergence-base", "--kl-divergence"])
        self.assertEqual(self.complete("ork", "run", "--load", ""), ["auto", "map", "copy"])
        self.assertEqual(self.complete("ork", "bench", "-o", "j"), ["json", "jsonl"])
        self.assertEqual(self.complete("ork", "pack", "--default-tier", "nf"), ["nf4"])
        self.assertEqual(self.complete("ork", "run", "-m", ""), [])  # files are the shell's business
        for command in COMMANDS:
            offered = self.complete("ork", command, "--")
            self.assertIn("--help", offered, command)


if __name__ == "__main__":
    unittest.main()
