//! The interface as a framework calls it: structures in, handles out.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{buffers, clients, devices, events, programs};
use crate::abi::*;
use crate::boundary::{Handle, HostDestination, HostSource, List, Pointer, Room, Start};
use crate::buffer::Buffer;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::program::LoadedProgram;

/// A structure of arguments: these fields, and what all begin with.
macro_rules! given {
    ($type:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $type {
            struct_size: size_of::<$type>(),
            extension_start: std::ptr::null::<c_void>(),
            $($field: $value),*
        }
    };
}

/// What a function that must do well says.
fn well(error: Handle<Failure>) {
    if let Some(failure) = error.take() {
        panic!("{:?}: {}", failure.code, failure.message);
    }
}

fn refused(error: Handle<Failure>) -> (Code, String) {
    let failure = error.take().expect("it is refused");
    (failure.code, failure.message.to_string())
}

fn client() -> Handle<Client> {
    let mut create = given!(ClientCreate {
        options: List::of_static(&[]),
        get_callback: std::ptr::null(),
        get_argument: std::ptr::null(),
        put_callback: std::ptr::null(),
        put_argument: std::ptr::null(),
        client: Handle::NONE,
    });
    well(clients::client_create(&mut create));
    create.client
}

fn compiled(client: Handle<Client>, text: &str) -> Result<Handle<LoadedProgram>, (Code, String)> {
    let program = given!(ProgramText { code: List::text(text), format: List::text("mlir") });
    let mut compile = given!(ClientCompile {
        client: client,
        program: Pointer::of(&program),
        options: List::of_static(&[]),
        executable: Handle::NONE,
    });
    match clients::client_compile(&mut compile).take() {
        Some(failure) => Err((failure.code, failure.message.to_string())),
        None => Ok(compile.executable),
    }
}

fn buffer_of(client: Handle<Client>, elements: &[f32], semantics: u32) -> Handle<Buffer> {
    let extents = [elements.len() as i64];
    let mut make = given!(BufferFromHost {
        client: client,
        data: HostSource::of(elements),
        element: 11,
        extents: List::of(&extents),
        strides: List::of_static(&[]),
        semantics: semantics,
        device: Handle::NONE,
        memory: Handle::NONE,
        device_layout: Pointer::of_none(),
        done_with_host_buffer: Handle::NONE,
        buffer: Handle::NONE,
    });
    well(clients::client_buffer_from_host(&mut make));
    well(events::event_destroy(&mut given!(EventArguments { event: make.done_with_host_buffer })));
    make.buffer
}

fn run(
    program: Handle<LoadedProgram>,
    arguments: &[Handle<Buffer>],
    outputs: &mut [Handle<Buffer>],
) -> Handle<Failure> {
    let (error, event) = begun(program, arguments, outputs);
    if error.is_none() {
        well(events::event_await(&mut given!(EventArguments { event: event })));
        well(events::event_destroy(&mut given!(EventArguments { event: event })));
    }
    error
}

/// Calls a program, and waits for nothing: the event tells when it has run.
fn begun(
    program: Handle<LoadedProgram>,
    arguments: &[Handle<Buffer>],
    outputs: &mut [Handle<Buffer>],
) -> (Handle<Failure>, Handle<Event>) {
    let options = given!(ExecuteOptions {
        send_callbacks: std::ptr::null(),
        receive_callbacks: std::ptr::null(),
        sends: 0,
        receives: 0,
        launch: 0,
        not_donated: List::of_static(&[]),
    });
    let lists = [Start::of(arguments)];
    let rooms = [Room::of(outputs)];
    let mut events = [Handle::NONE];
    let mut execute = given!(ProgramExecute {
        executable: program,
        options: Pointer::of(&options),
        arguments: Start::of(&lists),
        devices: 1,
        argument_count: arguments.len(),
        outputs: Start::of(&rooms),
        complete_events: Room::of(&mut events),
        execute_device: Handle::NONE,
    });
    (programs::loaded_execute(&mut execute), events[0])
}

