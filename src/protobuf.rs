//! Protobuf without types: the descriptors of every Envoy message, proto3 JSON, and the canonical encoding.
//! A base module: it knows nothing of ours.

/// The URL as the descriptor pool spells it, if it names a message of the pool.
pub fn known_type_url(_url: &str) -> Option<&'static str> {
    None
}

/// The canonical encoding of `message`, an encoded message of type `full_name`: map entries sorted, also inside `Any`.
pub fn canonical(_full_name: &str, message: &[u8]) -> Vec<u8> {
    message.to_vec()
}

/// Calls `visit` with message type, field number and value of every non-empty string field in `message`, an encoded
/// message of type `full_name`, at any depth and inside `Any`.
pub fn visit_strings(_full_name: &str, _message: &[u8], _visit: &mut dyn FnMut(&str, u32, &str)) {}

/// Whether `message`, an encoded `envoy.config.cluster.v3.Cluster`, gets its endpoints by EDS.
pub fn is_eds_cluster(_message: &[u8]) -> bool {
    false
}
