//! A reader sees a complete file or none.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::export::disk::Disk;
use crate::export::disk::DiskError;

#[test]
fn f1_a_reader_never_sees_a_part() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Disk::open(directory.path()).unwrap();
    // The content is one byte, repeated a number of times that depends on the byte.
    let content = |i: usize| vec![u8::try_from(i % 251).unwrap(); 1 + i % 251 * 1000];
    disk.write("clusters.json", &content(0), false).unwrap();
    let expired = AtomicBool::new(false);
    let path = disk.path("clusters.json");
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = 0;
            while !expired.load(Ordering::Relaxed) {
                let seen = fs::read(&path).expect("the file is there at every moment");
                let first = *seen.first().expect("it is never empty");
                assert_eq!(seen, content(first.into()), "whole");
                read += 1;
            }
            read
        });
        for i in 1..300 {
            assert!(disk.write("clusters.json", &content(i), false).unwrap());
        }
        expired.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(read > 100, "{read} reads are too few to say anything");
}

#[test]
fn f1_what_is_equal_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let inode = || fs::metadata(directory.path().join("a.json")).unwrap().ino();
    let mut disk = Disk::open(directory.path()).unwrap();
    assert!(disk.write("a.json", b"one", false).unwrap());
    let before = inode();
    assert!(!disk.write("a.json", b"one", false).unwrap());
    drop(disk);
    let mut disk = Disk::open(directory.path()).unwrap();
    assert_eq!(disk.read(|name| name == "a.json").unwrap(), [("a.json".to_owned(), b"one".to_vec())]);
    assert!(!disk.write("a.json", b"one", false).unwrap());
    assert_eq!(inode(), before);
    assert!(disk.write("a.json", b"two", false).unwrap());
    assert_ne!(inode(), before, "another file, under its name");
    assert!(disk.remove("a.json").unwrap() && !disk.remove("a.json").unwrap());
    assert!(disk.write("a.json", b"two", false).unwrap());
}

#[test]
fn secrets_are_for_their_owner_and_a_draft_of_a_crash_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(".lockgate.draft"), "half").unwrap();
    let mut disk = Disk::open(directory.path()).unwrap();
    disk.write("a", b"secret", true).unwrap();
    disk.write("b", b"public", false).unwrap();
    let mode = |name| fs::metadata(directory.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a"), mode("b") & 0o600), (0o600, 0o600));
    assert!(!directory.path().join(".lockgate.draft").exists());
}

#[test]
fn two_of_them_do_not_write_to_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Disk::open(directory.path()).unwrap();
    assert!(matches!(Disk::open(directory.path()), Err(DiskError::Taken(_))));
    drop(disk);
    Disk::open(directory.path()).unwrap();
}

#[test]
fn a_failed_write_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    let error = Disk::open(&directory.path().join("file/below")).unwrap_err().to_string();
    assert!(error.contains("cannot make") && error.contains("file/below"), "{error}");
}

#[test]
fn a_failed_write_leaves_no_draft() {
    let directory = tempfile::tempdir().unwrap();
    let draft = directory.path().join(".lockgate.draft");
    fs::write(&draft, "half").unwrap();
    let mut disk = Disk::open(directory.path()).unwrap();
    assert!(!draft.exists(), "the draft of a process that was killed");
    // The draft is written, but cannot be renamed.
    fs::create_dir(directory.path().join("a")).unwrap();
    let error = disk.write("a", b"secret", true).unwrap_err().to_string();
    assert!(error.contains("cannot rename a file to"), "{error}");
    assert!(!draft.exists());
}