fn elements(buffer: Handle<Buffer>, count: usize) -> Vec<f32> {
    let mut values = vec![0.0_f32; count];
    let mut copy = given!(BufferToHost {
        buffer: buffer,
        host_layout: Pointer::of_none(),
        destination: HostDestination::of(&mut values),
        destination_size: 4 * count,
        event: Handle::NONE,
    });
    well(buffers::buffer_to_host(&mut copy));
    well(events::event_await(&mut given!(EventArguments { event: copy.event })));
    well(events::event_destroy(&mut given!(EventArguments { event: copy.event })));
    values
}

fn destroy(buffer: Handle<Buffer>) {
    well(buffers::buffer_destroy(&mut given!(BufferArguments { buffer: buffer })));
}

fn destroy_program(program: Handle<LoadedProgram>) {
    well(programs::program_destroy(&mut given!(ProgramArguments { executable: program })));
}

fn destroy_client(client: Handle<Client>) {
    well(clients::client_destroy(&mut given!(ClientArguments { client: client })));
}

const TWICE: &str = "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}";

/// The first input may be given away for the output.
const DONATED: &str = "func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32},
  %y: tensor<4xf32>) -> tensor<4xf32> {
  %z = stablehlo.add %x, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}";

/// Takes a while: all elements come to 2, by steps of half the way.
const LONG: &str = "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %half = stablehlo.constant dense<5.0e-1> : tensor<4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %begin = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<200000> : tensor<i32>
  %step = stablehlo.constant dense<1> : tensor<i32>
  %found:2 = stablehlo.while(%turn = %begin, %y = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %goes_on = stablehlo.compare LT, %turn, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %goes_on : tensor<i1>
  } do {
    %next = stablehlo.add %turn, %step : tensor<i32>
    %part = stablehlo.multiply %y, %half : tensor<4xf32>
    %sum = stablehlo.add %part, %one : tensor<4xf32>
    stablehlo.return %next, %sum : tensor<i32>, tensor<4xf32>
  }
  return %found#1 : tensor<4xf32>
}";

#[test]
fn a_program_runs_on_buffers() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let program = compiled(client, TWICE).expect("it compiles");
    let input = buffer_of(client, &[1.0, 2.0, 3.0, 4.0], 0);
    let mut outputs = [Handle::NONE];
    for _ in 0..3 {
        well(run(program, &[input], &mut outputs));
        assert_eq!(elements(outputs[0], 4), [2.0, 4.0, 6.0, 8.0]);
        destroy(outputs[0]);
    }
    assert_eq!(elements(input, 4), [1.0, 2.0, 3.0, 4.0]);
    destroy(input);
    destroy_program(program);
    destroy_client(client);
}

#[test]
fn a_donated_buffer_is_given_away_and_its_memory_is_used() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let program = compiled(client, DONATED).expect("it compiles");
    let (x, y) = (buffer_of(client, &[1.0; 4], 0), buffer_of(client, &[2.0; 4], 0));
    let mut address = given!(BufferAddress { buffer: x, address: 0 });
    well(buffers::buffer_address(&mut address));
    let mut outputs = [Handle::NONE];
    well(run(program, &[x, y], &mut outputs));
    assert_eq!(elements(outputs[0], 4), [3.0; 4]);
    let mut after = given!(BufferAddress { buffer: outputs[0], address: 0 });
    well(buffers::buffer_address(&mut after));
    assert_eq!(after.address, address.address, "the output lies where the input lay");

    let mut flag = given!(BufferFlag { buffer: x, flag: false });
    well(buffers::buffer_is_deleted(&mut flag));
    assert!(flag.flag);
    let (code, message) = refused(run(program, &[x, y], &mut outputs));
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("donated"), "{message}");
    let (_, message) = refused(run(program, &[y, y], &mut outputs));
    assert!(message.contains("another input"), "{message}");
    // Refused calls give nothing away.
    assert_eq!(elements(y, 4), [2.0; 4]);
    [x, y, outputs[0]].into_iter().for_each(destroy);
    destroy_program(program);
    destroy_client(client);
}

