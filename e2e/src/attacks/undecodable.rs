//! Objects with text that is not UTF-8, in the protobuf form of the API server, which accepts and stores them.

/// Bytes that are not UTF-8.
const BYTES: &[u8] = b"\xff\xfe";

/// The `content-type` of objects in protobuf.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Encodes a protobuf field with a length.
fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(value);
    bytes
}

/// Encodes an object in the form that the API server stores: four bytes, then a `runtime.Unknown`.
fn envelope(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = [field(1, api_version), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, type_meta), field(2, fields.concat())].concat()
}

/// Encodes metadata with a label, so that each edition is a change.
fn metadata(name: &str, edition: &str) -> Vec<u8> {
    let label = field(11, [field(1, "edition"), field(2, edition)].concat());
    field(1, [field(1, name), label].concat())
}

/// Encodes an Ingress for `host` with two paths: `/` and two bytes that are not UTF-8, and `/good`.
pub fn broken_ingress(name: &str, class: &str, host: &str, edition: &str) -> Vec<u8> {
    let backend = field(4, [field(1, "none"), field(2, vec![2 << 3, 80])].concat());
    let path = |path: &[u8]| field(1, [field(1, path), field(2, &backend), field(3, "Prefix")].concat());
    let http = field(1, [path(&[b"/", BYTES].concat()), path(b"/good")].concat());
    let rule = field(3, [field(1, host), field(2, http)].concat());
    let spec = [rule, field(4, class)].concat();
    envelope("networking.k8s.io/v1", "Ingress", &[metadata(name, edition), field(2, spec)])
}

/// Encodes a Secret whose type is not UTF-8.
pub fn broken_secret(name: &str, edition: &str) -> Vec<u8> {
    envelope("v1", "Secret", &[metadata(name, edition), field(3, BYTES)])
}

/// Encodes an object of a kind whose annotation `lockgate.dev/text` is not UTF-8.
pub fn annotated(kind: &str, api_version: &str, name: &str) -> Vec<u8> {
    let annotation = field(12, [field(1, "lockgate.dev/text"), field(2, BYTES)].concat());
    let metadata = field(1, [field(1, name), annotation].concat());
    let rest = match kind {
        "Ingress" => field(2, field(1, field(4, [field(1, "none"), field(2, vec![2 << 3, 80])].concat()))),
        "IngressClass" => field(2, field(1, "example.com/controller")),
        "Service" => field(2, field(1, [field(2, "TCP"), vec![3 << 3, 80]].concat())),
        "EndpointSlice" => field(4, "IPv4"),
        "Secret" => field(3, "Opaque"),
        _ => Vec::new(),
    };
    envelope(api_version, kind, &[metadata, rest])
}
