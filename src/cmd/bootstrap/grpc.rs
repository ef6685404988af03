//! The bootstrap file of a gRPC client or server without a proxy, for `GRPC_XDS_BOOTSTRAP`.
//!
//! Source: gRFC A27; A30 for `xds_v3`, A65 for the credentials of type `tls`.

use serde_json::{Value, json};

use super::BootstrapArgs;

/// The interval at which certificates are reloaded.
const REFRESH: &str = "60s";

/// Returns the bootstrap for `options`.
pub fn bootstrap(options: &BootstrapArgs) -> Value {
    let credentials = match &options.xds_tls {
        None => json!({ "type": "insecure" }),
        Some(directory) => {
            let file = |name: &str| directory.join(name).display().to_string();
            json!({ "type": "tls", "config": {
                "certificate_file": file("tls.crt"),
                "private_key_file": file("tls.key"),
                "ca_certificate_file": file("ca.crt"),
                "refresh_interval": REFRESH,
            } })
        }
    };
    let mut node = json!({ "id": options.node_id.as_deref().unwrap_or_default(), "cluster": options.node_cluster });
    if let Some(locality) = &options.node_locality {
        node["locality"] = json!({ "region": locality.region, "zone": locality.zone, "sub_zone": locality.sub_zone });
    }
    json!({
        "xds_servers": [{
            "server_uri": options.xds_address.to_string(),
            "channel_creds": [credentials],
            "server_features": ["xds_v3"],
        }],
        "node": node,
    })
}
