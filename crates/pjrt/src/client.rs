//! Clients: their devices, and the queue on which programs run.
//!
//! A client has one processor, and shows it as so many devices as the environment variable
//! `TILEWRIGHT_DEVICES` or the option `devices` says. Programs of a client run one after the other,
//! in the order in which they were called.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, ThreadId};

use crate::boundary::Handle;
use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};

/// What the platform is called.
pub(crate) const PLATFORM: &str = "tilewright";

/// Its version, as callers show it.
pub(crate) const PLATFORM_VERSION: &str = concat!("tilewright ", env!("CARGO_PKG_VERSION"));

/// The kind of all memory.
pub(crate) const MEMORY_KIND: &str = "device";

/// The most devices of a client.
const MOST_DEVICES: usize = 256;

/// A device, its description, and its memory.
pub(crate) struct Device {
    /// Its number, from 0 on.
    pub(crate) number: usize,
    /// What it is called: `tilewright:0`.
    pub(crate) name: String,
    /// Bytes of its buffers.
    pub(crate) usage: Arc<Usage>,
    /// Its own handle, as a list.
    own: OnceLock<[Handle<Device>; 1]>,
}

/// Bytes that buffers take.
#[derive(Default)]
pub(crate) struct Usage {
    bytes: AtomicI64,
    peak: AtomicI64,
    buffers: AtomicI64,
    largest: AtomicI64,
}

impl Usage {
    pub(crate) fn add(&self, bytes: usize) {
        let bytes = bytes as i64;
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
        self.buffers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Bytes now, the most there were, how many buffers were made, and the largest one's bytes.
    pub(crate) fn figures(&self) -> [i64; 4] {
        [&self.bytes, &self.peak, &self.buffers, &self.largest].map(|it| it.load(Ordering::Relaxed))
    }
}

impl Device {
    /// The device as a list of one.
    pub(crate) fn alone(&self) -> &[Handle<Device>] {
        self.own.get_or_init(|| [Handle::lend(self)])
    }
}

/// The devices of a client.
pub(crate) struct Topology {
    pub(crate) devices: Box<[Device]>,
    handles: OnceLock<Vec<Handle<Device>>>,
}

impl Topology {
    /// So many devices.
    pub(crate) fn of(count: usize) -> Topology {
        let device = |number| Device {
            number,
            name: format!("{PLATFORM}:{number}"),
            usage: Arc::default(),
            own: OnceLock::new(),
        };
        Topology { devices: (0..count).map(device).collect(), handles: OnceLock::new() }
    }

    /// As many devices as are asked for.
    ///
    /// # Errors
    /// A number of devices that is none, or too large.
    pub(crate) fn configured(asked: Option<String>) -> Outcome<Topology> {
        let Some(text) = asked else { return Ok(Topology::of(1)) };
        match text.trim().parse::<usize>() {
            Ok(count) if (1..=MOST_DEVICES).contains(&count) => Ok(Topology::of(count)),
            _ => Err(Failure::new(
                Code::InvalidArgument,
                format!(
                    "`{text}` is no number of devices: set TILEWRIGHT_DEVICES to a number from 1 \
                     to {MOST_DEVICES}"
                ),
            )),
        }
    }

    /// The device of a number.
    ///
    /// # Errors
    /// A number that no device has.
    pub(crate) fn device(&self, number: i64) -> Outcome<&Device> {
        let found = usize::try_from(number).ok().and_then(|number| self.devices.get(number));
        found.ok_or_else(|| {
            let count = self.devices.len();
            let message = format!("there is no device {number}: there are {count}, from 0 on");
            Failure::new(Code::NotFound, message)
        })
    }

    pub(crate) fn handles(&self) -> &[Handle<Device>] {
        self.handles.get_or_init(|| self.devices.iter().map(Handle::lend).collect())
    }
}

/// A client. What it made holds it, so that its devices are there as long as anything that names
/// them.
pub(crate) struct Client {
    pub(crate) topology: Arc<Topology>,
    pub(crate) queue: Queue,
}

impl Client {
    /// # Errors
    /// A system that gives no thread.
    pub(crate) fn new(topology: Topology) -> Outcome<Client> {
        Ok(Client { topology: Arc::new(topology), queue: Queue::new()? })
    }
}

/// A thread that does one thing after the other.
pub(crate) struct Queue {
    jobs: Mutex<Sender<Job>>,
    thread: ThreadId,
    /// Jobs that have not ended.
    open: Arc<AtomicUsize>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Queue {
    fn new() -> Outcome<Queue> {
        let (jobs, received) = channel::<Job>();
        let open = Arc::new(AtomicUsize::new(0));
        let counted = open.clone();
        let run = move || {
            for job in received {
                job();
                counted.fetch_sub(1, Ordering::AcqRel);
            }
        };
        // What programs hold in registers and spill is small; what they interpret nests.
        let thread = Builder::new().name("tilewright".to_owned()).stack_size(16 << 20).spawn(run);
        let thread = thread.map_err(|error| {
            Failure::new(Code::ResourceExhausted, format!("the system gives no thread: {error}"))
        })?;
        // The thread ends when the last sender goes; nobody waits for that, as it may be the one.
        Ok(Queue { jobs: Mutex::new(jobs), thread: thread.thread().id(), open })
    }

    /// Does something behind all that was asked before. It may not panic.
    pub(crate) fn push(&self, job: impl FnOnce() + Send + 'static) {
        self.open.fetch_add(1, Ordering::AcqRel);
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.send(Box::new(job)).is_err() {
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether all that was asked for has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Waits until all that was asked for has ended; not on the queue's own thread.
    pub(crate) fn drain(&self) {
        if std::thread::current().id() == self.thread || self.is_idle() {
            return;
        }
        let ended = Arc::new(Promise::open());
        let told = ended.clone();
        self.push(move || told.keep(Ok(())));
        _ = ended.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_keeps_the_order_and_drains() {
        let queue = Queue::new().expect("there are threads");
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let seen = seen.clone();
            queue.push(move || seen.lock().expect("nobody panicked").push(number));
        }
        queue.drain();
        assert_eq!(*seen.lock().expect("nobody panicked"), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_of_devices_are_checked() {
        let asked = |text: &str| Topology::configured(Some(text.to_owned()));
        assert_eq!(asked("3").map(|it| it.devices.len()).ok(), Some(3));
        for wrong in ["0", "-1", "two", "100000"] {
            assert!(asked(wrong).is_err_and(|it| it.message.contains("TILEWRIGHT_DEVICES")));
        }
    }
}
