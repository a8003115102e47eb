//! Buffers.

use std::sync::Arc;

use tilewright::Tensor;

use super::clients::ready;
use super::entries;
use crate::abi::MemoryLayout;
use crate::boundary::{Handle, List};
use crate::buffer::{Buffer, host_elements, permuted};
use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};

/// Axes from the innermost on, of ranks up to this many.
const MOST_AXES: usize = 64;

/// The axes of a row-major buffer from the innermost on are the last so many of these.
static MINOR_TO_MAJOR: [i64; MOST_AXES] = {
    let mut axes = [0; MOST_AXES];
    let mut place = 0;
    while place < MOST_AXES {
        axes[place] = (MOST_AXES - 1 - place) as i64;
        place += 1;
    }
    axes
};

entries! {
    /// Of the buffer alone; who runs on its elements holds them.
    buffer_destroy(arguments: BufferArguments) {
        drop(arguments.buffer.take());
        Ok(())
    }

    buffer_element(arguments: BufferElement) {
        arguments.element = arguments.buffer.get()?.form.number();
        Ok(())
    }

    buffer_extents(arguments: BufferExtents) {
        arguments.extents = List::of(&arguments.buffer.get()?.extents);
        Ok(())
    }

    buffer_dynamic_axes(arguments: BufferDynamicAxes) {
        const NONE: &[usize] = &[];
        arguments.buffer.get()?;
        arguments.axes = List::of_static(NONE);
        Ok(())
    }

    buffer_layout(arguments: BufferLayout) {
        let rank = arguments.buffer.get()?.extents.len();
        let Some(from) = MOST_AXES.checked_sub(rank) else {
            let message = format!("a layout of {rank} axes is not told");
            return Err(Failure::new(Code::Unimplemented, message));
        };
        let layout = &mut arguments.layout;
        layout.axes_or_strides = List::of_static(&MINOR_TO_MAJOR[from..]);
        layout.tile_extents = std::ptr::null();
        layout.tile_ranks = std::ptr::null();
        (layout.tiles, layout.kind) = (0, 0);
        Ok(())
    }

    buffer_device_bytes(arguments: BufferCount) {
        arguments.count = arguments.buffer.get()?.device_bytes();
        Ok(())
    }

    /// Its device, or its memory: one object.
    buffer_device(arguments: BufferDevice) {
        let buffer = arguments.buffer.get()?;
        arguments.device = Handle::lend(&buffer.client.topology.devices[buffer.device]);
        Ok(())
    }

    buffer_delete(arguments: BufferArguments) {
        arguments.buffer.get()?.delete();
        Ok(())
    }

    buffer_is_deleted(arguments: BufferFlag) {
        arguments.flag = arguments.buffer.get()?.is_deleted();
        Ok(())
    }

    /// Whether callers may read its elements where they lie: those that share bytes they may not.
    buffer_is_on_cpu(arguments: BufferFlag) {
        arguments.flag = !arguments.buffer.get()?.form.is_packed();
        Ok(())
    }

    buffer_copy(arguments: BufferCopy) {
        let buffer = arguments.buffer.get()?;
        let device = arguments.device.get()?.number;
        let copy = buffer.copy_to(buffer.client.clone(), device)?;
        arguments.copy = Handle::give(Arc::new(copy));
        Ok(())
    }

    buffer_to_host(arguments: BufferToHost) {
        let buffer = arguments.buffer.get()?;
        let size = buffer.host_bytes();
        if arguments.destination.is_none() {
            arguments.destination_size = size;
            return Ok(());
        }
        if arguments.destination_size < size {
            let given = arguments.destination_size;
            let message = format!("the buffer has {size} bytes, there is room for {given}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let axes = host_axes(arguments.host_layout.get(), buffer)?;
        let (form, extents) = (buffer.form, buffer.extents.clone());
        let contents = buffer.contents()?;
        let (event, destination) = (Arc::new(Promise::open()), arguments.destination);
        let told = event.clone();
        contents.tensor.when_kept(move |outcome| {
            let destination = destination;
            told.keep(outcome.as_ref().map_err(Failure::clone).map(|tensor| {
                match (&axes, form.is_packed()) {
                    (None, false) => destination.write(tensor.bytes()),
                    (None, true) => destination.write(&host_elements(tensor, form)),
                    (Some(axes), _) => {
                        let elements = host_elements(tensor, form);
                        let size = form.host_bytes();
                        destination.write(&permuted(&elements, size, &extents, axes));
                    }
                }
            }));
        });
        arguments.event = Handle::give(event);
        Ok(())
    }

    /// Copies bytes of the device's memory as they lie there.
    buffer_copy_raw(arguments: BufferCopyRaw) {
        let buffer = arguments.buffer.get()?;
        let (from, size) = (usize::try_from(arguments.offset), usize::try_from(arguments.size));
        let range = from.ok().zip(size.ok());
        let range = range.and_then(|(from, size)| Some(from..from.checked_add(size)?));
        let Some(range) = range.filter(|range| range.end <= buffer.device_bytes()) else {
            let message = "bytes are wanted that the buffer does not have";
            return Err(Failure::new(Code::InvalidArgument, message));
        };
        let contents = buffer.contents()?;
        let (event, destination) = (Arc::new(Promise::open()), arguments.destination);
        let told = event.clone();
        contents.tensor.when_kept(move |outcome| {
            let destination = destination;
            let write = |tensor: &Tensor| destination.write(&tensor.bytes()[range]);
            told.keep(outcome.as_ref().map_err(Failure::clone).map(write));
        });
        arguments.event = Handle::give(event);
        Ok(())
    }

    buffer_ready_event(arguments: BufferReady) {
        let contents = arguments.buffer.get()?.contents()?;
        if contents.tensor.is_kept_well() {
            arguments.event = ready();
            return Ok(());
        }
        let event = Arc::new(Promise::open());
        let told = event.clone();
        contents.tensor.when_kept(move |outcome| {
            told.keep(outcome.as_ref().map(|_| ()).map_err(Failure::clone));
        });
        arguments.event = Handle::give(event);
        Ok(())
    }

    buffer_address(arguments: BufferAddress) {
        arguments.address = arguments.buffer.get()?.address()?;
        Ok(())
    }

    buffer_hold(arguments: BufferArguments) {
        arguments.buffer.get()?.hold()
    }

    buffer_release(arguments: BufferArguments) {
        arguments.buffer.get()?.release()
    }
}

/// The order of axes that a caller wants, from the innermost on; none for row-major.
fn host_axes(layout: Option<&MemoryLayout>, buffer: &Buffer) -> Outcome<Option<Vec<i64>>> {
    let Some(layout) = layout else { return Ok(None) };
    let (given, rank) = (layout.axes_or_strides.as_slice(), buffer.extents.len());
    let refuse = || {
        let message = "the elements are wanted in a layout that is no order of the axes";
        Err(Failure::new(Code::Unimplemented, message))
    };
    if layout.tiles != 0 || given.len() != rank {
        return refuse();
    }
    let mut axes = given.to_vec();
    if layout.kind == 1 {
        // Distances of elements without gaps are an order: the innermost axis has the least.
        axes = (0..rank as i64).rev().collect();
        axes.sort_by_key(|&axis| (given[axis as usize], std::cmp::Reverse(axis)));
        let mut dense = buffer.form.host_bytes() as i64;
        for &axis in &axes {
            let extent = buffer.extents[axis as usize];
            if extent > 1 && given[axis as usize] != dense {
                return refuse();
            }
            dense *= extent;
        }
    }
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank as i64) {
        return refuse();
    }
    Ok((!axes.iter().copied().eq((0..rank as i64).rev())).then_some(axes))
}
