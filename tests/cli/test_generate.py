"""ork run: the same text for the same seed, where it stops, where the prompt comes from, what is printed where."""

import json
import signal
import subprocess
import unittest

from support import COMMAND, TIMEOUT, ProgramTest, environment

PROMPT = "The king said"


class Generate(ProgramTest):
    def text(self, *arguments, **more):
        return self.json("run", self.pack(), "-p", PROMPT, "-t", "1", *arguments, **more)["text"]

    def test_text_goes_to_stdout_and_nothing_else(self):
        greedy = self.text("--temp", "0", "-n", "12")
        process = self.ork("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "12")
        self.assertEqual(process.stdout, PROMPT + greedy + "\n")
        self.assertRegex(process.stderr, r"prompt \d+ tokens.*; generated 12 tokens.*ended by length")
        bare = self.ork("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "12", "--no-display-prompt")
        self.assertEqual(bare.stdout, greedy + "\n")

    def test_seed_decides(self):
        texts = [self.text("-s", seed, "-n", "24", "--temp", "1") for seed in (1, 2, 3, 1, 2, 3)]
        self.assertEqual(texts[:3], texts[3:])
        self.assertEqual(len(set(texts)), 3)

    def test_the_seed_that_was_drawn_is_said_and_repeats_the_text(self):
        first = self.json("run", self.pack(), "-p", PROMPT, "-n", "24", "-t", "1", "--temp", "1")
        self.assertEqual(self.text("-s", first["seed"], "-n", "24", "--temp", "1"), first["text"])
        process = self.ork("run", self.pack(), "-p", PROMPT, "-n", "2", "-t", "1", "-s", "77")
        self.assertIn("seed 77", process.stderr)

    def test_threads_batches_loading_and_instruction_sets_do_not_change_the_text(self):
        expected = self.text("-n", "16", "-s", "5")
        for arguments in (("-t", "2"), ("-tb", "2"), ("-ub", "1"), ("-ub", "3"), ("--load", "map"), ("--load", "copy"),
                          ("-c", "64"), ("-b", "2")):
            self.assertEqual(self.text("-n", "16", "-s", "5", *arguments), expected, arguments)
        self.assertEqual(self.text("-n", "16", "-s", "5", env={"ORK_CPU_MASK": "scalar"}), expected)

    def test_greedy_ignores_the_seed(self):
        self.assertEqual(self.text("--temp", "0", "-n", "16", "-s", "1"), self.text("--temp", "0", "-n", "16", "-s", "2"))
        self.assertEqual(self.text("--temp", "0", "-n", "16"), self.text("--top-k", "1", "-n", "16", "-s", "3"))

    def test_number_of_tokens(self):
        for count in (0, 1, 7):
            result = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "-n", count, "--ignore-eos")
            self.assertEqual(result["generated_tokens"], count)
            self.assertEqual(result["finish_reason"], "length")

    def test_context_end(self):
        result = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "-c", "24", "--ignore-eos")
        self.assertEqual(result["finish_reason"], "context")
        self.assertEqual(result["prompt_tokens"] + result["generated_tokens"], 24)
        line = self.ork("run", self.pack(), "-p", "word " * 50, "-t", "1", "-c", "24", code=1).stderr
        self.assertRegex(line, r"ork: prompt: has \d+ tokens, the context 24")

    def test_stop_strings(self):
        whole = self.text("--temp", "0", "-n", "40")
        for begin, length in ((0, 1), (3, 2), (5, 7), (11, 4), (20, 10)):
            stop = whole[begin:begin + length]
            result = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "40", "--no-escape", "-r", stop)
            self.assertEqual(result["text"], whole[:whole.index(stop)], stop)
            self.assertEqual(result["finish_reason"], "stop")
            streamed = self.ork("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "40", "--no-escape", "-r", stop,
                                "--no-display-prompt")
            self.assertEqual(streamed.stdout.rstrip("\n"), result["text"].rstrip("\n"))
        # A beginning of a stop string at the very end is text.
        self.assertEqual(self.text("--temp", "0", "-n", "40", "--no-escape", "-r", whole[-3:] + "never"), whole)

    def test_end_tokens(self):
        special = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "300", "--ignore-eos")
        self.assertEqual(special["finish_reason"], "length")

    def compare_lookup(self, *arguments):
        """The answer with drafts is the one without; returns what the lookup did."""
        common = ("run", self.pack(), "-no-cnv", "-t", "1", *arguments)
        plain, drafted = self.json(*common), self.json(*common, "--lookup")
        for key in ("text", "finish_reason", "prompt_tokens", "generated_tokens"):
            self.assertEqual(plain[key], drafted[key], arguments)
        self.assertIsNone(plain["lookup"])
        lookup = drafted["lookup"]
        self.assertEqual(lookup["passes"] + lookup["accepted"], max(0, drafted["generated_tokens"] - 1), arguments)
        self.assertLessEqual(lookup["accepted"], lookup["drafted"])
        return lookup

    def test_lookup_does_not_change_the_text(self):
        greedy = ("-p", PROMPT, "--temp", "0", "--ignore-eos")
        self.assertGreater(self.compare_lookup(*greedy, "-n", "200")["accepted"], 50)
        for size in ("1", "3", "31"):
            self.assertGreater(self.compare_lookup(*greedy, "-n", "200", "--draft-max", size)["accepted"], 50)
        for seed in range(1, 5):
            sampled = ("-p", "to thy servant, " * 12, "-s", seed, "-n", "120")
            self.compare_lookup(*sampled, "--temp", "0.2")
            self.compare_lookup(*sampled, "--temp", "0.9", "--repeat-penalty", "1.2", "--repeat-last-n", "-1")
            self.compare_lookup(*sampled, "--temp", "1.5", "--frequency-penalty", "0.1", "--top-k", "0")

    def test_lookup_ends_where_generation_ends_without(self):
        greedy = ("-p", PROMPT, "--temp", "0")
        for count in range(60, 90, 2):  # within drafts, whose places do not depend on the limit
            self.compare_lookup(*greedy, "--ignore-eos", "-n", count)
        for context in range(100, 112, 2):
            self.assertGreater(self.compare_lookup(*greedy, "--ignore-eos", "-c", context)["accepted"], 10)
        whole = self.text("--temp", "0", "-n", "200", "--ignore-eos")
        for end in range(100, 140, 5):  # the first place where this many letters stand is not always the last
            self.compare_lookup(*greedy, "-n", "200", "--no-escape", "-r", whole[end - 40:end])
        # Small batches bound the draft; one row leaves no room for any.
        self.assertEqual(self.compare_lookup(*greedy, "-n", "100", "-ub", "1")["drafted"], 0)
        self.assertGreater(self.compare_lookup(*greedy, "-n", "100", "-ub", "3")["accepted"], 10)

    def test_lookup_through_an_npu(self):
        # Rows that are all whole are the same everywhere, so that drafts may be computed by the NPU.
        common = ("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "80", "--activation-block", "-1")
        plain = self.json(*common)
        drafted = self.json(*common, "--lookup", "--npu", "soft", "--npu-rows", "2", "--npu-required")
        self.assertEqual(drafted["text"], plain["text"])
        self.assertGreater(drafted["lookup"]["accepted"], 10)

    def test_lookup_beside_an_overlay_drafts_nothing(self):
        common = ("run", self.pack("n8"), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "60", "--npu", "soft",
                  "--overlay", "on", "--overlay-all")
        process = self.ork(*common, "--lookup", "--json")
        self.assertIn("lookup: no drafts", process.stderr)
        drafted = json.loads(process.stdout)
        self.assertEqual(drafted["lookup"]["drafted"], 0)
        self.assertEqual(drafted["lookup"]["passes"], 59)
        self.assertEqual(drafted["text"], self.json(*common)["text"])

    def test_lookup_is_shown_and_bounded(self):
        common = ("run", self.pack(), "-p", PROMPT, "-t", "1", "--temp", "0", "-n", "100")
        self.assertRegex(self.ork(*common, "--lookup").stderr, r"lookup: \d+ tokens drafted, \d+ of them right; \d+ passes")
        self.assertNotIn("lookup", self.ork(*common).stderr)
        for size in ("0", "32", "x"):
            self.refused(*common, "--lookup", "--draft-max", size, code=2)
        self.assertIsNotNone(self.json(*common, env={"ORK_LOOKUP": "1"})["lookup"])

    def test_where_the_prompt_comes_from(self):
        expected = self.text("--temp", "0", "-n", "8")
        path = self.folder / "prompt.txt"
        path.write_text(PROMPT + "\n")
        common = ("-t", "1", "--temp", "0", "-n", "8")
        self.assertEqual(self.json("run", self.pack(), "-f", path, *common)["text"], expected)
        self.assertEqual(self.json("run", self.pack(), "-f", "-", *common, stdin=PROMPT)["text"], expected)
        self.assertEqual(self.json("run", self.pack(), *common, stdin=PROMPT + "\n")["text"], expected)
        self.assertEqual(self.json("run", "-m", self.pack(), f"--prompt={PROMPT}", *common)["text"], expected)

    def test_escapes(self):
        def ids(prompt, *more):
            return self.json("run", self.pack(), "-p", prompt, "-t", "1", "-n", "0", "--dump-prompt", *more)["prompt_ids"]
        self.assertEqual(ids("a\\nb\\t\\x41\\\\n"), ids("a\nb\tA\\n", "--no-escape"))
        self.assertNotEqual(ids("a\\nb", "--no-escape"), ids("a\nb", "--no-escape"))
        self.assertEqual(ids("a\\qb\\"), ids("a\\qb\\", "--no-escape"))

    def test_dump_prompt(self):
        process = self.ork("run", self.pack(), "-p", "The king", "-t", "1", "-n", "0", "--dump-prompt")
        self.assertIn("prompt: The king\n", process.stderr)
        self.assertRegex(process.stderr, r'(?m)^ +\d+ "')

    def test_stats(self):
        process = self.ork("run", self.pack(), "-p", PROMPT, "-t", "1", "-n", "2", "--stats")
        self.assertRegex(process.stderr, r"weights .* in .* s; context \d+ tokens: KV")
        self.assertRegex(process.stderr, r"kernels \w+; threads 1, ")

    def test_json_holds_the_numbers(self):
        result = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "-n", "4", "-c", "100")
        for key in ("model", "pack", "text", "finish_reason", "seed", "prompt_tokens", "generated_tokens", "reused_tokens",
                    "prompt_seconds", "generate_seconds", "prompt_tokens_per_second", "generated_tokens_per_second",
                    "load_seconds", "load_mode", "weight_bytes", "context_length", "kv_bytes", "threads", "kernels"):
            self.assertIn(key, result)
        self.assertEqual(result["threads"], 1)
        self.assertGreaterEqual(result["context_length"], 100)

    def test_kv_types(self):
        for kind in ("f16", "f32"):
            result = self.json("run", self.pack(), "-p", PROMPT, "-t", "1", "-n", "4", "-ctk", kind, "-ctv", kind)
            self.assertEqual(result["generated_tokens"], 4)

    def test_any_bytes_in_and_valid_text_out(self):
        path = self.folder / "bytes.txt"
        path.write_bytes(bytes(range(1, 256)))
        result = self.json("run", self.pack(), "-f", path, "-t", "1", "-n", "4", "-no-cnv")
        self.assertGreater(result["prompt_tokens"], 100)
        text = self.text("-n", "200", "--temp", "5", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "3", "--ignore-eos")
        text.encode("utf-8")

    def test_empty_prompt(self):
        # The model adds BOS, so that there is something to begin with.
        result = self.json("run", self.pack(), "-p", "", "-t", "1", "-n", "4")
        self.assertEqual(result["prompt_tokens"], 1)

    def test_interrupt(self):
        # Without a buffer of this side: what it had read ahead would be in neither part.
        process = subprocess.Popen([*COMMAND, "run", str(self.pack()), "-p", PROMPT, "-t", "1", "-n", "-1", "-c", "1000",
                                    "--ignore-eos"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment(self.folder), bufsize=0)
        text = b""
        while len(text) < len(PROMPT) + 5 and (part := process.stdout.read(len(PROMPT) + 5 - len(text))):
            text += part
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=TIMEOUT)
        text, errors = text + rest, errors.decode()
        if "ended by context" in errors:
            self.skipTest("generation is too fast to be interrupted")
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("ended by interrupted", errors)
        self.assertTrue(text.startswith(PROMPT.encode()))
        self.assertTrue(text.endswith(b"\n"))

    def test_poll_and_cpu_choice(self):
        for arguments in (("--poll", "0"), ("--poll", "100"), ("-C", "1"), ("-Cr", "0-0")):
            self.assertTrue(self.text("-n", "2", "--temp", "0", *arguments), arguments)


if __name__ == "__main__":
    unittest.main()
