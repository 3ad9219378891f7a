//! Lines of a file that has one JSON value a line.
//!
//! In: bytes. Out: each line that is not blank, with its number; or what is wrong, with the line. Held: one line, of 256 MiB at
//! most: a file without line ends is told before the memory is gone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::cases;

/// What a line may come to, in bytes.
const LONGEST: u64 = 256 << 20;

/// A file whose lines cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The system does not give the file.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It is compressed.
    #[error("{file} is compressed\nDecompress it first: gzip -dc {file} | kimi-xtml … -")]
    Compressed {
        /// The file.
        file: String,
    },
    /// A line is longer than 256 MiB.
    #[error("{file}, line {line}: it is longer than 256 MiB\nA line has one JSON value.")]
    Long {
        /// The file.
        file: String,
        /// The line, from 1 on.
        line: usize,
    },
}

/// The lines of a file; `-` is the standard input.
///
/// # Errors
/// If it cannot be opened.
pub fn open(file: &Path) -> Result<Lines<Box<dyn BufRead>>, LineError> {
    let name = cases::name(file);
    if cases::is_stdin(file) {
        return Ok(Lines::new(Box::new(io::stdin().lock()), name));
    }
    match File::open(file) {
        Ok(opened) => Ok(Lines::new(Box::new(BufReader::new(opened)), name)),
        Err(source) => Err(LineError::Read { file: name, source }),
    }
}

/// Lines that are not blank, with their numbers.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    name: String,
    line: usize,
    longest: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, which messages call `name`.
    pub fn new(input: R, name: impl Into<String>) -> Self {
        Lines { input, name: name.into(), line: 0, longest: LONGEST }
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let mut bytes = Vec::new();
        let read = (&mut self.input).take(self.longest).read_until(b'\n', &mut bytes);
        let read = read.map_err(|source| LineError::Read { file: self.name.clone(), source })?;
        self.line += 1;
        if read as u64 == self.longest && !bytes.ends_with(b"\n") {
            return Err(LineError::Long { file: self.name.clone(), line: self.line });
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        if self.line == 1 {
            if bytes.starts_with(b"\x1f\x8b") || bytes.starts_with(b"\x28\xb5\x2f\xfd") {
                return Err(LineError::Compressed { file: self.name.clone() });
            }
            if bytes.starts_with("\u{feff}".as_bytes()) {
                bytes.drain(..3);
            }
        }
        Ok((read > 0).then_some(bytes))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<(usize, Vec<u8>), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(bytes) if bytes.trim_ascii().is_empty() => {}
                line => return Some(line.map(|bytes| (self.line, bytes))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], longest: u64) -> Result<Vec<(usize, Vec<u8>)>, LineError> {
        Lines { longest, ..Lines::new(bytes, "f") }.collect()
    }

    #[test]
    fn blank_lines_and_a_byte_order_mark_are_passed_over() {
        let got = lines("\u{feff}1\n\n \n2".as_bytes(), 99).unwrap();
        assert_eq!(got, [(1, b"1".to_vec()), (4, b"2".to_vec())]);
    }

    #[test]
    fn what_is_no_file_of_lines_is_told() {
        assert_eq!(
            lines(b"1\n12345678", 8).unwrap_err().to_string().lines().next(),
            Some("f, line 2: it is longer than 256 MiB")
        );
        assert_eq!(lines(b"1234567\n", 8).unwrap().len(), 1);
        assert!(lines(b"\x1f\x8b\x08\x00", 99).unwrap_err().to_string().starts_with("f is compressed"));
    }
}
