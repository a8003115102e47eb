#!/usr/bin/env python3
"""Trains and converts topics.onnx: sentences to topics.

    pip install scikit-learn==1.9.1 skl2onnx==1.20.0
    python models/topics/train.py
"""

import pathlib

from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

HERE = pathlib.Path(__file__).parent


def main():
    rows = [line.split("\t") for line in (HERE / "sentences.tsv").read_text().splitlines()[1:]]
    topics, sentences = zip(*rows)
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=30))
    pipeline.fit(sentences, topics)
    model = to_onnx(
        pipeline,
        initial_types=[("sentence", StringTensorType([None, 1]))],
        target_opset={"": 18, "ai.onnx.ml": 3},
    )
    (HERE / "topics.onnx").write_bytes(model.SerializeToString())


main()
