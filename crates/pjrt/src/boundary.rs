//! What crosses the C interface: handles of objects, lists, texts and memory of callers.
//!
//! All `unsafe` of the crate but the exported symbol's is here. Relied upon, as the interface
//! demands of callers: a handle that is given is one that the plugin gave and that has not been
//! destroyed; a list or text given is as long as it says; memory given stays while it is lent.
//! Structures with such fields are made by callers alone, or by the functions of this file.
//!
//! Invariant: no panic leaves an entry point; it is an error with the code INTERNAL.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use tilewright::catch_internal_errors;

use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};

/// An object of the plugin as callers hold it. Either it counts as a reference of its own
/// ([`Handle::give`]), or its object is part of one that lives longer ([`Handle::lend`]).
#[repr(transparent)]
pub(crate) struct Handle<T>(*const T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: a handle is what a shared reference to its object is, which other threads may have.
unsafe impl<T: Send + Sync> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) const NONE: Handle<T> = Handle(std::ptr::null());

    /// A handle that keeps the object until it is destroyed.
    pub(crate) fn give(object: Arc<T>) -> Handle<T> {
        Handle(Arc::into_raw(object))
    }

    /// A handle of an object that is part of another.
    pub(crate) fn lend(object: &T) -> Handle<T> {
        Handle(object)
    }

    /// The object.
    ///
    /// # Errors
    /// A handle of nothing.
    pub(crate) fn get<'a>(self) -> Outcome<&'a T> {
        // SAFETY: a handle is null or that of an object which lives while the caller uses it.
        unsafe { self.0.as_ref() }
            .ok_or_else(|| Failure::new(Code::InvalidArgument, "a handle is null"))
    }

    /// One more reference to an object whose handle was given.
    ///
    /// # Errors
    /// A handle of nothing.
    pub(crate) fn share(self) -> Outcome<Arc<T>> {
        self.get()?;
        // SAFETY: the pointer is that of an `Arc` which the caller has not destroyed.
        unsafe {
            Arc::increment_strong_count(self.0);
            Ok(Arc::from_raw(self.0))
        }
    }

    /// The reference that a handle which was given counts as; none of a handle of nothing.
    pub(crate) fn take(self) -> Option<Arc<T>> {
        // SAFETY: the handle was given, and the caller gives it back and uses it no more.
        (!self.0.is_null()).then(|| unsafe { Arc::from_raw(self.0) })
    }

    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }
}

/// Elements that lie one behind the other: a pointer and their number.
#[repr(C)]
pub(crate) struct List<T> {
    start: *const T,
    count: usize,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        *self
    }
}

impl<T> Copy for List<T> {}

// SAFETY: a list is a shared slice, which other threads may have.
unsafe impl<T: Sync> Send for List<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for List<T> {}

impl<T> List<T> {
    /// The elements of an object that callers hold longer than the list.
    pub(crate) fn of(elements: &[T]) -> List<T> {
        List { start: elements.as_ptr(), count: elements.len() }
    }

    pub(crate) const fn of_static(elements: &'static [T]) -> List<T> {
        List { start: elements.as_ptr(), count: elements.len() }
    }

    pub(crate) fn start(self) -> Start<T> {
        Start(self.start)
    }

    pub(crate) fn as_slice<'a>(self) -> &'a [T] {
        Start(self.start).slice(self.count)
    }
}

impl List<u8> {
    /// A text of an object that callers hold longer than the list.
    pub(crate) fn text(text: &str) -> List<u8> {
        List::of(text.as_bytes())
    }

    pub(crate) fn to_text(self) -> String {
        String::from_utf8_lossy(self.as_slice()).into_owned()
    }
}

/// The first of elements whose number stands elsewhere.
#[repr(transparent)]
pub(crate) struct Start<T>(*const T);

impl<T> Clone for Start<T> {
    fn clone(&self) -> Start<T> {
        *self
    }
}

impl<T> Copy for Start<T> {}

// SAFETY: as of a list.
unsafe impl<T: Sync> Send for Start<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Start<T> {}

impl<T> Start<T> {
    pub(crate) const NONE: Start<T> = Start(std::ptr::null());

    #[cfg(test)]
    pub(crate) fn of(elements: &[T]) -> Start<T> {
        Start(elements.as_ptr())
    }