#[test]
fn memory_that_somebody_reads_is_not_written_to() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let program = compiled(client, DONATED).expect("it compiles");
    let lent = [1.0_f32; 4];
    let (x, y) = (buffer_of(client, &lent, 2), buffer_of(client, &[2.0; 4], 0));
    let mut outputs = [Handle::NONE];
    well(run(program, &[x, y], &mut outputs));
    assert_eq!(elements(outputs[0], 4), [3.0; 4]);
    assert_eq!(lent, [1.0; 4], "memory of a caller");

    let held = outputs[0];
    well(buffers::buffer_hold(&mut given!(BufferArguments { buffer: held })));
    let mut address = given!(BufferAddress { buffer: held, address: 0 });
    well(buffers::buffer_address(&mut address));
    well(run(program, &[held, y], &mut outputs));
    assert_eq!(elements(outputs[0], 4), [5.0; 4]);
    let mut after = given!(BufferAddress { buffer: outputs[0], address: 0 });
    well(buffers::buffer_address(&mut after));
    assert_ne!(after.address, address.address, "an external reference keeps the memory");
    well(buffers::buffer_release(&mut given!(BufferArguments { buffer: held })));
    let (code, _) = refused(buffers::buffer_release(&mut given!(BufferArguments { buffer: held })));
    assert_eq!(code, Code::FailedPrecondition);
    [x, y, held, outputs[0]].into_iter().for_each(destroy);
    destroy_program(program);
    destroy_client(client);
}

/// 128 KB, of which memory is kept for the next run.
const LARGE: &str = "func.func public @main(%x: tensor<32768xf32>) -> tensor<32768xf32> {
  %y = stablehlo.add %x, %x : tensor<32768xf32>
  return %y : tensor<32768xf32>
}";

#[test]
fn memory_of_large_outputs_that_nobody_holds_is_used_again() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let program = compiled(client, LARGE).expect("it compiles");
    let inputs = [1.0, 2.0, 3.0].map(|value| buffer_of(client, &[value; 32768], 0));
    let address = |buffer: Handle<Buffer>| {
        let mut address = given!(BufferAddress { buffer: buffer, address: 0 });
        well(buffers::buffer_address(&mut address));
        address.address
    };
    let mut found = [Handle::NONE; 3];
    for (input, output) in inputs.iter().zip(found.chunks_mut(1)) {
        well(run(program, &[*input], output));
    }
    for (buffer, value) in found.iter().zip([2.0, 4.0, 6.0]) {
        assert!(elements(*buffer, 32768).iter().all(|element| *element == value));
    }
    let free = address(found[1]);
    destroy(found[1]);
    well(run(program, &[inputs[2]], &mut found[1..2]));
    assert_eq!(address(found[1]), free);
    for (buffer, value) in found.iter().zip([2.0, 6.0, 6.0]) {
        assert!(elements(*buffer, 32768).iter().all(|element| *element == value));
    }
    inputs.into_iter().for_each(destroy);
    // Their memory is given back with the program, or behind it.
    destroy(found[0]);
    destroy_program(program);
    found[1..].iter().copied().for_each(destroy);
    destroy_client(client);
}

#[test]
fn objects_outlive_their_client_and_clients_are_apart() {
    if !tilewright::runs_here() {
        return;
    }
    let (first, second) = (client(), client());
    let program = compiled(first, TWICE).expect("it compiles");
    let input = buffer_of(first, &[1.0; 4], 0);
    let other = buffer_of(second, &[5.0; 4], 0);
    destroy_client(first);
    let mut outputs = [Handle::NONE];
    well(run(program, &[input], &mut outputs));
    assert_eq!(elements(outputs[0], 4), [2.0; 4]);
    destroy(outputs[0]);
    destroy_client(second);
    assert_eq!(elements(other, 4), [5.0; 4]);
    [input, other].into_iter().for_each(destroy);
    destroy_program(program);
}

