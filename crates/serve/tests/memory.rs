//! A server keeps nothing of requests that are over: answered, refused, or left by their clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use generate::LanguageModel;
use serde_json::{Value, json};
use serve::{ModelServer, ServeOptions};
use testkit::CountingAllocator;
use tilewright::Options;

mod tiny;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// How many rounds of requests there are in a series.
const ROUNDS: usize = 40;

/// How many series there are at most. What leaks does so in each of them; code for so many texts at
/// once is made when they first meet, which may be late on a busy machine, and only once.
const SERIES: usize = 4;

/// How many bytes more than before may be in use: less than one of each round.
const MOST_BYTES: usize = 32 * ROUNDS;

/// Sends a request, and reads its answer to the end, or leaves.
fn ask(address: SocketAddr, body: &Value, leaves: bool) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
        Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(body.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    match leaves {
        true => _ = stream.read(&mut [0; 64]),
        false => _ = stream.read_to_end(&mut answer),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// A round of requests of all kinds.
fn round(address: SocketAddr, number: usize) {
    let body = |more: Value| {
        // Words are the same each time: tokenizers remember some thousands of them.
        let mut body = json!({"prompt": "Once", "max_tokens": 9, "seed": number,
            "temperature": 0.9});
        let (Value::Object(all), Value::Object(more)) = (&mut body, more) else { panic!("maps") };
        all.extend(more);
        body
    };
    let is = |answer: &str, status: &str| assert_eq!(answer.get(9..12), Some(status), "{answer}");
    is(&ask(address, &body(json!({})), false), "200");
    is(&ask(address, &body(json!({"stream": true, "n": 2})), false), "200");
    is(&ask(address, &body(json!({"temperature": "hot"})), false), "400");
    ask(address, &body(json!({"stream": true, "max_tokens": 200})), true);
    if cfg!(feature = "grammar") {
        let schema = json!({"type": "object", "properties": {"legs": {"enum": [2, number]}},
            "required": ["legs"], "additionalProperties": false});
        let format =
            json!({"type": "json_schema", "json_schema": {"name": "pet", "schema": schema}});
        is(&ask(address, &body(json!({"response_format": format})), false), "200");
        let format = json!({"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}});
        is(&ask(address, &body(json!({"response_format": format})), false), "400");
    }
}

/// Bytes in use once they are few enough, or for ten seconds have not been.
fn settled(most: usize) -> usize {
    let started = Instant::now();
    while ALLOCATOR.bytes() > most && started.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    ALLOCATOR.bytes()
}

/// The least bytes in use within a second: what the last round left may be there still at first.
fn least_used() -> usize {
    let used = (0..20).map(|_| {
        thread::sleep(Duration::from_millis(50));
        ALLOCATOR.bytes()
    });
    used.min().expect("some")
}

#[test]
fn what_is_over_is_forgotten() {
    let model = LanguageModel::read(tiny::folder("forgetful"), &Options::default().with_threads(1));
    let options = ServeOptions { address: "127.0.0.1:0".to_owned(), ..ServeOptions::default() };
    let server = ModelServer::bind(model.expect("a model"), options).expect("a server");
    let address = server.address().expect("an address");
    thread::spawn(move || server.run());
    // The first rounds bring all code and all threads.
    for number in 0..3 {
        round(address, number);
    }
    let mut grown = Vec::new();
    for series in 0..SERIES {
        let before = least_used();
        for number in 0..ROUNDS {
            round(address, series * ROUNDS + number);
        }
        let after = settled(before + MOST_BYTES);
        grown.push(after.saturating_sub(before));
        if after <= before + MOST_BYTES {
            return;
        }
    }
    panic!("{ROUNDS} rounds leave these bytes behind, time after time: {grown:?}");
}
