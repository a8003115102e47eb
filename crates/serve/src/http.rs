//! The thread that talks: connections, routes, answers whole or in parts.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::TrySendError;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use generate::{GenerateOptions, LanguageModel};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::Shared;
use crate::protocol::{
    AnswerWriter, Given, Prompts, Refusal, TextRequest, given, object, reason_of, text_request,
    vectors,
};
use crate::turns::{Queued, Task, TextEvent};

/// How many events of a request may wait for its reader.
const EVENTS: usize = 64;

/// Takes connections.
pub(crate) async fn listen(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(shared.options.connections.max(1)));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // The one who came has left, or there are too many files: others come.
            Err(_) => {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                continue;
            }
        };
        // Parts of a stream are small, and waited for.
        _ = stream.set_nodelay(true);
        let own = shared.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, own.clone()));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(own.options.patience)
                .serve_connection(TokioIo::new(stream), service);
            _ = connection.await;
            drop(place);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<AnswerBody>, Infallible> {
    let answered = route(request, &shared).await;
    Ok(answered.unwrap_or_else(|refusal| {
        let mut answer = whole(refusal.status, &refusal.to_json());
        if matches!(refusal.status, 429 | 503) {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }))
}

type Answered = Result<Response<AnswerBody>, Refusal>;

async fn route(request: Request<Incoming>, shared: &Arc<Shared>) -> Answered {
    let path = request.uri().path().to_owned();
    let name = &shared.options.name;
    let model = || json!({"id": name, "object": "model", "created": 0, "owned_by": "tilewright"});
    match (request.method(), path.as_str()) {
        (&Method::GET, "/health") => Ok(whole(200, &json!({"status": "ok"}))),
        (&Method::GET, "/v1/models") => {
            Ok(whole(200, &json!({"object": "list", "data": [model()]})))
        }
        (&Method::GET, path) if path.strip_prefix("/v1/models/") == Some(name) => {
            Ok(whole(200, &model()))
        }
        (&Method::POST, "/v1/completions") => {
            texts(body(request, shared).await?, shared, false).await
        }
        (&Method::POST, "/v1/chat/completions") => {
            texts(body(request, shared).await?, shared, true).await
        }
        (&Method::POST, "/v1/embeddings") => embeddings(body(request, shared).await?, shared).await,
        (method, path) => Err(Refusal::new(404, format!("there is no {method} {path}"))),
    }
}

/// The body of a request, if it is not too large and comes in time.
async fn body(request: Request<Incoming>, shared: &Shared) -> Result<Bytes, Refusal> {
    let most = shared.options.body_bytes;
    let mut body = request.into_body();
    let mut bytes = BytesMut::new();
    let read = async {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|found| Refusal::new(400, found.to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                let message = format!("the body has more than {most} bytes");
                return Err(Refusal::new(413, message));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    match timeout(shared.options.patience, read).await {
        Ok(read) => read?,
        Err(_) => return Err(Refusal::new(408, "the body did not come in time")),
    }
    Ok(bytes.freeze())
}

/// Work on a model that would hold up other connections.
async fn aside<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&LanguageModel) -> base::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let own = shared.clone();
    let work = move || tilewright::catch_internal_errors(|| work(&own.model));
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|_| Refusal::new(500, "the request could not be read"))?;
    done.map_err(|found| Refusal::of(&found))
}

fn tokens_of(model: &LanguageModel, given: Given) -> Vec<u32> {
    match given {
        Given::Text(text) => model.tokenizer().encode(&text, false),
        Given::Tokens(tokens) => tokens,
    }
}

/// Options whose texts a JSON schema allows, if there is one.
#[cfg(feature = "grammar")]
fn with_schema(
    model: &LanguageModel,
    mut options: GenerateOptions,
    schema: Option<&str>,
) -> base::Result<GenerateOptions> {
    options.grammar =
        schema.map(|schema| generate::TextGrammar::of_schema(model, schema)).transpose()?;
    Ok(options)
}