#[test]
fn all_may_be_destroyed_while_programs_run() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let program = compiled(client, LONG).expect("it compiles");
    let input = buffer_of(client, &[1.0, -7.0, 0.0, 1e6], 0);
    let mut kept = [Handle::NONE];
    let (error, event) = begun(program, &[input], &mut kept);
    well(error);
    // One whose output nobody wants, and one that waits for another's output.
    let mut left = [Handle::NONE];
    let (error, unread) = begun(program, &[input], &mut left);
    well(error);
    let mut second = [Handle::NONE];
    let (error, last) = begun(program, &kept, &mut second);
    well(error);
    [input, left[0]].into_iter().for_each(destroy);
    well(events::event_destroy(&mut given!(EventArguments { event: unread })));
    well(programs::loaded_delete(&mut given!(ProgramArguments { executable: program })));
    destroy_program(program);
    destroy_client(client);
    for event in [event, last] {
        well(events::event_await(&mut given!(EventArguments { event: event })));
        well(events::event_destroy(&mut given!(EventArguments { event: event })));
    }
    for output in [kept[0], second[0]] {
        assert_eq!(elements(output, 4), [2.0; 4]);
        destroy(output);
    }
}

#[test]
fn a_buffer_that_is_deleted_or_donated_while_it_is_computed_is_an_error_to_use() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let long = compiled(client, LONG).expect("it compiles");
    let donating = compiled(client, DONATED).expect("it compiles");
    let (x, y) = (buffer_of(client, &[1.0; 4], 0), buffer_of(client, &[3.0; 4], 0));
    let mut open = [Handle::NONE];
    let (error, first) = begun(long, &[x], &mut open);
    well(error);
    let mut outputs = [Handle::NONE];
    let (error, second) = begun(donating, &[open[0], y], &mut outputs);
    well(error);
    // Donated, though its elements were not there yet.
    let (code, message) = refused(run(long, &open, &mut [Handle::NONE]));
    assert!(code == Code::InvalidArgument && message.contains("donated"), "{message}");
    well(buffers::buffer_delete(&mut given!(BufferArguments { buffer: y })));
    let (code, _) = refused(run(long, &[y], &mut [Handle::NONE]));
    assert_eq!(code, Code::InvalidArgument);
    let mut values = [0.0_f32; 4];
    let mut copy = given!(BufferToHost {
        buffer: open[0],
        host_layout: Pointer::of_none(),
        destination: HostDestination::of(&mut values),
        destination_size: 16,
        event: Handle::NONE,
    });
    let (code, _) = refused(buffers::buffer_to_host(&mut copy));
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(elements(outputs[0], 4), [5.0; 4]);
    for event in [first, second] {
        well(events::event_destroy(&mut given!(EventArguments { event: event })));
    }
    [x, y, open[0], outputs[0]].into_iter().for_each(destroy);
    [long, donating].into_iter().for_each(destroy_program);
    destroy_client(client);
}

#[test]
fn two_clients_run_programs_at_the_same_time() {
    if !tilewright::runs_here() {
        return;
    }
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let client = client();
                let (short, long) = (compiled(client, TWICE), compiled(client, LONG));
                let programs = [short, long].map(|program| program.expect("it compiles"));
                for turn in 0..20 {
                    let value = (number * 100 + turn) as f32;
                    let input = buffer_of(client, &[value; 4], 0);
                    let (mut twice, mut two) = ([Handle::NONE], [Handle::NONE]);
                    well(run(programs[0], &[input], &mut twice));
                    assert_eq!(elements(twice[0], 4), [2.0 * value; 4]);
                    if turn % 10 == 0 {
                        well(run(programs[1], &twice, &mut two));
                        assert_eq!(elements(two[0], 4), [2.0; 4]);
                        destroy(two[0]);
                    }
                    [input, twice[0]].into_iter().for_each(destroy);
                }
                programs.into_iter().for_each(destroy_program);
                destroy_client(client);
            });
        }
    });
}