    /// So many elements; none where the pointer is null.
    pub(crate) fn slice<'a>(self, count: usize) -> &'a [T] {
        if self.0.is_null() || count == 0 {
            return &[];
        }
        // SAFETY: as many elements are there, as the caller says.
        unsafe { std::slice::from_raw_parts(self.0, count) }
    }
}

/// Where a caller wants results: room for so many elements as it was told.
#[repr(transparent)]
pub(crate) struct Room<T>(*mut T, PhantomData<T>);

impl<T> Room<T> {
    #[cfg(test)]
    pub(crate) fn of(elements: &mut [T]) -> Room<T> {
        Room(elements.as_mut_ptr(), PhantomData)
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_null()
    }

    /// Writes an element.
    pub(crate) fn set(&self, index: usize, value: T) {
        // SAFETY: the caller has made room for as many elements as the interface says.
        unsafe { self.0.add(index).write(value) }
    }
}

/// A structure that the caller of a structure points to, and may leave out.
#[repr(transparent)]
pub(crate) struct Pointer<T>(*const T);

impl<T> Pointer<T> {
    #[cfg(test)]
    pub(crate) fn of(structure: &T) -> Pointer<T> {
        Pointer(structure)
    }

    #[cfg(test)]
    pub(crate) fn of_none() -> Pointer<T> {
        Pointer(std::ptr::null())
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or a structure that lives while the caller waits for the entry point.
        unsafe { self.0.as_ref() }
    }
}

/// Memory of a caller, which is read.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct HostSource(*const c_void);

impl HostSource {
    #[cfg(test)]
    pub(crate) fn of<T>(elements: &[T]) -> HostSource {
        HostSource(elements.as_ptr().cast())
    }

    /// So many bytes from the start on.
    pub(crate) fn bytes<'a>(self, count: usize) -> &'a [u8] {
        Start(self.0.cast::<u8>()).slice(count)
    }

    /// Elements of so many bytes in row-major order, which lie at these distances in bytes.
    pub(crate) fn gather(self, shape: &[usize], strides: &[i64], element: usize) -> Vec<u8> {
        let count = shape.iter().product::<usize>();
        let mut bytes = Vec::with_capacity(count * element);
        let mut index = vec![0_usize; shape.len()];
        for _ in 0..count {
            let steps = index.iter().zip(strides);
            let offset: i64 = steps.map(|(&index, &stride)| index as i64 * stride).sum();
            // SAFETY: the caller says that each element lies at this distance from the start.
            bytes.extend_from_slice(unsafe {
                let start = self.0.cast::<u8>().offset(offset as isize);
                std::slice::from_raw_parts(start, element)
            });
            for axis in (0..shape.len()).rev() {
                index[axis] += 1;
                if index[axis] < shape[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        bytes
    }

    /// The bytes as storage that several may hold; the promise is kept when the last one goes.
    pub(crate) fn lend(self, count: usize, released: Arc<Promise<()>>) -> bytes::Bytes {
        bytes::Bytes::from_owner(Lent { start: self, count, released })
    }
}

/// Memory of a caller that buffers share.
struct Lent {
    start: HostSource,
    count: usize,
    released: Arc<Promise<()>>,
}

// SAFETY: the caller keeps the memory, and leaves it as it is, until it is told of the release.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.start.bytes(self.count)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.released.keep(Ok(()));
    }
}

/// Memory of a caller, which is written to until an event tells it otherwise.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct HostDestination(*mut c_void);

// SAFETY: the caller leaves the memory to the plugin until the event.
unsafe impl Send for HostDestination {}

impl HostDestination {
    #[cfg(test)]
    pub(crate) fn of<T>(elements: &mut [T]) -> HostDestination {
        HostDestination(elements.as_mut_ptr().cast())
    }

    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Writes the bytes to the start of the memory.
    pub(crate) fn write(self, bytes: &[u8]) {
        // SAFETY: there is room for as many bytes as were asked for, of which these are at most
        // all; no memory of the plugin overlaps it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast::<u8>(), bytes.len()) }
    }
}

/// A function of a caller, which is told how something ended, and what to hand to it.
pub(crate) struct Callback {
    function: CallbackFunction,
    argument: *mut c_void,
}

/// What is called when an event is there: with an error that it owns, or none.
pub(crate) type CallbackFunction = extern "C" fn(Handle<Failure>, *mut c_void);

// SAFETY: the interface asks of callers that their functions may be called by any thread.
unsafe impl Send for Callback {}

impl Callback {
    pub(crate) fn new(function: CallbackFunction, argument: *mut c_void) -> Callback {
        Callback { function, argument }
    }

