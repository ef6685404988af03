//! The xDS server.
