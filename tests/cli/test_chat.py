"""ork chat on a pseudo-terminal, as a person meets it, and with lines from a pipe, as a script does."""

import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

from chat_model import add_chat_tokens
from support import COMMAND, DEMO, TIMEOUT, ProgramTest, environment

TEMPLATE = ("--chat-template", "chatml", "-t", "1", "--temp", "0", "-n", "12")


class Terminal:
    """The program on a pseudo-terminal; both of its outputs go there."""

    def __init__(self, arguments, env):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execvpe(arguments[0], arguments, env)
        self.shown = ""

    def read(self, until, timeout=TIMEOUT):
        """What comes until `until` does; fails loudly when it does not."""
        text, deadline = "", time.monotonic() + timeout
        while not re.search(until, text):
            ready, _, _ = select.select([self.descriptor], [], [], 0.2)
            if ready:
                try:
                    piece = os.read(self.descriptor, 4096)
                except OSError:  # the program has ended
                    piece = b""
                text += piece.decode("utf-8", "replace")
                if not piece:
                    break
            if time.monotonic() > deadline:
                break
        self.shown += text
        if not re.search(until, text):
            raise AssertionError(f"{until!r} did not come: {self.shown[-2000:]!r}")
        return text

    def say(self, line, until=r"\n> $"):
        os.write(self.descriptor, line.encode())
        return self.read(until)

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(status)


class ChatTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "chat.orkpack"
        add_chat_tokens(DEMO, cls.folder / "chat.gguf")
        subprocess.run([*COMMAND, "pack", str(cls.folder / "chat.gguf"), str(cls.model), "-q"], check=True, timeout=TIMEOUT,
                       env=environment(cls.folder), stdin=subprocess.DEVNULL)


class Chat(ChatTest):
    def start(self, *arguments, command="chat", **env):
        program = [*COMMAND, command, str(self.model), *TEMPLATE, *arguments]
        terminal = Terminal(program, environment(self.folder, **env))
        self.addCleanup(self.stop, terminal)
        return terminal

    def stop(self, terminal):
        try:
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def test_a_conversation(self):
        terminal = self.start("-v")
        terminal.read(r"\n> $|^> $")
        first = terminal.say("Who is the king?\n")
        self.assertRegex(first, r"prompt \d+ tokens")
        second = terminal.say("And the queen?\n")
        reused = re.search(r"prompt (\d+) tokens \((\d+) reused\)", second)
        self.assertTrue(reused, second)
        self.assertGreater(int(reused.group(2)), 5)
        again = terminal.say("/regen\n")
        self.assertEqual(again.split("\r\n")[1], second.split("\r\n")[1])
        self.assertIn("context 1024 tokens", terminal.say("/stats\n"))
        self.assertIn("/regen", terminal.say("/help\n"))
        self.assertIn("did you mean /clear", terminal.say("/claer\n"))
        self.assertIn("forgotten", terminal.say("/clear\n"))
        fresh = terminal.say("Who is the king?\n")
        self.assertEqual(fresh.split("\r\n")[1], first.split("\r\n")[1])
        os.write(terminal.descriptor, b"\x04")
        self.assertEqual(terminal.end(), 0)

    def test_exit(self):
        terminal = self.start()
        terminal.read(r"> $")
        os.write(terminal.descriptor, b"/exit\n")
        self.assertEqual(terminal.end(), 0)

    def test_several_lines(self):
        terminal = self.start("--dump-prompt")
        terminal.read(r"> $")
        terminal.say('"""One\n', until=r"\.\.\. $")
        shown = terminal.say('two"""\n')
        self.assertRegex(shown, r"One\r?\ntwo")
        shown = terminal.say('"""in one line"""\n')
        self.assertRegex(shown, r"user\r?\nin one line")
        self.assertRegex(terminal.say("//slash\n"), r"user\r?\n/slash")

    def test_interrupt_stops_the_answer_and_not_the_program(self):
        terminal = self.start("-n", "900", "--ignore-eos")
        terminal.read(r"> $")
        os.write(terminal.descriptor, b"Tell me everything.\n")
        terminal.read(r"\n.{8}")
        os.write(terminal.descriptor, b"\x03")
        shown = terminal.read(r"\n> $")
        if "stopped" not in shown and "context is full" in shown:
            self.skipTest("the answer is too fast to be stopped")
        terminal.read(r"", timeout=0)
        os.write(terminal.descriptor, b"\x03")
        self.assertIn("Ctrl-D", terminal.read(r"> $"))
        os.write(terminal.descriptor, b"\x04")
        self.assertEqual(terminal.end(), 0)

    def test_a_full_context_is_said_and_survived(self):
        terminal = self.start("-c", "64", "-n", "500", "--ignore-eos")
        terminal.read(r"> $")
        self.assertIn("context is full", terminal.say("Hello there.\n"))
        self.assertRegex(terminal.say("And now?\n"), r"prompt: has \d+ tokens, the context 64")
        terminal.say("/clear\n")
        self.assertIn("context is full", terminal.say("Hello again.\n"))

    def test_run_without_a_prompt_on_a_terminal_is_a_chat(self):
        terminal = self.start(command="run")
        self.assertIn("/help", terminal.read(r"> $"))
        os.write(terminal.descriptor, b"\x04")
        self.assertEqual(terminal.end(), 0)

    def test_no_color(self):
        colored = self.start(TERM="xterm")
        self.assertIn("\033[1;32m", colored.read(r"> \S*$"))
        plain = self.start(TERM="xterm", NO_COLOR="1")
        self.assertNotIn("\033[1", plain.read(r"> $"))


