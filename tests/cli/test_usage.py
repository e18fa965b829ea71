"""Arguments and environment: spellings, bounds, what is ignored and said, what is refused, and how."""

import random
import re
import subprocess
import unittest

from support import COMMAND, COMMANDS, DEMO, TIMEOUT, ProgramTest, environment


def options_of(text):
    """Spellings in a help text."""
    found = re.findall(r"^  (-[^ ].*?)(?:  |$)", text, re.M)
    return [re.sub(r" .*", "", name) for line in found for name in line.split(", ")]


class Commands(ProgramTest):
    def test_no_command_shows_the_way(self):
        process = self.ork(code=2)
        self.assertEqual(process.stderr, "ork: no command\ntry: ork --help\n")

    def test_nearest_command(self):
        self.assertIn("did you mean 'pack'?", self.refused("pakc", code=2))
        self.assertIn("did you mean 'perplexity'?", self.refused("perplexty", code=2))
        self.assertNotIn("did you mean", self.refused("qqqqqqqq", code=2))

    def test_a_file_or_an_option_instead_of_a_command(self):
        self.assertIn("ork run", self.refused(DEMO, code=2))
        self.assertIn("ork run", self.refused("-m", DEMO, "-p", "x", code=2))

    def test_help_of_everything(self):
        overview = self.ork("--help").stdout
        for command in COMMANDS:
            self.assertRegex(overview, rf"(?m)^  {command} ")
            text = self.ork(command, "--help").stdout
            self.assertTrue(text.startswith(f"usage: ork {command} "), command)
            self.assertEqual(text, self.ork("help", command).stdout)
            self.assertIn("--help", options_of(text))
        self.assertEqual(overview, self.ork("help").stdout)
        self.assertIn("usage: ork run", self.ork("run", "-n", "5", "-h").stdout)
        self.assertIn("usage: ork perplexity", self.ork("ppl", "-h").stdout)

    def test_help_of_an_unknown_command(self):
        self.refused("help", "qqqq", code=2)

    def test_version(self):
        self.assertRegex(self.ork("--version").stdout, r"^ork \d+\.\d+\.\d+\n$")
        self.assertEqual(self.ork("version").stdout, self.ork("--version").stdout)
        self.assertRegex(self.ork("version", "-v").stdout, r"kernels \w+, \d+ threads")

    def test_an_unknown_cpu_mask_is_named(self):
        process = self.ork("version", "-v", env={"ORK_CPU_MASK": "avx9000"}, code=2)
        self.assertIn("avx9000", process.stderr)


