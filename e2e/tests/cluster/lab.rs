//! The features of the lab that other specs depend on: mounted files that change, probes, sidecars, drains, and
//! restarts of the API server.

use e2e::Lab;
use e2e::lab::{Namespace, Pod, echo};

/// Formats a Deployment of one pod from the fields of its spec, in YAML.
fn deployment(name: &str, replicas: u32, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: {name} }}\nspec:\n  replicas: {replicas}\n  selector: {{ \
         matchLabels: {{ app: {name} }} }}\n  template:\n    metadata: {{ labels: {{ app: {name} }} }}\n    spec:\n{spec}---\n"
    )
}

/// Waits until the last log line of a container is `line`.
async fn wait_for_last_line(namespace: &Namespace<'_>, pod: &str, container: &str, line: &str) {
    let last = async || {
        let log = namespace.lab().logs(&namespace.name, pod, container).await;
        (log.lines().last() == Some(line)).then_some(())
    };
    namespace.lab().until(&format!("{container} to say {line:?}"), last).await;
}

async fn only_pod(namespace: &Namespace<'_>, labels: &str) -> Pod {
    let pods = namespace.pods(labels).await;
    let [pod] = &pods[..] else { panic!("one pod, not {pods:?}") };
    pod.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn mounted_files_follow_their_config_map_and_secret() {
    let lab = Lab::shared().await;
    let space = lab.namespace("mounts").await;
    let spec = "volumes:
- { name: map, configMap: { name: map } }
- { name: late, secret: { secretName: late, optional: true } }
containers:
- name: main
  image: none
  command: [sh, -c, 'cd /tmp/lockgate-mounts; while :; do echo $(cat map/word) $(cat late/word 2>/dev/null) $(cat one); sleep 0.1; done']
  volumeMounts:
  - { name: map, mountPath: /tmp/lockgate-mounts/map }
  - { name: late, mountPath: /tmp/lockgate-mounts/late }
  - { name: map, mountPath: /tmp/lockgate-mounts/one, subPath: word }";
    space.apply(&deployment("reader", 1, spec)).await;
    space.kubectl(&["create", "configmap", "map", "--from-literal=word=first"], "").await;
    space.rolled_out("deployment/reader").await;
    let pod = only_pod(&space, "app=reader").await.name;
    wait_for_last_line(&space, &pod, "main", "first first").await;
    // As with the kubelet, a file that is mounted individually does not change.
    space.kubectl(&["patch", "configmap", "map", "--patch", r#"{"data":{"word":"second"}}"#], "").await;
    wait_for_last_line(&space, &pod, "main", "second first").await;
    space.kubectl(&["create", "secret", "generic", "late", "--from-literal=word=secret"], "").await;
    wait_for_last_line(&space, &pod, "main", "second secret first").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_liveness_probe_is_restarted() {
    let lab = Lab::shared().await;
    let space = lab.namespace("liveness").await;
    let spec = "containers:
- name: main
  image: none
  command: [sh, -c, 'trap \"exit 0\" TERM; while :; do sleep 0.1; done']
  livenessProbe: { exec: { command: [sh, -c, 'test ! -e /tmp/lockgate-liveness/dead'] }, periodSeconds: 1, failureThreshold: 2 }
  volumeMounts: [{ name: state, mountPath: /tmp/lockgate-liveness }]
- name: other
  image: none
  command: [sh, -c, 'sleep 1; touch /tmp/lockgate-liveness/dead; exec sleep 1000']
  volumeMounts: [{ name: state, mountPath: /tmp/lockgate-liveness }]
volumes: [{ name: state, emptyDir: {} }]";
    space.apply(&deployment("mortal", 1, spec)).await;
    space.rolled_out("deployment/mortal").await;
    let restarted = async || (only_pod(&space, "app=mortal").await.restarts > 0).then_some(());
    lab.until("a restart", restarted).await;
    assert!(space.kubectl(&["get", "events"], "").await.contains("Liveness probe of main failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_starts_before_the_others_and_ends_after_them() {
    let lab = Lab::shared().await;
    let space = lab.namespace("sidecar").await;
    let spec = "terminationGracePeriodSeconds: 20
volumes: [{ name: state, emptyDir: {} }, { name: end, hostPath: { path: /tmp/lockgate-NAMESPACE } }]
initContainers:
- name: side
  image: none
  restartPolicy: Always
  command: [sh, -c, 'sleep 0.5; trap \"cp /tmp/lockgate-sidecar/main /tmp/lockgate-end/main; exit 0\" TERM; touch /tmp/lockgate-sidecar/up; while :; do sleep 0.1; done']
  startupProbe: { exec: { command: [cat, /tmp/lockgate-sidecar/up] } }
  volumeMounts: [{ name: state, mountPath: /tmp/lockgate-sidecar }, { name: end, mountPath: /tmp/lockgate-end }]
containers:
- name: main
  image: none
  command: [sh, -c, 'cat /tmp/lockgate-sidecar/up || exit 1; trap \"sleep 1; echo over > /tmp/lockgate-sidecar/main; exit 0\" TERM; touch /tmp/lockgate-sidecar/set; while :; do sleep 0.1; done']
  readinessProbe: { exec: { command: [cat, /tmp/lockgate-sidecar/set] } }
  volumeMounts: [{ name: state, mountPath: /tmp/lockgate-sidecar }]";
    space.apply(&deployment("pair", 1, &spec.replace("NAMESPACE", &space.name))).await;
    space.rolled_out("deployment/pair").await;
    assert_eq!(only_pod(&space, "app=pair").await.restarts, 0, "the sidecar came first");
    space.kubectl(&["delete", "deployment", "pair"], "").await;
    lab.until("the end of the pod", async || space.pods("app=pair").await.is_empty().then_some(())).await;
    let end = std::path::Path::new("/tmp").join(format!("lockgate-{}", space.name));
    assert_eq!(std::fs::read_to_string(end.join("main")).expect("what the sidecar kept"), "over\n");
    std::fs::remove_dir_all(end).expect("a directory removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_is_left() {
    let lab = Lab::alone().await;
    let space = lab.namespace("drain").await;
    space.apply(&echo("echo").replicas(2).yaml()).await;
    space.endpoints("echo", 2).await;
    let mut nodes: Vec<String> = space.pods("app=echo").await.into_iter().map(|pod| pod.node).collect();
    nodes.sort();
    assert_eq!(nodes, ["node-1", "node-2"], "pods of a Deployment are spread");
    lab.drain("node-2").await;
    let moved = async || {
        let pods = space.pods("app=echo").await;
        (pods.len() == 2 && pods.iter().all(|pod| pod.node == "node-1" && pod.ready)).then_some(())
    };
    lab.until("both pods on the other node", moved).await;
    lab.kubectl(&["uncordon", "node-2"], "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_outlive_the_api_server() {
    let lab = Lab::alone().await;
    let space = lab.namespace("outage").await;
    space.apply(&echo("echo").yaml()).await;
    space.endpoints("echo", 1).await;
    let before = only_pod(&space, "app=echo").await;
    let process = lab.process_of(&space.name, &before.name, "echo");
    lab.stop("kube-apiserver", "KILL").await;
    lab.stop("etcd", "TERM").await;
    assert!(lab.try_kubectl(&["get", "nodes", "--request-timeout=2s"], "").await.is_err());
    lab.start("etcd").await;
    lab.start("kube-apiserver").await;
    assert_eq!(only_pod(&space, "app=echo").await, before);
    assert_eq!(lab.process_of(&space.name, &before.name, "echo"), process);
    // The nodes also start new pods.
    space.kubectl(&["scale", "deployment/echo", "--replicas=2"], "").await;
    space.endpoints("echo", 2).await;
}
