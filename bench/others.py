#!/usr/bin/env python3
"""Exports twenty public architectures that nobody tuned for, with random weights, for race.py.

    python bench/others.py DIR [NAME...]      needs torch, torchvision, transformers and onnxscript

Grouped, mobile, segmentation, detection, speech and language networks, and vision transformers;
batch 1, opset 20. Batch norms are calibrated on random images, so that no signal dies out. Files
that exist are kept.
"""

import argparse
import pathlib
import warnings

import torch
import torchvision
import transformers

IMAGE = (1, 3, 224, 224)
VISION = [
    "resnext50_32x4d", "regnet_y_400mf", "mnasnet1_0", "densenet121", "shufflenet_v2_x1_0",
    "efficientnet_b0", "convnext_tiny", "swin_t", "googlenet",
]  # fmt: skip
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
TINY_VIT = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
# By name: the class, what its configuration says, and the input: a shape, or (rows, vocabulary).
TRANSFORMERS = {
    "segformer_b0": ("SegformerForSemanticSegmentation", {}, IMAGE),
    "mobilevit_small": ("MobileViTForImageClassification", {}, (1, 3, 256, 256)),
    "deit_tiny": ("DeiTForImageClassification", TINY_VIT, IMAGE),
    "wav2vec2_base": ("Wav2Vec2Model", {}, (1, 16000)),
    "distilbert_s128": ("DistilBertModel", {}, [1, 128]),
    "gpt2_s64": ("GPT2Model", {"use_cache": False}, [1, 64]),
}
NAMES = [*VISION, *SEGMENTATION, "ssdlite320", *TRANSFORMERS, "whisper_tiny_encoder"]


class Returned(torch.nn.Module):
    """A model of which `take` chooses what is returned."""

    def __init__(self, model, take):
        super().__init__()
        self.model, self.take = model, take

    def forward(self, x):
        return self.take(self.model, x)


def build(name):
    if name in VISION:
        extra = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        return getattr(torchvision.models, name)(weights=None, **extra), torch.randn(IMAGE)
    if name in SEGMENTATION:
        create = getattr(torchvision.models.segmentation, name)
        model = create(weights=None, weights_backbone=None)
        return Returned(model, lambda model, x: model(x)["out"]), torch.randn(IMAGE)
    if name == "ssdlite320":
        # What decodes and suppresses boxes behind the heads is left out.
        create = torchvision.models.detection.ssdlite320_mobilenet_v3_large
        model = create(weights=None, weights_backbone=None)
        heads = lambda model, x: tuple(model.head(list(model.backbone(x).values())).values())
        return Returned(model, heads), torch.randn(1, 3, 320, 320)
    if name == "whisper_tiny_encoder":
        config = transformers.WhisperConfig(
            d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
        )
        model = transformers.WhisperModel(config).get_encoder()
        return Returned(model, lambda model, x: model(x)[0]), torch.randn(1, 80, 3000)
    create, said, shape = TRANSFORMERS[name]
    create = getattr(transformers, create)
    model = create(create.config_class(**said))
    given = torch.randint(0, 30000, shape) if isinstance(shape, list) else torch.randn(shape)
    return Returned(model, lambda model, x: model(x)[0]), given


def calibrate(model, given):
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if norms:
        for norm in norms:
            norm.momentum = 1.0
        model.train()
        with torch.no_grad():
            model(torch.randn(4, *given.shape[1:]))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("names", nargs="*", default=NAMES)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        path = given.folder / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(0)
        model, example = build(name)
        calibrate(model, example)
        exported = torch.onnx.export(
            model.eval(), (example,), dynamo=True, opset_version=20, verbose=False
        )
        exported.save(path, external_data=False)
        print(f"{name}: {path.stat().st_size // 1_000_000} MB", flush=True)


if __name__ == "__main__":
    main()
