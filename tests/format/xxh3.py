#!/usr/bin/env python3
"""XXH3-64 with seed 0, in plain Python, from the algorithm's specification (xxHash, doc/xxhash_spec.md). Slow: for tests."""

import struct

M = (1 << 64) - 1
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64_1, P64_2, P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P64_4, P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MX1, MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def key(at):
    return u64(SECRET, at)


def fold(a, b):
    product = a * b
    return (product & M) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * MX1 & M
    return h ^ (h >> 32)


def avalanche64(h):
    h ^= h >> 33
    h = h * P64_2 & M
    h ^= h >> 29
    h = h * P64_3 & M
    return h ^ (h >> 32)


def rotate(x, bits):
    return (x << bits | x >> (64 - bits)) & M


def mix(data, at, secret):
    return fold(u64(data, at) ^ key(secret), u64(data, at + 8) ^ key(secret + 8))


def up_to_16(data):
    n = len(data)
    if n > 8:
        low = u64(data, 0) ^ key(24) ^ key(32)
        high = u64(data, n - 8) ^ key(40) ^ key(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche((n + swapped + high + fold(low, high)) & M)
    if n >= 4:
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ key(8) ^ key(16)
        h ^= rotate(h, 49) ^ rotate(h, 24)
        h = h * MX2 & M
        h ^= (h >> 35) + n
        h = h * MX2 & M
        return h ^ (h >> 28)
    if n:
        h = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return avalanche64(h ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    return avalanche64(key(56) ^ key(64))


def up_to_240(data):
    n = len(data)
    acc = n * P64_1
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += mix(data, 16 * i, 32 * i) + mix(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(acc & M)
    acc = avalanche((acc + sum(mix(data, 16 * i, 16 * i) for i in range(8))) & M)
    acc += sum(mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
    return avalanche((acc + mix(data, n - 16, 136 - 17)) & M)


def accumulate(acc, words, keys):
    for i in range(8):
        keyed = words[i] ^ keys[i]
        acc[i ^ 1] = (acc[i ^ 1] + words[i]) & M
        acc[i] = (acc[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & M


def xxh3_64(data):
    data, n = bytes(data), len(data)
    if n <= 16:
        return up_to_16(data)
    if n <= 240:
        return up_to_240(data)
    acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1]
    keys = [struct.unpack_from("<8Q", SECRET, 8 * i) for i in range(16)]
    scramble = struct.unpack_from("<8Q", SECRET, 128)
    stripes = (n - 1) // 64
    for i in range(stripes):
        accumulate(acc, struct.unpack_from("<8Q", data, 64 * i), keys[i % 16])
        if i % 16 == 15:
            acc = [(a ^ (a >> 47) ^ k) * P32_1 & M for a, k in zip(acc, scramble)]
    accumulate(acc, struct.unpack_from("<8Q", data, n - 64), struct.unpack_from("<8Q", SECRET, 121))
    result = n * P64_1
    for i in range(4):
        result += fold(acc[2 * i] ^ key(11 + 16 * i), acc[2 * i + 1] ^ key(19 + 16 * i))
    return avalanche(result & M)
