//! The structures of the C interface, version 0.94, as far as the plugin reads or fills them.
//!
//! Every structure of arguments begins with its size and a pointer to extensions, of which there
//! are none. Fields behind `// out` are what the plugin fills in.

use std::ffi::c_void;

pub(crate) use crate::boundary::NamedValue;
use crate::boundary::{
    CallbackFunction, Handle, HostDestination, HostSource, List, Pointer, Room, Start, arguments,
};
use crate::buffer::Buffer;
use crate::client::{Client, Device, Topology};
use crate::event::Promise;
use crate::failure::Failure;
use crate::program::LoadedProgram;

/// The version of the interface that the structures follow.
pub(crate) const VERSION: (i32, i32) = (0, 94);

/// An event: it is there, or what went wrong is.
pub(crate) type Event = Promise<()>;

/// A program as callers send it.
#[repr(C)]
pub(crate) struct ProgramText {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *const c_void,
    pub(crate) code: List<u8>,
    pub(crate) format: List<u8>,
}

/// How elements lie in memory: in an order of axes and tiles, or at distances in bytes.
#[repr(C)]
pub(crate) struct MemoryLayout {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *const c_void,
    pub(crate) content_size: usize,
    pub(crate) content_extension: *const c_void,
    /// Axes from the innermost on, or distances in bytes: as `kind` says.
    pub(crate) axes_or_strides: List<i64>,
    pub(crate) tile_extents: *const i64,
    pub(crate) tile_ranks: *const usize,
    pub(crate) tiles: usize,
    /// 0 for axes and tiles, 1 for distances.
    pub(crate) kind: u32,
}

#[repr(C)]
pub(crate) struct ExecuteOptions {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *const c_void,
    pub(crate) send_callbacks: *const c_void,
    pub(crate) receive_callbacks: *const c_void,
    pub(crate) sends: usize,
    pub(crate) receives: usize,
    pub(crate) launch: i32,
    pub(crate) not_donated: List<i64>,
}

/// A number that may be unknown.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Known {
    pub(crate) number: i64,
    pub(crate) is_known: bool,
}