class Options(ProgramTest):
    def test_every_command_refuses_an_unknown_option(self):
        for command in COMMANDS:
            process = self.ork(command, "--no-such-thing-at-all", code=2)
            self.assertIn("unknown option '--no-such-thing-at-all'", process.stderr)
            self.assertIn(f"try: ork {command} --help", process.stderr)

    def test_nearest_option(self):
        for typed, meant in (("--tmep", "--temp"), ("--treads", "--threads"), ("--ctx-sise", "--ctx-size"),
                             ("--n-predcit", "--n-predict"), ("--min_pp", "--min-p")):
            self.assertIn(f"did you mean '{meant}'?", self.refused("run", "m", typed, "1", code=2))

    def test_values_out_of_bounds_or_of_the_wrong_kind(self):
        for arguments in (("-n", "x"), ("-n", "1.5"), ("-n", ""), ("-n", " 1"), ("-n", "-2"), ("-n", "99999999999999999999"),
                          ("--top-p", "2"), ("--top-p", "nan"), ("--temp", "warm"), ("--temp", "inf"), ("-t", "100000"),
                          ("--load", "fast"), ("-ctk", "q4_0"), ("-s", "-2"), ("--repeat-penalty", "0"),
                          ("--chat-template", "nosuch"), ("-C", "xyz"), ("-C", "0"), ("-C", ""), ("-Cr", "4"),
                          ("-Cr", "5-4"), ("--poll", "101")):
            line = self.refused("run", DEMO, "-p", "x", *arguments, code=2)
            self.assertIn(arguments[0], line)

    def test_missing_value(self):
        for option in ("-n", "--temp", "-p", "--load", "-ngl"):
            self.assertIn(f"{option} needs a value", self.refused("run", DEMO, option, code=2))

    def test_value_where_none_belongs(self):
        self.assertIn("takes no value", self.refused("run", DEMO, "--ignore-eos=1", code=2))

    def test_too_many_arguments(self):
        self.assertIn("unexpected argument 'b'", self.refused("info", "a", "b", code=2))
        self.assertIn("two models", self.refused("run", "a", "-m", "b", "-p", "x", code=2))

    def test_no_model_no_file_no_prompt(self):
        self.assertIn("no model", self.refused("run", "-p", "x", code=2))
        self.assertIn("no model", self.refused("bench", code=2))
        self.assertIn("no file", self.refused("info", code=2))
        self.assertIn("no file", self.refused("verify", code=2))
        self.assertIn("no input", self.refused("pack", code=2))
        self.assertIn("no prompt", self.refused("run", DEMO, code=2))
        self.assertIn("no prompt", self.refused("run", DEMO, "-no-cnv", code=2))
        self.assertIn("no text", self.refused("perplexity", DEMO, code=2))

    def test_options_that_exclude_each_other(self):
        self.refused("run", DEMO, "-p", "x", "-f", DEMO, code=2)
        self.refused("run", DEMO, "-p", "x", "-sys", "x", "-sysf", DEMO, code=2)
        self.refused("chat", DEMO, "-no-cnv", code=2)
        self.refused("perplexity", DEMO, "--kl-divergence", code=2)

    def test_what_is_known_elsewhere_and_not_supported(self):
        for option in ("-hf", "--grammar", "--mirostat", "--lora", "--samplers"):
            self.assertIn("is not supported", self.refused("run", DEMO, option, "x", code=2))

    def test_spellings_that_mean_the_same(self):
        for spelling in (("-n", "3"), ("--predict", "3"), ("--n-predict", "3"), ("--n-predict=3"), ("--n_predict", "3"),
                         ("--n_predict=3",), ("-n3",), ("-n=3",)):
            spelling = (spelling,) if isinstance(spelling, str) else spelling
            result = self.json("run", "-m", self.pack(), "-p", "The", "--temp", "0", "-t", "1", *spelling)
            self.assertEqual(result["generated_tokens"], 3, spelling)

    def test_ignored_options_are_said_and_take_their_values(self):
        process = self.ork("run", self.pack(), "-ngl", "99", "-fa", "on", "-fa", "-cmoe", "--repack", "-ot", "exps=CPU",
                           "--jinja", "--prio=2", "--mlock", "-lv", "3", "-p", "The", "-n", "1", "-t", "1")
        for said in ("-ngl 99", "-fa on", "-fa is", "-cmoe", "--repack", "-ot exps=CPU", "--jinja", "--prio 2", "--mlock",
                     "-lv 3"):
            self.assertRegex(process.stderr, rf"ork: {re.escape(said)}.*ignored|ork: {re.escape(said)} ignored", said)
        quiet = self.ork("run", self.pack(), "-q", "-ngl", "99", "-p", "The", "-n", "1", "-t", "1")
        self.assertEqual(quiet.stderr, "")
        self.assertEqual(quiet.stdout[:3], "The")

    def test_load_modes_in_old_and_new_spelling(self):
        for spelling, mode in ((("--load", "map"), "mapped"), (("--load=copy",), "copied"), (("--no-mmap",), "copied"),
                               (("--mmap",), "mapped"), (("-lm", "mmap"), "mapped"), (("-lm", "none"), "copied")):
            result = self.json("run", self.pack(), "-p", "The", "-n", "1", "-t", "1", *spelling)
            self.assertEqual(result["load_mode"], mode, spelling)
        process = self.ork("run", self.pack(), "-p", "The", "-n", "1", "-t", "1", "-lm", "mmap+mlock")
        self.assertIn("not locked", process.stderr)

    def test_after_two_dashes_everything_is_an_argument(self):
        self.assertIn("-x", self.refused("info", "--", "-x", code=3))

    def test_a_cpu_that_is_not_there(self):
        self.refused("run", DEMO, "-p", "x", "-Cr", "1000-1001", code=1)

    def test_bench_lists(self):
        for bad in ("4-1", "1,,2", "x", "1-", "1-8*1", "0-8*2", "1-8+0", "", "-1", "1-100000"):
            self.assertIn("bench", self.refused("bench", DEMO, f"-p={bad}", code=2))
        self.refused("bench", DEMO, "-pg", "5", code=2)
        self.refused("bench", DEMO, "-ctk", "q8_0", code=2)
        self.refused("bench", DEMO, "-p", "0", "-n", "0", code=2)
        self.refused("bench", DEMO, "-o", "xml", code=2)

    def test_random_arguments_never_crash(self):
        random.seed(1)
        words = ["-p", "-n", "--temp", "-c", "x", "0", "-1", "", "--", "-", "=", "--=", "-=x", "--json", "-h", "é", "\n", "-fa",
                 "--tier", "[", "-ngl", "-C", "f", "--poll", "-r", "nosuchfile", "-" * 100, "9" * 40, "--load", "-pg", "1,1"]
        for _ in range(150):
            command = random.choice(COMMANDS)
            arguments = [random.choice(words) for _ in range(random.randrange(6))]
            if command in ("calibrate", "probe"):
                arguments.append("nosuchfile")  # what it would measure takes as long as the machine is busy
            process = self.ork_any(command, *arguments)
            self.assertIn(process.returncode, (0, 1, 2, 3, 4), (command, arguments, process.stderr))

    def ork_any(self, *arguments):
        return subprocess.run([*COMMAND, *arguments], input="", capture_output=True, text=True, timeout=TIMEOUT,
                              env=environment(self.folder), cwd=self.folder)