class Script(ChatTest):
    def test_lines_of_a_pipe_are_messages(self):
        process = self.ork("chat", self.model, *TEMPLATE, stdin="Who is the king?\n\nAnd the queen?\n")
        self.assertEqual(process.stdout.count("\n") >= 2, True)
        self.assertNotIn("> ", process.stderr)
        one = self.ork("chat", self.model, *TEMPLATE, "-st", stdin="Who is the king?\nAnd the queen?\n")
        self.assertTrue(process.stdout.startswith(one.stdout))

    def test_drafts_do_not_change_a_conversation(self):
        # The sampler's random numbers go on from answer to answer, also where a limit cut an answer within a draft.
        talk = "Say it again and again and again and again.\nAnd again and again and again.\n/regen\nOnce more.\n"
        for arguments in (("--temp", "0"), ("--temp", "0.4", "-s", "7"), ("--temp", "0.9", "-s", "8", "--repeat-penalty", "1.1"),
                          ("--temp", "0", "-r", "the")):
            common = ("chat", self.model, *TEMPLATE, "-n", "90", "--ignore-eos", *arguments)
            plain = self.ork(*common, stdin=talk)
            drafted = self.ork(*common, "--lookup", "--stats", stdin=talk)
            self.assertEqual(drafted.stdout, plain.stdout, arguments)
            self.assertEqual(len(re.findall(r"lookup: \d+ tokens drafted", drafted.stderr)), 4)

    def test_one_answer_through_the_template(self):
        chat = self.ork("chat", self.model, *TEMPLATE, "-st", "-p", "Who is the king?")
        run = self.ork("run", self.model, *TEMPLATE, "-p", "Who is the king?")
        both = self.ork("run", self.model, *TEMPLATE, "-cnv", "-st", "-p", "Who is the king?")
        self.assertEqual(chat.stdout, run.stdout)
        self.assertEqual(both.stdout, run.stdout)
        self.assertEqual(self.json("run", self.model, *TEMPLATE, "-p", "Who is the king?")["text"].rstrip("\n"),
                         run.stdout.rstrip("\n"))

    def test_system_message(self):
        plain = self.ork("run", self.model, *TEMPLATE, "-p", "Hello", "--dump-prompt")
        with_system = self.ork("run", self.model, *TEMPLATE, "-p", "Hello", "-sys", "Be\\nbrief.", "--dump-prompt")
        self.assertIn("system\nBe\nbrief.", with_system.stderr)
        self.assertNotIn("brief", plain.stderr)
        line = self.ork("run", self.model, "-no-cnv", "-p", "Hello", "-sys", "x", code=2).stderr
        self.assertIn("template", line)

    def test_control_tokens_in_a_message_are_text(self):
        ids = self.json("run", self.model, *TEMPLATE, "-n", "0", "-p", "a<|im_end|>b", "--dump-prompt")["prompt_ids"]
        plain = self.json("run", self.model, *TEMPLATE, "-n", "0", "-p", "ab", "--dump-prompt")["prompt_ids"]
        raw = self.json("run", self.model, "-no-cnv", "-n", "0", "-p", "a<|im_end|>b", "--dump-prompt", "-t", "1")["prompt_ids"]
        self.assertGreater(len(ids), len(plain) + 3)
        self.assertLess(len(raw), len(ids) - len(plain) + 4)

    def test_an_error_ends_a_script(self):
        process = self.ork("chat", self.model, *TEMPLATE, "-c", "32", stdin="word " * 100 + "\nshort\n", code=1)
        self.assertIn("context", process.stderr)

    def test_json_wants_one_answer(self):
        self.assertIn("one answer", self.ork("chat", self.model, *TEMPLATE, "--json", code=2).stderr)

    def test_a_model_without_a_template(self):
        process = self.ork("chat", self.pack(), stdin="hello\n", code=2)
        self.assertIn("--chat-template", process.stderr)


if __name__ == "__main__":
    unittest.main()
