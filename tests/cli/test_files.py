"""Files that are wrong, missing, in the way or too large for the disk: one clear line, the right exit code, nothing half
written, nothing lost."""

import filecmp
import os
import resource
import signal
import struct
import subprocess
import time
import unittest

from support import COMMAND, DEMO, HELD_OUT, TIMEOUT, ProgramTest, environment

READERS = {
    "info": lambda path: ["info", path],
    "verify": lambda path: ["verify", path],
    "run": lambda path: ["run", path, "-p", "x", "-n", "1"],
    "chat": lambda path: ["chat", path],
    "bench": lambda path: ["bench", path, "-p", "1", "-n", "0"],
    "perplexity": lambda path: ["perplexity", path, "-f", HELD_OUT],
    "pack": lambda path: ["pack", path, "out.orkpack"],
}


class BadInput(ProgramTest):
    def each_refuses(self, path, *words, commands=READERS):
        for name in commands:
            line = self.refused(*READERS[name](path), code=3)
            self.assertIn(str(path), line, name)
            for word in words:
                self.assertIn(word, line, name)
            self.assertFalse((self.folder / "out.orkpack").exists(), name)
        self.assertEqual([p.name for p in self.folder.glob("out.orkpack*")], [])

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def test_missing(self):
        self.each_refuses(self.folder / "nothing.gguf", "No such file")
        self.each_refuses(HELD_OUT / "below-a-file", "Not a directory")

    def test_directory(self):
        (self.folder / "dir.gguf").mkdir()
        self.each_refuses(self.folder / "dir.gguf", "directory")

    def test_fifo_is_not_waited_for(self):
        path = self.folder / "pipe.gguf"
        os.mkfifo(path)
        self.each_refuses(path, "not a regular file")  # a program that waits is ended by ork()
        self.each_refuses("/dev/null", "not a regular file")

    def test_empty_and_tiny(self):
        self.each_refuses(self.write("empty.gguf", b""))
        for data in (b"G", b"GGU", b"GGUF", b"GGUF\3\0\0\0", b"\0" * 100):
            self.each_refuses(self.write("tiny.gguf", data))

    def test_text_and_other_kinds(self):
        self.each_refuses(HELD_OUT)
        self.each_refuses(self.write("elf.gguf", b"\x7fELF" + bytes(5000)))
        self.each_refuses(self.write("zip.gguf", b"PK\3\4" + bytes(5000)))

    def test_the_other_project_of_the_same_suffix_is_named(self):
        line = self.refused("info", self.write("foreign.orkpack", bytes(range(1, 251)) * 40 + b"ORKPK01\0"), code=3)
        self.assertRegex(line, "another project|other project|ork-driver|ORKPK01")

    def test_truncated_gguf(self):
        data = DEMO.read_bytes()
        for size in (30, 1000, 50000, len(data) // 2, len(data) - 1):
            self.each_refuses(self.write("cut.gguf", data[:size]), commands=["info", "run", "pack"])

    def test_gguf_of_an_unknown_architecture(self):
        data = DEMO.read_bytes()
        name = b"general.architecture"
        at = data.index(name) + len(name) + 4 + 8
        self.assertEqual(data[at:at + 7], b"lfm2moe")
        path = self.write("unknown.gguf", data[:at] + b"abcdefg" + data[at + 7:])
        self.assertIn("abcdefg", self.refused("pack", path, "out.orkpack", code=3))

    def test_gguf_of_an_unknown_version(self):
        data = DEMO.read_bytes()
        self.each_refuses(self.write("version.gguf", data[:4] + struct.pack("<I", 9) + data[8:]), commands=["info", "pack"])

    def test_truncated_and_damaged_orkpack(self):
        data = self.pack().read_bytes()
        for size in (7, 100, 4096, 8192, len(data) // 2, len(data) - 1):
            self.each_refuses(self.write("cut.orkpack", data[:size]), commands=["info", "verify", "run", "bench"])
        spoiled = bytearray(data)
        spoiled[len(spoiled) // 2] ^= 1
        path = self.write("spoiled.orkpack", bytes(spoiled))
        self.assertIn("spoiled.orkpack", self.ork("verify", path, code=3).stderr)

    def test_an_orkpack_is_not_packed_again(self):
        self.refused("pack", self.pack(), "out.orkpack", code=3)

    def test_a_gguf_cannot_be_verified(self):
        self.assertIn("GGUF", self.refused("verify", DEMO, code=3))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_no_permission(self):
        path = self.write("secret.gguf", DEMO.read_bytes()[:100])
        path.chmod(0)
        self.each_refuses(path, "Permission denied")

    def test_prompt_and_system_files(self):
        self.assertIn("No such file", self.refused("run", self.pack(), "-f", "nothing.txt", code=3))
        self.assertIn("directory", self.refused("run", self.pack(), "-f", ".", code=3))
        self.assertIn("No such file", self.refused("run", self.pack(), "-p", "x", "-sysf", "nothing.txt", code=3))

    def test_imatrix(self):
        self.assertIn("No such file", self.refused("pack", DEMO, "out.orkpack", "--imatrix", "nothing.dat", code=3))
        self.refused("pack", DEMO, "out.orkpack", "--imatrix", HELD_OUT, code=3)

    def test_names_with_newlines_stay_on_one_line(self):
        self.assertIn("a?b", self.refused("info", "a\nb", code=3))


class PackOutput(ProgramTest):
    def test_default_name(self):
        for name, packed in (("a.gguf", "a.orkpack"), ("b.c", "b.c.orkpack"), ("d.gguf.gguf", "d.gguf.orkpack")):
            os.symlink(DEMO, self.folder / name)
            self.ork("pack", name)
            self.assertTrue((self.folder / packed).is_file(), packed)

    def test_an_existing_output_is_kept(self):
        path = self.folder / "kept.orkpack"
        path.write_text("mine")
        self.assertIn("--force", self.refused("pack", DEMO, path, code=1))
        self.assertEqual(path.read_text(), "mine")
        self.ork("pack", DEMO, path, "--force")
        self.ork("verify", path)

    def test_places_where_nothing_can_be_written(self):
        self.assertIn("nowhere", self.refused("pack", DEMO, "nowhere/out.orkpack", code=1))
        self.assertIn("not a directory", self.refused("pack", DEMO, f"{HELD_OUT}/out.orkpack", code=1).lower())
        self.refused("pack", DEMO, ".", code=1)
        self.refused("pack", DEMO, "/dev/null", "--force", code=1)
        self.refused("pack", DEMO, "/proc/self/out.orkpack", code=1)

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_a_read_only_directory(self):
        folder = self.folder / "read-only"
        folder.mkdir()
        folder.chmod(0o555)
        self.assertIn("Permission denied", self.refused("pack", DEMO, folder / "out.orkpack", code=1))

    def test_the_input_is_never_the_output(self):
        path = self.folder / "same.gguf"
        path.write_bytes(DEMO.read_bytes())
        self.ork("pack", path, path, "--force", code=2)
        self.assertTrue(filecmp.cmp(path, DEMO, shallow=False))

    def test_rules(self):
        self.assertIn("nf5", self.refused("pack", DEMO, "r.orkpack", "--default-tier", "nf5", code=2))
        self.refused("pack", DEMO, "r.orkpack", "--tier", "[=i8", code=2)
        self.refused("pack", DEMO, "r.orkpack", "--tier", "nothing", code=2)
        process = self.ork("pack", DEMO, "r.orkpack", "--tier", "ffn_.*_exps=i4", "--tier", "nosuchtensor=i8")
        self.assertIn("1 of the --tier rules matched no tensor", process.stderr)
        tiers = {group["name"]: tier["tier"] for tier in self.json("info", "r.orkpack")["tiers"] for group in tier["groups"]}
        self.assertEqual(tiers["blk.*.ffn_up_exps.weight"], "i4")
        self.assertEqual(tiers["blk.*.attn_q.weight"], "i8")

    def test_dry_run_plans_what_is_packed_then(self):
        planned = self.json("pack", DEMO, "dry.orkpack", "--dry-run")
        self.assertEqual(list(self.folder.glob("dry.orkpack*")), [])
        packed = self.json("pack", DEMO, "dry.orkpack")
        self.assertEqual(planned["pack_bytes"], packed["pack_bytes"])
        self.assertEqual(packed["pack_bytes"], (self.folder / "dry.orkpack").stat().st_size)
        lines = self.ork("pack", DEMO, "dry2.orkpack", "--dry-run", "-v").stderr
        self.assertEqual(lines.count(", packed as "), planned["tensors"])
        self.assertEqual(self.ork("pack", DEMO, "dry2.orkpack", "-v").stderr.count(", packed as "), planned["tensors"])

    def test_threads_do_not_change_the_pack(self):
        for threads in (1, 2):
            self.ork("pack", DEMO, f"t{threads}.orkpack", "-t", threads)
        self.assertTrue(filecmp.cmp(self.folder / "t1.orkpack", self.folder / "t2.orkpack", shallow=False))

    def test_full_disk(self):
        path = self.folder / "full.orkpack"

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        line = self.ork("pack", DEMO, path, code=1, preexec_fn=limit).stderr
        self.assertRegex(line, r"ork: .*full\.orkpack.*(File too large|No space)")
        self.assertFalse(path.exists())
        self.ork("pack", DEMO, path)
        self.assertTrue(filecmp.cmp(path, self.pack(), shallow=False))


class Interruption(ProgramTest):
    def interrupt(self, path, number, wait_s):
        process = subprocess.Popen([*COMMAND, "pack", str(DEMO), str(path), "-t", "1"], stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, env=environment(self.folder), text=True)
        partial = path.with_name(path.name + ".partial")
        deadline = time.monotonic() + TIMEOUT
        while not partial.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(wait_s)
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT)
        return process.returncode, errors

    def resume(self, number, code):
        """Stops a pack in its middle; a fast machine may need another try with less patience."""
        for wait_s in (0.3, 0.1, 0.03, 0.0):
            path = self.folder / f"stopped-{number}-{wait_s}.orkpack"
            got, errors = self.interrupt(path, number, wait_s)
            if got == 0:
                continue
            self.assertEqual(got, code, errors)
            self.assertFalse(path.exists())
            return path, errors, self.json("pack", DEMO, path)
        self.skipTest("packing is too fast to be stopped")

    def test_interrupt_and_resume(self):
        path, errors, report = self.resume(signal.SIGINT, 130)
        self.assertIn("interrupted", errors)
        self.assertIn("same command", errors)
        self.assertTrue(filecmp.cmp(path, self.pack(), shallow=False))
        self.assertEqual([p.name for p in self.folder.glob(path.name + ".*")], [])
        self.assertGreaterEqual(report["resumed_tensors"], 0)

    def test_termination_and_resume(self):
        path, _, _ = self.resume(signal.SIGTERM, 143)
        self.assertTrue(filecmp.cmp(path, self.pack(), shallow=False))

    def test_kill_and_resume(self):
        path, _, _ = self.resume(signal.SIGKILL, -signal.SIGKILL)
        self.assertTrue(filecmp.cmp(path, self.pack(), shallow=False))


class StandardOutput(ProgramTest):
    def run_with(self, stdout, *arguments):
        process = subprocess.run([*COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stdout,
                                 stderr=subprocess.PIPE, env=environment(self.folder), timeout=TIMEOUT, text=True)
        return process.returncode, process.stderr

    def test_full(self):
        with open("/dev/full", "w") as full:
            for arguments in (["info", DEMO], ["info", DEMO, "--json"], ["help"], ["run", self.pack(), "-p", "x", "-n", "4"]):
                code, errors = self.run_with(full, *arguments)
                self.assertEqual(code, 1, arguments)
                self.assertIn("standard output", errors)

    def test_reader_that_leaves(self):
        for arguments in (["info", DEMO, "--tensors"], ["run", self.pack(), "-p", "x", "-n", "100", "-t", "1"]):
            read, write = os.pipe()
            os.close(read)
            code, errors = self.run_with(write, *arguments)
            os.close(write)
            self.assertEqual(code, 1, (arguments, errors))

    def test_closed_descriptors(self):
        pack = str(self.pack())
        for closed, code in ((">&-", 1), ("<&-", 0), ("2>&-", 0), ("<&- 2>&-", 0)):
            process = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "run", pack, "-p", "x", "-n", "2"],
                                     stdin=subprocess.DEVNULL, capture_output=True, env=environment(self.folder), timeout=TIMEOUT)
            self.assertEqual(process.returncode, code, closed)
        self.ork("verify", pack)  # nothing was written into the pack by way of a reused descriptor


class Cards(ProgramTest):
    def test_info_of_both_kinds(self):
        gguf, pack = self.json("info", DEMO, "--tensors"), self.json("info", self.pack(), "--tensors")
        self.assertEqual((gguf["kind"], pack["kind"]), ("gguf", "orkpack"))
        for key in ("architecture", "parameters", "active_parameters", "layers", "experts", "experts_used", "context_length",
                    "vocabulary_size", "tokenizer_model", "name"):
            self.assertEqual(gguf[key], pack[key], key)
        self.assertLess(pack["bytes_per_token"], gguf["bytes_per_token"])
        self.assertEqual(gguf["file_size_bytes"], DEMO.stat().st_size)
        for card in (gguf, pack):
            self.assertEqual(sum(tier["size_bytes"] for tier in card["tiers"]), card["weight_bytes"])
            self.assertEqual(sum(item["size_bytes"] for item in card["tensors"]), card["weight_bytes"])
            self.assertEqual(sum(tier["tensors"] for tier in card["tiers"]), len(card["tensors"]))
            for tier in card["tiers"]:
                self.assertEqual(sum(group["size_bytes"] for group in tier["groups"]), tier["size_bytes"])
        names = {item["name"]: item for item in pack["tensors"]}
        for item in gguf["tensors"]:
            self.assertEqual(names[item["name"]]["shape"], item["shape"])
            self.assertEqual(names[item["name"]]["source_type"], item["type"])

    def test_text_of_info(self):
        text = self.ork("info", self.pack()).stdout
        for words in ("lfm2moe", "experts", "active for a token", "a token reads", "bits a weight", "nf4"):
            self.assertIn(words, text)
        self.assertRegex(text, r"(?m)^    blk\.\*\.ffn_up_exps\.weight +x\d+ ")
        self.assertIn("relative", self.ork("pack", DEMO, "e.orkpack").stderr)

    def test_verify(self):
        report = self.json("verify", self.pack())
        self.assertTrue(report["ok"])
        self.assertGreater(report["planes"], 10)
        self.assertIn("ok", self.ork("verify", self.pack()).stdout)
        self.assertEqual(self.ork("verify", self.pack(), "-q").stdout, "")

    def test_a_name_with_terminal_commands_is_shown_harmlessly(self):
        data = DEMO.read_bytes()
        key = b"general.name"
        at = data.index(key) + len(key) + 4
        length = struct.unpack_from("<Q", data, at)[0]
        evil = b"\x1b[2J\xff\x07"[:length].ljust(length, b"x")
        path = self.folder / "evil.gguf"
        path.write_bytes(data[:at + 8] + evil + data[at + 8 + length:])
        process = subprocess.run([*COMMAND, "info", str(path)], capture_output=True, env=environment(self.folder),
                                 timeout=TIMEOUT)
        self.assertNotIn(b"\x1b", process.stdout + process.stderr)
        if process.returncode == 0:
            self.json("info", path)


if __name__ == "__main__":
    unittest.main()
