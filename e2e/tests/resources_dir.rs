//! `lockgate serve --resources`: Envoy messages in files, served to a real Envoy.

use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, ports, wait_until};

/// Formats a listener with inline routes, in YAML.
fn listener(port: u16, cluster: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: web
address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
filter_chains:
  - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          route_config:
            name: web
            virtual_hosts:
              - name: all
                domains: ["*"]
                routes: [{{ match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }}]
          http_filters:
            - name: router
              typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"#
    )
}

/// Formats a cluster with inline endpoints, in JSON.
fn cluster(name: &str, backend: &Backend) -> String {
    format!(
        r#"{{
  "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
  "name": "{name}",
  "type": "STATIC",
  "connectTimeout": "1s",
  "loadAssignment": {{
    "clusterName": "{name}",
    "endpoints": [{{ "lbEndpoints": [{{ "endpoint": {{ "address": {{ "socketAddress":
      {{ "address": "127.0.0.1", "portValue": {} }} }} }} }}] }}]
  }}
}}
"#,
        backend.port()
    )
}

async fn a_directory_of_resources(mode: Mode) {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let port = ports::free();
    let files = Manifests::new();
    files.write("web.yaml", &listener(port, "first"));
    files.write("first.json", &cluster("first", &first));
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let envoy = Envoy::start(&lockgate, mode).await;
    let target = Target::http(port, "any.test");
    let served_by = async |name: &str| {
        wait_until(&format!("an answer from {name}"), async || target.backend("/").await.as_deref() == Some(name)).await
    };
    served_by("first").await;

    // A new cluster and a listener that uses it, in two files.
    files.write("second.json", &cluster("second", &second));
    files.write("web.yaml", &listener(port, "second"));
    let time = served_by("second").await;
    println!("a listener edited in a directory of resources, {mode:?}: served after {} ms", time.as_millis());

    // An unknown field is reported with its place, and the previous content stays.
    files.write("web.yaml", &listener(port, "first").replace("stat_prefix", "stat_prefiks"));
    println!("{}", lockgate.logged(&["web.yaml", "stat_prefiks"]).await);
    assert_eq!(target.backend("/").await.as_deref(), Some("second"));
    files.write("web.yaml", &listener(port, "first"));
    served_by("first").await;

    // Several resources in one file, and a removed file.
    files.write("web.yaml", &format!("{}---\n{}", listener(port, "third"), cluster("third", &second)));
    served_by("second").await;
    files.remove("web.yaml");
    wait_until("no listener", async || target.get("/").await.is_err()).await;
    assert_eq!(envoy.stat("listener_manager.total_listeners_active").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_resources_delta() {
    a_directory_of_resources(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_resources_sotw() {
    a_directory_of_resources(Mode::Sotw).await;
}
