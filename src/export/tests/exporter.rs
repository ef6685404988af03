//! The conversion of snapshots to files, and back after a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lockgate_xds::snapshot::Store;
use tokio::sync::watch;

use super::*;
use crate::export::{EnvoyDirectory, ExportOptions, ExportTiming, Exporter, FileFormat, Reload};

const FORMATS: [FileFormat; 4] = [FileFormat::Pb, FileFormat::Json, FileFormat::Yaml, FileFormat::PbText];

fn options(directory: &Path, format: FileFormat) -> ExportOptions {
    ExportOptions {
        directory: directory.to_owned(),
        place: EnvoyDirectory { directory: "/run/envoy".into(), format, reload: Reload::Rename },
        watch_limit: 4,
        timing: ExportTiming { settle: Duration::from_millis(20), removal_grace: Duration::from_millis(20) },
    }
}

fn shop(name: &str) -> Vec<Resource> {
    vec![cluster(name), endpoints(name, 1), routes("web", name), listener("web", "web")]
}

/// Writes `resources` and returns the content of all files.
async fn export(options: ExportOptions, resources: Vec<Resource>) -> BTreeMap<String, Vec<u8>> {
    let (store, directory) = (Store::default(), options.directory.clone());
    store.replace(resources);
    Exporter::open(options).unwrap().run(store.subscribe(), true).await.unwrap();
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let files = files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()));
    files.filter(|(name, _)| !name.starts_with('.')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_every_format_says_the_same_and_is_read_back() {
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::default();
        store.replace(shop("a/b"));
        let version = store.newest().unwrap().version(ResourceType::CLUSTER).to_string();
        let files = export(options(directory.path(), format), shop("a/b")).await;
        let suffix = format.suffix();
        let expected = ["clusters", "endpoints.a__b", "listeners", "routes.web"].map(|name| format!("{name}{suffix}"));
        assert_eq!(files.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        let response = format.read(&files[&expected[0]]).unwrap();
        let json = protobuf::to_json("envoy.service.discovery.v3.DiscoveryResponse", &response);
        assert_eq!(json["version_info"], version, "the version of the snapshot");
        assert_eq!(json["type_url"], ResourceType::CLUSTER.url());
        assert_eq!(json["resources"][0]["name"], "a/b");
        // A second process starts after a rename: it knows the old cluster, and removes it in the end.
        let files = export(options(directory.path(), format), shop("c")).await;
        let expected = ["clusters", "endpoints.c", "listeners", "routes.web"].map(|name| format!("{name}{suffix}"));
        assert_eq!(files.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        assert_eq!(format.read(&files[&expected[0]]).unwrap().windows(3).filter(|part| part == b"a/b").count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_file_that_somebody_broke_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let good = export(options(directory.path(), FileFormat::Json), shop("a")).await;
    std::fs::write(directory.path().join("clusters.json"), "{").unwrap();
    std::fs::write(directory.path().join("routes.web.json"), "").unwrap();
    assert_eq!(export(options(directory.path(), FileFormat::Json), shop("a")).await, good);
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_more_files_than_envoy_can_watch_are_polled() {
    let directory = tempfile::tempdir().unwrap();
    let few = export(options(directory.path(), FileFormat::Json), shop("a")).await;
    assert!(!String::from_utf8_lossy(&few["clusters.json"]).contains("poll_interval"));
    let directory = tempfile::tempdir().unwrap();
    let many = (0..4).map(|i| endpoints(&i.to_string(), 1)).chain(shop("a")).collect();
    let many = export(options(directory.path(), FileFormat::Json), many).await;
    for file in ["clusters.json", "listeners.json"] {
        assert!(String::from_utf8_lossy(&many[file]).contains(r#""poll_interval": "1s""#), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_ends_only_a_single_export() {
    let directory = tempfile::tempdir().unwrap();
    // A directory takes the place of a file.
    std::fs::create_dir(directory.path().join("endpoints.a.pb")).unwrap();
    let store = Store::default();
    let open = || Exporter::open(options(directory.path(), FileFormat::Pb));
    let error = open().err().unwrap().to_string();
    assert!(error.contains("endpoints.a.pb"), "{error}");
    std::fs::remove_dir(directory.path().join("endpoints.a.pb")).unwrap();
    let (once, on) = (open().unwrap(), tempfile::tempdir().unwrap());
    store.replace(shop("a"));
    std::fs::create_dir(directory.path().join("endpoints.a.pb")).unwrap();
    let error = once.run(store.subscribe(), true).await.unwrap_err().to_string();
    assert!(error.contains("cannot rename a file to") && error.contains("endpoints.a.pb"), "{error}");

    // An exporter without `once` continues, and succeeds when possible.
    let exporter = Exporter::open(options(on.path(), FileFormat::Pb)).unwrap();
    std::fs::create_dir(on.path().join("endpoints.a.pb")).unwrap();
    let (end, snapshots) = watch::channel(store.newest());
    let running = tokio::spawn(exporter.run(snapshots, false));
    std::fs::remove_dir(on.path().join("endpoints.a.pb")).unwrap();
    let start = std::time::Instant::now();
    while !on.path().join("listeners.pb").exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "no listeners");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(end);
    running.await.unwrap().unwrap();
}
