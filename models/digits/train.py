#!/usr/bin/env python3
"""Trains the digits classifier and writes digits.onnx and the images and labels beside it.

Needs torch, onnx, onnxscript, onnxruntime, scikit-learn and numpy. Everything random follows SEED, so
that the same versions give the same files. Takes about a minute on one core.

    python models/digits/train.py            train, export, check
    python models/digits/train.py --check    only run the ONNX file on the held-out images
"""

import argparse
import pathlib
import sys

import numpy as np

SEED = 20
HELD_OUT = 0.2
EPOCHS = 40
BATCH = 32
OPSET = 18
LEAST_ACCURACY = 0.97
HERE = pathlib.Path(__file__).resolve().parent


def digits():
    """(train images, test images, train labels, test labels); images are [n, 1, 8, 8] in 0..1."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    images = (data.images[:, None] / 16.0).astype(np.float32)
    labels = data.target.astype(np.int64)
    return train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )


def network():
    from torch import nn

    class Digits(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16)
            self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32)
            self.conv3, self.norm3 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
            self.hidden, self.logits = nn.Linear(64 * 2 * 2, 64), nn.Linear(64, 10)
            self.pool = nn.MaxPool2d(2)

        def forward(self, image):
            x = self.norm1(self.conv1(image)).relu()
            x = self.pool(self.norm2(self.conv2(x)).relu())
            x = self.pool(self.norm3(self.conv3(x)).relu())
            return self.logits(self.hidden(x.flatten(1)).relu())

    return Digits()


def train(images, labels):
    import torch

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    steps = EPOCHS * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        for chosen in torch.randperm(len(images)).split(BATCH):
            # A shift by at most one pixel, the only augmentation.
            dy, dx = torch.randint(-1, 2, (2,)).tolist()
            batch = torch.roll(images[chosen], (dy, dx), dims=(2, 3))
            loss = torch.nn.functional.cross_entropy(model(batch), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch + 1:3} of {EPOCHS}  loss {loss.item():.4f}", file=sys.stderr)
    return model.eval()


def export(model, path):
    """Writes the model with BatchNormalization as nodes of their own and a symbolic batch axis."""
    import onnx
    import torch

    program = torch.onnx.export(
        model,
        (torch.zeros(2, 1, 8, 8),),
        dynamo=True,
        optimize=False,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    proto = program.model_proto
    # Exporters record stack traces and folders of the machine they ran on.
    del proto.metadata_props[:], proto.graph.metadata_props[:]
    for thing in [*proto.graph.node, *proto.graph.value_info, *proto.graph.input,
                  *proto.graph.output, *proto.graph.initializer]:
        thing.doc_string = ""
        if hasattr(thing, "metadata_props"):
            del thing.metadata_props[:]
    onnx.checker.check_model(proto, full_check=True)
    path.write_bytes(proto.SerializeToString())


def check():
    """Accuracy of the ONNX file under ONNX Runtime; an error if it is below the bar."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        str(HERE / "digits.onnx"), providers=["CPUExecutionProvider"]
    )
    images, labels = np.load(HERE / "test_images.npy"), np.load(HERE / "test_labels.npy")
    (logits,) = session.run(["logits"], {"image": images})
    right = int((logits.argmax(axis=1) == labels).sum())
    print(f"{right} of {len(labels)} held-out images right: {right / len(labels):.2%}")
    if right < LEAST_ACCURACY * len(labels):
        sys.exit(f"below {LEAST_ACCURACY:.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="do not train, only check the files")
    if not parser.parse_args().check:
        train_images, test_images, train_labels, test_labels = digits()
        np.save(HERE / "train_images.npy", (train_images * 16.0).astype(np.uint8))
        np.save(HERE / "train_labels.npy", train_labels.astype(np.uint8))
        np.save(HERE / "test_images.npy", test_images)
        np.save(HERE / "test_labels.npy", test_labels)
        export(train(train_images, train_labels), HERE / "digits.onnx")
    check()


if __name__ == "__main__":
    main()
