//! Keys of the controller process.

use super::Restart::Controller;
use super::*;

/// In the order of the reference.
pub const PROCESS: &[SettingsKey] = &[
    key!(
        "watch.namespaces",
        List<Namespace>,
        process.watch.namespaces,
        "The watched namespaces. All namespaces if the list is empty.",
        Controller
    ),
    key!(
        "watch.gatewayApi",
        Bool,
        process.watch.gateway_api,
        "Watches the kinds of Gateway API. Nothing waits for them while their CustomResourceDefinitions are not \
         installed.",
        Controller
    ),
    key!("xds.address", Socket, process.xds.address, "The address of the xDS server.", Controller),
    key!(
        "xds.tls",
        Maybe<Certificates>,
        process.xds.tls,
        "The certificates with which Envoy and the controller authenticate each other (mTLS). `auto`: the controller \
         creates a CA, and stores it and the key pairs in Secrets. A directory: its files `tls.crt`, `tls.key`, and \
         `ca.crt`, which are reloaded when they change. `off`: no certificates, plain text to every client. If not \
         set, `auto` in a pod, otherwise plain text to clients on this machine only.",
        Controller
    ),
    key!(
        "xds.envoyNames",
        List<Identity>,
        process.xds.envoy_names,
        "The names in the certificates of Envoys, which receive all resources, including private keys: DNS names or \
         URIs, in which `*` stands for any part of one label or segment. A single `*` accepts every certificate of \
         the CA. With `xds.tls: auto`, the name that the controller issues is always accepted. With a directory, an \
         empty list stands for the DNS name `envoy`.",
        Controller
    ),
    key!(
        "xds.grpcNames",
        List<Identity>,
        process.xds.grpc_names,
        "The names in the certificates of gRPC clients without a proxy. They receive listeners, routes, clusters, \
         and endpoints, but no secrets.",
        Controller
    ),
    key!(
        "xds.replicaNames",
        List<Identity>,
        process.xds.replica_names,
        "The names in the certificates of the controller's replicas, which query each other at `xds.peers`. If the \
         list is empty, the names in the controller's own certificate, which all replicas share.",
        Controller
    ),
    key!(
        "xds.secrets",
        Name,
        process.xds.secrets,
        "With `xds.tls: auto`: the prefix of the names of the Secrets, which end with `-ca`, `-server`, `-envoy`, and, \
         with dedicated fleets, `-fleets`. They are in the namespace of the controller's pod.",
        Controller
    ),
    key!(
        "xds.service",
        Name,
        process.xds.service,
        "With `xds.tls: auto`: the Service with which Envoy finds the controller.",
        Controller
    ),
    key!(
        "xds.certificateLifetime",
        Time,
        process.xds.certificate_lifetime,
        "With `xds.tls: auto`: the validity of a key pair, which is renewed when a third of this time remains. At \
         least 12 times `xds.rotationPause`.",
        Controller
    ),
    key!(
        "xds.caLifetime",
        Time,
        process.xds.authority_lifetime,
        "With `xds.tls: auto`: the validity of the CA, which is replaced when a third of this time remains. At least \
         4 times `xds.certificateLifetime`.",
        Controller
    ),
    key!(
        "xds.rotationPause",
        Time,
        process.xds.rotation_pause,
        "With `xds.tls: auto`: the maximum time until a change of a Secret reaches the mounts of all pods. A new CA \
         waits for this time before it signs, and the old CA before it is removed.",
        Controller
    ),
    key!(
        "xds.gateTimeout",
        Time,
        process.xds.gate_timeout,
        "The maximum time that routes wait for Envoy to confirm their clusters.",
        Controller
    ),
    key!(
        "xds.removalGrace",
        Wait,
        process.xds.removal_grace,
        "The time that a cluster stays after the last route to it is removed, for active requests.",
        Controller
    ),
    key!(
        "xds.maxConnectionAge",
        Limit,
        process.xds.connection_age,
        "The maximum age of an Envoy's connection. Its streams then end gracefully, and Envoy reconnects, to any \
         replica. A random tenth is added or subtracted.",
        Controller
    ),
    key!(
        "xds.maxConnections",
        Connections,
        process.xds.connections,
        "The maximum number of connections, of which one address can use at most half. It is lower if the system \
         allows fewer open files.",
        Controller
    ),
    key!(
        "xds.peers",
        Maybe<HostPort>,
        process.xds.peers,
        "A name that resolves to the xDS ports of all replicas (a headless Service). The replicas ask each other \
         which objects their Envoys have accepted, for the status of objects, and over TLS for last good key \
         pairs. If not set, this is the only replica.",
        Controller
    ),
    key!(
        "admin.address",
        Socket,
        process.admin.address,
        "The address of `/healthz`, `/readyz`, `/metrics`, and `/debug/`. `/debug/` answers only connections from \
         this machine. `lockgate export` listens there only if this key is set.",
        Controller
    ),
    key!(
        "metrics.address",
        Maybe<Socket>,
        process.metrics.address,
        "The address of `/metrics`, instead of `admin.address`.",
        Controller
    ),
    key!(
        "metrics.tls",
        Maybe<Directory>,
        process.metrics.tls,
        "A directory with `tls.crt` and `tls.key`, which enable TLS at `metrics.address`. If it contains `ca.crt`, \
         clients must present a certificate of a CA in this file (mTLS). New files are reloaded when they appear. \
         Plain text if not set.",
        Controller
    ),
    key!("log.format", Word<telemetry::LogFormat>, process.log.format, "The format of log lines.", Controller),
    key!(
        "log.level",
        LogFilter,
        process.log.level,
        "The log level: `off`, `error`, `warn`, `info`, `debug`, `trace`, or by target, such as \
         `info,lockgate_xds=debug`. A change takes effect at once. `/debug/log` also changes the level, until this \
         key changes."
    ),
    key!(
        "leaderElection.enabled",
        Maybe<Bool>,
        process.leader_election.enabled,
        "Whether the replicas elect a leader, which writes to the API server. `false`: this is the only replica, and \
         writes. If not set, `true` in a pod; elsewhere nothing is written.",
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
        "The time that the other replicas wait after the last renewal before one of them acquires the Lease of an \
         unavailable leader.",
        Controller
    ),
    key!(
        "leaderElection.renewDeadline",
        Seconds,
        process.leader_election.renew_deadline,
        "The time that the leader writes after its last renewal. Less than `leaderElection.leaseDuration`: no \
         replica writes in between, because clocks differ in speed.",
        Controller
    ),
    key!(
        "leaderElection.retryPeriod",
        Seconds,
        process.leader_election.retry_period,
        "The interval at which the leader renews the Lease, and the others check it. Less than \
         `leaderElection.renewDeadline`.",
        Controller
    ),
];
