#!/usr/bin/env python3
"""Writes vectors/*.json: how Hugging Face tokenizers and SentencePiece split and encode the texts of nasty.json, how
Jinja renders random conversations with real templates, and how Python decodes bytes that are no UTF-8.

Owns: tiny vocabularies trained here, and what the libraries make of them; they are what ork's results are compared with
where no real vocabulary is at hand. Must not know ork. Needs the packages tokenizers, sentencepiece, gguf and jinja2;
the output is committed, and equal on every run with equal versions.
"""

import base64
import io
import json
import random
import sys
from pathlib import Path

import gguf
import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "compat"), str(HERE.parent.parent / "tools")]
import chat_cases  # noqa: E402
import fetch_models  # noqa: E402

OUT = HERE / "vectors"

CORPUS = """The quick brown fox jumps over the lazy dog. The dog doesn't mind; it's asleep, they're all asleep.
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.
In 1984 there were 12345 of them, 3.14159 was near enough, and 100000 = 10^5.
def main(argument):\n    if argument is None:\n        return {"key": [1, 2, 3]}\n    for i in range(10):\n\t\tprint(i)\n
Привет, мир! Как дела? Всё хорошо, спасибо. Съешь же ещё этих мягких французских булок.
今天天气很好，我们去公园吧。今天天气不好，我们在家。 こんにちは世界。さようなら世界。
नमस्ते दुनिया, यह एक परीक्षण है। यह एक और परीक्षण है।
Der Fluß fließt, die Straße ist naß. Où est l'été? C'est l'été. ¿Qué? ¡Así!
😀 😀😃 👨‍👩‍👧 🇮🇹 🇫🇷   spaces    and     more      spaces\n\n\nnew lines\n\n
"""

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
QWEN35 = (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(tail, number):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{tail}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{tail}|{number}"
            r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


# By ork's name: what stands before the mapping of bytes. use_regex is the library's own form of the GPT-2 expression.
PRE = {
    "gpt-2": [byte_level(True)],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), byte_level(True)],
    "llama-bpe": [split(LLAMA3), byte_level(False)],
    "qwen2": [split(QWEN2), byte_level(False)],
    "qwen35": [split(QWEN35), byte_level(False)],
    "gpt-4o": [split(cased(CONTRACTION + "?", r"\p{N}{1,3}")), byte_level(False)],
    "tekken": [split(cased("", r"\p{N}")), byte_level(False)],
    "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), byte_level(True), split(r"\p{N}+"), split("[0-9][0-9][0-9]")],
}

EXTRA = [
    ("Mongolian vowel separator", "a\u180eb \u180e c"),
    ("next line and no-break spaces", "a\u0085b\u00a0c\u202fd\u2028e\u2029 \u3000f"),
    ("information separators", "a\x1cb\x1d \x1ec\x1f"),
    ("cased words", "HelloWorld HELLOWorld helloWORLD ǅungla ẞß ﬃ ªº ʰʱ 'S it'S WE'LL'd"),
    ("marks", "e\u0301te\u0301 E\u0301TE\u0301 \u0301 a\u0301b 1\u0301 नि ก็"),
    ("slashes after punctuation", "http://a.b/c//d ./\n/ //\r\n"),
    ("words of a tokenizer", "unreachable unreachable's\nunreachable"),
]


def texts():
    for entry in json.loads((HERE.parent / "compat" / "nasty.json").read_text(encoding="ascii")):
        if "text" in entry and len(entry["text"]) <= 400:
            yield entry["name"], entry["text"]
    yield from EXTRA


def trained():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = byte_level(True)
    trainer = trainers.BpeTrainer(vocab_size=520, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    state = json.loads(tokenizer.to_str())["model"]
    vocabulary = sorted(state["vocab"], key=state["vocab"].get)
    # No merges lead here: only a tokenizer that looks at whole words first finds it.
    vocabulary += ["Ġunreachable", "unreachable"]
    return vocabulary, [tuple(merge) for merge in state["merges"]]


def encoder(vocabulary, merges, pre, ignore_merges):
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(vocabulary)}, merges,
                                     ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(PRE[pre])
    return tokenizer


def word_sizes(pre, text):
    """Bytes of each word; the pieces are in the byte alphabet, one character a byte."""
    if pre == "default":  # the byte mapping comes last, so the earlier lengths are of characters
        first, gpt2, *rest = PRE[pre]
        words = [text[begin:end] for _, (begin, end) in first.pre_tokenize_str(text)]
        words = [word[begin:end] for word in words for _, (begin, end) in gpt2_words(word)]
        for step in rest:
            words = [word[begin:end] for word in words for _, (begin, end) in step.pre_tokenize_str(word)]
        return [len(word.encode()) for word in words]
    return [len(word) for word, _ in pre_tokenizers.Sequence(PRE[pre]).pre_tokenize_str(text)]


