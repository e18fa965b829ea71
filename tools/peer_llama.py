"""The peer: a thin Python layer over llama.cpp's C interface, shared by the peer_* tools.

Owns: loading the library (ORK_PEER_LIBRARY names a libllama.so, otherwise the one in the Python package), models,
contexts, tokenizing and decoding. Must not know: ork. Nothing of ork's is used here, so that what these tools print
can serve as an independent reference.
"""

import os
import sys
from pathlib import Path

import numpy as np
from llama_cpp_py_sync import _cffi_bindings as bindings

ffi = bindings.get_ffi()
TYPE_IDS = {"f32": 0, "f16": 1}
FLASH_DISABLED = 0
LOAD_MODES = {"auto": -1, "copy": 0, "map": 1}


def find_library():
    chosen = os.environ.get("ORK_PEER_LIBRARY")
    if chosen:
        path = Path(chosen)
        return path / "libllama.so" if path.is_dir() else path
    return Path(bindings.__file__).parent / "libllama.so"


@ffi.callback("ggml_log_callback")
def log_errors(level, text, _user_data):
    """Passes errors (level 4) on; llama.cpp reports everything else on the same channel."""
    if level == 4:
        sys.stderr.write(ffi.string(text).decode("utf-8", "replace"))


def open_library():
    path = find_library()
    if not path.is_file():
        raise SystemExit(f"error: {path}: no such library (ORK_PEER_LIBRARY)")
    try:
        library = ffi.dlopen(str(path))
    except OSError as error:
        raise SystemExit(f"error: {error}\n(the packaged library needs glibc 2.38; tools/peer_build.py makes one here, "
                         "set ORK_PEER_LIBRARY to it)") from error
    library.llama_log_set(log_errors, ffi.NULL)
    # Struct layouts are not versioned: a wrong library shows itself in default values that cannot be.
    parameters = library.llama_context_default_params()
    if parameters.type_k != TYPE_IDS["f16"] or parameters.n_ubatch != 512 or parameters.n_seq_max != 1:
        raise SystemExit(f"error: {path}: its interface does not match the installed llama-cpp-py-sync")
    library.llama_backend_init()
    return library


lib = open_library()


def describe():
    """What is measured against: version, instruction sets in use, library path."""
    return {
        "engine": "llama.cpp",
        "version": ffi.string(lib.llama_version()).decode(),
        "system": ffi.string(lib.llama_print_system_info()).decode().strip(),
        "native_library": "ORK_PEER_LIBRARY" in os.environ,
    }


