//! Programs, compiled and loaded: one object stands for both.

use std::sync::Arc;

use super::clients::ready;
use super::{end_nothing, entries};
use crate::boundary::{Handle, List, Start};
use crate::buffer::Buffer;

entries! {
    program_destroy(arguments: ProgramArguments) {
        drop(arguments.executable.take());
        Ok(())
    }

    program_of_loaded(arguments: ProgramOfLoaded) {
        arguments.executable = Handle::give(arguments.loaded.share()?);
        Ok(())
    }

    program_name(arguments: ProgramName) {
        arguments.text = List::text(&arguments.executable.get()?.name);
        Ok(())
    }

    program_fingerprint(arguments: ProgramName) {
        arguments.text = List::text(&arguments.executable.get()?.fingerprint);
        Ok(())
    }

    program_replicas(arguments: ProgramCount) {
        arguments.count = arguments.executable.get()?.replicas;
        Ok(())
    }

    program_partitions(arguments: ProgramCount) {
        arguments.count = arguments.executable.get()?.partitions;
        Ok(())
    }

    program_output_count(arguments: ProgramCount) {
        arguments.count = arguments.executable.get()?.output_tables.types.len();
        Ok(())
    }

    program_code_bytes(arguments: ProgramCount) {
        arguments.count = arguments.executable.get()?.memory()[0];
        Ok(())
    }

    program_properties(arguments: ProgramProperties) {
        arguments.executable.get()?;
        (arguments.count, arguments.properties) = (0, Start::NONE);
        Ok(())
    }

    program_memory(arguments: ProgramMemory) {
        let [code, inputs, outputs, donated, arena] = arguments.executable.get()?.memory();
        arguments.code_bytes = code as i64;
        arguments.argument_bytes = inputs as i64;
        arguments.output_bytes = outputs as i64;
        arguments.alias_bytes = donated as i64;
        arguments.temporary_bytes = arena as i64;
        arguments.host_code_bytes = 0;
        arguments.host_argument_bytes = 0;
        arguments.host_output_bytes = 0;
        arguments.host_alias_bytes = 0;
        arguments.host_temporary_bytes = 0;
        Ok(())
    }

    program_output_types(arguments: ProgramOutputTypes) {
        arguments.types = List::of(&arguments.executable.get()?.output_tables.types);
        Ok(())
    }

    program_output_shapes(arguments: ProgramOutputShapes) {
        let tables = &arguments.executable.get()?.output_tables;
        arguments.outputs = tables.ranks.len();
        arguments.extents = List::of(&tables.extents).start();
        arguments.ranks = List::of(&tables.ranks).start();
        Ok(())
    }

    program_output_memories(arguments: ProgramOutputMemories) {
        let tables = &arguments.executable.get()?.output_tables;
        arguments.outputs = tables.ranks.len();
        arguments.kinds = List::of(&tables.memory_kinds).start();
        arguments.kind_sizes = List::of(&tables.memory_kind_sizes).start();
        Ok(())
    }

    program_parameter_shardings(arguments: ProgramShardings) {
        let tables = &arguments.executable.get()?.input_shardings;
        arguments.count = tables.sizes.len();
        arguments.shardings = List::of(&tables.messages).start();
        arguments.sizes = List::of(&tables.sizes).start();
        Ok(())
    }

    program_output_shardings(arguments: ProgramShardings) {
        let tables = &arguments.executable.get()?.output_shardings;
        arguments.count = tables.sizes.len();
        arguments.shardings = List::of(&tables.messages).start();
        arguments.sizes = List::of(&tables.sizes).start();
        Ok(())
    }

    /// Which devices each replica and partition runs on.
    loaded_assignment(arguments: ProgramMessage) {
        arguments.message = List::of(&arguments.executable.get()?.assignment);
        (arguments.kept, arguments.end) = (Handle::NONE, end_nothing);
        Ok(())
    }

    /// The options that it was compiled with, as they were given.
    program_options(arguments: ProgramMessage) {
        arguments.message = List::of(&arguments.executable.get()?.options);
        (arguments.kept, arguments.end) = (Handle::NONE, end_nothing);
        Ok(())
    }

    loaded_devices(arguments: ProgramDevices) {
        arguments.devices = List::of(&arguments.executable.get()?.devices);
        Ok(())
    }

    loaded_delete(arguments: ProgramArguments) {
        arguments.executable.get()?.delete();
        Ok(())
    }

    loaded_is_deleted(arguments: ProgramFlag) {
        arguments.flag = arguments.executable.get()?.is_deleted();
        Ok(())
    }

    loaded_execute(arguments: ProgramExecute) {
        let program = arguments.executable.get()?;
        let devices = arguments.devices;
        let options = arguments.options.get();
        let not_donated = options.map_or(&[][..], |options| options.not_donated.as_slice());
        let device = match arguments.execute_device.is_none() {
            true => None,
            false => Some(arguments.execute_device.get()?.number),
        };
        let count = arguments.argument_count;
        let given = arguments.arguments.slice(devices).iter().map(|list| list.slice(count));
        let given: Vec<&[Handle<Buffer>]> = given.collect();
        let is_event_wanted = !arguments.complete_events.is_none();
        let (outputs, ended) = program.execute(&given, not_donated, device, is_event_wanted)?;
        let mut outputs = outputs.into_iter();
        let count = program.output_tables.types.len();
        for room in arguments.outputs.slice(devices) {
            for (number, output) in outputs.by_ref().take(count).enumerate() {
                room.set(number, Handle::give(Arc::new(output)));
            }
        }
        if is_event_wanted {
            for device in 0..devices {
                let event = ended.as_ref().map(|event| Handle::give(event.clone()));
                arguments.complete_events.set(device, event.unwrap_or_else(ready));
            }
        }
        Ok(())
    }
}
