//! The worker threads: one pool a process, started when first needed, never ended.
//!
//! A *session* owns the pool while one program runs; a caller that finds it owned runs its work
//! alone. Inside a session each *parallel step* cuts an extent into chunks. Every thread has a
//! queue of chunks that follow one another, the same part of the extent in every step, so that data
//! stays in the caches of the core that made it. A thread takes chunks from the front of its own
//! queue, then from the back of others'. So the step ends when the work is done, not when the
//! slowest thread has done its share, and the caller does everything itself if no worker comes.
//! Nothing is allocated.
//!
//! Idle workers watch their own queue for a while, then park.
//!
//! Invariants, on which soundness rests:
//! - A queue is one word, so taking a chunk is one compare-and-swap. A chunk is taken once.
//! - `step` is written only while no chunk is left or being run: the caller counts chunks that
//!   have been run and leaves only when all have. So whoever has taken a chunk may read `step`,
//!   however late he comes: the chunk he took belongs to the step he reads.
//! - The word also holds the session's number of threads, and only threads of a lower number take
//!   chunks. So a thread number is used by one thread at a time.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

/// The most threads a session can have.
const MAX_THREADS: usize = 256;

/// Chunks a thread gets of a step, where there are enough: what one thread may have to wait for
/// another is at most one chunk.
const CHUNKS_PER_THREAD: i64 = 8;

/// How often an idle worker looks at its queue before it parks: some tens of microseconds.
const LOOKS_BEFORE_PARKING: u32 = 4000;

/// How often a caller looks whether a step is over before it lets other threads run.
const LOOKS_BEFORE_YIELDING: u32 = 1000;

/// What a parallel step runs: `task(thread, first, last)` runs iterations `first..last`.
type Task<'a> = dyn Fn(usize, i64, i64) + Sync + 'a;

/// The right to use the pool, until it is dropped.
#[derive(Debug)]
pub struct Session {
    threads: usize,
}

/// A parallel step, as its threads see it.
struct Step {
    task: *const Task<'static>,
    extent: i64,
    chunks: i64,
}

/// The chunks of one thread that nobody has taken, as a word: the next one, the end, and the
/// session's number of threads.
#[derive(Clone, Copy)]
struct Chunks {
    next: u64,
    end: u64,
    threads: u64,
}

const CHUNK_BITS: u32 = 24;

impl Chunks {
    fn of_word(word: u64) -> Chunks {
        let mask = (1 << CHUNK_BITS) - 1;
        let (next, end) = (word & mask, word >> CHUNK_BITS & mask);
        Chunks { next, end, threads: word >> (2 * CHUNK_BITS) }
    }

    fn word(self) -> u64 {
        self.next | self.end << CHUNK_BITS | self.threads << (2 * CHUNK_BITS)
    }
}