class Model:
    """An open GGUF file with its vocabulary."""

    def __init__(self, path, vocab_only=False, load="auto", repack=True):
        parameters = lib.llama_model_default_params()
        parameters.vocab_only = vocab_only
        parameters.n_gpu_layers = 0
        parameters.load_mode = LOAD_MODES[load]
        parameters.use_extra_bufts = repack
        self.handle = lib.llama_model_load_from_file(str(path).encode(), parameters)
        if self.handle == ffi.NULL:
            raise SystemExit(f"error: {path}: llama.cpp does not load it")
        self.vocab = lib.llama_model_get_vocab(self.handle)
        self.vocab_size = lib.llama_vocab_n_tokens(self.vocab)
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self.vocab))
        self.add_eos = bool(lib.llama_vocab_get_add_eos(self.vocab))
        self.bos = lib.llama_vocab_bos(self.vocab)
        self.eos = lib.llama_vocab_eos(self.vocab)

    def close(self):
        lib.llama_model_free(self.handle)

    def tokenize(self, text, add_special, parse_special):
        """Token ids of a str or bytes."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        # A byte that is no UTF-8 becomes U+FFFD, which may take three tokens.
        room = 3 * len(data) + 16
        out = ffi.new("llama_token[]", room)
        count = lib.llama_tokenize(self.vocab, data, len(data), out, room, add_special, parse_special)
        if count < 0:
            raise RuntimeError(f"tokenizing {len(data)} bytes gave {-count} tokens, more than the room of {room}")
        return list(out[0:count])

    def piece(self, token, special):
        """The bytes that a token stands for; control tokens are empty unless `special`."""
        room = 256
        while True:
            out = ffi.new("char[]", room)
            count = lib.llama_token_to_piece(self.vocab, token, out, room, 0, special)
            if count >= 0:
                return bytes(ffi.buffer(out, count))
            room = -count

    def text(self, tokens, special=False):
        return b"".join(self.piece(token, special) for token in tokens)

    def is_end(self, token):
        return bool(lib.llama_vocab_is_eog(self.vocab, token))

    def end_tokens(self):
        return [token for token in range(self.vocab_size) if self.is_end(token)]

    def metadata(self, key):
        room = 1 << 20
        out = ffi.new("char[]", room)
        count = lib.llama_model_meta_val_str(self.handle, key.encode(), out, room)
        return None if count < 0 else ffi.string(out).decode()

    def chat_template(self):
        template = lib.llama_model_chat_template(self.handle, ffi.NULL)
        return None if template == ffi.NULL else ffi.string(template).decode()


class Context:
    """One or more token sequences on a model. `kv` is the cache's type; f32 also turns the fused attention off."""

    def __init__(self, model, context_size, threads, batch_size=2048, sequences=1, kv="f16"):
        parameters = lib.llama_context_default_params()
        parameters.n_ctx = context_size
        parameters.n_batch = batch_size
        parameters.n_ubatch = min(512, batch_size)
        parameters.n_seq_max = sequences
        parameters.n_threads = threads
        parameters.n_threads_batch = threads
        parameters.type_k = parameters.type_v = TYPE_IDS[kv]
        if kv == "f32":
            parameters.flash_attn_type = FLASH_DISABLED
        self.model = model
        self.handle = lib.llama_init_from_model(model.handle, parameters)
        if self.handle == ffi.NULL:
            raise SystemExit("error: llama.cpp does not make a context")
        self.batch = lib.llama_batch_init(batch_size, 0, 1)

    def close(self):
        lib.llama_batch_free(self.batch)
        lib.llama_free(self.handle)

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.handle), True)

    def decode(self, entries):
        """Runs (token, position, sequence, wants logits) entries as one batch; returns logits [wanted][vocabulary]."""
        batch = self.batch
        batch.n_tokens = len(entries)
        wanted = []
        for i, (token, position, sequence, wants) in enumerate(entries):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants
            if wants:
                wanted.append(i)
        status = lib.llama_decode(self.handle, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        rows = np.empty((len(wanted), self.model.vocab_size), dtype=np.float32)
        for row, i in enumerate(wanted):
            logits = lib.llama_get_logits_ith(self.handle, i)
            rows[row] = np.frombuffer(ffi.buffer(logits, 4 * self.model.vocab_size), dtype=np.float32)
        return rows

    def feed(self, tokens, position=0):
        """Runs tokens of sequence 0 from `position` on; returns the logits after the last one."""
        last = len(tokens) - 1
        return self.decode([(token, position + i, 0, i == last) for i, token in enumerate(tokens)])[0]

    def greedy(self, prompt, count, stop_at_end=False):
        """Greedy continuation; returns a list of (token, its logit, second token, its logit) and the first logits."""
        logits = first = self.feed(prompt)
        steps = []
        for i in range(count):
            # argmax takes the lowest id among equals, which is what a greedy sampler is expected to do.
            best = int(np.argmax(logits))
            masked = logits.copy()
            masked[best] = -np.inf
            second = int(np.argmax(masked))
            steps.append((best, float(logits[best]), second, float(logits[second])))
            if stop_at_end and self.model.is_end(best):
                break
            if i + 1 < count:
                logits = self.feed([best], len(prompt) + i)
        return steps, first