/// Options as they are: what asks for a schema has been refused.
#[cfg(not(feature = "grammar"))]
#[expect(clippy::unnecessary_wraps, reason = "a schema may be refused")]
fn with_schema(
    _: &LanguageModel,
    options: GenerateOptions,
    _: Option<&str>,
) -> base::Result<GenerateOptions> {
    Ok(options)
}

/// Queues texts; what becomes of them.
fn queue(
    shared: &Shared,
    texts: Vec<(Vec<u32>, Task)>,
) -> Result<Receiver<(usize, TextEvent)>, Refusal> {
    let (events, received): (Sender<(usize, TextEvent)>, _) = channel(EVENTS);
    for (number, (prompt, task)) in texts.into_iter().enumerate() {
        let (most, room) = (shared.places(), prompt.len());
        if room > most {
            let message = format!("a prompt of {room} tokens: the model has room for {most}");
            return Err(Refusal::new(400, message));
        }
        let queued = Queued { number, prompt, task, events: events.clone() };
        match shared.queue.try_send(queued) {
            Ok(()) => {}
            // What is queued already ends when its receiver is gone.
            Err(TrySendError::Full(_)) => {
                return Err(Refusal::new(429, "too many requests wait already"));
            }
            Err(TrySendError::Disconnected(_)) => {
                return Err(Refusal::new(503, "the server generates no more"));
            }
        }
    }
    Ok(received)
}

async fn texts(body: Bytes, shared: &Arc<Shared>, is_talk: bool) -> Answered {
    let options = &shared.options;
    let request = text_request(&object(&body, &options.name)?, is_talk, options.texts)?;
    let TextRequest { prompts, count, options: own, streamed, counted, schema } = request;
    let prepared = aside(shared, move |model| {
        let own = with_schema(model, own, schema.as_deref())?;
        let prompts: Vec<Vec<u32>> = match prompts {
            Prompts::Given(all) => all.into_iter().map(|one| tokens_of(model, one)).collect(),
            Prompts::Talk(messages) => vec![model.encode_talk(&messages)?],
        };
        Ok((prompts, own))
    });
    let (prompts, own) = prepared.await?;
    let prompt_tokens = prompts.iter().map(Vec::len).sum();
    let mut all = Vec::new();
    for prompt in prompts {
        for number in 0..count {
            let mut own = own.clone();
            own.sampler.seed = own.sampler.seed.wrapping_add(number as u64);
            all.push((prompt.clone(), Task::Generate(own)));
        }
    }
    let asked = all.len();
    let mut received = queue(shared, all)?;
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let kind = if is_talk { "chatcmpl" } else { "cmpl" };
    let writer = AnswerWriter {
        id: format!("{kind}-{:016x}", id()),
        created,
        model: options.name.clone(),
        is_talk,
        prompt_tokens,
    };
    if streamed {
        let first = received.recv().await;
        // What is refused at once is refused with a status.
        let first = match first {
            Some((_, TextEvent::Failed(found))) => return Err(Refusal::of(&found)),
            Some(first) => first,
            None => return Err(ended()),
        };
        let mut stream = EventStream {
            received,
            writer,
            waiting: VecDeque::new(),
            begun: vec![false; asked],
            left: asked,
            tokens: 0,
            counted,
            is_over: false,
        };
        stream.take(first);
        let mut answer = Response::new(AnswerBody::Events(Box::new(stream)));
        let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
        return Ok(answer);
    }
    let mut results: Vec<(String, &'static str)> = vec![(String::new(), "stop"); asked];
    let (mut left, mut tokens) = (asked, 0);
    while left > 0 {
        match received.recv().await {
            Some((number, TextEvent::Piece(piece))) => results[number].0 += &piece,
            Some((number, TextEvent::End(reason, count))) => {
                results[number].1 = reason_of(&reason);
                tokens += count;
                left -= 1;
            }
            Some((_, TextEvent::Failed(found))) => return Err(Refusal::of(&found)),
            Some((_, TextEvent::Vector(_))) | None => return Err(ended()),
        }
    }
    Ok(whole(200, &writer.whole(results, tokens)))
}

async fn embeddings(body: Bytes, shared: &Arc<Shared>) -> Answered {
    let options = &shared.options;
    let object = object(&body, &options.name)?;
    let encoded = match object.get("encoding_format").and_then(Value::as_str) {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let message = format!("\"encoding_format\": \"{other}\" is not supported");
            return Err(Refusal::new(400, message));
        }
    };
    if object.get("dimensions").is_some_and(|value| !value.is_null()) {
        return Err(Refusal::new(400, "\"dimensions\" is not supported"));
    }
    let all = given(object.get("input"), "input", options.texts)?;
    let prompts = aside(shared, move |model| {
        Ok(all.into_iter().map(|one| tokens_of(model, one)).collect::<Vec<Vec<u32>>>())
    });
    let prompts = prompts.await?;
    let tokens = prompts.iter().map(Vec::len).sum();
    let mut found = vec![Vec::new(); prompts.len()];
    let tasks = prompts.into_iter().map(|prompt| (prompt, Task::Embed)).collect();
    let mut received = queue(shared, tasks)?;
    for _ in 0..found.len() {
        match received.recv().await {
            Some((number, TextEvent::Vector(vector))) => found[number] = vector,
            Some((_, TextEvent::Failed(found))) => return Err(Refusal::of(&found)),
            _ => return Err(ended()),
        }
    }
    Ok(whole(200, &vectors(&found, encoded, &options.name, tokens)))
}