/// What belongs to one thread, on cache lines of its own (two, since processors fetch pairs).
#[repr(align(128))]
struct Seat {
    queue: AtomicU64,
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Seat {
    /// Takes a chunk for the thread `taker`, from the front or the back.
    fn take(&self, taker: usize, front: bool) -> Option<i64> {
        let mut word = self.queue.load(Ordering::Relaxed);
        loop {
            let mut chunks = Chunks::of_word(word);
            if chunks.next >= chunks.end || taker as u64 >= chunks.threads {
                return None;
            }
            let taken = if front {
                chunks.next += 1;
                chunks.next - 1
            } else {
                chunks.end -= 1;
                chunks.end
            };
            // Acquire: whoever takes a chunk reads `step`, written before the queue.
            let swapped = self.queue.compare_exchange_weak(
                word,
                chunks.word(),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match swapped {
                Ok(_) => return Some(taken as i64),
                Err(now) => word = now,
            }
        }
    }

    /// Whether there is something in the queue.
    fn has_chunks(&self, order: Ordering) -> bool {
        let chunks = Chunks::of_word(self.queue.load(order));
        chunks.next < chunks.end
    }
}

/// Counts that threads share, each on a cache line of its own.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    seats: [Seat; MAX_THREADS],
    /// Whether there is a session.
    in_use: Apart<AtomicBool>,
    /// Chunks of the present step that have not been run to their end.
    pending: Apart<AtomicUsize>,
    /// Whether a task of the present step panicked.
    panicked: AtomicBool,
    /// Threads there are, the caller included.
    threads: AtomicU32,
    starting: Mutex<()>,
    step: UnsafeCell<Step>,
}

// SAFETY: `step` is the only part that is not `Sync` by itself. It is written by the session's
// owner while no chunk can be taken, and read by those who have taken one (see the head of this
// file).
unsafe impl Sync for Shared {}

fn nothing(_: usize, _: i64, _: i64) {}

static SHARED: Shared = Shared {
    seats: [const {
        Seat { queue: AtomicU64::new(0), parked: AtomicBool::new(false), thread: OnceLock::new() }
    }; MAX_THREADS],
    in_use: Apart(AtomicBool::new(false)),
    pending: Apart(AtomicUsize::new(0)),
    panicked: AtomicBool::new(false),
    threads: AtomicU32::new(1),
    starting: Mutex::new(()),
    step: UnsafeCell::new(Step { task: &nothing, extent: 0, chunks: 0 }),
};

/// Starts workers until there are so many threads, the caller's included. Returns how many of
/// them there are: fewer only where the system gives no more.
pub fn reserve(threads: usize) -> usize {
    let wanted = threads.clamp(1, MAX_THREADS);
    let shared = &SHARED;
    let _guard = shared.starting.lock().unwrap_or_else(PoisonError::into_inner);
    let mut running = shared.threads.load(Ordering::Relaxed) as usize;
    while running < wanted {
        let index = running;
        let builder = std::thread::Builder::new().name(format!("tilewright-{index}"));
        if builder.spawn(move || work(shared, index)).is_err() {
            break;
        }
        // What a thread allocates when it starts, it allocates now.
        while shared.seats[index].thread.get().is_none() {
            std::thread::yield_now();
        }
        running += 1;
        shared.threads.store(running as u32, Ordering::Release);
    }
    running.min(wanted)
}

/// Takes the pool for so many threads, the caller's included; `None` if another caller has it.
/// There are never more threads than were [reserved](reserve).
#[must_use]
pub fn session(threads: usize) -> Option<Session> {
    let shared = &SHARED;
    let running = shared.threads.load(Ordering::Acquire) as usize;
    let threads = threads.clamp(1, running);
    if shared.in_use.0.swap(true, Ordering::Acquire) {
        return None;
    }
    // Awake by the time the first step comes.
    wake(&shared.seats[1..threads]);
    Some(Session { threads })
}

/// Wakes those who are parked.
fn wake(seats: &[Seat]) {
    for seat in seats {
        if seat.parked.load(Ordering::Relaxed)
            && let Some(thread) = seat.thread.get()
        {
            thread.unpark();
        }
    }
}

impl Session {
    /// The number of threads, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `task(thread, first, last)` for pieces that make up `0..extent`, each of at least
    /// `grain` iterations where there are that many, and returns when all are done. Thread numbers
    /// are below [`threads`](Session::threads); a thread number runs one piece at a time.
    ///
    /// # Panics
    /// If the task does, once no thread runs it any more.
    pub fn parallel(&mut self, extent: i64, grain: i64, task: &Task<'_>) {
        let threads = self.threads as i64;
        let most = extent / grain.max(1);
        let chunks = match most.min(threads * CHUNKS_PER_THREAD) {
            few if few <= threads => few,
            many => many - many % threads,
        };
        if threads == 1 || chunks <= 1 {
            if extent > 0 {
                task(0, 0, extent);
            }
            return;
        }
        let shared = &SHARED;
        self.publish(shared, extent, chunks, task);
        // One's own part first, then what others have not begun.
        for (index, seat) in shared.seats[..self.threads].iter().enumerate() {
            while let Some(chunk) = seat.take(0, index == 0) {
                run_chunk(shared, 0, chunk);
            }
        }
        let mut looks = 0;
        while shared.pending.0.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks < LOOKS_BEFORE_YIELDING {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        if shared.panicked.swap(false, Ordering::Relaxed) {
            panic!("a task of a parallel step panicked");
        }
    }

    fn publish(&mut self, shared: &Shared, extent: i64, chunks: i64, task: &Task<'_>) {
        let task: *const Task<'_> = task;
        // SAFETY: only the lifetime changes. The task is called for chunks of this step alone, and
        // `parallel` does not return before all of them have been run.
        let task = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        // SAFETY: the session is owned by the caller, and all chunks of the step before have been
        // run, so nobody reads (see the head of this file).
        unsafe { *shared.step.get() = Step { task, extent, chunks } };
        shared.pending.0.store(chunks as usize, Ordering::Relaxed);
        let threads = self.threads;
        // The caller's own queue last, so that the others' begin while it is written.
        for index in (0..threads).rev() {
            let start = |index: usize| chunks as u64 * index as u64 / threads as u64;
            let (next, end) = (start(index), start(index + 1));
            let queue = Chunks { next, end, threads: threads as u64 };
            shared.seats[index].queue.store(queue.word(), Ordering::Release);
        }
        // Pairs with the fence of a worker about to park: he sees the queue, or we see him parked.
        fence(Ordering::SeqCst);
        wake(&shared.seats[1..self.threads]);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        SHARED.in_use.0.store(false, Ordering::Release);
    }
}

/// Runs a chunk that the thread has taken.
fn run_chunk(shared: &Shared, thread: usize, chunk: i64) {
    // SAFETY: the thread has taken a chunk, so the step it belongs to is not over.
    let step = unsafe { &*shared.step.get() };
    let (size, rest) = (step.extent / step.chunks, step.extent % step.chunks);
    let start = |chunk: i64| size * chunk + chunk.min(rest);
    // SAFETY: as above, and the task lives until the step is over.
    let task = unsafe { &*step.task };
    let lost = i64::from(base::fault::is_seeded("runtime.chunk"));
    let run = AssertUnwindSafe(|| task(thread, start(chunk), start(chunk + 1) - lost));
    if catch_unwind(run).is_err() {
        shared.panicked.store(true, Ordering::Relaxed);
    }
    // Release: what the task wrote is seen by the caller. Behind this, the step may be over.
    shared.pending.0.fetch_sub(1, Ordering::Release);
}

/// The life of a worker.
fn work(shared: &'static Shared, index: usize) {
    let own = &shared.seats[index];
    _ = own.thread.set(std::thread::current());
    loop {
        let mut looks = 0;
        while !own.has_chunks(Ordering::Relaxed) {
            looks += 1;
            if looks < LOOKS_BEFORE_PARKING {
                std::hint::spin_loop();
            } else {
                park(own);
                looks = 0;
            }
        }
        while let Some(chunk) = own.take(index, true) {
            run_chunk(shared, index, chunk);
        }
        // One's neighbour first, so that thieves spread.
        let threads = Chunks::of_word(own.queue.load(Ordering::Relaxed)).threads as usize;
        for step in 1..threads {
            let seat = &shared.seats[(index + step) % threads];
            while let Some(chunk) = seat.take(index, false) {
                run_chunk(shared, index, chunk);
            }
        }
    }
}

/// Sleeps until somebody wakes the thread, unless there is something to do already.
fn park(own: &Seat) {
    own.parked.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if !own.has_chunks(Ordering::Relaxed) {
        std::thread::park();
    }
    own.parked.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    /// Runs a step and checks that every iteration is run once, in pieces of at least the grain,
    /// and no thread number by two threads at a time.
    fn check(session: &mut Session, extent: i64, grain: i64) {
        let seen: Vec<AtomicU32> = (0..extent).map(|_| AtomicU32::new(0)).collect();
        let busy: Vec<AtomicBool> = (0..session.threads()).map(|_| false.into()).collect();
        session.parallel(extent, grain, &|thread, first, last| {
            assert!(!busy[thread].swap(true, Ordering::SeqCst), "thread {thread} runs twice");
            assert!(0 <= first && first < last && last <= extent, "{first}..{last} of {extent}");
            assert!(last - first >= grain.min(extent), "{first}..{last}, grain {grain}");
            for index in first..last {
                seen[index as usize].fetch_add(1, Ordering::Relaxed);
            }
            busy[thread].store(false, Ordering::SeqCst);
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{extent} {grain}");
    }

    /// Tests share the process's pool, so they wait for it.
    fn session(threads: usize) -> Session {
        reserve(threads);
        loop {
            match self::super::session(threads) {
                Some(session) => return session,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn every_iteration_runs_once() {
        for threads in [1, 2, 3, 7] {
            let mut session = session(threads);
            assert_eq!(session.threads(), threads);
            for extent in (0..70).chain([255, 256, 1000, 4097]) {
                for grain in [0, 1, 2, 5, 64, 5000] {
                    check(&mut session, extent, grain);
                }
            }
        }
    }

    #[test]
    fn many_small_steps_with_changing_numbers_of_threads() {
        for round in 0..300 {
            let mut session = session(1 + round % 5);
            for extent in 0..30 {
                check(&mut session, extent, 1);
            }
        }
    }

    #[test]
    fn callers_at_the_same_time() {
        reserve(4);
        let inline = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for caller in 0..6 {
                let inline = &inline;
                scope.spawn(move || {
                    for round in 0..500 {
                        match super::session(2 + caller % 3) {
                            Some(mut session) => check(&mut session, round % 40, 1),
                            None => _ = inline.fetch_add(1, Ordering::Relaxed),
                        }
                    }
                });
            }
        });
        drop(session(2));
    }

    #[test]
    fn workers_sleep_and_wake() {
        for _ in 0..20 {
            check(&mut session(3), 100, 1);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let mut session = session(3);
        for culprit in [0, 50, 99] {
            let step = AssertUnwindSafe(|| {
                session.parallel(100, 1, &|_, first, last| {
                    assert!(!(first..last).contains(&culprit), "on purpose");
                });
            });
            assert!(catch_unwind(step).is_err());
            check(&mut session, 100, 1);
        }
    }

    #[test]
    fn words_hold_what_they_are_made_of() {
        let chunks = Chunks { next: 3, end: (1 << CHUNK_BITS) - 1, threads: 256 };
        let Chunks { next, end, threads } = Chunks::of_word(chunks.word());
        assert_eq!((next, end, threads), (3, (1 << CHUNK_BITS) - 1, 256));
    }
}
