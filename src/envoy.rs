//! Model to Envoy v3 messages.
