//! What the end-to-end tests stand on: the real program, a real Envoy, a real API server, and a load generator.
//!
//! Nothing here links the controller's code: the tests in `tests/` see what its user sees. The one exception compares a check
//! of the controller with Envoy's for thousands of inputs (`isolation::key_pairs`). Everything waits on conditions
//! with a deadline; a program that is missing fails and says how to get it, for a skip would look like a pass. Ports and
//! directories are a test's own, so tests run side by side, unless they measure (see `tests/hitless.rs`).

pub mod apiserver;
pub mod attacks;
pub mod authorizer;
pub mod backend;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod echo;
pub mod envoy;
pub mod export;
pub mod figures;
pub mod grpc;
pub mod http3;
pub mod lab;
pub mod limiter;
pub mod load;
pub mod lockgate;
pub mod manifests;
pub mod mount;
pub mod pages;
pub mod ports;
pub mod process;
pub mod relay;
pub mod resources;
pub mod server;
pub mod wait;
pub mod xds;

pub use apiserver::ApiServer;
pub use authorizer::{Authorizer, HttpAuthorizer};
pub use backend::Backend;
pub use certificates::Authority;
pub use client::Target;
pub use collector::Collector;
pub use echo::Echo;
pub use envoy::{Envoy, Mode};
pub use export::Export;
pub use figures::Durations;
pub use grpc::{Calls, GrpcBackend, GrpcClient};
pub use lab::Lab;
pub use limiter::Limiter;
pub use load::Load;
pub use lockgate::{Lockgate, Source};
pub use manifests::Manifests;
pub use mount::Mount;
pub use relay::Relay;
pub use resources::Fetch;
pub use wait::{PATIENCE, wait_everywhere, wait_for, wait_until};
