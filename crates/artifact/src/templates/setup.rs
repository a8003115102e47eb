
/// Fills a block of [`CONSTANTS_BYTES`] from weights of [`WEIGHTS_BYTES`], in an arena of at least
/// [`SETUP_ARENA_BYTES`] and [`ALIGNMENT`]. The status of what went wrong, or the lengths' names.
pub fn setup(weights: &[u8], constants: &mut [u8], arena: &mut [u8]) -> Result<(), &'static str> {
    if weights.len() < WEIGHTS_BYTES || constants.len() < CONSTANTS_BYTES {
        return Err("weights or constants are too short");
    }
    let arguments = Arguments {
        weights: weights.as_ptr(),
        constants: constants.as_mut_ptr(),
        arena: arena.as_mut_ptr(),
        arena_bytes: arena.len() as i64,
        inputs: core::ptr::null(),
        outputs: core::ptr::null_mut(),
        parallel_for: None,
        pool: core::ptr::null_mut(),
        workers: 0,
    };
    // SAFETY: all memory is as long as the code asks for, which was checked, or checks itself.
    match unsafe { @NAME@_setup(&arguments) } {
        0 => Ok(()),
        status => Err(status_text(status)),
    }
}