arguments! {
    /// Of functions that are told nothing.
    NoArguments {}
    ErrorArguments { error: Handle<Failure> }
    ErrorMessage { error: Handle<Failure>, message: List<u8> }
    ErrorCode { error: Handle<Failure>, code: u32 }
    PluginAttributes { attributes: List<NamedValue> }
    EventArguments { event: Handle<Event> }
    EventReady { event: Handle<Event>, is_ready: bool }
    EventCallback { event: Handle<Event>, callback: CallbackFunction, argument: *mut c_void }

    EventSet { event: Handle<Event>, code: u32, message: List<u8> }

    ClientCreate {
        options: List<NamedValue>,
        get_callback: *const c_void,
        get_argument: *const c_void,
        put_callback: *const c_void,
        put_argument: *const c_void,
        client: Handle<Client>,
    }
    ClientArguments { client: Handle<Client> }
    ClientText { client: Handle<Client>, text: List<u8> }
    ClientProcess { client: Handle<Client>, process: i32 }
    ClientTopology { client: Handle<Client>, topology: Handle<Topology> }
    ClientDevices { client: Handle<Client>, devices: List<Handle<Device>> }
    ClientLookup { client: Handle<Client>, number: i32, device: Handle<Device> }
    ClientCompile {
        client: Handle<Client>,
        program: Pointer<ProgramText>,
        options: List<u8>,
        executable: Handle<LoadedProgram>,
    }
    ClientAssignment {
        client: Handle<Client>,
        replicas: i32,
        partitions: i32,
        assignment_size: usize,
        assignment: Room<i32>,
    }
    BufferFromHost {
        client: Handle<Client>,
        data: HostSource,
        element: u32,
        extents: List<i64>,
        strides: List<i64>,
        semantics: u32,
        device: Handle<Device>,
        memory: Handle<Device>,
        device_layout: Pointer<MemoryLayout>,
        done_with_host_buffer: Handle<Event>,
        buffer: Handle<Buffer>,
    }
    BufferOfView {
        client: Handle<Client>,
        data: HostSource,
        extents: List<i64>,
        element: u32,
        layout: Pointer<MemoryLayout>,
        device: Handle<Device>,
        on_delete: Option<extern "C" fn(HostSource, *mut c_void)>,
        on_delete_argument: *mut c_void,
        stream: isize,
        buffer: Handle<Buffer>,
    }

    DeviceNumber { device: Handle<Device>, number: i32 }
    DeviceFlag { device: Handle<Device>, flag: bool }
    DeviceText { device: Handle<Device>, text: List<u8> }
    DeviceAttributes {
        device: Handle<Device>,
        attribute_count: usize,
        attributes: Start<NamedValue>,
    }
    DeviceKnownAttributes {
        device: Handle<Device>,
        attributes: List<NamedValue>,
        /// What is ended by the function behind it: nothing.
        kept: Handle<()>,
        end: extern "C" fn(Handle<()>),
    }
    /// Of a device its description or default memory: the same object.
    DevicePart { device: Handle<Device>, part: Handle<Device> }
    DeviceParts { device: Handle<Device>, parts: List<Handle<Device>> }
    DeviceStatistics {
        device: Handle<Device>,
        bytes_in_use: i64,
        peak_bytes_in_use: Known,
        allocations: Known,
        largest_allocation: Known,
        bytes_limit: Known,
        bytes_reserved: Known,
        peak_bytes_reserved: Known,
        bytes_reservable_limit: Known,
        largest_free_block: Known,
        pool_bytes: Known,
        peak_pool_bytes: Known,
    }

    TopologyCreate {
        name: List<u8>,
        options: List<NamedValue>,
        topology: Handle<Topology>,
    }
    TopologyArguments { topology: Handle<Topology> }
    TopologyText { topology: Handle<Topology>, text: List<u8> }
    TopologyDevices { topology: Handle<Topology>, devices: List<Handle<Device>> }
    TopologyAttributes { topology: Handle<Topology>, attributes: List<NamedValue> }

    ProgramArguments { executable: Handle<LoadedProgram> }
    ProgramOfLoaded { loaded: Handle<LoadedProgram>, executable: Handle<LoadedProgram> }
    ProgramName { executable: Handle<LoadedProgram>, text: List<u8> }
    ProgramCount { executable: Handle<LoadedProgram>, count: usize }
    ProgramFlag { executable: Handle<LoadedProgram>, flag: bool }
    ProgramDevices { executable: Handle<LoadedProgram>, devices: List<Handle<Device>> }
    ProgramProperties {
        executable: Handle<LoadedProgram>,
        count: usize,
        properties: Start<NamedValue>,
    }
    ProgramMemory {
        executable: Handle<LoadedProgram>,
        code_bytes: i64,
        argument_bytes: i64,
        output_bytes: i64,
        alias_bytes: i64,
        temporary_bytes: i64,
        host_code_bytes: i64,
        host_argument_bytes: i64,
        host_output_bytes: i64,
        host_alias_bytes: i64,
        host_temporary_bytes: i64,
    }
    ProgramOutputTypes { executable: Handle<LoadedProgram>, types: List<u32> }
    ProgramOutputShapes {
        executable: Handle<LoadedProgram>,
        outputs: usize,
        extents: Start<i64>,
        ranks: Start<usize>,
    }
    ProgramOutputMemories {
        executable: Handle<LoadedProgram>,
        outputs: usize,
        kinds: Start<Start<u8>>,
        kind_sizes: Start<usize>,
    }
    /// A serialised protobuf message, which the program keeps.
    ProgramMessage {
        executable: Handle<LoadedProgram>,
        message: List<u8>,
        /// What is ended by the function behind it: nothing.
        kept: Handle<()>,
        end: extern "C" fn(Handle<()>),
    }
    /// Serialised protobuf messages, and the bytes of each.
    ProgramShardings {
        executable: Handle<LoadedProgram>,
        count: usize,
        shardings: Start<Start<u8>>,
        sizes: Start<usize>,
    }
    ProgramExecute {
        executable: Handle<LoadedProgram>,
        options: Pointer<ExecuteOptions>,
        arguments: Start<Start<Handle<Buffer>>>,
        devices: usize,
        argument_count: usize,
        outputs: Start<Room<Handle<Buffer>>>,
        complete_events: Room<Handle<Event>>,
        execute_device: Handle<Device>,
    }

    BufferArguments { buffer: Handle<Buffer> }
    BufferElement { buffer: Handle<Buffer>, element: u32 }
    BufferExtents { buffer: Handle<Buffer>, extents: List<i64> }
    BufferDynamicAxes { buffer: Handle<Buffer>, axes: List<usize> }
    BufferLayout { buffer: Handle<Buffer>, layout: MemoryLayout }
    BufferToHost {
        buffer: Handle<Buffer>,
        host_layout: Pointer<MemoryLayout>,
        destination: HostDestination,
        destination_size: usize,
        event: Handle<Event>,
    }
    BufferCopyRaw {
        buffer: Handle<Buffer>,
        destination: HostDestination,
        offset: i64,
        size: i64,
        event: Handle<Event>,
    }
    BufferCount { buffer: Handle<Buffer>, count: usize }
    BufferFlag { buffer: Handle<Buffer>, flag: bool }
    /// Copies to a device, or to a memory: the same object.
    BufferCopy { buffer: Handle<Buffer>, device: Handle<Device>, copy: Handle<Buffer> }
    BufferDevice { buffer: Handle<Buffer>, device: Handle<Device> }
    BufferReady { buffer: Handle<Buffer>, event: Handle<Event> }
    /// Where the elements lie, as a number and as a pointer.
    BufferAddress { buffer: Handle<Buffer>, address: usize }
}
