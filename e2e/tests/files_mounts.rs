//! A real Envoy with broken files, and with special directories: mounted ConfigMaps, and file systems without
//! notifications.

use std::os::unix::fs::symlink;
use std::path::Path;

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Export, Load, Manifests, Source, Target, ports, wait_everywhere, wait_until};

const HOST: &str = "shop.test";

fn shop(name: &str, backend: &Backend) -> String {
    documents(&[service(name, "", &[backend.address]), ingress("shop", HOST, name, None)])
}

fn manifests(service: &str, backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop(service, backend));
    manifests
}

/// Starts an Envoy with the files at `directory`, and waits until it is ready.
async fn envoy_at(export: &Export, directory: &Path) -> Envoy {
    let admin = ports::free();
    let mut envoy = Envoy::launch_with(&export.bootstrap(directory, admin), admin);
    envoy.wait_ready().await;
    envoy
}

async fn served_by(target: &Target, name: &str) {
    wait_everywhere(&format!("an answer from {name}"), async || target.backend("/").await.as_deref() == Some(name))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_file_that_does_not_parse_is_a_failure_and_the_next_good_one_heals() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let manifests = manifests("shop", &first);
    let flags = ["--settle", "100ms"];
    let export = Export::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let envoy = envoy_at(&export, export.path()).await;
    let target = Target::http(export.http, HOST);
    served_by(&target, "first").await;
    let load = Load::start(Plan::new(target.clone(), "/")).await;

    export.overwrite("clusters.json", "{ half of a fi", true);
    wait_until("a failed read", async || envoy.stat("cluster_manager.cds.update_failure").await == 1).await;
    export.overwrite("routes.http.json", "", true);
    wait_until("a failed read", async || envoy.stats("rds.*update_failure").await.values().sum::<u64>() == 1).await;
    load.answers(500).await;
    assert_eq!(envoy.stat("cluster_manager.cds.update_rejected").await, 0);

    // Envoy ignores a file that is written in place, even if it is valid. It waits for a rename.
    let attempts = envoy.stat("cluster_manager.cds.update_attempt").await;
    export.overwrite("clusters.json", "{}", false);
    load.answers(500).await;
    assert_eq!(envoy.stat("cluster_manager.cds.update_attempt").await, attempts);

    // The next change writes valid content to both files.
    let success = envoy.stat("cluster_manager.cds.update_success").await;
    manifests.write("shop.yaml", &shop("renamed", &second));
    served_by(&target, "second").await;
    assert!(envoy.stat("cluster_manager.cds.update_success").await > success);
    let report = load.stop().await;
    println!("broken files: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_what_envoy_does_not_want_is_rejected_and_the_next_good_one_heals() {
    let backend = Backend::start("first").await;
    let port = ports::free();
    let cluster = |name: &str, address: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\ntype: STATIC\nload_assignment:\n  \
             cluster_name: {name}\n  endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: \
             {{ address: {address}, port_value: {} }} }} }} }}] }}]\n",
            backend.port()
        )
    };
    let files = Manifests::new();
    files.write("good.yaml", &cluster("good", "127.0.0.1"));
    files.write(
        "web.yaml",
        &format!(
            r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: web
address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
filter_chains:
  - filters:
      - name: tcp
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: web
          cluster: good
"#
        ),
    );
    let export = Export::start(&Source::Resources(files.path().into()), &[]).await;
    let envoy = envoy_at(&export, export.path()).await;
    let target = Target::http(port, "any.test");
    served_by(&target, "first").await;

    // Only Envoy itself detects that a cluster of this type permits no host names.
    files.write("bad.yaml", &cluster("bad", "shop.example.com"));
    wait_until("a rejection", async || envoy.stat("cluster_manager.cds.update_rejected").await == 1).await;
    assert_eq!(envoy.stat("cluster_manager.cds.update_failure").await, 0);
    assert_eq!(target.backend("/").await.as_deref(), Some("first"));
    let accepted = envoy.stat("cluster_manager.cds.update_success").await;
    files.write("bad.yaml", &cluster("bad", "127.0.0.1"));
    wait_until("an accepted one", async || envoy.stat("cluster_manager.cds.update_success").await > accepted).await;
    wait_until("the healed cluster", async || envoy.get("/clusters").await.text().contains("bad::127.0.0.1")).await;
    assert_eq!(target.backend("/").await.as_deref(), Some("first"));
}

