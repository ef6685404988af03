#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;

use lockgate_route::objects::{Kind, Objects, Service};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;

/// A watched directory and the accumulated effect of its events.
struct Lab {
    dir: TempDir,
    events: mpsc::Receiver<Event>,
    objects: Objects,
    faults: Vec<String>,
}

impl Lab {
    /// Watches a directory that already contains `files`.
    async fn with(files: &[(&str, String)]) -> Self {
        Self::patient(files, DELAYS).await
    }

    async fn patient(files: &[(&str, String)], delays: Delays) -> Self {
        Self::start(files, "", delays).await
    }

    /// Watches the file `name` of a directory that contains `files`.
    async fn file(files: &[(&str, String)], name: &str) -> Self {
        Self::start(files, name, DELAYS).await
    }

    async fn start(files: &[(&str, String)], name: &str, delays: Delays) -> Self {
        let dir = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let path = if name.is_empty() { dir.path().to_path_buf() } else { dir.path().join(name) };
        let (sender, events) = mpsc::channel(64);
        tokio::spawn(watch::<Object>(path, sender, delays));
        let mut lab = Self { dir, events, objects: Objects::default(), faults: Vec::new() };
        let mut listed = Vec::new();
        while listed.len() < Kind::ALL.len() {
            listed.extend(lab.step().await);
        }
        assert_eq!(listed, Kind::ALL);
        lab
    }

    /// Receives one event. Returns the kinds that it lists.
    async fn step(&mut self) -> Vec<Kind> {
        let event = timeout(Duration::from_secs(10), self.events.recv()).await.expect("no event").expect("ended");
        self.take(event)
    }

    fn take(&mut self, event: Event) -> Vec<Kind> {
        match event {
            Event::Together(events) => return events.into_iter().flat_map(|event| self.take(event)).collect(),
            Event::Listed(kind, objects) => {
                self.objects.replace(kind, objects);
                return vec![kind];
            }
            Event::Applied(object) => {
                self.objects.apply(object);
            }
            Event::Deleted(kind, key) => {
                self.objects.delete(kind, &key);
            }
            Event::Fault { origin, message, .. } => self.faults.push(format!("{origin}: {message}")),
            Event::Healed(origin) => self.faults.push(format!("{origin}: healed")),
            other => panic!("{other:?}"),
        }
        Vec::new()
    }

    fn services(&self) -> Vec<String> {
        self.objects
            .all::<Service>()
            .map(|service| format!("{}:{}", service.meta.key.name, service.ports[0].port))
            .collect()
    }

    async fn until_services(&mut self, expected: &[&str]) {
        while self.services() != expected {
            self.step().await;
        }
    }

    async fn until_fault(&mut self, expected: &str) {
        while !self.faults.iter().any(|fault| fault == expected) {
            self.step().await;
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}

fn service(name: &str, port: u16) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n---\n")
}

#[tokio::test]
async fn a_single_file_is_followed_without_the_files_beside_it() {
    let mut lab = Lab::file(&[("a", service("a", 1)), ("b.yaml", service("b", 1))], "a").await;
    assert_eq!(lab.services(), ["a:1"]);
    lab.write("b.yaml", &service("b", 2));
    lab.write("a", &service("a", 2));
    lab.until_services(&["a:2"]).await;
    lab.write("new", &service("a", 3));
    fs::rename(lab.path("new"), lab.path("a")).unwrap();
    lab.until_services(&["a:3"]).await;
    fs::remove_file(lab.path("a")).unwrap();
    lab.until_services(&[]).await;
    lab.write("a", &service("c", 1));
    lab.until_services(&["c:1"]).await;
    assert!(lab.faults.iter().all(|fault| !fault.contains("b.yaml")), "{:?}", lab.faults);
}

#[tokio::test]
async fn a_saved_file_is_one_event() {
    let mut lab = Lab::with(&[("a.yaml", service("a", 1) + &service("b", 1))]).await;
    lab.write("a.yaml", &(service("c", 1) + &service("d", 1)));
    let event = lab.events.recv().await.unwrap();
    assert!(matches!(&event, Event::Together(events) if events.len() == 4), "{event:?}");
    lab.take(event);
    assert_eq!(lab.services(), ["c:1", "d:1"]);
}

#[tokio::test]
async fn files_come_change_and_go() {
    let mut lab =
        Lab::with(&[("a.yaml", service("a", 1)), ("note.txt", "x".into()), (".b.yaml", service("b", 1))]).await;
    assert_eq!(lab.services(), ["a:1"]);
    lab.write("a.yaml", &(service("a", 2) + &service("c", 1)));
    lab.until_services(&["a:2", "c:1"]).await;
    lab.write(
        "d.json",
        r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}, "spec": {"ports": [{"port": 4}]}}"#,
    );
    lab.until_services(&["a:2", "c:1", "d:4"]).await;
    fs::remove_file(lab.path("a.yaml")).unwrap();
    lab.until_services(&["d:4"]).await;
    assert!(lab.faults.is_empty(), "{:?}", lab.faults);
}

