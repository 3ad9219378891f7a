//! Every oracle on its seeds, the findings among them, with any toolchain.

use std::fs;
use std::path::Path;

#[test]
fn oracles_pass_on_their_seeds() {
    for (name, oracle) in kimi_xtml_fuzz::ORACLES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(files.len() >= 10, "{name} has few seeds");
        for file in files {
            println!("{}", file.display());
            let seed = fs::read(&file).unwrap();
            oracle(&seed);
            // And on what a cut leaves of it.
            oracle(&seed[..seed.len() / 2]);
        }
    }
}
