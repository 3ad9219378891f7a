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
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
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
