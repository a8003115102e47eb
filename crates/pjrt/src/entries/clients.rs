//! Clients, and what they make.

use std::sync::{Arc, LazyLock};

use super::entries;
use crate::abi::MemoryLayout;
use crate::boundary::{Handle, List, ReleasedMemory};
use crate::buffer::{Buffer, HostSemantics, tensor_from_host};
use crate::client::{Client, PLATFORM, PLATFORM_VERSION, Topology};
use crate::compile_options::CompileOptions;
use crate::element::ElementForm;
use crate::event::Promise;
use crate::failure::{Code, Failure, Outcome};
use crate::program::LoadedProgram;

/// Memory of a caller that buffers may share: from this number of the interface on.
const SHARED_SEMANTICS: u32 = 2;

/// The environment variable that says as how many devices the processor is shown.
const DEVICES: &str = "TILEWRIGHT_DEVICES";

entries! {
    client_create(arguments: ClientCreate) {
        let topology = Topology::configured(std::env::var(DEVICES).ok())?;
        arguments.client = Handle::give(Arc::new(Client::new(topology)?));
        Ok(())
    }

    /// Waits for what runs; buffers and programs of the client stay what they are.
    client_destroy(arguments: ClientArguments) {
        if let Some(client) = arguments.client.take() {
            client.queue.drain();
        }
        Ok(())
    }

    client_platform_name(arguments: ClientText) {
        arguments.text = List::text(PLATFORM);
        Ok(())
    }

    client_platform_version(arguments: ClientText) {
        arguments.text = List::text(PLATFORM_VERSION);
        Ok(())
    }

    client_process_index(arguments: ClientProcess) {
        arguments.process = 0;
        Ok(())
    }

    client_topology(arguments: ClientTopology) {
        arguments.topology = Handle::lend(&*arguments.client.get()?.topology);
        Ok(())
    }

    /// All devices, which are addressable; of memories each device has one.
    client_devices(arguments: ClientDevices) {
        arguments.devices = List::of(arguments.client.get()?.topology.handles());
        Ok(())
    }

    client_lookup_device(arguments: ClientLookup) {
        let device = arguments.client.get()?.topology.device(arguments.number.into())?;
        arguments.device = Handle::lend(device);
        Ok(())
    }

    client_compile(arguments: ClientCompile) {
        let Some(program) = arguments.program.get() else {
            return Err(Failure::new(Code::InvalidArgument, "no program is given"));
        };
        let options = CompileOptions::parse(arguments.options.as_slice())?;
        let (code, format) = (program.code.as_slice(), program.format.to_text());
        let client = arguments.client.share()?;
        let message = arguments.options.as_slice();
        let loaded = LoadedProgram::compile(client, code, &format, (&options, message))?;
        arguments.executable = Handle::give(Arc::new(loaded));
        Ok(())
    }

    /// Devices in order, those of a replica one behind the other.
    client_default_assignment(arguments: ClientAssignment) {
        let topology = &arguments.client.get()?.topology;
        let count = i64::from(arguments.replicas) * i64::from(arguments.partitions);
        if count < 1 || arguments.assignment_size < count as usize {
            let message = format!("there is no assignment of {count} devices");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        topology.device(count - 1)?;
        (0..count).for_each(|number| arguments.assignment.set(number as usize, number as i32));
        Ok(())
    }

    client_buffer_from_host(arguments: BufferFromHost) {
        let client = arguments.client.share()?;
        let device = match arguments.memory.is_none() {
            true => arguments.device,
            false => arguments.memory,
        };
        let device = if device.is_none() { 0 } else { device.get()?.number };
        let form = ElementForm::of(arguments.element)?;
        let (extents, strides) = (arguments.extents.as_slice(), arguments.strides.as_slice());
        let semantics = match arguments.semantics >= SHARED_SEMANTICS {
            true => HostSemantics::Shared,
            false => HostSemantics::Call,
        };
        check_device_layout(arguments.device_layout.get(), extents.len())?;
        let lies = (extents, strides);
        let (tensor, released) = tensor_from_host(arguments.data, form, lies, semantics)?;
        let ty = (form, extents.into());
        let buffer = Buffer::of_tensor(client, device, ty, tensor);
        arguments.done_with_host_buffer = Handle::give(released);
        arguments.buffer = Handle::give(Arc::new(buffer));
        Ok(())
    }

    /// A buffer over memory that another library has.
    client_buffer_of_view(arguments: BufferOfView) {
        let client = arguments.client.share()?;
        let device = arguments.device;
        let device = if device.is_none() { 0 } else { device.get()?.number };
        let (form, extents) = (ElementForm::of(arguments.element)?, arguments.extents.as_slice());
        check_device_layout(arguments.layout.get(), extents.len())?;
        let lies = (extents, &[][..]);
        let (tensor, released) =
            tensor_from_host(arguments.data, form, lies, HostSemantics::Shared)?;
        if let Some(on_delete) = arguments.on_delete {
            let (data, argument) = (arguments.data, arguments.on_delete_argument);
            let released_memory = ReleasedMemory::new(on_delete, data, argument);
            released.when_kept(move |_| released_memory.tell());
        }
        let buffer = Buffer::of_tensor(client, device, (form, extents.into()), tensor);
        arguments.buffer = Handle::give(Arc::new(buffer));
        Ok(())
    }
}

/// Elements of devices are row-major without gaps.
fn check_device_layout(layout: Option<&MemoryLayout>, rank: usize) -> Outcome<()> {
    let Some(layout) = layout else { return Ok(()) };
    let axes = layout.axes_or_strides.as_slice();
    let row_major = (0..rank as i64).rev();
    if layout.kind == 0
        && layout.tiles == 0
        && (axes.is_empty() || row_major.eq(axes.iter().copied()))
    {
        return Ok(());
    }
    let message = "elements of devices lie row-major without gaps; no other layout can be chosen";
    Err(Failure::new(Code::Unimplemented, message))
}

/// An event that is there: one for all who ask.
pub(crate) fn ready() -> Handle<Promise<()>> {
    static READY: LazyLock<Arc<Promise<()>>> = LazyLock::new(|| Arc::new(Promise::of(Ok(()))));
    Handle::give(READY.clone())
}
