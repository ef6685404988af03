//! The settings file: check, print, and hot reload.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use e2e::lockgate::binary;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_for, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A ConfigMap like the kubelet mounts it: the file is a link through `..data`, and a change replaces that link.
struct Mounted {
    directory: tempfile::TempDir,
    version: usize,
}

impl Mounted {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        symlink("..data/lockgate.yaml", directory.path().join("lockgate.yaml")).expect("a link");
        let mut mounted = Self { directory, version: 0 };
        mounted.write(text);
        mounted
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("lockgate.yaml")
    }

    fn write(&mut self, text: &str) {
        self.version += 1;
        let name = format!("..{}", self.version);
        let at = |name: &str| self.directory.path().join(name);
        fs::create_dir(at(&name)).expect("a directory");
        fs::write(at(&name).join("lockgate.yaml"), text).expect("a file");
        symlink(&name, at("..data_tmp")).expect("a link");
        fs::rename(at("..data_tmp"), at("..data")).expect("a link swapped");
    }
}

/// A backend whose response body consists of the chunks that the test sends.
async fn slow_backend() -> (std::net::SocketAddr, mpsc::Sender<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let (sender, mut chunks) = mpsc::channel::<&str>(8);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).await.expect("a request");
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.expect("written");
        while let Some(chunk) = chunks.recv().await {
            let framed = format!("{:x}\r\n{chunk}\r\n", chunk.len());
            stream.write_all(framed.as_bytes()).await.expect("written");
        }
        stream.write_all(b"0\r\n\r\n").await.expect("written");
        // Envoy may close the connection at any time.
        let _ = stream.read(&mut request).await;
    });
    (address, sender)
}

