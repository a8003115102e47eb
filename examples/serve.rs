//! A small server: a model behind HTTP, for many callers at once.
//!
//!     cargo run --profile quick -p examples --example serve -- models/digits/digits.onnx
//!     curl --data-binary @models/digits/test_images.npy http://127.0.0.1:8080 -o scores.npy
//!
//! Arguments: a model with one input, and an address if it is to be another. A request's body is
//! the input as `.npy`; the answer is the first output, `.npy` too, or status 400 with a
//! diagnostic. A thread serves one connection after the other; all of them run the same executable.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tensor::npy;
use tilewright::{Diagnostics, Executable, Options, Value};

/// Bytes of the largest request.
const MOST_BYTES: usize = 64 << 20;

/// How long a caller may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Diagnostics> {
    let mut arguments = std::env::args().skip(1);
    let Some(model) = arguments.next() else {
        eprintln!("serve MODEL [ADDRESS]");
        std::process::exit(2);
    };
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    // Callers keep the cores busy; each run has a core of its own.
    let executable = tilewright::compile(model, &Options::default().with_threads(1))?;
    let listener = TcpListener::bind(&address).unwrap_or_else(|error| {
        eprintln!("{address}: {error}");
        std::process::exit(1);
    });
    // The port is known even where the system was to choose one.
    if let Ok(address) = listener.local_addr() {
        println!("listening on http://{address}");
    }
    let servers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        for _ in 0..servers {
            scope.spawn(|| {
                for caller in listener.incoming() {
                    if let Err(error) = caller.and_then(|caller| serve(&executable, &caller)) {
                        eprintln!("{error}");
                    }
                }
            });
        }
    });
    Ok(())
}

/// Serves the requests of one connection.
fn serve(executable: &Executable, caller: &TcpStream) -> io::Result<()> {
    caller.set_read_timeout(Some(PATIENCE))?;
    let mut requests = BufReader::new(caller);
    while let Some(body) = read_request(&mut requests)? {
        let (status, answer) = match answer(executable, body) {
            Ok(answer) => ("200 OK", answer),
            Err(reason) => ("400 Bad Request", reason.into_bytes()),
        };
        let mut response =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len()).into_bytes();
        response.extend(answer);
        requests.get_mut().write_all(&response)?;
    }
    Ok(())
}

/// The body of the next request; none when there are no more.
fn read_request(requests: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = None;
    let mut lines = 0;
    loop {
        let mut line = String::new();
        if requests.by_ref().take(8192).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        match line.split_once(':') {
            _ if line.is_empty() && lines > 0 => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse::<usize>().ok();
            }
            _ => {}
        }
        lines += 1;
        if lines > 100 {
            return Err(io::Error::other("a request with too many headers"));
        }
    }
    let Some(length) = length.filter(|length| *length <= MOST_BYTES) else {
        return Err(io::Error::other(format!("a request without a length up to {MOST_BYTES}")));
    };
    let mut body = Vec::new();
    let read = requests.by_ref().take(length as u64).read_to_end(&mut body)?;
    Ok((read == length).then_some(body))
}

/// The first output for an input, both as `.npy`.
fn answer(executable: &Executable, body: Vec<u8>) -> Result<Vec<u8>, String> {
    let input = npy::decode(body.into(), "the request").map_err(|found| found.to_string())?;
    let outputs = executable.run_values(&[input.into()]).map_err(|found| found.to_string())?;
    let Some(Value::Tensor(output)) = outputs.first() else {
        return Err("the model's first output is no tensor".to_owned());
    };
    let mut answer = Vec::new();
    npy::encode_to(output, &mut answer).map_err(|error| error.to_string())?;
    Ok(answer)
}