#[tokio::test]
async fn a_change_is_read_when_its_writer_closes_the_file() {
    // The other occasion is an hour later.
    let delays = Delays { held_open: Duration::from_secs(3600), ..DELAYS };
    let mut lab = Lab::patient(&[("a.yaml", service("a", 1))], delays).await;
    for port in 2..12 {
        lab.write("a.yaml", &service("a", port));
        lab.until_services(&[&format!("a:{port}")]).await;
    }
}

#[tokio::test]
async fn a_rename_into_place_and_a_subdirectory_are_seen() {
    let mut lab = Lab::with(&[("a.yaml", service("a", 1))]).await;
    lab.write(".a.yaml.new", &service("a", 2));
    fs::rename(lab.path(".a.yaml.new"), lab.path("a.yaml")).unwrap();
    lab.until_services(&["a:2"]).await;
    fs::create_dir_all(lab.path("x/y")).unwrap();
    lab.write("x/y/b.yaml", &service("b", 1));
    lab.until_services(&["a:2", "b:1"]).await;
    fs::rename(lab.path("x"), lab.path("z")).unwrap();
    lab.write("z/y/b.yaml", &service("b", 2));
    lab.until_services(&["a:2", "b:2"]).await;
    fs::remove_dir_all(lab.path("z")).unwrap();
    lab.until_services(&["a:2"]).await;
}

#[tokio::test]
async fn an_editor_that_moves_the_old_file_away_first_takes_nothing_away() {
    let delays = Delays { gone: Duration::from_secs(60), ..DELAYS };
    let mut lab = Lab::patient(&[("a.yaml", service("a", 1))], delays).await;
    for port in 2..20 {
        fs::rename(lab.path("a.yaml"), lab.path("a.yaml~")).unwrap();
        lab.write("a.yaml", &service("a", port));
        fs::remove_file(lab.path("a.yaml~")).unwrap();
        lab.step().await;
        assert_eq!(lab.services(), [format!("a:{port}")]);
    }
}

#[tokio::test]
async fn a_file_that_is_being_written_is_not_read_half() {
    use std::io::Write;
    let delays = Delays { held_open: Duration::from_secs(60), ..DELAYS };
    let mut lab = Lab::patient(&[("a.yaml", service("a", 1) + &service("b", 1))], delays).await;
    let mut file = fs::File::create(lab.path("a.yaml")).unwrap();
    file.write_all(service("a", 2).as_bytes()).unwrap();
    file.sync_all().unwrap();
    // Meanwhile, the change of another file is read.
    lab.write("c.yaml", &service("c", 1));
    lab.until_services(&["a:1", "b:1", "c:1"]).await;
    file.write_all(service("b", 2).as_bytes()).unwrap();
    drop(file);
    lab.until_services(&["a:2", "b:2", "c:1"]).await;
}

