//! Tests of the translation as a whole, from objects made by builders.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod amplification;
mod annotations;
mod authentication;
mod backend_policies;
mod claims;
mod composed;
mod copies;
mod envoy;
mod envoys;
mod fleets;
mod foreign_policies;
mod fuzz;
mod gateway;
mod gateway_incremental;
mod gateway_sizes;
mod gateway_streams;
mod gateway_tenants;
mod gateway_texts;
mod gateway_tls;
mod host_grants;
mod http_policies;
mod http_proxies;
mod http_proxy_costs;
mod http_proxy_servers;
mod http_proxy_tls;
mod incremental;
mod ingress_policies;
mod key_pairs;
mod listener_sets;
mod ownership;
mod plain_text;
mod rule_copies;
mod rules;
mod services;
mod shared_host;
mod squares;
mod surplus_sets;
mod terminating;
mod tls;
mod traffic_policies;
mod verdicts;
