//! Programs, compiled and loaded: one object stands for both.

use std::sync::Arc;

use super::{end_nothing, entries};
use crate::boundary::{Handle, List, Start};
use crate::buffer::Buffer;
use crate::event::Promise;

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
        let event = (!arguments.complete_events.is_none()).then(|| Arc::new(Promise::open()));
        let outputs = program.execute(&given, not_donated, device, event.clone())?;
        for (room, outputs) in arguments.outputs.slice(devices).iter().zip(outputs) {
            for (number, output) in outputs.into_iter().enumerate() {
                room.set(number, Handle::give(Arc::new(output)));
            }
        }
        if let Some(event) = event {
            (0..devices).for_each(|device| {
                arguments.complete_events.set(device, Handle::give(event.clone()));
            });
        }
        Ok(())
    }
}
