#!/usr/bin/env python3
"""Writes vectors/*.json: how Hugging Face tokenizers and SentencePiece split and encode the texts of nasty.json.

Owns: tiny vocabularies trained here, and what the two libraries make of them; they are what ork's results are compared
with where no real vocabulary is at hand. Must not know ork. Needs the packages tokenizers and sentencepiece; the output
is committed, and equal on every run with equal versions.
"""

import io
import json
from pathlib import Path

import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
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


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    make_splits()
    make_bpe()
    make_spm()
