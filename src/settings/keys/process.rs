//! Keys of the controller's process itself.

use super::Restart::Controller;
use super::*;

/// In the order of the reference.
pub const PROCESS: &[Key] = &[
    key!(
        "watch.namespaces",
        List<Namespace>,
        process.watch.namespaces,
        "Take objects of these namespaces only; of all if the list is empty.",
        Controller
    ),
    key!("xds.address", Socket, process.xds.address, "Where it listens.", Controller),
    key!(
        "xds.tls",
        Maybe<Certificates>,
        process.xds.tls,
        "By which certificates Envoy and the controller know each other. `auto`: the controller has an authority of its \
         own, and keeps it and the key pairs in Secrets; a directory: its files `tls.crt`, `tls.key` and `ca.crt`, taken \
         up anew when they change; `off`: none, in clear text to everybody. If not set it is `auto` in a pod, else clear \
         text to this machine only.",
        Controller
    ),
    key!(
        "xds.envoyNames",
        List<Identity>,
        process.xds.envoy_names,
        "Names in the certificates of Envoys, which get everything, private keys included: DNS names or URIs, in which \
         `*` stands for any part of one label or segment. A lone `*` accepts every certificate of the authority. With \
         `xds.tls: auto` the name that the controller issues is always accepted; with a directory, an empty list stands \
         for the DNS name `envoy`.",
        Controller
    ),
    key!(
        "xds.grpcNames",
        List<Identity>,
        process.xds.grpc_names,
        "Names in the certificates of gRPC clients without a proxy. They get listeners, routes, clusters and endpoints, \
         and no secrets.",
        Controller
    ),
    key!(
        "xds.replicaNames",
        List<Identity>,
        process.xds.replica_names,
        "Names in the certificates of the controller's replicas, which ask each other by `xds.peers`. If the list is \
         empty, the names in the controller's own certificate: replicas have the same.",
        Controller
    ),
    key!(
        "xds.secrets",
        Name,
        process.xds.secrets,
        "With `xds.tls: auto`: what the names of the Secrets begin with, to which `-ca`, `-server` and `-envoy` are \
         added. They are in the namespace of the controller's pod.",
        Controller
    ),
    key!(
        "xds.service",
        Name,
        process.xds.service,
        "With `xds.tls: auto`: the Service by which Envoy finds the controller.",
        Controller
    ),
    key!(
        "xds.certificateLifetime",
        Time,
        process.xds.certificate_lifetime,
        "With `xds.tls: auto`: how long a key pair is good; it is renewed when a third of that is left. At least 6 times \
         `xds.rotationPause`.",
        Controller
    ),
    key!(
        "xds.caLifetime",
        Time,
        process.xds.authority_lifetime,
        "With `xds.tls: auto`: how long the authority is good; it is replaced when a third of that is left. At least 4 \
         times `xds.certificateLifetime`.",
        Controller
    ),
    key!(
        "xds.rotationPause",
        Time,
        process.xds.rotation_pause,
        "With `xds.tls: auto`: how long a change of a Secret may take to reach the mounts of all pods. A new authority \
         waits so long before it issues, and the old one before it goes.",
        Controller
    ),
    key!(
        "xds.gateTimeout",
        Time,
        process.xds.gate_timeout,
        "How long routes wait for Envoy to confirm the clusters behind them.",
        Controller
    ),
    key!(
        "xds.removalGrace",
        Wait,
        process.xds.removal_grace,
        "How long a cluster stays after the last route to it is gone, for requests under way.",
        Controller
    ),
    key!(
        "xds.maxConnectionAge",
        Limit,
        process.xds.connection_age,
        "How old an Envoy's connection gets: then its streams end in good order and it connects anew, to any replica. A \
         tenth more or less by chance.",
        Controller
    ),
    key!(
        "xds.maxConnections",
        Connections,
        process.xds.connections,
        "How many connections are served at a time, one address at most half of them; fewer if the system allows fewer \
         open files.",
        Controller
    ),
    key!(
        "xds.peers",
        Maybe<HostPort>,
        process.xds.peers,
        "A name whose addresses are the xDS ports of all replicas (a headless Service): they ask each other what their \
         Envoys have accepted, for the status of Ingresses, and over TLS for last good key pairs. This is the only replica if not set.",
        Controller
    ),
    key!(
        "admin.address",
        Socket,
        process.admin.address,
        "Where `/healthz`, `/readyz`, `/metrics` and `/debug/` are; `/debug/` answers this machine only. `lockgate \
         export` listens there only if it is set.",
        Controller
    ),
    key!(
        "metrics.address",
        Maybe<Socket>,
        process.metrics.address,
        "Where `/metrics` is, instead of `admin.address`.",
        Controller
    ),
    key!(
        "metrics.tls",
        Maybe<Directory>,
        process.metrics.tls,
        "A directory with `tls.crt` and `tls.key`, by which `metrics.address` is served by TLS. If `ca.crt` is among them, \
         clients have to show a certificate of an authority in it. New files are taken up when they appear. In clear text if \
         not set.",
        Controller
    ),
    key!("log.format", Word<telemetry::Format>, process.log.format, "How log lines are written.", Controller),
    key!(
        "log.level",
        LogFilter,
        process.log.level,
        "What is logged: `off`, `error`, `warn`, `info`, `debug`, `trace`, or by target, such as \
         `info,lockgate_xds=debug`. A change holds at once; `/debug/log` changes it too, until this key is changed."
    ),
    key!(
        "leaderElection.enabled",
        Maybe<Bool>,
        process.leader_election.enabled,
        "Whether the replicas elect the one that writes; `false`: this is the only replica, and writes. If not set it is \
         `true` in a pod; elsewhere nothing is written.",
        Controller
    ),
    key!(
        "leaderElection.lease",
        Name,
        process.leader_election.lease,
        "The Lease of the replicas of this installation, in their own namespace.",
        Controller
    ),
    key!(
        "leaderElection.leaseDuration",
        Seconds,
        process.leader_election.lease_duration,
        "How long the others wait, after the last renewal, before one of them takes the Lease from a leader that is away.",
        Controller
    ),
    key!(
        "leaderElection.renewDeadline",
        Seconds,
        process.leader_election.renew_deadline,
        "How long the leader writes after its last renewal. Less than `leaderElection.leaseDuration`: in between nobody \
         writes, for clocks do not run alike.",
        Controller
    ),
    key!(
        "leaderElection.retryPeriod",
        Seconds,
        process.leader_election.retry_period,
        "How often the leader renews, and the others look. Less than `leaderElection.renewDeadline`.",
        Controller
    ),
];
