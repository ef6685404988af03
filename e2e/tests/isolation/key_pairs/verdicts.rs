//! What Envoy says about thousands of key pairs: each is in a listener of its own, and Envoy names the listeners that it
//! rejects.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::{Envoy, Manifests, ports, wait_until};
use serde_json::{Value, json};

/// What Envoy gets to judge, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A certificate chain and its private key.
    Pair { chain: Vec<u8>, key: Vec<u8> },
    /// The certificate authorities of clients.
    Authorities(Vec<u8>),
}

/// An Envoy that judges.
pub struct Judge {
    envoy: Envoy,
    directory: Manifests,
    /// A pair that is good, for listeners that judge something else.
    good: Subject,
    listeners: usize,
}

impl Judge {
    /// Starts Envoy.
    pub async fn start(good: Subject) -> Self {
        let directory = Manifests::new();
        directory.write("lds.json", "{\"resources\": []}");
        let admin = ports::free();
        let path = directory.file("lds.json").display().to_string();
        let bootstrap = json!({
            "node": { "id": "judge", "cluster": "judge" },
            "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": admin } } },
            "dynamic_resources": {
                "lds_config": { "resource_api_version": "V3", "path_config_source": { "path": path } },
            },
        });
        let mut envoy = Envoy::launch_with_flags(&bootstrap.to_string(), admin, &["--drain-time-s", "1"]);
        envoy.wait_ready().await;
        Self { envoy, directory, good, listeners: 0 }
    }

    /// Returns why Envoy rejects each subject; `None` for those that it accepts.
    pub async fn judge(&mut self, subjects: &[Subject]) -> Vec<Option<String>> {
        let names: Vec<String> = (self.listeners..).take(subjects.len()).map(|i| format!("l{i}")).collect();
        self.listeners += subjects.len();
        let listeners: Vec<Value> =
            names.iter().zip(subjects).zip(1..).map(|((name, subject), i)| self.listener(name, i, subject)).collect();
        let before = self.answers().await;
        self.directory.write("lds.json", &json!({ "resources": listeners }).to_string());
        let envoy = &mut self.envoy;
        wait_until("Envoy's verdict", async || {
            envoy.process().assert_running();
            let stats = envoy.stats("^listener_manager.lds.update_(success|rejected)$").await;
            stats.values().sum::<u64>() > before
        })
        .await;
        let dump = self.envoy.config_dump("dynamic_listeners").await;
        let verdicts: BTreeMap<&str, &Value> =
            dump.iter().filter_map(|listener| Some((listener["name"].as_str()?, listener))).collect();
        let verdict = |name: &String| {
            let listener = verdicts.get(name.as_str()).unwrap_or_else(|| panic!("no verdict about {name}"));
            let reason = listener["error_state"]["details"].as_str();
            let accepted = !listener["active_state"].is_null() || !listener["warming_state"].is_null();
            assert_eq!(accepted, reason.is_none(), "{listener}");
            reason.map(ToOwned::to_owned)
        };
        names.iter().map(verdict).collect()
    }

    async fn answers(&self) -> u64 {
        self.envoy.stats("^listener_manager.lds.update_(success|rejected)$").await.values().sum()
    }

    fn listener(&self, name: &str, port: u16, subject: &Subject) -> Value {
        let inline = |pem: &[u8]| json!({ "inline_bytes": BASE64_STANDARD.encode(pem) });
        let (pair, authorities) = match subject {
            Subject::Pair { .. } => (subject, None),
            Subject::Authorities(pem) => (&self.good, Some(pem)),
        };
        let Subject::Pair { chain, key } = pair else { panic!("the good pair is a pair") };
        let mut tls = json!({
            "tls_certificates": [{ "certificate_chain": inline(chain), "private_key": inline(key) }],
        });
        if let Some(authorities) = authorities {
            tls["validation_context"] = json!({ "trusted_ca": inline(authorities) });
        }
        json!({
            "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
            "name": name,
            "address": { "socket_address": { "address": "127.0.0.1", "port_value": port } },
            "bind_to_port": false,
            "filter_chains": [{
                "filters": [{
                    "name": "echo",
                    "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo" },
                }],
                "transport_socket": {
                    "name": "tls",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                        "common_tls_context": tls,
                    },
                },
            }],
        })
    }
}

/// DER as PEM.
pub fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    e2e::certificates::pem(label, der).into_bytes()
}
