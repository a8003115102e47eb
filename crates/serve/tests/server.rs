//! A server with a tiny model of random weights, over plain sockets: answers, streams, refusals,
//! clients that leave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use generate::LanguageModel;
use serde_json::{Value, json};
use serve::{ModelServer, ServeOptions};
use tilewright::Options;

mod tiny;

/// The server of all tests: two texts at once, two that wait, bodies of 4,096 bytes.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    let model = LanguageModel::read(tiny::folder("served"), &Options::default().with_threads(1));
    let options = ServeOptions {
        address: "127.0.0.1:0".to_owned(),
        name: "tiny".to_owned(),
        parallel: 2,
        queue: 4,
        body_bytes: 4096,
        texts: 4,
        patience: Duration::from_secs(5),
        ..ServeOptions::default()
    };
    let server = ModelServer::bind(model.expect("a model"), options).expect("a server");
    let address = server.address().expect("an address");
    thread::spawn(move || server.run());
    address
});

fn send(method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(*ADDRESS).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // A server that refuses may close before it has read all.
    _ = stream.write_all(body.as_bytes());
    stream
}

fn read(mut stream: TcpStream) -> (u16, String) {
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map_or("", |parts| parts.1).to_owned())
}

/// What is answered once there is room in the queue, which the other tests fill, too.
fn answered(path: &str, body: &str) -> (u16, String) {
    let started = Instant::now();
    loop {
        let (status, answer) = read(send("POST", path, body));
        if status != 429 {
            return (status, answer);
        }
        assert!(started.elapsed() < Duration::from_secs(60), "there is never room");
        thread::sleep(Duration::from_millis(20));
    }
}

fn ask(path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = answered(path, &body.to_string());
    (status, serde_json::from_str(&answer).unwrap_or(Value::String(answer)))
}

fn completion(more: Value) -> (u16, Value) {
    let mut body = json!({"model": "tiny", "prompt": "Once", "max_tokens": 12, "temperature": 0});
    let (Value::Object(body_map), Value::Object(more)) = (&mut body, more) else { panic!("maps") };
    body_map.extend(more);
    ask("/v1/completions", &body)
}

/// The values of a stream's events, the last of which must say that it is done.
fn events(path: &str, body: &Value) -> Vec<Value> {
    let (status, answer) = answered(path, &body.to_string());
    assert_eq!(status, 200, "{answer}");
    let mut lines: Vec<&str> =
        answer.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(lines.pop(), Some("[DONE]"), "{answer}");
    lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_text_is_the_same_whole_streamed_and_beside_others() {
    let (status, alone) = completion(json!({}));
    assert_eq!(status, 200, "{alone}");
    assert_eq!(
        alone["usage"],
        json!({"prompt_tokens": 4, "completion_tokens": 12, "total_tokens": 16})
    );
    assert_eq!(alone["choices"][0]["finish_reason"], "length");
    let text = alone["choices"][0]["text"].clone();
    let body = json!({"prompt": "Once", "max_tokens": 12, "temperature": 0, "stream": true,
        "stream_options": {"include_usage": true}});
    let parts = events("/v1/completions", &body);
    let written = parts.iter().filter_map(|part| part["choices"][0]["text"].as_str());
    assert_eq!(written.collect::<String>(), text);
    assert_eq!(parts.last().expect("counts")["usage"]["completion_tokens"], 12);
    let others: Vec<_> = (0..3).map(|_| thread::spawn(|| completion(json!({})))).collect();
    for other in others {
        let (status, other) = other.join().expect("an answer");
        assert!(status == 200 && other["choices"][0]["text"] == text, "{other}");
    }
    let (_, several) = completion(json!({"prompt": ["Once", [79, 110, 99, 101]], "n": 2}));
    let choices = several["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 4);
    assert!(choices.iter().all(|choice| choice["text"] == text), "{several}");
}

#[test]
fn talks_are_written_by_the_template() {
    let talk = json!({"model": "tiny", "max_completion_tokens": 5, "seed": 3, "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Who?"}]},
    ]});
    let (status, answer) = ask("/v1/chat/completions", &talk);
    assert_eq!(status, 200, "{answer}");
    // `<|im_start|>system\nBe brief.<|im_end|>\n` and so on, a token a byte.
    assert_eq!(answer["usage"]["prompt_tokens"], 19 + 12 + 10);
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert_eq!(ask("/v1/chat/completions", &talk).1["choices"], answer["choices"]);
    let mut streamed = talk.clone();
    streamed["stream"] = true.into();
    let parts = events("/v1/chat/completions", &streamed);
    assert_eq!(parts[0]["choices"][0]["delta"]["role"], "assistant");
    let written = parts.iter().filter_map(|part| part["choices"][0]["delta"]["content"].as_str());
    assert_eq!(written.collect::<String>(), answer["choices"][0]["message"]["content"]);
}