#[test]
fn what_is_wrong_is_told_with_codes_and_diagnostics() {
    if !tilewright::runs_here() {
        return;
    }
    let client = client();
    let unknown = TWICE.replace("stablehlo.add", "stablehlo.conjure");
    let (code, message) = compiled(client, &unknown).err().expect("it is refused");
    assert!(message.contains("conjure"), "{message}");
    assert!(matches!(code, Code::Unimplemented | Code::InvalidArgument));
    let (_, message) = compiled(client, "module {").err().expect("it is refused");
    assert!(message.contains("TW0701"), "{message}");

    let program = compiled(client, TWICE).expect("it compiles");
    let short = buffer_of(client, &[1.0; 3], 0);
    let mut outputs = [Handle::NONE];
    let (_, message) = refused(run(program, &[short], &mut outputs));
    assert!(message.contains("[3]") && message.contains("[4]"), "{message}");
    let (_, message) = refused(run(program, &[], &mut outputs));
    assert!(message.contains("0 buffers"), "{message}");
    let (code, _) = refused(run(program, &[Handle::NONE], &mut outputs));
    assert_eq!(code, Code::InvalidArgument);
    well(programs::loaded_delete(&mut given!(ProgramArguments { executable: program })));
    let (code, _) = refused(run(program, &[short], &mut outputs));
    assert_eq!(code, Code::FailedPrecondition);

    let (code, _) = refused(clients::client_create(std::ptr::null_mut()));
    assert_eq!(code, Code::InvalidArgument);
    let mut old = given!(ClientLookup { client: client, number: 0, device: Handle::NONE });
    old.struct_size = 8;
    let (_, message) = refused(clients::client_lookup_device(&mut old));
    assert!(message.contains("older version"), "{message}");
    let mut lookup = given!(ClientLookup { client: client, number: 7, device: Handle::NONE });
    let (code, _) = refused(clients::client_lookup_device(&mut lookup));
    assert_eq!(code, Code::NotFound);
    let (code, message) = refused(events::unimplemented("PJRT_Executable_Serialize"));
    assert!(code == Code::Unimplemented && message.contains("Serialize"));
    destroy(short);
    destroy_program(program);
    destroy_client(client);
}

#[test]
fn memory_is_counted_and_given_back() {
    let client = client();
    let mut lookup = given!(ClientLookup { client: client, number: 0, device: Handle::NONE });
    well(clients::client_lookup_device(&mut lookup));
    let device = lookup.device;
    let bytes = || device.get().expect("there is one").usage.figures()[0];
    assert_eq!(bytes(), 0);
    let buffer = buffer_of(client, &[1.0; 256], 0);
    assert_eq!(bytes(), 1024);
    let mut parts = given!(DeviceParts { device: device, parts: List::of_static(&[]) });
    well(devices::device_parts(&mut parts));
    assert_eq!(parts.parts.as_slice().len(), 1);
    destroy(buffer);
    assert_eq!(bytes(), 0);
    destroy_client(client);
}

#[test]
fn events_tell_who_waits() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn told(error: Handle<Failure>, _argument: *mut c_void) {
        assert!(error.is_none());
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let promise = Arc::new(Event::open());
    let event = Handle::give(promise.clone());
    let mut wait =
        given!(EventCallback { event: event, callback: told, argument: std::ptr::null_mut() });
    well(events::event_on_ready(&mut wait));
    let mut ready = given!(EventReady { event: event, is_ready: true });
    well(events::event_is_ready(&mut ready));
    assert!(!ready.is_ready && CALLS.load(Ordering::SeqCst) == 0);
    promise.keep(Ok(()));
    well(events::event_on_ready(&mut wait));
    assert_eq!(CALLS.load(Ordering::SeqCst), 2);
    well(events::event_destroy(&mut given!(EventArguments { event: event })));
}
