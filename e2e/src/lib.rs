//! The tools of the end-to-end tests: the real program, a real Envoy, a real API server, and a load generator.
//!
//! The tests do not link the code of the controller; they see what users see. The only exception compares a check of
//! the controller with Envoy for thousands of inputs (`isolation::key_pairs`). Tests wait for conditions with a
//! deadline. A missing program fails the test with a hint how to install it, because a skipped test would look like a
//! passed one. Tests have their own ports and directories, so they run in parallel, except for those that measure times
//! ([`turn()`]).

pub mod apiserver;
pub mod attacks;
pub mod authorizer;
pub mod backend;
pub mod books;
pub mod browser;
pub mod certificates;
pub mod client;
pub mod collector;
pub mod echo;
pub mod endless;
pub mod envoy;
pub mod export;
pub mod faulty;
pub mod figures;
pub mod grpc;
pub mod http3;
pub mod issuer;
pub mod lab;
pub mod limiter;
pub mod load;
pub mod lockgate;
pub mod manifests;
pub mod mount;
pub mod pages;
pub mod ports;
pub mod process;
pub mod processor;
pub mod relay;
pub mod resources;
pub mod server;
pub mod turn;
pub mod wait;
pub mod wasm;
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
pub use faulty::{Behavior, Faulty};
pub use figures::Durations;
pub use grpc::{Calls, GrpcBackend, GrpcClient};
pub use issuer::Issuer;
pub use lab::Lab;
pub use limiter::Limiter;
pub use load::Load;
pub use lockgate::{Lockgate, Source};
pub use manifests::Manifests;
pub use mount::Mount;
pub use processor::Processor;
pub use relay::Relay;
pub use resources::Fetch;
pub use turn::{Turn, turn};
pub use wait::{PATIENCE, wait_everywhere, wait_everywhere_at_most, wait_for, wait_until};