#[test]
fn vectors_models_and_health() {
    let body = json!({"model": "tiny", "input": ["Once", "upon"]});
    let (status, answer) = ask("/v1/embeddings", &body);
    assert_eq!(status, 200, "{answer}");
    let vector: Vec<f64> =
        serde_json::from_value(answer["data"][1]["embedding"].clone()).expect("numbers");
    let length = vector.iter().map(|own| own * own).sum::<f64>();
    assert!(vector.len() == 32 && (length - 1.0).abs() < 1e-5, "{length}");
    let (_, encoded) =
        ask("/v1/embeddings", &json!({"input": "upon", "encoding_format": "base64"}));
    assert_eq!(encoded["data"][0]["embedding"].as_str().map(str::len), Some(172));
    assert_eq!(read(send("GET", "/health", "")), (200, "{\"status\":\"ok\"}".to_owned()));
    assert!(read(send("GET", "/v1/models", "")).1.contains("\"tiny\""));
    assert_eq!(read(send("GET", "/v1/models/tiny", "")).0, 200);
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let check = |body: &str, status: u16, reason: &str| {
        let (found, answer) = answered("/v1/completions", body);
        assert!(found == status && answer.contains(reason), "{found}: {answer}");
        assert!(answer.contains("\"error\""), "{answer}");
    };
    check("{", 400, "no JSON");
    check("[]", 400, "no JSON object");
    check("{}", 400, "prompt");
    check(r#"{"prompt": "x", "model": "gpt"}"#, 404, "model_not_found");
    check(r#"{"prompt": "x", "temperature": -1}"#, 400, "temperature");
    check(r#"{"prompt": "x", "logprobs": 5}"#, 400, "logprobs");
    check(r#"{"prompt": "x", "n": 5}"#, 400, "n");
    check(r#"{"prompt": [300]}"#, 400, "there is no token 300");
    check(r#"{"prompt": ""}"#, 400, "there are no tokens");
    check(&format!(r#"{{"prompt": "{}"}}"#, "x".repeat(600)), 400, "600 tokens");
    check(&format!(r#"{{"prompt": "{}"}}"#, "x".repeat(5000)), 413, "4096 bytes");
    check(&"[".repeat(4000), 400, "no JSON");
    assert_eq!(read(send("GET", "/v1/completions", "")).0, 404);
    let (status, stopped) = completion(json!({"max_tokens": 600, "prompt": [1, 2, 3]}));
    assert_eq!((status, &stopped["choices"][0]["finish_reason"]), (200, &json!("length")));
}

#[test]
fn who_leaves_holds_up_nobody() {
    for streamed in [false, true] {
        let body = json!({"prompt": "x", "max_tokens": 500, "temperature": 0, "stream": streamed});
        for _ in 0..20 {
            let mut stream = send("POST", "/v1/completions", &body.to_string());
            if streamed {
                _ = stream.read(&mut [0; 64]);
            }
        }
    }
    // Those who left would take 20,000 tokens.
    assert_eq!(completion(json!({})).0, 200);
}

#[cfg(feature = "grammar")]
#[test]
fn answers_are_what_a_schema_allows() {
    let schema = json!({"type": "object", "properties": {"legs": {"enum": [2, 4]}},
        "required": ["legs"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}});
    for seed in 0..3 {
        let (status, answer) = completion(json!({"max_tokens": 60, "temperature": 1, "seed": seed,
            "response_format": format}));
        assert_eq!(status, 200, "{answer}");
        let text = answer["choices"][0]["text"].as_str().expect("a text");
        let found: Value = serde_json::from_str(text).expect("JSON");
        assert!(found == json!({"legs": 2}) || found == json!({"legs": 4}), "{text}");
    }
    let bad = json!({"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}});
    let (status, refused) = completion(json!({"response_format": bad}));
    assert!(status == 400 && refused.to_string().contains("thing"), "{refused}");
    let (status, refused) = completion(json!({"response_format": {"type": "xml"}}));
    assert!(status == 400 && refused.to_string().contains("response_format"), "{refused}");
}