def gpt2_words(text):
    return split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+").pre_tokenize_str(text)


def write(name, value):
    lines = [json.dumps(key) + ": " + ("[\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in item) + "\n]"
                                       if key == "cases" else json.dumps(item, separators=(",", ":")))
             for key, item in value.items()]
    (OUT / name).write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")


def make_splits():
    chosen = list(texts())
    write("texts.json", {"cases": [{"name": name, "text": text} for name, text in chosen]})
    for pre in PRE:
        write(f"split-{pre}.json", {"pre": pre, "cases": [word_sizes(pre, text) for _, text in chosen]})


def make_bpe():
    vocabulary, merges = trained()
    cases = []
    for pre, ignore_merges in (("gpt-2", False), ("llama-bpe", True)):
        tokenizer = encoder(vocabulary, merges, pre, ignore_merges)
        cases += [{"pre": pre, "text": i, "ids": tokenizer.encode(text).ids}
                  for i, (_, text) in enumerate(texts()) if len(text) <= 30 or "unreachable" in text]
    write("bpe.json", {"tokens": vocabulary, "merges": [" ".join(merge) for merge in merges], "cases": cases})


def make_spm():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.replace("\t", " ").split("\n")), model_writer=model, model_type="bpe",
        vocab_size=720, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=True,
        remove_extra_whitespaces=False, character_coverage=0.98, split_digits=False, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    size = processor.get_piece_size()

    def kind(i):
        return (2 if processor.is_unknown(i) else 3 if processor.is_control(i) else 6 if processor.is_byte(i)
                else 5 if processor.is_unused(i) else 1)

    write("spm.json", {
        "tokens": [processor.id_to_piece(i) for i in range(size)],
        "scores": [processor.get_score(i) for i in range(size)],
        "types": [kind(i) for i in range(size)],
        "cases": [{"text": i, "ids": processor.encode(text)} for i, (_, text) in enumerate(texts())
                  if len(text) <= 200 and text],
    })


# Fragments that the templates look for, or that are easily put in the wrong place.
FRAGMENTS = ["<think>", "</think>", "<tool_response>", "</tool_response>", "\n", "\n\n", " ", "\t", "\u00a0", "\u2003",
             "x", "Rome.", "ответ", "\u200b", "<|im_end|>", "<|eot_id|>", ""]


def random_conversations(count):
    rng = random.Random(20261129)
    for _ in range(count):
        roles = ["system"] * (rng.random() < 0.4)
        roles += rng.choices(["user", "assistant", "assistant"], k=rng.randint(1, 4))
        if rng.random() < 0.1:
            roles.append("system")
        yield [{"role": role, "content": "".join(rng.choices(FRAGMENTS, k=rng.randint(0, 7)))} for role in roles]


def make_chat():
    """Needs the templates in the cache: tools/fetch_models.py --models chat-templates."""
    cache = fetch_models.cache_directory(None)
    names = ["LFM2-8B-A1B", "LFM2.5-8B-A1B", "LFM2.5-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.2-3B-Instruct"]
    smollm2 = gguf.GGUFReader(cache / "SmolLM2-135M-Instruct.gguf").fields["tokenizer.chat_template"].contents()
    templates = {name: (cache / f"{name}.jinja").read_text(encoding="utf-8") for name in names}
    templates["SmolLM2-135M-Instruct"] = smollm2
    conversations, cases = list(random_conversations(40)), []
    for name, template in templates.items():
        bos = chat_cases.BOS_TEXTS.get(name, "")
        for i, messages in enumerate(conversations):
            cases.append({"template": name, "conversation": i, "add_generation_prompt": i % 3 != 0,
                          "text": chat_cases.render(template, bos, messages, i % 3 != 0)})
    write("chat.json", {"conversations": conversations, "cases": cases})


def make_utf8():
    """Random bytes as Python decodes them, one U+FFFD for each maximal ill-formed part."""
    rng = random.Random(20261129)
    cases = []
    for _ in range(300):
        data = b"".join(rng.choice([bytes([rng.randrange(256)]), bytes([rng.randrange(0x80, 0x100)]), b"\xe2\x82",
                                    "a\u00e9\u20ac\U0001f600".encode(), b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90"])
                        for _ in range(rng.randrange(12)))
        cases.append({"bytes": base64.b64encode(data).decode(), "text": data.decode("utf-8", "replace")})
    write("utf8.json", {"cases": cases})


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    make_splits()
    make_bpe()
    make_spm()
    make_chat()
    make_utf8()
