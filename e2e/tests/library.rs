//! The xDS server as a library: the program `examples/xds-server` with two real Envoys of different groups.

use e2e::process::{Process, program};
use e2e::{Backend, Envoy, Fetch, Target, ports, wait_for, wait_until};

/// Returns the program of the example, which is built beside this test.
fn example() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let target = test.parent().and_then(|deps| deps.parent()).expect("the target directory");
    program(target.join("xds-server"), "cargo build --workspace --bin xds-server")
}

/// Starts an Envoy of the group `cluster`.
fn envoy(fetch: Fetch, xds: u16, cluster: &str) -> Envoy {
    let admin = ports::free();
    let mut bootstrap = fetch.bootstrap(xds, admin);
    bootstrap["node"]["cluster"] = cluster.into();
    Envoy::launch_with(&bootstrap.to_string(), admin)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_of_envoys_are_served_differently() {
    let backend = Backend::start("web").await;
    let [xds, blue_port, green_port] = [(); 3].map(|()| ports::free());
    let logs = tempfile::tempdir().expect("a temporary directory");
    let args = [
        format!("127.0.0.1:{xds}"),
        backend.address.to_string(),
        format!("blue={blue_port}"),
        format!("green={green_port}"),
    ];
    let mut server = Process::start("xds-server", &example(), &args, &logs.path().join("log"));
    let mut envoys = [envoy(Fetch::AdsDelta, xds, "blue"), envoy(Fetch::AdsSotw, xds, "green")];
    for envoy in &mut envoys {
        envoy.wait_ready().await;
    }

    // Each group has its own routes, and receives each change of them.
    let by_routes = async |port: u16| {
        let answer = Target::http(port, "any.test").get("/").await.ok().filter(|answer| answer.status == 200)?;
        assert_eq!(answer.text(), "web", "the cluster is common to both");
        Some(answer.header("x-routes").to_owned())
    };
    for (group, port) in [("blue ", blue_port), ("green ", green_port)] {
        let (first, _) = wait_for("an answer", async || by_routes(port).await).await;
        assert!(first.starts_with(group), "{group}: {first:?}");
        let changed = async || by_routes(port).await.is_some_and(|now| now != first && now.starts_with(group));
        wait_until("the next change of the routes", changed).await;
    }
    for (envoy, other) in envoys.iter().zip([green_port, blue_port]) {
        let listeners = envoy.get("/listeners?format=json").await.text();
        assert!(!listeners.contains(&other.to_string()), "{listeners}");
    }

    // An Envoy without a group is refused and receives nothing.
    let mut stranger = envoy(Fetch::AdsDelta, xds, "red");
    stranger.wait_answering().await;
    wait_until("the refusal", async || {
        let log = server.log();
        let opened = log.lines().find_map(|line| line.strip_suffix(" of red")?.split(':').next());
        opened.is_some_and(|stream| log.contains(&format!("{stream}: closed: a request was refused")))
    })
    .await;
    assert_eq!(stranger.stat("cluster_manager.active_clusters").await, 1, "the one to the server");
    assert_eq!(stranger.stat("cluster_manager.cds.update_success").await, 0);

    // The hooks have printed their lines, and the program exits cleanly.
    let printed = server.log();
    for expected in ["of blue", "of green", "asked for", "sent type.googleapis.com/", "Acked"] {
        assert!(printed.contains(expected), "{expected:?} is not in\n{printed}");
    }
    assert!(!printed.contains("Nacked"), "{printed}");
    server.signal("INT");
    assert!(server.ended().await.success(), "{}", server.tail());
}