/// The refusal where a text ended without a word.
fn ended() -> Refusal {
    Refusal::new(500, "the text could not go on")
}

/// A number for each answer.
fn id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(1_u8)
}

fn whole(status: u16, value: &Value) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::Whole(Some(Bytes::from(value.to_string()))));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// What an answer says: all at once, or part by part as events of the server.
pub(crate) enum AnswerBody {
    Whole(Option<Bytes>),
    Events(Box<EventStream>),
}

/// Texts part by part. When whoever reads them leaves, this is dropped, and with it the receiver,
/// which ends the texts.
pub(crate) struct EventStream {
    received: Receiver<(usize, TextEvent)>,
    writer: AnswerWriter,
    waiting: VecDeque<Bytes>,
    /// Which texts have begun.
    begun: Vec<bool>,
    /// How many have not ended.
    left: usize,
    tokens: usize,
    counted: bool,
    is_over: bool,
}

impl EventStream {
    fn say(&mut self, value: &Value) {
        self.waiting.push_back(Bytes::from(format!("data: {value}\n\n")));
    }

    fn take(&mut self, (number, event): (usize, TextEvent)) {
        let is_first = !std::mem::replace(&mut self.begun[number], true);
        match event {
            TextEvent::Piece(piece) => {
                let part = self.writer.part(number, Some(&piece), is_first, None);
                self.say(&part);
            }
            TextEvent::End(reason, tokens) => {
                let part = self.writer.part(number, None, is_first, Some(reason_of(&reason)));
                self.say(&part);
                self.tokens += tokens;
                self.left -= 1;
                if self.left == 0 {
                    self.finish();
                }
            }
            TextEvent::Failed(found) => self.fail(&Refusal::of(&found)),
            TextEvent::Vector(_) => self.fail(&ended()),
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.say(&refusal.to_json());
        self.is_over = true;
    }

    fn finish(&mut self) {
        if self.counted {
            let counts = self.writer.counts(self.tokens);
            self.say(&counts);
        }
        self.waiting.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.is_over = true;
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Bytes| Poll::Ready(Some(Ok(Frame::data(bytes))));
        let stream = match self.get_mut() {
            AnswerBody::Whole(bytes) => return bytes.take().map_or(Poll::Ready(None), frame),
            AnswerBody::Events(stream) => stream,
        };
        loop {
            if let Some(bytes) = stream.waiting.pop_front() {
                return frame(bytes);
            }
            if stream.is_over {
                return Poll::Ready(None);
            }
            match stream.received.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => stream.take(event),
                Poll::Ready(None) => stream.fail(&ended()),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, AnswerBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            AnswerBody::Events(_) => SizeHint::default(),
        }
    }
}
