//! In: bytes from the fuzzer. Out: a panic where [`kimi_xtml_oracle::mixed`] finds a fault.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kimi_xtml_oracle::mixed(data));