class Environment(ProgramTest):
    def generated(self, *arguments, **env):
        return self.json("run", self.pack(), "-p", "The", "--temp", "0", "-t", "1", *arguments, env=env)["generated_tokens"]

    def test_precedence(self):
        self.assertEqual(self.generated(LLAMA_ARG_N_PREDICT="3"), 3)
        self.assertEqual(self.generated(ORK_N_PREDICT="2", LLAMA_ARG_N_PREDICT="3"), 2)
        self.assertEqual(self.generated("-n", "1", ORK_N_PREDICT="2", LLAMA_ARG_N_PREDICT="3"), 1)

    def test_model(self):
        result = self.json("run", "-p", "The", "-n", "1", "-t", "1", env={"LLAMA_ARG_MODEL": str(self.pack())})
        self.assertEqual(result["generated_tokens"], 1)
        # An argument beats the environment, so that the wrong name there does not matter.
        self.json("run", "-m", self.pack(), "-p", "The", "-n", "1", "-t", "1", env={"ORK_MODEL": "/nowhere"})
        self.json("run", self.pack(), "-p", "The", "-n", "1", "-t", "1", env={"ORK_MODEL": "/nowhere"})

    def test_bad_values_name_the_variable(self):
        self.assertIn("ORK_N_PREDICT", self.refused("run", DEMO, "-p", "x", code=2, env={"ORK_N_PREDICT": "many"}))
        self.assertIn("LLAMA_ARG_LOAD_MODE", self.refused("run", DEMO, "-p", "x", code=2, env={"LLAMA_ARG_LOAD_MODE": "x"}))


if __name__ == "__main__":
    unittest.main()
