//! A language model behind HTTP, in the protocol of OpenAI's clients: `/v1/completions` and
//! `/v1/chat/completions`, both streamed where asked, `/v1/embeddings`, `/v1/models`, `/health`.
//!
//! Two threads work: one talks (`http.rs`, what it says in `protocol.rs`), the other generates
//! (`turns.rs`). Between them are a queue of bounded length, towards the second, and for each
//! request a channel of bounded length back. Several texts go on at once over one set of weights,
//! a token of each in one run; a prompt is taken in by at most 128 tokens between two such runs, so
//! that it holds up nobody. What a text says does not depend on the others.
//!
//! Invariants: whatever a client sends or fails to read, memory is bounded, the others go on, and
//! what nobody waits for any more ends at its next step.

mod http;
mod protocol;
mod turns;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use base::{Diagnostic, Diagnostics, Result, codes};
use generate::LanguageModel;

/// How a model is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address and the port; port 0 is any that is free.
    pub address: String,
    /// What the model is called.
    pub name: String,
    /// How many texts go on at once.
    pub parallel: usize,
    /// How many wait for their turn; more are refused with status 429.
    pub queue: usize,
    /// How many tokens a prompt and what follows it have room for; none is what the model was made
    /// for.
    pub context: Option<usize>,
    /// The most bytes of a request's body.
    pub body_bytes: usize,
    /// The most texts that a request asks for.
    pub texts: usize,
    /// The most connections.
    pub connections: usize,
    /// How long a client may take over its request, or leave what it was sent unread.
    pub patience: Duration,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            address: "127.0.0.1:8000".to_owned(),
            name: "model".to_owned(),
            parallel: 8,
            queue: 64,
            context: None,
            body_bytes: 1 << 20,
            texts: 16,
            connections: 256,
            patience: Duration::from_secs(30),
        }
    }
}

/// What both threads know.
struct Shared {
    model: LanguageModel,
    options: ServeOptions,
    queue: mpsc::SyncSender<turns::Queued>,
}

impl Shared {
    /// How many tokens a text has room for.
    fn places(&self) -> usize {
        self.options.context.unwrap_or_else(|| self.model.trained_places())
    }
}

/// A server that listens, and answers once it runs.
pub struct ModelServer {
    listener: TcpListener,
    shared: Arc<Shared>,
    queued: mpsc::Receiver<turns::Queued>,
}

impl ModelServer {
    /// Listens.
    ///
    /// # Errors
    /// `TW0302` for an address that cannot be listened at.
    pub fn bind(model: LanguageModel, options: ServeOptions) -> Result<ModelServer> {
        let refused = |found: std::io::Error| {
            let message = format!("cannot listen at {}", options.address);
            Diagnostics::from(
                Diagnostic::error(codes::CANNOT_READ_FILE, message)
                    .because(found.to_string())
                    .remedy("give another address or port"),
            )
        };
        let addresses: Vec<SocketAddr> =
            options.address.to_socket_addrs().map_err(refused)?.collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let (queue, queued) = mpsc::sync_channel(options.queue.max(1));
        let shared = Arc::new(Shared { model, options, queue });
        Ok(ModelServer { listener, shared, queued })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// As the system has it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests, until the system takes the socket away.
    ///
    /// # Errors
    /// As the system has it.
    pub fn run(self) -> std::io::Result<()> {
        let ModelServer { listener, shared, queued } = self;
        let own = shared.clone();
        thread::Builder::new()
            .name("turns".to_owned())
            .spawn(move || turns::take(&own.model, &own.options, &queued))?;
        // Prompts and schemas are read on as many threads as can work at once: each more takes
        // memory of its own.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(thread::available_parallelism().map_or(2, |own| own.get().max(2)))
            .build()?;
        runtime.block_on(http::listen(listener, shared))
    }
}