    pub(crate) fn call(self, outcome: &Outcome<()>) {
        (self.function)(error(outcome.clone()), self.argument);
    }
}

/// A function of a caller that is told when its memory is used no more.
pub(crate) struct ReleasedMemory {
    function: extern "C" fn(HostSource, *mut c_void),
    memory: HostSource,
    argument: *mut c_void,
}

// SAFETY: as of `Callback`; the memory is not looked at.
unsafe impl Send for ReleasedMemory {}

impl ReleasedMemory {
    pub(crate) fn new(
        function: extern "C" fn(HostSource, *mut c_void),
        memory: HostSource,
        argument: *mut c_void,
    ) -> ReleasedMemory {
        ReleasedMemory { function, memory, argument }
    }

    pub(crate) fn tell(self) {
        (self.function)(self.memory, self.argument);
    }
}

/// The error of an outcome as callers hold it; none where all went well.
pub(crate) fn error(outcome: Outcome<()>) -> Handle<Failure> {
    match outcome {
        Ok(()) => Handle::NONE,
        Err(failure) => Handle::give(Arc::new(failure)),
    }
}

/// A structure of arguments; each begins with its size.
///
/// # Safety
/// The type is laid out as the interface says, and its first field is its size in bytes.
pub(crate) unsafe trait Arguments {}

/// Runs an entry point on the structure that the caller points to.
///
/// A structure of an older interface, which is shorter, is refused; a longer one has fields that
/// are not looked at. Sizes leave out what is behind the last field, fewer than eight bytes.
pub(crate) fn enter<T: Arguments>(
    arguments: *mut T,
    name: &str,
    body: impl FnOnce(&mut T) -> Outcome<()>,
) -> Handle<Failure> {
    let run = || {
        if arguments.is_null() {
            return Ok(Err(Failure::new(Code::InvalidArgument, format!("{name}: no arguments"))));
        }
        // SAFETY: every structure of arguments begins with its size.
        let size = unsafe { arguments.cast::<usize>().read() };
        if size + 7 < size_of::<T>() {
            let wanted = size_of::<T>();
            let message = format!(
                "{name}: the arguments have {size} bytes, {wanted} are needed: the caller speaks \
                 an older version of the interface"
            );
            return Ok(Err(Failure::new(Code::InvalidArgument, message)));
        }
        // SAFETY: the caller points to such a structure, as its size says, and leaves it to the
        // entry point until that returns.
        Ok(body(unsafe { &mut *arguments }))
    };
    error(catch_internal_errors(run).map_err(Failure::from).and_then(|outcome| outcome))
}

/// Defines structures of arguments: their fields behind the size and the pointer to extensions that
/// all begin with.
macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$inner:meta])* $field:ident: $type:ty),* $(,)? }
    )*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            pub(crate) struct_size: usize,
            pub(crate) extension_start: *const std::ffi::c_void,
            $($(#[$inner])* pub(crate) $field: $type,)*
        }

        // SAFETY: laid out as C does, the size first.
        unsafe impl crate::boundary::Arguments for $name {}
    )*};
}

pub(crate) use arguments;

/// A value by its name.
#[repr(C)]
pub(crate) struct NamedValue {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *const c_void,
    pub(crate) name: List<u8>,
    pub(crate) kind: NamedValueKind,
    /// Of lists a pointer to the first.
    pub(crate) value: *const i64,
    pub(crate) value_size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum NamedValueKind {
    Integers = 2,
}

// SAFETY: attributes are shared slices of constants.
unsafe impl Sync for NamedValue {}

impl NamedValue {
    pub(crate) const fn integers(name: &'static str, integers: &'static [i64]) -> NamedValue {
        NamedValue {
            struct_size: size_of::<NamedValue>(),
            extension_start: std::ptr::null(),
            name: List::of_static(name.as_bytes()),
            kind: NamedValueKind::Integers,
            value: integers.as_ptr(),
            value_size: integers.len(),
        }
    }
}
