#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// Encodes a field with a length.
fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encoding::encode_varint(value.len() as u64, &mut bytes);
    bytes.extend(value);
    bytes
}

fn list(items: &[&[u8]]) -> Vec<u8> {
    let mut list = field(1, &ListMeta { version: "17".into(), rest: String::new() }.encode_to_vec());
    items.iter().for_each(|item| list.extend(field(2, item)));
    list.extend(field(9, b"of a later version"));
    [MAGIC, &field(1, b"type"), &field(2, &list), &field(3, b""), &field(4, b"")].concat()
}

/// Reads a list whose bytes arrive `step` at a time.
fn read(bytes: &[u8], step: usize) -> Result<(Vec<Bytes>, ListMeta), Malformed> {
    let (mut reader, mut buffer, mut items) = (ListReader::default(), BytesMut::new(), Vec::new());
    let mut chunks = bytes.chunks(step);
    let mut ended = false;
    loop {
        match reader.next(&mut buffer, ended)? {
            Next::Item(item) | Next::TooLarge(item) => items.push(item),
            Next::End(meta) => return Ok((items, meta)),
            Next::More => match chunks.next() {
                Some(chunk) => buffer.extend_from_slice(chunk),
                None => ended = true,
            },
        }
    }
}

#[test]
fn a_list_is_the_same_in_whatever_pieces_it_comes() {
    let long = vec![7; 300];
    let bytes = list(&[b"a", b"", &long]);
    for step in [1, 2, 3, 7, 100, 10_000] {
        let (items, meta) = read(&bytes, step).unwrap();
        assert_eq!(items, [b"a".as_slice(), b"", &long], "{step} bytes at a time");
        assert_eq!((meta.version.as_str(), meta.rest.as_str()), ("17", ""));
    }
    assert_eq!(read(&[MAGIC, &field(2, b"")].concat(), 3).unwrap(), (Vec::new(), ListMeta::default()));
}

#[test]
fn a_list_that_is_cut_off_or_no_list_is_an_error() {
    let bytes = list(&[b"a", b"b"]);
    let end_of_list = bytes.len() - field(3, b"").len() - field(4, b"").len();
    for length in 0..end_of_list {
        assert_eq!(read(&bytes[..length], 5), Err(Malformed::Truncated), "{length} bytes");
    }
    assert_eq!(read(b"{\"kind\": \"List\"}", 5), Err(Malformed::NotProtobuf));
    let too_long = [MAGIC, &[0x12, 3], &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]].concat();
    assert_eq!(read(&too_long, 5), Err(Malformed::NotProtobuf));
}

#[test]
fn events_of_a_watch_come_one_by_one() {
    let object = [MAGIC, &field(2, b"object")].concat();
    let event = [field(1, b"ADDED"), field(2, &field(1, &object))].concat();
    let frame = [&u32::try_from(event.len()).unwrap().to_be_bytes(), event.as_slice()].concat();
    let mut buffer = BytesMut::new();
    for byte in frame.iter().chain(&frame[..3]) {
        assert_eq!(super::event(&mut buffer), Ok(None));
        buffer.extend_from_slice(&[*byte]);
        if buffer.len() == frame.len() {
            let event = super::event(&mut buffer).unwrap().unwrap();
            assert_eq!((&*event.kind, &*event.object()), (b"ADDED".as_slice(), b"object".as_slice()));
        }
    }
    assert_eq!(super::event(&mut BytesMut::from(&[0xff; 9][..])), Err(Malformed::TooLarge));
}

#[test]
fn of_an_item_that_is_too_large_the_beginning_is_read() {
    let huge: Vec<u8> = (0..HEAD + 5_000).map(|i| i as u8).collect();
    let bytes = list(&[b"a", &huge, b"b"]);
    for step in [100, 10_000, 1 << 20] {
        let (mut reader, mut buffer) = (ListReader { largest: HEAD, ..ListReader::default() }, BytesMut::new());
        let (mut chunks, mut ended, mut items) = (bytes.chunks(step), false, Vec::new());
        let meta = loop {
            match reader.next(&mut buffer, ended).unwrap() {
                Next::Item(item) => items.push((item, true)),
                Next::TooLarge(item) => items.push((item, false)),
                Next::End(meta) => break meta,
                Next::More => match chunks.next() {
                    Some(chunk) => buffer.extend_from_slice(chunk),
                    None => ended = true,
                },
            }
        };
        let expected = [(b"a".as_slice(), true), (&huge[..HEAD], false), (b"b", true)];
        assert!(items.iter().map(|(item, whole)| (&**item, *whole)).eq(expected), "{step} bytes at a time");
        assert_eq!(meta.version, "17");
    }
}
