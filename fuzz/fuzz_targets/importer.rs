//! The importer, of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| tilewright_fuzz::attempt::import(bytes));
