//! Buffers: elements of a device, there now or once a program has run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tilewright::Tensor;

use crate::boundary::HostSource;
use crate::client::{Client, Usage};
use crate::element::ElementForm;
use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};

/// The elements of a buffer, shared by it and by programs that have yet to read them.
pub(crate) struct Contents {
    pub(crate) tensor: Promise<Tensor>,
    bytes: usize,
    usage: Arc<Usage>,
    /// Where its memory goes when nobody holds it any more; else back to the system.
    spare: Option<Arc<Spare>>,
}

impl Contents {
    pub(crate) fn new(
        tensor: Promise<Tensor>,
        bytes: usize,
        usage: &Arc<Usage>,
        spare: Option<Arc<Spare>>,
    ) -> Arc<Contents> {
        usage.add(bytes);
        Arc::new(Contents { tensor, bytes, usage: usage.clone(), spare })
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.usage.remove(self.bytes);
        if let Some(spare) = &self.spare
            && let Some(tensor) = self.tensor.take()
        {
            spare.keep(tensor);
        }
    }
}

/// Memory of an output that was given back, for the next run: pages that the system gives anew are
/// cleared and mapped one by one, which can take as long as a run.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Tensor>>);

impl Spare {
    fn keep(&self, mut tensor: Tensor) {
        if tensor.owns_elements() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(tensor);
        }
    }

    pub(crate) fn take(&self) -> Option<Tensor> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A buffer of a device.
pub(crate) struct Buffer {
    pub(crate) client: Arc<Client>,
    /// The device's number.
    pub(crate) device: usize,
    pub(crate) form: ElementForm,
    /// Without the axis of complex pairs.
    pub(crate) extents: Arc<[i64]>,
    state: Mutex<State>,
}

struct State {
    /// None once the buffer was deleted or donated.
    contents: Option<Arc<Contents>>,
    /// Held for callers that read the elements where they lie.
    external: Vec<Tensor>,
}

impl Buffer {
    pub(crate) fn new(
        client: Arc<Client>,
        device: usize,
        (form, extents): (ElementForm, Arc<[i64]>),
        contents: Arc<Contents>,
    ) -> Buffer {
        let state = State { contents: Some(contents), external: Vec::new() };
        Buffer { client, device, form, extents, state: Mutex::new(state) }
    }

    /// A buffer whose elements are there.
    pub(crate) fn of_tensor(
        client: Arc<Client>,
        device: usize,
        (form, extents): (ElementForm, Arc<[i64]>),
        tensor: Tensor,
    ) -> Buffer {
        let bytes = tensor.bytes().len();
        let usage = &client.topology.devices[device].usage;
        let contents = Contents::new(Promise::of(Ok(tensor)), bytes, usage, None);
        Buffer::new(client, device, (form, extents), contents)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its elements.
    ///
    /// # Errors
    /// A buffer that was deleted or donated.
    pub(crate) fn contents(&self) -> Outcome<Arc<Contents>> {
        self.lock().contents.clone().ok_or_else(deleted)
    }

    /// Gives its elements away: the buffer is deleted by that.
    ///
    /// # Errors
    /// As [`Buffer::contents`].
    pub(crate) fn donate(&self) -> Outcome<Arc<Contents>> {
        self.lock().contents.take().ok_or_else(deleted)
    }

    pub(crate) fn delete(&self) {
        // The elements go behind the lock: their release may call a caller.
        let gone = self.lock().contents.take();
        drop(gone);
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.lock().contents.is_none()
    }

    /// Keeps the elements where they are for a caller that reads them there, and waits for them.
    ///
    /// # Errors
    /// As [`Buffer::contents`]; what went wrong where they were computed.
    pub(crate) fn hold(&self) -> Outcome<()> {
        let tensor = self.contents()?.tensor.wait()?;
        self.lock().external.push(tensor);
        Ok(())
    }

    /// Ends one [`Buffer::hold`].
    pub(crate) fn release(&self) -> Outcome<()> {
        let gone = self.lock().external.pop();
        match gone {
            Some(_) => Ok(()),
            None => Err(Failure::new(
                Code::FailedPrecondition,
                "an external reference ends that nobody has begun",
            )),
        }
    }

    /// Where the elements lie.
    ///
    /// # Errors
    /// As [`Buffer::hold`].
    pub(crate) fn address(&self) -> Outcome<usize> {
        if let Some(tensor) = self.lock().external.last() {
            return Ok(tensor.bytes().as_ptr().addr());
        }
        Ok(self.contents()?.tensor.wait()?.bytes().as_ptr().addr())
    }

    /// How many elements it has.
    pub(crate) fn count(&self) -> usize {
        self.extents.iter().product::<i64>() as usize
    }

    /// Bytes that its elements take in memory of callers.
    pub(crate) fn host_bytes(&self) -> usize {
        self.count() * self.form.host_bytes()
    }

    /// Bytes that they take in memory of the device.
    pub(crate) fn device_bytes(&self) -> usize {
        let parts = if self.form.is_complex { 2 } else { 1 };
        self.form.dtype.size_of_elements(self.count() * parts).unwrap_or(0)
    }

    /// A second buffer of the same elements, on a device.
    ///
    /// # Errors
    /// As [`Buffer::contents`].
    pub(crate) fn copy_to(&self, client: Arc<Client>, device: usize) -> Outcome<Buffer> {
        let contents = self.contents()?;
        let (form, extents) = (self.form, self.extents.clone());
        let usage = &client.topology.devices[device].usage;
        let copy = Contents::new(Promise::open(), contents.bytes, usage, None);
        let told = copy.clone();
        // Tensors share their elements until one of them is written to.
        contents.tensor.when_kept(move |outcome| told.tensor.keep(outcome.clone()));
        Ok(Buffer::new(client, device, (form, extents), copy))
    }
}

/// The refusal of a buffer that is no more.
pub(crate) fn deleted() -> Failure {
    let message = "the buffer has been deleted or donated: its memory may hold something else now";
    Failure::new(Code::InvalidArgument, message)
}

/// How long memory of callers may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostSemantics {
    /// Until the call returns.
    Call,
    /// As long as the buffer is there, to read.
    Shared,
}

