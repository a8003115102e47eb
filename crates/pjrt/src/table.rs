//! The table of functions that the library is asked for.

use std::ffi::c_void;

use crate::abi::VERSION;
use crate::boundary::Handle;
use crate::entries::events::unimplemented;
use crate::entries::{buffers, clients, devices, events, programs};
use crate::failure::Failure;

/// A function of the table, whatever structure it takes.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Function(*const c_void);

// SAFETY: a pointer to code, which any thread may call.
unsafe impl Sync for Function {}

/// The table, as version 0.94 of the interface has it: its size, the version, and functions in the
/// order of their numbers.
#[repr(C)]
pub struct Api {
    struct_size: usize,
    extension_start: Option<&'static ShardingsExtension>,
    version: Version,
    functions: [Function; NAMES.len()],
}

#[repr(C)]
struct Version {
    struct_size: usize,
    extension_start: usize,
    major: i32,
    minor: i32,
}

impl Api {
    /// The function of a name, as its structure's documents call it: `Client_Create`.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<*const c_void> {
        let number = NAMES.iter().position(|own| *own == name)?;
        Some(self.functions[number].0)
    }
}

/// What callers may ask besides the table: how programs split values among devices.
#[repr(C)]
struct ShardingsExtension {
    struct_size: usize,
    kind: u32,
    next: usize,
    parameters: Function,
    outputs: Function,
}

static SHARDINGS: ShardingsExtension = ShardingsExtension {
    struct_size: size_of::<ShardingsExtension>(),
    kind: 19,
    next: 0,
    parameters: Function(programs::program_parameter_shardings as *const c_void),
    outputs: Function(programs::program_output_shardings as *const c_void),
};

/// Defines the table: a line a function, in the order of the interface; behind an arrow what does
/// it, if anything does.
macro_rules! table {
    ($($name:ident $(=> $module:ident::$function:ident)?;)*) => {
        /// The functions' names.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        static API: Api = Api {
            struct_size: size_of::<Api>(),
            extension_start: Some(&SHARDINGS),
            version: Version {
                struct_size: size_of::<Version>(),
                extension_start: 0,
                major: VERSION.0,
                minor: VERSION.1,
            },
            functions: [$(table!(@ $name $($module::$function)?)),*],
        };
    };
    (@ $name:ident $module:ident::$function:ident) => {
        Function($module::$function as *const c_void)
    };
    (@ $name:ident) => {{
        extern "C" fn missing(_arguments: *mut c_void) -> Handle<Failure> {
            unimplemented(concat!("PJRT_", stringify!($name)))
        }
        Function(missing as *const c_void)
    }};
}

