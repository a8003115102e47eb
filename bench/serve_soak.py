"""Eight clients of `tilewright serve` for minutes, of which some vanish, send what is no request or
too much of it, or read slowly: every answer is the one that the request has alone, memory does not
grow, and nothing hangs.

    python bench/serve_soak.py target/release/tilewright models/stories/stories.gguf --seconds 600

The binary needs the feature `serve`; of Python nothing but its library is used.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

PROMPTS = [
    "Long ago a kind fox",
    "Once a small bear wanted to",
    "The rain came and",
    "Every day the mouse went to the river. ",
    "There was an old oak, and under it",
    "A bird said: ",
]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Kiki", "Tom"]}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def requests():
    """What is asked for: each has one right answer, as its seed is given."""
    for number, prompt in enumerate(PROMPTS):
        for temperature in (0, 0.9):
            yield {
                "prompt": prompt,
                "max_tokens": 24 + 13 * number,
                "temperature": temperature,
                "seed": 7 + number,
                "stop": ["moon"] if number % 3 == 2 else None,
            }
    # A prompt that takes several runs.
    yield {"prompt": " ".join(PROMPTS[:2] * 12), "max_tokens": 40, "temperature": 0.7, "seed": 3}
    schema = {"type": "json_schema", "json_schema": {"name": "pet", "schema": SCHEMA}}
    yield {
        "prompt": "A pet: ",
        "max_tokens": 40,
        "temperature": 0.8,
        "seed": 5,
        "response_format": schema,
    }


def resident(process):
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Client:
    def __init__(self, port):
        self.port = port

    def send(self, body, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", body, headers)
        return connection, connection.getresponse()

    def ask(self, request):
        """The text of an answer, once there is room for the request."""
        while True:
            connection, answer = self.send(json.dumps(request))
            body = answer.read()
            connection.close()
            if answer.status != 429:
                break
            time.sleep(0.05)
        if answer.status != 200:
            raise AssertionError(f"status {answer.status}: {body[:300]}")
        return json.loads(body)["choices"][0]["text"]

    def stream(self, request, pause=0.0, part=4096):
        """The text of a stream, read slowly where a pause is given."""
        while True:
            connection, answer = self.send(json.dumps({**request, "stream": True}))
            if answer.status != 429:
                break
            answer.read()
            connection.close()
            time.sleep(0.05)
        data = b""
        while piece := answer.read1(part):
            data += piece
            time.sleep(pause)
        connection.close()
        text, ended = "", False
        for line in data.split(b"\n\n"):
            if line == b"data: [DONE]":
                ended = True
            elif line:
                text += json.loads(line[6:])["choices"][0]["text"]
        if not ended:
            raise AssertionError(f"a stream that does not end: {data[-200:]}")
        return text

    def vanish(self, request):
        """Leaves a stream behind its first bytes, or before them."""
        body = json.dumps({**request, "max_tokens": 400, "stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as stream:
            stream.sendall(head.encode() + body[: random.choice([len(body), len(body) // 2])])
            if random.random() < 0.7:
                stream.settimeout(0.3)
                try:
                    stream.recv(64)
                except TimeoutError:
                    pass

    def refused(self):
        """Sends what is refused, and checks that it is."""
        kind = random.randrange(6)
        if kind == 0:
            body, wanted = '{"prompt": ', {400}
        elif kind == 1:
            body, wanted = json.dumps({"prompt": "x" * (3 << 20)}), {413}
        elif kind == 2:
            body, wanted = json.dumps({"prompt": "word " * 20000, "max_tokens": 4}), {400, 429}
        elif kind == 3:
            body, wanted = json.dumps({"prompt": [10**8]}), {400, 429}
        elif kind == 4:
            schema = {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}}
            body, wanted = json.dumps({"prompt": "x", "response_format": schema}), {400}
        else:
            body, wanted = json.dumps({"prompt": "x", "temperature": "hot"}), {400}
        try:
            connection, answer = self.send(body)
        except (BrokenPipeError, ConnectionResetError):
            # It was refused before all of it was sent.
            return
        answer.read()
        connection.close()
        if answer.status not in wanted:
            raise AssertionError(f"{body[:60]}: status {answer.status}, not {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [arguments.binary, "serve", arguments.model, "--address", f"127.0.0.1:{port}"]
        + ["--threads", str(arguments.threads)]
    )
    client = Client(port)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.1)
    all_requests = list(requests())
    alone = [client.ask(request) for request in all_requests]
    json.loads(alone[-1])
    counts = dict.fromkeys(["whole", "streamed", "slow", "vanished", "refused"], 0)
    failures, lock = [], threading.Lock()
    end = time.monotonic() + arguments.seconds

    def work(seed):
        chance = random.Random(seed)
        while time.monotonic() < end and not failures:
            number = chance.randrange(len(all_requests))
            request, wanted = all_requests[number], alone[number]
            kind = chance.choice(["whole"] * 4 + ["streamed"] * 4 + list(counts))
            try:
                found = wanted
                if kind == "whole":
                    found = client.ask(request)
                elif kind == "streamed":
                    found = client.stream(request)
                elif kind == "slow":
                    found = client.stream(request, pause=0.05, part=64)
                elif kind == "vanished":
                    client.vanish(request)
                else:
                    client.refused()
                if found != wanted:
                    raise AssertionError(f"request {number}: {found!r}, alone {wanted!r}")
            except Exception as error:  # noqa: BLE001
                failures.append(f"{kind}: {type(error).__name__}: {error}")
            with lock:
                counts[kind] += 1

    clients = [threading.Thread(target=work, args=(seed,)) for seed in range(arguments.clients)]
    for one in clients:
        one.start()
    # The first tenth has brought all code and all memory that there is.
    time.sleep(arguments.seconds / 10)
    before, most = resident(server.pid), 0
    while any(one.is_alive() for one in clients):
        time.sleep(0.5)
        most = max(most, resident(server.pid))
    after = resident(server.pid)
    started = time.monotonic()
    last = client.ask(all_requests[0])
    waited = time.monotonic() - started
    server.terminate()
    server.wait()
    print(f"{sum(counts.values())} requests in {arguments.seconds:.0f} s: {counts}")
    print(
        f"resident {before / 1e6:.1f} MB after a tenth, {after / 1e6:.1f} MB at the end "
        f"({after / before - 1:+.1%}), at most {most / 1e6:.1f} MB"
    )
    print(f"one more request behind all of them: {waited:.2f} s")
    failures += [] if last == alone[0] else ["the last answer is another"]
    failures += [] if after <= 1.05 * before else ["memory has grown"]
    for failure in failures[:5]:
        print(f"FAILED {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
