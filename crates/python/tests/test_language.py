"""Tests of language models: `python -m unittest crates/python/tests/test_language.py`, with the
package installed. What needs ``jinja2`` is skipped aloud where it is missing."""

import importlib.util
import pathlib
import pickle
import struct
import tempfile
import threading
import unittest

import tilewright

STORIES = pathlib.Path(__file__).resolve().parents[3] / "models" / "stories" / "stories.gguf"
PROMPT = "Long ago a kind fox"

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}. "
    "{% endfor %}{% if add_generation_prompt %}Long ago{% endif %}"
)


def with_template(template):
    """The bytes of the model with a chat template, whose data stay aligned."""
    bytes = STORIES.read_bytes()
    version, tensors, keys = struct.unpack_from("<IQQ", bytes, 4)
    name, head = b"tokenizer.chat_template", 24
    entry = struct.pack("<Q", len(name)) + name + struct.pack("<I", 8)
    # A comment fills the template up to a multiple of the alignment.
    text = template.encode()
    text += b"{#" + b" " * (-(len(entry) + 8 + len(text) + 4) % 32) + b"#}"
    entry += struct.pack("<Q", len(text)) + text
    counts = struct.pack("<IQQ", version, tensors, keys + 1)
    return bytes[:4] + counts + entry + bytes[head:]


class Language(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tilewright.LLM(STORIES, threads=1, context=256)
        cls.text = cls.model.generate(PROMPT, 40)

    def test_a_text_goes_on(self):
        text = self.text
        self.assertIsInstance(text, str)
        self.assertEqual((len(text.tokens), text.reason), (40, "length"))
        self.assertEqual(self.model.decode(text.tokens), text)
        again = pickle.loads(pickle.dumps(text))
        self.assertEqual((again, again.tokens, again.reason), (text, text.tokens, text.reason))
        tokens = self.model.encode(PROMPT)
        self.assertEqual(self.model.generate(tokens, max_tokens=40), text)
        self.assertEqual(self.model.generate(PROMPT, 0), "")

    def test_pieces_come_as_they_are_made(self):
        stream = self.model.generate(PROMPT, 40, stream=True)
        first = next(stream)
        self.assertTrue(first and stream.text is None)
        self.assertEqual(first + "".join(stream), self.text)
        self.assertEqual(stream.text.tokens, self.text.tokens)
        self.assertEqual(list(stream), [])

    def test_seeds_reproduce(self):
        def drawn(seed, **options):
            return self.model.generate(PROMPT, 40, temperature=1.5, seed=seed, **options)

        self.assertEqual(drawn(7), drawn(7))
        self.assertNotEqual(drawn(7), drawn(8))
        for narrow in ({"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}):
            self.assertEqual(drawn(9, **narrow), self.text, narrow)
        penalised = self.model.generate(PROMPT, 40, repetition_penalty=1.5)
        self.assertNotEqual(penalised, self.text)

    def test_texts_stop(self):
        word = self.text.split()[5]
        text = self.model.generate(PROMPT, 40, stop=word)
        self.assertEqual((text.reason, text), ("stop", self.text[: self.text.index(word)]))
        self.assertEqual(self.model.generate(PROMPT, 40, stop=["#", word]), text)
        small = tilewright.LLM(STORIES, threads=1, context=16)
        self.assertEqual(small.generate(PROMPT, 40).reason, "context")

    def test_threads_share_a_model(self):
        found = [None] * 3

        def write(number):
            found[number] = self.model.generate(PROMPT, 40)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [self.text] * 3)

    def test_what_is_saved_writes_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "stories.tw"
            try:
                self.model.save(path)
            except tilewright.FileError as refused:
                # A target that does not multiply bytes.
                self.assertEqual(refused.code, "TW0305")
                self.skipTest(str(refused))
            engine = tilewright.LLM(path, threads=1, context=256)
            self.assertEqual(engine.generate(PROMPT, 40), self.text)

    def test_what_does_not_fit_is_refused(self):
        generate = self.model.generate
        for prompt, says in (([], "no tokens"), ([9999], "9999"), ("a fox " * 300, "room")):
            with self.subTest(says), self.assertRaisesRegex(tilewright.RunError, says):
                generate(prompt)
        for options in (
            {"max_tokens": -1}, {"temperature": -1}, {"temperature": float("nan")}, {"top_k": -1},
            {"top_p": 1.5}, {"min_p": -0.1}, {"repetition_penalty": 0}, {"seed": -1},
            {"seed": 2**64}, {"max_tokens": 10**30},
        ):  # fmt: skip
            with self.subTest(options), self.assertRaisesRegex(ValueError, next(iter(options))):
                generate(PROMPT, **options)
        for options in (
            {"max_tokens": "3"}, {"top_p": "1"}, {"stop": [3]}, {"stop": 3}, {"seed": 1.5},
        ):  # fmt: skip
            with self.subTest(options), self.assertRaisesRegex(TypeError, next(iter(options))):
                generate(PROMPT, **options)
        for prompt in (3, None, b"fox", ["fox"]):
            with self.subTest(prompt), self.assertRaisesRegex(TypeError, "prompt"):
                generate(prompt)
        with self.assertRaisesRegex(ValueError, "prompt"):
            generate([2**40])
        with self.assertRaisesRegex(TypeError, "text"):
            self.model.encode(3)
        with self.assertRaisesRegex(TypeError, "tokens"):
            self.model.decode("fox")
        with self.assertRaises(TypeError):
            tilewright.LLM(b"GGUF")
        with self.assertRaises(tilewright.FileError):
            tilewright.LLM("nowhere.gguf")
        with self.assertRaisesRegex(tilewright.ModelError, "no language model"):
            tilewright.LLM(STORIES.parents[1] / "digits" / "digits.onnx")
        with self.assertRaisesRegex(ValueError, "activations"):
            tilewright.LLM(STORIES, activations="int4")
        with self.assertRaisesRegex(tilewright.ModelError, "no chat template"):
            self.model.chat("Who?")

    @unittest.skipUnless(importlib.util.find_spec("jinja2"), "jinja2 is not installed")
    def test_messages_are_answered(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "chat.gguf"

            def chat(template):
                path.write_bytes(with_template(template))
                return tilewright.LLM(path, threads=1, context=256)

            model = chat(TEMPLATE)
            messages = [{"role": "user", "content": "a fox"}]
            tokens = model.encode_chat(messages)
            self.assertTrue(model.decode(tokens).endswith("user: a fox. Long ago"))
            answer = model.chat(messages, 20)
            self.assertEqual(answer, model.generate(tokens, 20))
            self.assertEqual("".join(model.chat("a fox", 20, stream=True)), answer)
            for wrong in ([{"role": "user"}], ["Who?"], [{"role": 1, "content": "x"}]):
                with self.subTest(wrong), self.assertRaises(TypeError):
                    model.chat(wrong)
            wrong = "{{ raise_exception('no') }}", "{% for %}", "{{ ''.__class__.mro() }}"
            for template in wrong:
                with self.subTest(template), self.assertRaises(tilewright.ModelError):
                    chat(template).chat(messages)


if __name__ == "__main__":
    unittest.main()
