# What CI runs, one recipe a part: `just --list`. Each is a script or a cargo command that works without just.

# All that CI runs.
ci:
    .ci/run

# Every test of the workspace, every oracle on its seeds among them.
test:
    cargo test --workspace --locked

# Format, lints, documentation.
lint:
    cargo fmt --all --check
    for apart in benches compare fuzz; do cargo fmt --manifest-path $apart/Cargo.toml --check || exit; done
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo clippy --manifest-path benches/Cargo.toml --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Each fuzz target for so many seconds, or those that are named.
fuzz seconds="60" *targets:
    fuzz/run {{ seconds }} {{ targets }}

# Lines that the library's tests reach.
coverage *options:
    fuzz/cover {{ options }}

# The public parsers beside this one, on the corpora.
compare:
    compare/run small

# Time and heap beside the public parsers, on a quiet machine; writes BENCHMARKS.md.
speed:
    compare/run speed

# Instructions a delta beside the recorded ones.
guard *options:
    benches/guard {{ options }}

# Faults put into the library, which its tests must see: hours.
mutants *options:
    cargo mutants {{ options }}
