"""A model with chat control tokens, made from the demo model, which has none: two long tokens of its vocabulary take the
names <|im_start|> and <|im_end|> and become control tokens. Nothing else of the file changes."""

import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, CONTROL = 8, 9, 3


def skip_value(data, at, kind):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == ARRAY:
        item, count = struct.unpack_from("<IQ", data, at)
        at += 12
        if item != STRING:
            return at + SIZES[item] * count
        for _ in range(count):
            at = skip_value(data, at, STRING)
        return at
    return at + SIZES[kind]


def find_arrays(data):
    """{key: (offset of the first item, count)} of the arrays in the metadata."""
    count, at, result = struct.unpack_from("<Q", data, 16)[0], 24, {}
    for _ in range(count):
        end = skip_value(data, at, STRING)
        key = bytes(data[at + 8:end]).decode()
        kind = struct.unpack_from("<I", data, end)[0]
        if kind == ARRAY:
            result[key] = (end + 4 + 12, struct.unpack_from("<Q", data, end + 8)[0])
        at = skip_value(data, end + 4, kind)
    return result


def add_chat_tokens(source, path):
    data = bytearray(source.read_bytes())
    arrays = find_arrays(data)
    at, count = arrays["tokenizer.ggml.tokens"]
    types, _ = arrays["tokenizer.ggml.token_type"]
    wanted = {len(name): name for name in (b"<|im_start|>", b"<|im_end|>")}
    last = {}
    for index in range(count):
        size = struct.unpack_from("<Q", data, at)[0]
        if size in wanted and struct.unpack_from("<i", data, types + 4 * index)[0] == 1:
            last[size] = (index, at + 8)  # the last one is the rarest
        at += 8 + size
    for size, name in wanted.items():
        index, offset = last[size]
        data[offset:offset + size] = name
        struct.pack_into("<i", data, types + 4 * index, CONTROL)
    path.write_bytes(data)
