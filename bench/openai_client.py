"""Asks a server of `tilewright serve` with the client that people have: the Python package openai,
as it is.

    tilewright serve MODEL --name tiny
    python bench/openai_client.py http://127.0.0.1:8000/v1 [--talk] [--clients 8]
"""

import argparse
import concurrent.futures

import openai


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--talk", action="store_true", help="the model has a chat template")
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    client = openai.OpenAI(base_url=given.address, api_key="-", max_retries=20)
    name = client.models.list().data[0].id
    assert client.models.retrieve(name).id == name

    asked = dict(model=name, prompt="Once upon a time", max_tokens=40, temperature=0)
    whole = client.completions.create(**asked)
    text = whole.choices[0].text
    assert text and whole.usage.completion_tokens <= 40
    parts = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    parts = list(parts)
    assert "".join(part.choices[0].text for part in parts if part.choices) == text
    assert parts[-1].usage == whole.usage
    both = client.completions.create(**asked | dict(prompt=[asked["prompt"]] * 2), n=2)
    assert [choice.text for choice in both.choices] == [text] * 4
    stopped = client.completions.create(**asked, stop=[text[5:9]])
    assert stopped.choices[0].text == text[: text.index(text[5:9])]
    chance = asked | dict(temperature=1.0, seed=5)
    assert client.completions.create(**chance).choices == client.completions.create(**chance).choices
    print(f"completions: {text!r}")

    with concurrent.futures.ThreadPoolExecutor(given.clients) as pool:
        texts = pool.map(lambda _: client.completions.create(**asked).choices[0].text, range(4 * given.clients))
        assert set(texts) == {text}
    print(f"{given.clients} clients at once: each text is the one alone")

    # Vectors come as base64 unless they are asked for otherwise.
    first = client.embeddings.create(model=name, input=["a small fox", "a small fox"])
    second = client.embeddings.create(model=name, input="a small fox", encoding_format="float")
    one, other, third = first.data[0].embedding, first.data[1].embedding, second.data[0].embedding
    assert one == other and max(abs(a - b) for a, b in zip(one, third)) < 1e-6
    print(f"embeddings: {len(one)} numbers")

    for wrong, status in [
        (dict(model="other"), 404),
        (dict(temperature=-1), 400),
        (dict(logprobs=3), 400),
        (dict(prompt=[1 << 31]), 400),
        (dict(prompt="word " * 100_000), 400),
        (dict(prompt="word " * 1_000_000), 413),
    ]:
        try:
            client.completions.create(**asked | wrong)
            raise SystemExit(f"not refused: {list(wrong)}")
        except openai.APIStatusError as found:
            assert found.status_code == status, (wrong.keys(), found)
    print("refusals: as they should be")

    # Who leaves in the middle of a stream.
    for _ in range(20):
        stream = client.completions.create(**asked | dict(max_tokens=200), stream=True)
        next(iter(stream))
        stream.close()
    assert client.completions.create(**asked).choices[0].text == text
    print("clients that left hold up nobody")

    if given.talk:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}]
        talk = dict(model=name, messages=messages, max_completion_tokens=20, temperature=0)
        answer = client.chat.completions.create(**talk).choices[0].message
        assert answer.role == "assistant"
        parts = client.chat.completions.create(**talk, stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in parts) == answer.content
        print(f"chat: {answer.content!r}")


main()
