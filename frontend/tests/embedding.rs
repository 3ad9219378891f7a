//! docs/embedding.md shows the handler's own code: each of its blocks stands in the file that it names.

use std::path::Path;

#[test]
fn the_code_of_the_page_is_the_handlers_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/embedding.md")).unwrap();
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(blocks.len() > 5);
    for block in blocks {
        let (file, code) = block.split_once('\n').unwrap();
        let file = file.strip_prefix("// ").expect("a block begins with its file");
        let source = std::fs::read_to_string(root.join(file)).unwrap();
        assert!(flat(&source).contains(&flat(code)), "{file} has no\n{code}");
    }
}

/// The lines without their indentation.
fn flat(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}