#[tokio::test]
async fn a_mounted_config_map_is_swapped_as_a_whole() {
    let dir = TempDir::new().unwrap();
    let version = |n: u16| {
        let versioned = dir.path().join(format!("..v{n}"));
        fs::create_dir(&versioned).unwrap();
        fs::write(versioned.join("a.yaml"), service("a", n)).unwrap();
        symlink(format!("..v{n}"), dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    version(1);
    symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
    let (sender, events) = mpsc::channel(64);
    tokio::spawn(watch_manifests(dir.path().to_path_buf(), sender));
    let empty = TempDir::new().unwrap();
    let mut lab = Lab { dir: empty, events, objects: Objects::default(), faults: Vec::new() };
    lab.until_services(&["a:1"]).await;
    version(2);
    lab.until_services(&["a:2"]).await;
}

#[tokio::test]
async fn the_previous_content_of_a_faulty_file_stays() {
    let mut lab = Lab::with(&[("a.yaml", service("a", 1) + &service("b", 1))]).await;
    lab.write("a.yaml", &(service("a", 2) + &service("b", 0) + &service("c", 1)));
    lab.until_fault(
        "File a.yaml: document 2, line 9: spec.ports[0].port: 0 is not between 1 and 65535 (Service default/b); \
         its previous content stays",
    )
    .await;
    lab.until_services(&["a:2", "b:1", "c:1"]).await;
    lab.write("a.yaml", "kind: [");
    while lab.faults.len() < 2 {
        lab.step().await;
    }
    assert!(lab.faults[1].contains("document 1, line 1"), "{}", lab.faults[1]);
    assert_eq!(lab.services(), ["a:2", "b:1", "c:1"]);
    lab.write("a.yaml", &service("b", 3));
    lab.until_services(&["b:3"]).await;
    lab.until_fault("File a.yaml: healed").await;
}

#[tokio::test]
async fn a_fault_without_previous_content_is_left_out() {
    let mut lab = Lab::with(&[("a.yaml", service("a", 0) + &service("b", 1)), ("b.yaml", "kind: [".to_owned())]).await;
    assert_eq!(lab.services(), ["b:1"]);
    assert!(
        lab.faults[0].ends_with("0 is not between 1 and 65535 (Service default/a); it is left out"),
        "{}",
        lab.faults[0]
    );
    assert!(lab.faults[1].ends_with("; it is left out"), "{}", lab.faults[1]);
    lab.write("a.yaml", &(service("a", 1) + &service("b", 1)));
    lab.until_services(&["a:1", "b:1"]).await;
    lab.write("a.yaml", &(service("a", 0) + &service("b", 1)));
    let stays = lab.faults[0].replace("it is left out", "its previous content stays");
    lab.until_fault(&stays).await;
}

#[tokio::test]
async fn an_object_in_two_files_is_taken_from_the_first() {
    let mut lab = Lab::with(&[("a.yaml", service("x", 1)), ("b.yaml", service("x", 2))]).await;
    assert_eq!(lab.services(), ["x:1"]);
    assert_eq!(lab.faults, ["File b.yaml: Service default/x is also in a.yaml; the one there is taken"]);
    fs::remove_file(lab.path("a.yaml")).unwrap();
    lab.until_services(&["x:2"]).await;
    lab.until_fault("File b.yaml: healed").await;
    lab.write("a.yaml", &service("x", 3));
    lab.until_services(&["x:3"]).await;
}

#[tokio::test]
async fn a_missing_directory_is_an_error_that_says_so() {
    let dir = TempDir::new().unwrap();
    let (sender, _events) = mpsc::channel(1);
    let error = watch_manifests(dir.path().join("none"), sender).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot read the directory \"") && error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn a_directory_that_vanishes_keeps_what_it_gave_until_it_is_back() {
    let outer = TempDir::new().unwrap();
    let root = outer.path().join("conf");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.yaml"), service("a", 1)).unwrap();
    let (sender, events) = mpsc::channel(64);
    tokio::spawn(watch_manifests(root.clone(), sender));
    let mut lab = Lab { dir: outer, events, objects: Objects::default(), faults: Vec::new() };
    lab.until_services(&["a:1"]).await;
    fs::rename(&root, lab.path("moved")).unwrap();
    while lab.faults.is_empty() {
        lab.step().await;
    }
    assert_eq!(lab.services(), ["a:1"]);
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a.yaml"), service("a", 2)).unwrap();
    lab.until_services(&["a:2"]).await;
    lab.until_fault("File .: healed").await;
}

#[tokio::test]
async fn resources_are_watched_alike() {
    let endpoints = |name: &str| {
        format!(
            "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: {name}\n---\n"
        )
    };
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.yaml"), endpoints("a")).unwrap();
    let (sender, mut events) = mpsc::channel(64);
    tokio::spawn(watch_resources(dir.path().to_path_buf(), sender));
    let mut next = async || timeout(Duration::from_secs(10), events.recv()).await.expect("no event").expect("ended");
    let Event::ResourcesListed(listed) = next().await else { panic!("not a list") };
    assert_eq!(listed.len(), 1);
    fs::write(dir.path().join("a.yaml"), endpoints("b")).unwrap();
    let Event::ResourcesChanged { applied, removed } = next().await else { panic!("not a change") };
    assert_eq!((&**applied[0].name(), &*removed[0].1), ("b", "a"));
    fs::write(dir.path().join("a.yaml"), "x: 1").unwrap();
    assert!(matches!(next().await, Event::Fault { .. }));
}