table! {
    Error_Destroy => events::error_destroy;
    Error_Message => events::error_message;
    Error_GetCode => events::error_code;
    Plugin_Initialize => events::plugin_initialize;
    Plugin_Attributes => events::plugin_attributes;
    Event_Destroy => events::event_destroy;
    Event_IsReady => events::event_is_ready;
    Event_Error => events::event_error;
    Event_Await => events::event_await;
    Event_OnReady => events::event_on_ready;
    Client_Create => clients::client_create;
    Client_Destroy => clients::client_destroy;
    Client_PlatformName => clients::client_platform_name;
    Client_ProcessIndex => clients::client_process_index;
    Client_PlatformVersion => clients::client_platform_version;
    Client_Devices => clients::client_devices;
    Client_AddressableDevices => clients::client_devices;
    Client_LookupDevice => clients::client_lookup_device;
    Client_LookupAddressableDevice => clients::client_lookup_device;
    Client_AddressableMemories => clients::client_devices;
    Client_Compile => clients::client_compile;
    Client_DefaultDeviceAssignment => clients::client_default_assignment;
    Client_BufferFromHostBuffer => clients::client_buffer_from_host;
    DeviceDescription_Id => devices::device_number;
    DeviceDescription_ProcessIndex => devices::device_zero;
    DeviceDescription_Attributes => devices::device_attributes;
    DeviceDescription_Kind => devices::device_kind;
    DeviceDescription_DebugString => devices::device_name;
    DeviceDescription_ToString => devices::device_name;
    Device_GetDescription => devices::device_part;
    Device_IsAddressable => devices::device_is_addressable;
    Device_LocalHardwareId => devices::device_number;
    Device_AddressableMemories => devices::device_parts;
    Device_DefaultMemory => devices::device_part;
    Device_MemoryStats => devices::device_statistics;
    Memory_Id => devices::device_number;
    Memory_Kind => devices::memory_kind;
    Memory_DebugString => devices::device_name;
    Memory_ToString => devices::device_name;
    Memory_AddressableByDevices => devices::device_parts;
    Executable_Destroy => programs::program_destroy;
    Executable_Name => programs::program_name;
    Executable_NumReplicas => programs::program_replicas;
    Executable_NumPartitions => programs::program_partitions;
    Executable_NumOutputs => programs::program_output_count;
    Executable_SizeOfGeneratedCodeInBytes => programs::program_code_bytes;
    Executable_GetCostAnalysis => programs::program_properties;
    Executable_OutputMemoryKinds => programs::program_output_memories;
    Executable_OptimizedProgram;
    Executable_Serialize;
    LoadedExecutable_Destroy => programs::program_destroy;
    LoadedExecutable_GetExecutable => programs::program_of_loaded;
    LoadedExecutable_AddressableDevices => programs::loaded_devices;
    LoadedExecutable_Delete => programs::loaded_delete;
    LoadedExecutable_IsDeleted => programs::loaded_is_deleted;
    LoadedExecutable_Execute => programs::loaded_execute;
    Executable_DeserializeAndLoad;
    LoadedExecutable_Fingerprint => programs::program_fingerprint;
    Buffer_Destroy => buffers::buffer_destroy;
    Buffer_ElementType => buffers::buffer_element;
    Buffer_Dimensions => buffers::buffer_extents;
    Buffer_UnpaddedDimensions => buffers::buffer_extents;
    Buffer_DynamicDimensionIndices => buffers::buffer_dynamic_axes;
    Buffer_GetMemoryLayout => buffers::buffer_layout;
    Buffer_OnDeviceSizeInBytes => buffers::buffer_device_bytes;
    Buffer_Device => buffers::buffer_device;
    Buffer_Memory => buffers::buffer_device;
    Buffer_Delete => buffers::buffer_delete;
    Buffer_IsDeleted => buffers::buffer_is_deleted;
    Buffer_CopyToDevice => buffers::buffer_copy;
    Buffer_ToHostBuffer => buffers::buffer_to_host;
    Buffer_IsOnCpu => buffers::buffer_is_on_cpu;
    Buffer_ReadyEvent => buffers::buffer_ready_event;
    Buffer_UnsafePointer => buffers::buffer_address;
    Buffer_IncreaseExternalReferenceCount => buffers::buffer_hold;
    Buffer_DecreaseExternalReferenceCount => buffers::buffer_release;
    Buffer_OpaqueDeviceMemoryDataPointer => buffers::buffer_address;
    CopyToDeviceStream_Destroy;
    CopyToDeviceStream_AddChunk;
    CopyToDeviceStream_TotalBytes;
    CopyToDeviceStream_GranuleSize;
    CopyToDeviceStream_CurrentBytes;
    TopologyDescription_Create => devices::topology_create;
    TopologyDescription_Destroy => devices::topology_destroy;
    TopologyDescription_PlatformName => devices::topology_platform_name;
    TopologyDescription_PlatformVersion => devices::topology_platform_version;
    TopologyDescription_GetDeviceDescriptions => devices::topology_devices;
    TopologyDescription_Serialize;
    TopologyDescription_Attributes => devices::topology_attributes;
    Compile;
    Executable_OutputElementTypes => programs::program_output_types;
    Executable_OutputDimensions => programs::program_output_shapes;
    Buffer_CopyToMemory => buffers::buffer_copy;
    Client_CreateViewOfDeviceBuffer => clients::client_buffer_of_view;
    Executable_Fingerprint => programs::program_fingerprint;
    Client_TopologyDescription => clients::client_topology;
    Executable_GetCompiledMemoryStats => programs::program_memory;
    Memory_Kind_Id => devices::device_zero;
    ExecuteContext_Create;
    ExecuteContext_Destroy;
    Buffer_CopyRawToHost => buffers::buffer_copy_raw;
    AsyncHostToDeviceTransferManager_Destroy;
    AsyncHostToDeviceTransferManager_TransferData;
    Client_CreateBuffersForAsyncHostToDevice;
    AsyncHostToDeviceTransferManager_RetrieveBuffer;
    AsyncHostToDeviceTransferManager_Device;
    AsyncHostToDeviceTransferManager_BufferCount;
    AsyncHostToDeviceTransferManager_BufferSize;
    AsyncHostToDeviceTransferManager_SetBufferError;
    AsyncHostToDeviceTransferManager_AddMetadata;
    Client_DmaMap;
    Client_DmaUnmap;
    Client_CreateUninitializedBuffer;
    Client_UpdateGlobalProcessInfo;
    TopologyDescription_Deserialize;
    Client_CreateAliasBuffer;
    Client_FulfillAliasBuffer;
    LoadedExecutable_GetDeviceAssignment => programs::loaded_assignment;
    Client_CreateErrorBuffer;
    AsyncHostToDeviceTransferManager_TransferLiteral;
    Buffer_CopyRawToHostFuture;
    Device_PoisonExecution;
    Device_CreateAsyncTrackingEvent;
    AsyncTrackingEvent_Destroy;
    Executable_GetCompileOptions => programs::program_options;
    Buffer_DonateWithControlDependency;
    Event_Create => events::event_create;
    Event_Set => events::event_set;
    Device_GetAttributes => devices::device_known_attributes;
}

/// The table of functions; the one symbol of the library that callers look for.
// SAFETY: no other symbol of a process that loads plugins has this name: each is loaded on its own.
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const Api {
    &raw const API
}
