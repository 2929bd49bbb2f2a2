#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| plica_fuzz::operations(bytes));
