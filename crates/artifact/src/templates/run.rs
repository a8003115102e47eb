
/// Runs the model: dense inputs and outputs in row-major order, an arena of at least
/// [`ARENA_BYTES`] and [`ALIGNMENT`]. What went wrong, where nothing was computed.
pub fn run(
    weights: &[u8],
    constants: &[u8],
    arena: &mut [u8],
    inputs: [&[u8]; INPUTS],
    outputs: [&mut [u8]; OUTPUTS],
) -> Result<(), &'static str> {
    const INPUT_BYTES: [usize; INPUTS] = [@INPUT_BYTES@];
    const OUTPUT_BYTES: [usize; OUTPUTS] = [@OUTPUT_BYTES@];
    if weights.len() < WEIGHTS_BYTES || constants.len() < CONSTANTS_BYTES {
        return Err("weights or constants are too short");
    }
    if inputs.iter().zip(INPUT_BYTES).any(|(input, bytes)| input.len() < bytes) {
        return Err("an input is too short");
    }
    if outputs.iter().zip(OUTPUT_BYTES).any(|(output, bytes)| output.len() < bytes) {
        return Err("an output is too short");
    }
    let inputs = inputs.map(|input| input.as_ptr());
    let mut outputs = outputs.map(|output| output.as_mut_ptr());
    let arguments = Arguments {
        weights: weights.as_ptr(),
        // It is only read.
        constants: constants.as_ptr().cast_mut(),
        arena: arena.as_mut_ptr(),
        arena_bytes: arena.len() as i64,
        inputs: inputs.as_ptr(),
        outputs: outputs.as_mut_ptr(),
        parallel_for: None,
        pool: core::ptr::null_mut(),
        workers: 0,
    };
    // SAFETY: all memory is as long as the code asks for, which was checked, or checks itself.
    match unsafe { @NAME@_run(&arguments) } {
        0 => Ok(()),
        status => Err(status_text(status)),
    }
}
