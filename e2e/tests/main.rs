//! All end-to-end tests as one program, which is linked once. `cargo test --workspace --test end_to_end hitless::` runs one file.
//!
//! `cluster` needs a lab: `scripts/e2e.sh` runs its specs there, and all other modules outside of it. `scripts/integrations.sh` runs
//! `integrations` in another lab.

mod backends;
mod bootstrap;
mod certificates;
mod chart;
mod check;
mod cluster;
mod command_line;
mod connections;
mod contour;
mod contour_definitions;
mod discovery;
mod documentation;
mod drain;
mod explain;
mod files;
mod files_mounts;
mod gates;
mod gateway_load;
mod grpc;
mod harness;
mod hitless;
mod hostile;
mod http_proxy;
mod http_proxy_tls;
mod ingress_policies;
mod integrations;
mod isolation;
mod library;
mod log_lines;
mod metrics;
mod migrate;
mod modes;
mod more_types;
mod operation;
mod optional_kinds;
mod process_settings;
mod quickstart;
mod resources_dir;
mod rest;
mod restart;
mod run;
mod same_bytes;
mod scraping;
mod settings;
mod settings_effects;
mod statistics;
mod status;
mod tls_hosts;
mod tls_listeners;
mod validate;
mod vhds;
mod warming;
mod xdstp;
