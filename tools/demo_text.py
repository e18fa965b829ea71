"""Corpus and tokenizer of the demo model.

Owns: reading the two public-domain texts, the split into training and held-out
text, the byte-level BPE and the cutting of token streams into windows.
Must not know: the model, the optimizer, GGUF.
"""

import re
import subprocess

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, BOS, EOS = 0, 1, 2
SPECIAL_TOKENS = ["<|pad|>", "<|startoftext|>", "<|endoftext|>"]

# The split of Llama 3, which GGUF files of the LFM2 family select with
# tokenizer.ggml.pre = "lfm2".
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# In the order of the King James Version; `bible` prints abbreviations.
BOOKS = (
    "Genesis|Exodus|Leviticus|Numbers|Deuteronomy|Joshua|Judges|Ruth|1 Samuel|2 Samuel|1 Kings|"
    "2 Kings|1 Chronicles|2 Chronicles|Ezra|Nehemiah|Esther|Job|Psalms|Proverbs|Ecclesiastes|"
    "Song of Solomon|Isaiah|Jeremiah|Lamentations|Ezekiel|Daniel|Hosea|Joel|Amos|Obadiah|Jonah|"
    "Micah|Nahum|Habakkuk|Zephaniah|Haggai|Zechariah|Malachi|Matthew|Mark|Luke|John|Acts|Romans|"
    "1 Corinthians|2 Corinthians|Galatians|Ephesians|Philippians|Colossians|1 Thessalonians|"
    "2 Thessalonians|1 Timothy|2 Timothy|Titus|Philemon|Hebrews|James|1 Peter|2 Peter|1 John|"
    "2 John|3 John|Jude|Revelation"
).split("|")

# Held out and never trained on: one contiguous stretch of each text.
HELDOUT_CHAPTERS = [("Ruth", n) for n in range(1, 5)] + [("1 Samuel", n) for n in range(1, 13)]
HELDOUT_SHAKESPEARE_CHARS = 46_000


def read_bible():
    """Return [(book, chapter, text)] from Debian's `bible` command.

    Each text is a heading, an empty line and one line a verse: "Ruth 1\\n\\n1:1 Now it ...\\n".
    """
    try:
        printed = subprocess.run(
            ["bible", "-f", "gen1:1-rev22:21"], check=True, capture_output=True, text=True
        ).stdout
    except FileNotFoundError:
        raise SystemExit("train_demo: `bible` not found; install the packages bible-kjv and bible-kjv-text")
    chapters, abbreviations = [], []
    for line in printed.splitlines():
        match = re.fullmatch(r"([1-3]?[A-Za-z]+?)(\d+):(\d+) (.*)", line)
        if not match:
            raise SystemExit(f"train_demo: unexpected line from `bible`: {line[:60]!r}")
        abbreviation, chapter, verse, text = match.groups()
        if abbreviation not in abbreviations:
            abbreviations.append(abbreviation)
        book = BOOKS[len(abbreviations) - 1]
        if verse == "1":
            chapters.append((book, int(chapter), [f"{book} {chapter}\n\n"]))
        chapters[-1][2].append(f"{chapter}:{verse} {text.strip()}\n")
    if len(abbreviations) != len(BOOKS) or len(chapters) != 1189:
        raise SystemExit(f"train_demo: `bible` printed {len(abbreviations)} books, {len(chapters)} chapters")
    return [(book, number, "".join(parts)) for book, number, parts in chapters]


def load_corpus(shakespeare_path):
    """Return (training documents, held-out text).

    A document is one contiguous text; <|endoftext|> follows each in training. A book of
    the Bible is a document, as is the collection of plays.
    """
    with open(shakespeare_path, encoding="utf-8", newline="") as file:
        plays = file.read().replace("\r\n", "\n")
    cut = plays.index("\n\n", len(plays) - HELDOUT_SHAKESPEARE_CHARS) + 2
    books, heldout = {}, []
    for book, number, text in read_bible():
        if (book, number) in HELDOUT_CHAPTERS:
            heldout.append(text)
        else:
            books.setdefault(book, []).append(text)
    documents = ["\n".join(chapters) for chapters in books.values()] + [plays[:cut]]
    return documents, "\n".join(heldout) + "\n" + plays[cut:].rstrip("\n") + "\n"


def train_tokenizer(documents, vocabulary_size):
    """Byte-level BPE. Ids: the special tokens, the 256 bytes, the merges in rank order."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    if tokenizer.get_vocab_size() != vocabulary_size:
        raise SystemExit(f"train_demo: the tokenizer got only {tokenizer.get_vocab_size()} tokens")
    return tokenizer


def encode_documents(tokenizer, documents):
    """One int32 stream: <|startoftext|> document <|endoftext|>, and so on."""
    stream = []
    for encoding in tokenizer.encode_batch(documents, add_special_tokens=False):
        stream += [BOS, *encoding.ids, EOS]
    return np.asarray(stream, np.int32)


class WindowStream:
    """Endless shuffled windows over one token stream; every epoch sees each token about once.

    The windows of an epoch tile the stream from a random phase. As llama.cpp's perplexity
    does, the first token of a window is replaced by <|startoftext|>. `state()`
    is all that a resumed run needs.
    """

    def __init__(self, stream, seed, epoch=0, index=0, length=None):
        self.stream, self.seed = stream, seed
        self.epoch, self.index, self.length = epoch, index, length
        if length is not None:
            self._shuffle()

    def state(self):
        return {"epoch": self.epoch, "index": self.index, "length": self.length}

    def _shuffle(self):
        rng = np.random.default_rng([self.seed, self.epoch, self.length])
        phase = int(rng.integers(self.length))
        count = (len(self.stream) - phase - 1) // self.length
        self.starts = phase + self.length * rng.permutation(count)

    def next(self, batch, length):
        """Return inputs and targets, int32 [batch, length] each."""
        if self.length != length or self.index + batch > len(self.starts):
            self.epoch += self.length is not None
            self.index, self.length = 0, length
            self._shuffle()
        starts = self.starts[self.index:self.index + batch]
        self.index += batch
        tokens = self.stream[starts[:, None] + np.arange(length + 1)]
        inputs = tokens[:, :-1].copy()
        inputs[:, 0] = BOS
        return inputs, tokens[:, 1:]