/// Reads from `stream` until the data contains `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(end) {
        let read = tokio::time::timeout(e2e::PATIENCE, stream.read(&mut buffer)).await.expect("bytes in time");
        let read = read.expect("a stream that lives");
        assert!(read > 0, "the stream ended after {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

/// Returns the header `x-edition` of a response, if there is a response.
async fn edition(target: &Target) -> Option<String> {
    let answer = target.get("/").await.ok()?;
    (answer.status == 200).then(|| answer.header("x-edition").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_served_at_once_and_a_bad_one_never() {
    let edited = |edition: usize| {
        format!(
            "headers:\n  response:\n    set: {{x-edition: \"{edition}\"}}\nhttp:\n  trustedHops: 1\n  \
             maxConcurrentStreams: {}\n",
            100 + edition
        )
    };
    let backend = Backend::start("shop").await;
    let (slow, chunks) = slow_backend().await;
    let manifests = Manifests::new();
    let objects = [
        ingress_class(),
        service("shop", "", &[backend.address]),
        ingress("shop", "shop.test", "shop", None),
        service("slow", "", &[slow]),
        ingress("slow", "slow.test", "slow", None),
    ];
    manifests.write("all.yaml", &documents(&objects));
    let mut mounted = Mounted::new(&edited(0));
    let (file, flags) = (mounted.file(), ["--trusted-hops", "2"]);
    let file = file.to_str().expect("a path of text");
    let mut lockgate =
        Lockgate::start(&Source::Manifests(manifests.path().to_owned()), &[&["--config", file], &flags[..]].concat())
            .await;
    let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let shop = Target::http(lockgate.http, "shop.test");
    wait_until("the first edition", async || edition(&shop).await.is_some_and(|edition| edition == "0")).await;

    // A download that never ends.
    let mut download = TcpStream::connect(("127.0.0.1", lockgate.http)).await.expect("Envoy");
    download.write_all(b"GET / HTTP/1.1\r\nhost: slow.test\r\n\r\n").await.expect("written");
    chunks.send("first").await.expect("a backend");
    read_until(&mut download, "first").await;

    // Each edition changes routes (the header) and listeners (the limit of streams).
    let mut fastest = Duration::MAX;
    for number in 1..=5 {
        let start = Instant::now();
        mounted.write(&edited(number));
        let served = async || edition(&shop).await.filter(|edition| *edition == number.to_string());
        wait_for("the next edition", served).await;
        fastest = fastest.min(start.elapsed());
        println!("edition {number} is served {:?} after it was written", start.elapsed());
    }
    assert!(fastest < Duration::from_secs(1), "an edit takes {fastest:?}");
    let text = lockgate.get("/debug/settings").await.text();
    let line = |part: &str| text.lines().find(|line| line.trim().starts_with(part)).expect("a line").to_owned();
    assert!(line("trustedHops: 2").ends_with("lockgate.yaml:5 has 1"), "{text}");
    assert!(line("set: {x-edition: \"5\"}").contains("lockgate.yaml:3"), "{text}");

    // A file with two faults. Both are reported, and nothing of the file applies.
    mounted.write(&edited(6).replace("trustedHops: 1", "trustedHops: many\n  trustedHop: 1"));
    let first = lockgate
        .logged(&["lockgate.yaml:5:16", "http.trustedHops", "many", "the previous settings stay effective"])
        .await;
    let second = lockgate.logged(&["lockgate.yaml:6:3", "http.trustedHop", "did you mean trustedHops?"]).await;
    println!("{first}\n{second}");
    assert_eq!(lockgate.metric("lockgate_settings_valid", &[]).await, 0.0);
    assert_eq!(lockgate.metric("lockgate_settings_reads_total", &["result=\"refused\""]).await, 1.0);
    assert_eq!(lockgate.get("/readyz").await.status, 200);
    let text = lockgate.get("/debug/settings").await.text();
    assert!(text.starts_with("# NOT APPLIED: ") && text.contains("x-edition: \"5\""), "{text}");
    assert_eq!(edition(&shop).await.as_deref(), Some("5"));

    // The corrected file applies.
    mounted.write(&edited(7));
    wait_until("the edition after it", async || edition(&shop).await.is_some_and(|edition| edition == "7")).await;
    assert_eq!(lockgate.metric("lockgate_settings_valid", &[]).await, 1.0);
    assert!(!lockgate.get("/debug/settings").await.text().contains("NOT APPLIED"));

    chunks.send("second").await.expect("a backend");
    drop(chunks);
    let rest = read_until(&mut download, "0\r\n\r\n").await;
    assert!(rest.contains("second"), "{rest}");
    assert_eq!(envoy.stats("update_rejected").await.values().sum::<u64>(), 0);
    lockgate.process().assert_running();
    envoy.process().assert_running();
}

/// Runs `lockgate` with these arguments.
fn lockgate(args: &[&str]) -> Output {
    Command::new(binary()).args(args).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn written(directory: &Path, text: &str) -> String {
    let file = directory.join("lockgate.yaml");
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

#[test]
fn a_file_is_checked_before_it_is_applied() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = written(directory.path(), "timeouts:\n  connect: 5\n  conect: 5s\nhttpproxy: {}\n");
    let checked = lockgate(&["config", "check", &file]);
    assert_eq!(checked.status.code(), Some(1));
    let told = stderr(&checked);
    println!("{told}");
    for part in [
        "3 faults in",
        "lockgate.yaml:2:12: timeouts.connect: \"5\" is not a valid duration",
        "lockgate.yaml:3:3: ",
        "not supported yet",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    // `lockgate serve` rejects the same files as the check.
    let served = lockgate(&["serve", "--manifests", directory.path().to_str().expect("text"), "--config", &file]);
    assert_eq!(served.status.code(), Some(2));
    assert!(stderr(&served).contains("lockgate.yaml:2:12"), "{}", stderr(&served));

    let file = written(directory.path(), "timeouts:\n  connect: 5s\n");
    let checked = lockgate(&["config", "check", &file]);
    assert!(checked.status.success() && stdout(&checked).contains("valid, 1 of its keys"), "{checked:?}");
    let missing = lockgate(&["config", "check", "/nowhere/lockgate.yaml"]);
    assert!(stderr(&missing).contains("/nowhere/lockgate.yaml: there is no such file"), "{missing:?}");
}

#[test]
fn what_holds_is_printed_as_a_file_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = written(directory.path(), "timeouts:\n  connect: 5s\n");
    let printed = lockgate(&["config", "print", "--config", &file, "--http-port", "80"]);
    let text = stdout(&printed);
    assert!(printed.status.success(), "{}", stderr(&printed));
    let has = |value: &str, origin: &str| {
        text.lines().any(|line| line.trim().starts_with(value) && line.ends_with(&format!("# {origin}")))
    };
    assert!(
        has("connect: 5s", "lockgate.yaml:2") && has("port: 80", "--http-port") && has("drain: 5s", "default"),
        "{text}"
    );
    let again = written(directory.path(), &text);
    assert!(lockgate(&["config", "check", &again]).status.success());
    let schema: serde_json::Value = serde_json::from_str(&stdout(&lockgate(&["config", "schema"]))).expect("JSON");
    assert_eq!(schema["properties"]["timeouts"]["properties"]["connect"]["default"], "2s");
}

/// A text of Envoy's program that looks like the end of a header's name: the end of the host of a mirrored request.
const NO_HEADER: &str = "-shadow";

#[test]
fn no_header_that_envoy_uses_can_be_allowed() {
    let program = fs::read(e2e::envoy::binary()).expect("the program of Envoy");
    // The names of its headers follow a prefix that is configurable: `-retry-on`.
    let is_name = |text: &&str| {
        let others = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let is_word = text.as_bytes().get(1).is_some_and(u8::is_ascii_lowercase);
        text.len() > 5 && text.starts_with('-') && is_word && others && *text != NO_HEADER
    };
    let texts = program.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let names: BTreeSet<String> = texts.filter(is_name).map(|name| format!("x-envoy{name}")).collect();
    assert!(names.len() > 50 && names.contains("x-envoy-max-retries"), "{names:?}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let list = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let file = written(directory.path(), &format!("httpProxy: {{ envoyHeaders: [{list}] }}\n"));
    let told = stderr(&lockgate(&["config", "check", &file]));
    for name in &names {
        assert!(told.contains(&format!("{name:?} is not a valid header name")), "{name} is allowed: {told}");
    }
}
