//! The files of WebAssembly modules.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The beginning of a module: the magic number, and the version 1. Source: WebAssembly, "Binary Format".
const START: [u8; 8] = *b"\0asm\x01\0\0\0";

/// Checks whether a file is a WebAssembly module. Its content is not validated.
pub fn check(file: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    File::open(file)?.take(START.len() as u64).read_to_end(&mut start)?;
    match start == START {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "no WebAssembly module")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_that_is_no_module_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.wasm");
        assert_eq!(check(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
        for (content, is_module) in
            [(&START[..], true), (b"\0asm\x01\0\0\0more", true), (b"\0asm", false), (b"", false)]
        {
            std::fs::write(&file, content).unwrap();
            assert_eq!(check(&file).is_ok(), is_module, "{content:?}");
        }
        assert!(check(directory.path()).is_err());
    }
}
