//! In: bytes from the fuzzer. Out: a panic where [`kimi_xtml_cli::oracle::cases`] finds a fault.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kimi_xtml_cli::oracle::cases(data));