/// A tensor of elements that lie in memory of a caller, and what is kept when that is used no more.
///
/// # Errors
/// Extents or strides that are none.
pub(crate) fn tensor_from_host(
    data: HostSource,
    form: ElementForm,
    (extents, strides): (&[i64], &[i64]),
    semantics: HostSemantics,
) -> Outcome<(Tensor, Arc<Promise<()>>)> {
    let refuse = |message: String| Failure::new(Code::InvalidArgument, message);
    let shape: Option<Vec<usize>> =
        extents.iter().map(|&extent| usize::try_from(extent).ok()).collect();
    let shape = shape.ok_or_else(|| refuse(format!("{extents:?} are no extents")))?;
    let element = form.host_bytes();
    let count = shape.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent));
    let bytes = count.and_then(|count| count.checked_mul(element));
    let bytes = bytes.ok_or_else(|| refuse(format!("{extents:?} are too large")))?;
    if !strides.is_empty() && strides.len() != shape.len() {
        let (given, rank) = (strides.len(), shape.len());
        return Err(refuse(format!("{given} strides are given for {rank} axes")));
    }
    let is_dense = strides.is_empty() || bytes == 0 || are_dense(&shape, strides, element);
    let released = Arc::new(Promise::open());
    let elements = match (is_dense, form.is_packed()) {
        (true, false) if semantics == HostSemantics::Shared => data.lend(bytes, released.clone()),
        (true, false) => Bytes::copy_from_slice(data.bytes(bytes)),
        (true, true) => form.pack(data.bytes(bytes)).into(),
        (false, false) => data.gather(&shape, strides, element).into(),
        (false, true) => form.pack(&data.gather(&shape, strides, element)).into(),
    };
    let tensor = Tensor::from_bytes(form.dtype, &form.tensor_shape(extents), elements);
    let mut tensor = tensor.map_err(refuse)?;
    if semantics != HostSemantics::Shared || !is_dense || form.is_packed() {
        // What is copied anyway lies as programs like it best, and can be written to.
        let _aligned = tensor.bytes_mut();
        released.keep(Ok(()));
    }
    Ok((tensor, released))
}

/// Whether elements at these distances are row-major without gaps; no axis of extent 1 counts.
fn are_dense(shape: &[usize], strides: &[i64], element: usize) -> bool {
    let mut dense = element as i64;
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent != 1 && stride != dense {
            return false;
        }
        dense *= extent as i64;
    }
    true
}

/// The elements of a row-major tensor as callers have them: each with bytes of its own.
pub(crate) fn host_elements(tensor: &Tensor, form: ElementForm) -> Bytes {
    match form.is_packed() {
        true => form.unpack(tensor.bytes(), tensor.len()).into(),
        false => Bytes::copy_from_slice(tensor.bytes()),
    }
}

/// Elements in row-major order, put where a caller wants them: axes from the innermost on.
pub(crate) fn permuted(
    elements: &[u8],
    element: usize,
    extents: &[i64],
    minor_to_major: &[i64],
) -> Vec<u8> {
    let rank = extents.len();
    let mut strides = vec![element as i64; rank];
    for axis in (0..rank.saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * extents[axis + 1];
    }
    let order: Vec<usize> = minor_to_major.iter().rev().map(|&axis| axis as usize).collect();
    let mut placed = Vec::with_capacity(elements.len());
    let mut index = vec![0_i64; rank];
    while placed.len() < elements.len() {
        let steps = index.iter().zip(&order).map(|(&index, &axis)| index * strides[axis]);
        let at = steps.sum::<i64>() as usize;
        placed.extend_from_slice(&elements[at..at + element]);
        for place in (0..rank).rev() {
            index[place] += 1;
            if index[place] < extents[order[place]] {
                break;
            }
            index[place] = 0;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_permuted() {
        let elements: Vec<u8> = (0..6).collect();
        assert_eq!(permuted(&elements, 1, &[2, 3], &[0, 1]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(permuted(&elements, 1, &[2, 3], &[1, 0]), elements);
        assert_eq!(permuted(&elements, 2, &[3], &[0]), elements);
        assert_eq!(permuted(&elements[..1], 1, &[], &[]), [0]);
    }

    #[test]
    fn dense_strides_are_told_from_others() {
        assert!(are_dense(&[2, 3], &[12, 4], 4));
        assert!(are_dense(&[1, 3], &[999, 4], 4));
        assert!(!are_dense(&[2, 3], &[4, 8], 4));
    }
}
