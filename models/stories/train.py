#!/usr/bin/env python3
"""Trains stories.gguf on stories by the grammar: a llama of 460 thousand weights, in Q8_0.

    pip install torch numpy
    python models/stories/train.py [STEPS]
"""

import collections
import math
import pathlib
import re
import struct
import sys

import numpy as np
import torch
from grammar import stories
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).parent
STORIES, SEED = 40_000, 1
VOCABULARY, LAYERS, WIDTH, HEADS, KEYS, HEAD, INNER, CONTEXT = 768, 4, 96, 3, 1, 32, 256, 256
EPSILON, BASE = 1e-5, 10_000.0
BATCH, RATE = 16, 3e-3
END = "<|endoftext|>"
# As GPT-2 cuts texts into words.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def printable():
    """The characters that GPT-2 writes bytes as."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in own]
    return {byte: chr(byte) for byte in own} | {byte: chr(256 + at) for at, byte in enumerate(rest)}


class Pairs:
    """Byte pairs: the most frequent neighbours become one, again and again."""

    def __init__(self, texts):
        signs = printable()
        counts = collections.Counter(word for text in texts for word in WORDS.findall(text))
        words = {word: [signs[byte] for byte in word.encode()] for word in counts}
        self.tokens, self.merges = [signs[byte] for byte in range(256)], []
        while len(self.tokens) < VOCABULARY - 1:
            pairs = collections.Counter()
            for word, parts in words.items():
                for pair in zip(parts, parts[1:]):
                    pairs[pair] += counts[word]
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.merges.append(best)
            self.tokens.append("".join(best))
            words = {word: joined(parts, best) for word, parts in words.items()}
        self.tokens.append(END)
        self.end = len(self.tokens) - 1
        ids = {token: number for number, token in enumerate(self.tokens)}
        self.words = {word: [ids[part] for part in parts] for word, parts in words.items()}

    def encode(self, text):
        return [token for word in WORDS.findall(text) for token in self.words[word]]


def joined(parts, pair):
    """Parts of a word, with each such pair of neighbours as one."""
    result = []
    for part in parts:
        if result and (result[-1], part) == pair:
            result[-1] += part
        else:
            result.append(part)
    return result


def turned(x):
    """Heads `[.., places, HEAD]` with pairs of neighbours turned by their places."""
    places = torch.arange(x.shape[-2], dtype=torch.float32)
    turns = BASE ** (-torch.arange(0, HEAD, 2, dtype=torch.float32) / HEAD)
    angles = places[:, None] * turns
    even, odd = x[..., ::2], x[..., 1::2]
    parts = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack(parts, -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm = nn.RMSNorm(WIDTH, EPSILON)
        self.attn_q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.attn_k = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.attn_v = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.attn_output = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.ffn_norm = nn.RMSNorm(WIDTH, EPSILON)
        self.ffn_gate = nn.Linear(WIDTH, INNER, bias=False)
        self.ffn_up = nn.Linear(WIDTH, INNER, bias=False)
        self.ffn_down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        inner = self.attn_norm(x)
        heads = (self.attn_q(inner), self.attn_k(inner), self.attn_v(inner))
        query, key, value = (part.unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in heads)
        key, value = (part.expand(-1, HEADS, -1, -1) for part in (turned(key), value))
        step = functional.scaled_dot_product_attention(turned(query), key, value, is_causal=True)
        x = x + self.attn_output(step.transpose(1, 2).flatten(2))
        inner = self.ffn_norm(x)
        return x + self.ffn_down(functional.silu(self.ffn_gate(inner)) * self.ffn_up(inner))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embd = nn.Embedding(VOCABULARY, WIDTH)
        self.blk = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.output_norm = nn.RMSNorm(WIDTH, EPSILON)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                small = (2 * LAYERS) ** -0.5 if name.endswith(("output.weight", "down.weight")) else 1.0
                nn.init.normal_(weight, std=small * (0.05 if "embd" in name else weight.shape[1] ** -0.5))

    def forward(self, tokens):
        x = self.token_embd(tokens)
        for layer in self.blk:
            x = layer(x)
        return functional.linear(self.output_norm(x), self.token_embd.weight)


def train(network, tokens, steps):
    optimizer = torch.optim.AdamW(network.parameters(), RATE, (0.9, 0.98), weight_decay=0.02)
    chance = np.random.default_rng(SEED)
    for step in range(steps):
        share = step / steps
        rate = RATE * min(1.0, (step + 1) / 50) * (0.02 + 0.98 * (1 + math.cos(math.pi * share)) / 2)
        optimizer.param_groups[0]["lr"] = rate
        starts = chance.integers(0, len(tokens) - CONTEXT - 1, BATCH)
        rows = torch.from_numpy(np.stack([tokens[at : at + CONTEXT + 1] for at in starts]))
        logits = network(rows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def key(name, value):
    if isinstance(value, bool):
        return text(name) + struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return text(name) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(name) + struct.pack("<If", 6, value)
    if isinstance(value, str):
        return text(name) + struct.pack("<I", 8) + text(value)
    kind, form = (8, text) if isinstance(value[0], str) else (5, lambda item: struct.pack("<i", item))
    head = struct.pack("<IIQ", 9, kind, len(value))
    return text(name) + head + b"".join(form(item) for item in value)


def blocks(weight):
    """Rows in Q8_0: of each 32 elements a scale in f16 and the rounded rest."""
    parts = weight.reshape(-1, 32)
    scales = (np.abs(parts).max(1, keepdims=True) / 127).astype("<f2")
    whole = np.rint(parts / np.maximum(scales.astype("<f4"), 1e-12)).clip(-127, 127).astype("i1")
    return np.concatenate([scales.view("i1"), whole], 1).tobytes()


def write(network, pairs, path):
    keys = {
        "general.architecture": "llama",
        "general.name": "Stories",
        "general.license": "Apache-2.0 OR MIT",
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEYS,
        "llama.attention.layer_norm_rms_epsilon": EPSILON,
        "llama.rope.freq_base": BASE,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": pairs.tokens,
        "tokenizer.ggml.token_type": [1] * pairs.end + [3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in pairs.merges],
        "tokenizer.ggml.bos_token_id": pairs.end,
        "tokenizer.ggml.eos_token_id": pairs.end,
        "tokenizer.ggml.add_bos_token": True,
    }
    entries, data = b"", b""
    for name, weight in network.state_dict().items():
        weight = weight.numpy()
        code = 8 if weight.ndim == 2 else 0
        extents = weight.shape[::-1]
        entries += text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, code, len(data))
        data += blocks(weight) if code else weight.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(network.state_dict()), len(keys))
    head += b"".join(key(*pair) for pair in keys.items()) + entries
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    texts = stories(STORIES, SEED)
    pairs = Pairs(texts)
    parts = [[pairs.end, *pairs.encode(text)] for text in texts]
    print(f"{STORIES} stories, {sum(map(len, parts)) / STORIES:.0f} tokens each, at most {max(map(len, parts))}")
    tokens = np.array([token for part in parts for token in part])
    network = Network()
    print(f"{sum(weight.numel() for weight in network.parameters())} weights")
    train(network, tokens, steps)
    write(network, pairs, HERE / "stories.gguf")


if __name__ == "__main__":
    main()
