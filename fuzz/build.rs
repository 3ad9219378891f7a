//! Opens the tests' invariants to the oracles, so that nothing is written twice.
//!
//! In: files of `../tests`. Out: the same, without what only the head of a file may have, with these functions visible.

use std::path::Path;
use std::{env, fs};

const TAKEN: [(&str, &str, &[&str]); 2] = [
    ("support/mod.rs", "support.rs", &["tokenized"]),
    (
        "invariants.rs",
        "invariants.rs",
        &[
            "ways",
            "ways_of_bytes",
            "same",
            "conserves",
            "no_leak",
            "nests",
            "prompt",
            "completes",
            "is_json",
            "escaped",
        ],
    ),
];

fn main() {
    for (file, out, functions) in TAKEN {
        let path = Path::new("../tests").join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let of_head = |line: &&str| !line.starts_with("//!") && !line.starts_with("#![");
        let mut text = text.lines().filter(of_head).collect::<Vec<_>>().join("\n");
        text = text.replace("\nmod support;", "\nuse crate::support;");
        for name in functions {
            for behind in ["(", "<"] {
                text = text.replace(&format!("\nfn {name}{behind}"), &format!("\npub(crate) fn {name}{behind}"));
            }
            assert!(text.contains(&format!("\npub(crate) fn {name}")), "{} has no {name}", path.display());
        }
        fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join(out), text).unwrap();
    }
}
