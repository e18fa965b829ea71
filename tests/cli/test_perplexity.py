"""ork perplexity: the numbers are computed again here, from the probabilities in llama.cpp's file format."""

import array
import math
import re
import resource
import struct
import unittest

from support import DEMO, HELD_OUT, ProgramTest

CHUNK, CHUNKS = 64, 3


class Base:
    """Reader of llama.cpp's base file, written from its description."""

    def __init__(self, path):
        data = path.read_bytes()
        assert data[:8] == b"_logits_"
        self.chunk, self.vocabulary, self.chunks = struct.unpack_from("<III", data, 8)
        count = self.chunk * self.chunks
        self.tokens = list(array.array("i", data[20:20 + 4 * count]))
        self.words = 2 * ((self.vocabulary + 1) // 2) + 4
        self.first = self.chunk // 2
        self.counted = self.chunk - 1 - self.first
        at = 20 + 4 * count
        self.records = []  # log probabilities, per counted position
        for _ in range(self.chunks * self.counted):
            scale, smallest = struct.unpack_from("<ff", data, at)
            codes = array.array("H", data[at + 8:at + 8 + 2 * self.vocabulary])
            self.records.append([scale * code + smallest for code in codes])
            at += 2 * self.words
        assert at == len(data)

    def next_token(self, index):
        chunk, position = divmod(index, self.counted)
        return self.tokens[chunk * self.chunk + self.first + position + 1]


class Perplexity(ProgramTest):
    def arguments(self, tier):
        return ["perplexity", self.pack(tier), "-c", CHUNK, "--chunks", CHUNKS, "-t", "1"]

    def base(self, tier):
        path = self.folder / f"{tier}.kld"
        if not path.exists():
            self.ork(*self.arguments(tier), "-f", HELD_OUT, "--kl-divergence-base", path)
        return path

    def test_the_estimate_is_what_the_probabilities_say(self):
        base = Base(self.base("f32"))
        self.assertEqual((base.chunk, base.chunks), (CHUNK, CHUNKS))
        nll = [-record[base.next_token(i)] for i, record in enumerate(base.records)]
        mean = math.fsum(nll) / len(nll)
        variance = math.fsum(x * x for x in nll) / len(nll) - mean * mean
        result = self.json(*self.arguments("f32"), "-f", HELD_OUT)
        self.assertEqual(result["tokens"], CHUNKS * (CHUNK - 1 - CHUNK // 2))
        self.assertAlmostEqual(result["perplexity"] / math.exp(mean), 1, delta=1e-3)
        self.assertAlmostEqual(result["perplexity_error"] / (math.exp(mean) * math.sqrt(variance / (len(nll) - 1))), 1,
                               delta=1e-2)
        for record in base.records[:10]:  # they are probabilities
            self.assertAlmostEqual(math.fsum(map(math.exp, record)), 1, delta=2e-3)

    def test_text_output(self):
        text = self.ork(*self.arguments("f32"), "-f", HELD_OUT).stdout
        match = re.fullmatch(r"((?:\[\d+\]\d+\.\d{4},)+)\nFinal estimate: PPL = (\d+\.\d{4}) \+/- (\d+\.\d{5})\n", text)
        self.assertTrue(match, text)
        running = re.findall(r"\[(\d+)\](\d+\.\d{4}),", match.group(1))
        self.assertEqual([int(number) for number, _ in running], list(range(1, CHUNKS + 1)))
        self.assertEqual(running[-1][1], match.group(2))
        result = self.json(*self.arguments("f32"), "-f", HELD_OUT)
        self.assertAlmostEqual(result["perplexity"], float(match.group(2)), delta=1e-4)

    def test_all_chunks_of_a_short_text(self):
        path = self.folder / "short.txt"
        path.write_text(HELD_OUT.read_text()[:1500])
        result = self.json("perplexity", self.pack(), "-f", path, "-c", CHUNK, "-t", "1")
        self.assertGreater(result["chunks"], 2)
        self.assertEqual(result["tokens"], result["chunks"] * (CHUNK - 1 - CHUNK // 2))
        again = self.json("perplexity", self.pack(), "-f", "-", "-c", CHUNK, "-t", "1", stdin=path.read_text())
        self.assertEqual(again["perplexity"], result["perplexity"])

    def test_too_little_text(self):
        path = self.folder / "tiny.txt"
        path.write_text("Too little.")
        self.assertRegex(self.ork("perplexity", self.pack(), "-f", path, code=3).stderr, r"tiny\.txt: has \d+ tokens, .*1024")

    def test_divergence_from_itself_is_nothing(self):
        result = self.json(*self.arguments("f32"), "--kl-divergence", "--kl-divergence-base", self.base("f32"))
        self.assertEqual(result["same_top"], 1)
        self.assertLess(abs(result["kld"]), 1e-4)
        self.assertLess(result["delta_p_rms"], 1e-3)
        self.assertAlmostEqual(result["ratio"], 1, delta=1e-4)

    def test_divergence_is_what_two_base_files_say(self):
        p, q = Base(self.base("f32")), Base(self.base("i4"))
        klds, deltas, same = [], [], 0
        for i, (base, other) in enumerate(zip(p.records, q.records)):
            klds.append(math.fsum(math.exp(x) * (x - y) for x, y in zip(base, other) if x > -16))
            token = p.next_token(i)
            deltas.append(math.exp(other[token]) - math.exp(base[token]))
            same += max(range(len(base)), key=base.__getitem__) == max(range(len(other)), key=other.__getitem__)
        result = self.json(*self.arguments("i4"), "--kl-divergence", "--kl-divergence-base", self.base("f32"))
        self.assertEqual(result["tokens"], len(klds))
        mean = math.fsum(klds) / len(klds)
        self.assertGreater(mean, 1e-4)
        self.assertAlmostEqual(result["kld"], mean, delta=0.02 * mean + 1e-5)
        self.assertAlmostEqual(result["kld_percentiles"]["median"], sorted(klds)[len(klds) // 2], delta=0.03 * mean + 1e-5)
        self.assertAlmostEqual(result["kld_percentiles"]["maximum"], max(klds), delta=0.02 * max(klds))
        rms = math.sqrt(math.fsum(x * x for x in deltas) / len(deltas))
        self.assertAlmostEqual(result["delta_p_rms"], rms, delta=0.02 * rms + 1e-6)
        self.assertAlmostEqual(result["same_top"], same / len(klds), delta=1.5 / len(klds))
        text = self.ork(*self.arguments("i4"), "--kl-divergence", "--kl-divergence-base", self.base("f32")).stdout
        for words in ("Mean PPL(Q)", "Mean PPL(base)", "Mean    KLD:", "Median  KLD:", "99.9%   KLD:", "RMS Δp", "Same top p:"):
            self.assertIn(words, text)

    def test_an_existing_base_is_not_overwritten(self):
        path = self.base("f32")
        before = path.read_bytes()
        line = self.refused(*self.arguments("i4"), "-f", HELD_OUT, "--kl-divergence-base", path, code=1)
        self.assertIn("--kl-divergence", line)
        self.assertEqual(path.read_bytes(), before)

    def test_bad_base_files(self):
        data = self.base("f32").read_bytes()
        huge = data[:8] + struct.pack("<III", 1 << 24, struct.unpack_from("<I", data, 12)[0], 1 << 24) + data[20:]
        wrong_token = data[:20] + struct.pack("<i", -5) + data[24:]
        for name, content, words in (("empty", b"", "not a file"), ("text", b"hello, this is text, really", "not a file"),
                                     ("short", data[:-1], "truncated"), ("long", data + b"x", "too long"),
                                     ("head", data[:19], "not a file"), ("huge", huge, "truncated"),
                                     ("token", wrong_token, "at byte 20"),
                                     ("vocabulary", data[:12] + struct.pack("<I", 5) + data[16:], "vocabulary"),
                                     ("chunk", data[:8] + struct.pack("<I", 0) + data[12:], "at byte 8")):
            path = self.folder / f"bad-{name}.kld"
            path.write_bytes(content)
            process = self.ork("perplexity", self.pack("f32"), "--kl-divergence", "--kl-divergence-base", path, code=3)
            self.assertIn(words, process.stderr, name)
            self.assertEqual(process.stdout, "", name)
        self.ork("perplexity", self.pack("f32"), "--kl-divergence", "--kl-divergence-base", "nothing.kld", code=3)

    def test_a_base_that_cannot_be_written_leaves_nothing(self):
        self.ork(*self.arguments("f32"), "-f", HELD_OUT, "--kl-divergence-base", "/proc/nothing.kld", code=1)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))
        process = self.ork(*self.arguments("f32"), "-f", HELD_OUT, "--kl-divergence-base", "full.kld", code=1,
                           preexec_fn=limit)
        self.assertIn("full.kld", process.stderr)
        self.assertEqual(list(self.folder.glob("full.kld*")), [])

    def test_a_gguf_is_packed_first(self):
        result = self.json("perplexity", DEMO, "-f", HELD_OUT, "-c", CHUNK, "--chunks", "1", "-t", "1")
        self.assertTrue(result["pack"].endswith(".orkpack"))


if __name__ == "__main__":
    unittest.main()
