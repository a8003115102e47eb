"""Encoders and decoders of the shapes of T5-small and Whisper-tiny, random weights, as `torch.onnx`
exports them: outputs beside ONNX Runtime's, and the time of a run by turns, one thread.

    python bench/encoder_decoders.py TILEWRIGHT [DIR]     needs torch, transformers, onnxruntime

A decoder is one step: the keys and values of the text so far and of the encoder's states come in,
logits and the text's keys and values go out. Models that lie in DIR are not exported again. Times
are of the wall: of each round the fastest run, of all rounds the least and the median.
"""

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
SECONDS = 2.0
PLACES = 64  # of the text so far, and words of T5's input

# What the dimensions of each model are; the decoders' own symbols bear these names.
DIMS = {
    "t5_encoder": dict(words=PLACES),
    "t5_decoder": dict(past=PLACES, source=PLACES),
    "whisper_encoder": {},
    "whisper_decoder": dict(past=PLACES),
}

WORKER = """
import json, sys, time
import numpy as np
import onnxruntime
path, dims, seconds = sys.argv[1], json.loads(sys.argv[2]), float(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
random = np.random.default_rng(0)
def value(port):
    shape = [dims.get(extent, extent) for extent in port.shape]
    if "int" in port.type:
        return random.integers(0, 32000, shape)
    return random.standard_normal(shape).astype(np.float32)
feed = {port.name: value(port) for port in session.get_inputs()}
times, end = [], time.perf_counter() + seconds
while time.perf_counter() < end or len(times) < 3:
    began = time.perf_counter()
    session.run(None, feed)
    times.append((time.perf_counter() - began) * 1e3)
print(min(times))
"""


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else temporary)
        missing = {name for name in DIMS if not (folder / f"{name}.onnx").exists()}
        if missing:
            export(folder, {name.split("_")[0] for name in missing})
        for name, dims in DIMS.items():
            print(name, race(program, folder / f"{name}.onnx", dims), flush=True)


def export(folder, kinds):
    import torch
    import transformers
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    class Encoder(torch.nn.Module):
        def __init__(self, encoder):
            super().__init__()
            self.encoder = encoder

        def forward(self, x):
            return self.encoder(x)[0]

    class Decoder(torch.nn.Module):
        def __init__(self, decoder, head, scale):
            super().__init__()
            self.decoder, self.head, self.scale = decoder, head, scale

        def forward(self, ids, *past):
            own, other = DynamicCache(), DynamicCache()
            layers = len(past) // 4
            for layer in range(layers):
                keys, values, source_keys, source_values = past[4 * layer : 4 * layer + 4]
                own.update(keys, values, layer)
                other.update(source_keys, source_values, layer)
            cache = EncoderDecoderCache(own, other)
            cache.is_updated = {layer: True for layer in range(layers)}
            # Nothing is read of the encoder's states but how many there are.
            states = past[2].transpose(1, 2).flatten(2)
            result = self.decoder(
                input_ids=ids, encoder_hidden_states=states, past_key_values=cache, use_cache=True
            )
            present = [
                part
                for layer in result.past_key_values.self_attention_cache.layers
                for part in (layer.keys, layer.values)
            ]
            return (self.head(result[0] * self.scale), *present)

    def write(name, module, args, **options):
        options |= dict(dynamo=True, external_data=False)
        torch.onnx.export(module.eval(), args, folder / f"{name}.onnx", **options)

    def decoder(name, module, layers, heads, source, free):
        past_extent = torch.export.Dim("past", min=1, max=400)
        source_extent = torch.export.Dim("source", min=2, max=2048)
        past, names, dims = [], ["ids"], []
        for layer in range(layers):
            own, other = torch.randn(1, heads, 17, 64), torch.randn(1, heads, source, 64)
            past += [own, own, other, other]
            names += [f"{a}.{layer}.{b}" for a in ("past", "source") for b in ("keys", "values")]
            dims += [{2: past_extent}] * 2 + [{2: source_extent} if free else {}] * 2
        write(name, module, (torch.tensor([[5]]), *past), input_names=names,
              dynamic_shapes=({}, tuple(dims)))  # fmt: skip

    with torch.no_grad():
        if "t5" in kinds:
            config = transformers.T5Config(decoder_start_token_id=0, attn_implementation="eager")
            model = transformers.T5ForConditionalGeneration(config).eval()
            words = torch.export.Dim("words", min=2, max=512)
            write("t5_encoder", Encoder(model.encoder), (torch.randint(0, 32000, (1, 33)),),
                  dynamic_shapes=({1: words},))  # fmt: skip
            step = Decoder(model.decoder, model.lm_head, config.d_model**-0.5)
            decoder("t5_decoder", step, config.num_layers, config.num_heads, 33, True)
        if "whisper" in kinds:
            config = transformers.WhisperConfig(
                d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
                decoder_attention_heads=6, attn_implementation="eager",
            )  # fmt: skip
            model = transformers.WhisperForConditionalGeneration(config).eval()
            write("whisper_encoder", Encoder(model.model.encoder), (torch.randn(1, 80, 3000),))
            step = Decoder(model.model.decoder, model.proj_out, 1.0)
            decoder("whisper_decoder", step, 4, 6, 1500, False)


def race(program, model, dims):
    given = [part for name, extent in dims.items() for part in ("--dim", f"{name}={extent}")]
    compare = [program, "compare", model, "--threads", "1", "--python", sys.executable, *given]
    compared = subprocess.run(compare, capture_output=True, text=True)
    verdict = re.findall(r"compared with onnxruntime .*", compared.stdout) or [compared.stderr]
    bench = [program, "bench", model, "--threads", "1", "--seconds", str(SECONDS), *given]
    dims = str(dims).replace("'", '"')
    worker = [sys.executable, "-c", WORKER, model, dims, str(SECONDS)]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(float(subprocess.run(worker, capture_output=True, text=True).stdout))
        text = subprocess.run(bench, capture_output=True, text=True).stdout
        ours.append(float(re.search(r"fastest\s+([\d.]+)", text)[1]))
    middle = statistics.median(a / b for a, b in zip(theirs, ours))
    times = f"{min(ours):.2f} ms, ONNX Runtime {min(theirs):.2f}"
    return f"{times} ({min(theirs) / min(ours):.2f}; median {middle:.2f}); {verdict[0].strip()}"


if __name__ == "__main__":
    main()