/// Updates a mount like the kubelet updates a ConfigMap with the files in `from`: a new directory with all files, to
/// which the link `..data` is moved. The files of the mount are links through `..data`. Links of missing files are
/// removed.
fn sync(from: &Path, mount: &Path, number: u32) {
    let directory = format!("..{number}");
    std::fs::create_dir_all(mount.join(&directory)).expect("a directory");
    let files = |directory: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("a directory");
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    };
    let current = files(from);
    for file in &current {
        std::fs::copy(from.join(file), mount.join(&directory).join(file)).expect("a copy");
    }
    let old = std::fs::read_link(mount.join("..data")).ok();
    symlink(&directory, mount.join("..data_tmp")).expect("a link");
    std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).expect("a link moved");
    for file in current.iter().filter(|file| !mount.join(file).exists()) {
        symlink(Path::new("..data").join(file), mount.join(file)).expect("a link");
    }
    for file in files(mount).iter().filter(|file| !current.contains(file)) {
        std::fs::remove_file(mount.join(file)).expect("a link removed");
    }
    if let Some(old) = old {
        std::fs::remove_dir_all(mount.join(old)).expect("the old directory removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f5_a_mounted_config_map_is_followed() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let manifests = manifests("shop", &first);
    let mount = tempfile::tempdir().expect("a temporary directory");
    let path = mount.path().to_str().expect("text");
    let flags = ["--reload", "directory", "--mount-path", path, "--format", "yaml", "--settle", "1s"];
    let export = Export::start(&Source::Manifests(manifests.path().into()), &flags).await;
    sync(export.path(), mount.path(), 0);
    let envoy = envoy_at(&export, mount.path()).await;
    let target = Target::http(export.http, HOST);
    served_by(&target, "first").await;
    let load = Load::start(Plan::new(target.clone(), "/")).await;

    // Each step of the export is synced separately, as if the steps took longer than the interval of the kubelet.
    let mut number = 0;
    let mut seen = export.files();
    manifests.write("shop.yaml", &shop("renamed", &second));
    wait_until("the new backend, through the mount", async || {
        let files = export.files();
        if files != seen {
            // The endpoints are written just before the cluster, in one step.
            let step = std::fs::read_to_string(export.file("clusters.yaml")).expect("clusters");
            if step.contains("renamed") {
                number += 1;
                sync(export.path(), mount.path(), number);
                seen = files;
            }
        }
        second.requests() > 0
    })
    .await;
    assert!(number >= 2, "clusters first, then routes: {number}");
    load.answers(500).await;
    let report = load.stop().await;
    println!("a mounted ConfigMap: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_a_file_system_that_tells_nothing_is_polled() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let manifests = manifests("shop", &first);
    let flags = ["--reload", "100ms", "--settle", "100ms", "--removal-grace", "500ms"];
    let export = Export::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let envoy = envoy_at(&export, export.path()).await;
    let target = Target::http(export.http, HOST);
    served_by(&target, "first").await;
    assert_eq!(envoy.inotify_instances(), 0, "nothing is watched");
    let load = Load::start(Plan::new(target.clone(), "/")).await;
    manifests.write("shop.yaml", &shop("shop", &second));
    served_by(&target, "second").await;
    manifests.write("shop.yaml", &shop("renamed", &first));
    served_by(&target, "first").await;
    wait_until("the end of the old cluster", async || envoy.stat("cluster_manager.cluster_removed").await == 1).await;
    let report = load.stop().await;
    println!("polled files: {report}");
    assert_eq!(report.failed(), 0, "{report}");

    // Without events and renames, a file that is written in place is detected too.
    let endpoints = "endpoints.default__renamed__http.json";
    let content = std::fs::read_to_string(export.file(endpoints)).expect("endpoints");
    let moved = content.replace(&first.port().to_string(), &second.port().to_string());
    export.overwrite(endpoints, &moved, false);
    served_by(&target, "second").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_more_files_than_envoy_can_watch_are_polled() {
    let backend = Backend::start("a").await;
    let manifests = manifests("shop", &backend);
    let more = |count: usize| {
        let all: Vec<_> = (0..count)
            .flat_map(|i| {
                let name = format!("more-{i}");
                [service(&name, "", &[backend.address]), ingress(&name, &format!("{name}.test"), &name, None)]
            })
            .collect();
        documents(&all)
    };
    let export = Export::start(&Source::Manifests(manifests.path().into()), &["--settle", "100ms"]).await;
    let mut envoy = envoy_at(&export, export.path()).await;
    let target = Target::http(export.http, HOST);
    served_by(&target, "a").await;
    // One each for clusters, listeners, endpoints, and routes.
    assert_eq!(envoy.inotify_instances(), 4);
    let load = Load::start(Plan::new(target, "/")).await;
    manifests.write("more.yaml", &more(200));
    served_by(&Target::http(export.http, "more-199.test"), "a").await;
    // In addition to clusters and listeners, there are the routes of the draining listener.
    wait_until("no endpoints watched", async || envoy.inotify_instances() <= 3).await;
    assert!(export.log().contains("too many files"), "{}", export.log());
    envoy.process().assert_running();
    let report = load.stop().await;
    println!("200 Services more than Envoy can watch: {report}");
    assert_eq!(report.failed(), 0, "{report}");
}
