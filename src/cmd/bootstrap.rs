//! `lockgate bootstrap`: the configuration with which an Envoy, or a gRPC client without a proxy, finds the controller.

mod address;
mod grpc;
mod limits;
mod locality;
mod message;
mod tls;
mod wasm;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use prost::Message;

pub use address::Address;
pub use locality::Locality;
pub use message::bootstrap;

use lockgate_xds::protobuf;

use super::exit::ExitCodes;
use super::export::{FormatArg, place};
use super::settings_args::SettingsArgs;
use super::values;
use crate::export::{EnvoyDirectory, Reload};
use crate::settings::{Module, Overload};
pub use limits::files;
pub use message::OPEN_FILES;

const EXAMPLES: &str = "\
Examples:
  An Envoy beside a controller on this machine:
    lockgate bootstrap > envoy.yaml
    envoy -c envoy.yaml

  An Envoy in a pod, which finds the controller by its Service and proves who it is; written by an init container, so
  that rotated certificates are taken up without a restart:
    lockgate bootstrap --xds-address lockgate.ingress:18000 --xds-tls /certs --output-file /config/envoy.yaml
    envoy -c /config/envoy.yaml

  A gRPC client that needs no Envoy and calls xds:///cart.shop:80:
    lockgate bootstrap --grpc > grpc.json
    GRPC_XDS_BOOTSTRAP=grpc.json my-client

  An Envoy without a controller, which reads the files of `lockgate export --dir /run/envoy`; they have to be there when
  it starts:
    lockgate bootstrap --mode files --dir /run/envoy > envoy.yaml
    envoy -c envoy.yaml";

/// Options of `lockgate bootstrap`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct BootstrapArgs {
    /// Write the bootstrap of a gRPC client or server without a proxy (the file of GRPC_XDS_BOOTSTRAP)
    #[arg(long, conflicts_with_all = ["mode", "envoy_admin_address", "max_connections", "max_heap", "format"])]
    pub grpc: bool,

    /// The address of the controller (`lockgate serve --xds-address`): a host name or an IP address, and a port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18000", env = "LOCKGATE_XDS_ADDRESS")]
    pub xds_address: Address,

    /// Variant of the protocol; `delta` sends only what changes
    #[arg(long, value_enum, default_value_t = Mode::Delta)]
    #[arg(requires_if("files", "dir"))]
    pub mode: Mode,

    /// With `--mode files`: the path at which Envoy sees the directory that `lockgate export` writes
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// With `--mode files`: the `--format` of `lockgate export`
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FormatArg::Json)]
    pub file_format: FormatArg,

    /// With `--mode files`: the `--reload` of `lockgate export`
    #[arg(long, value_name = "HOW", default_value = "rename", value_parser = values::reload)]
    pub reload: Reload,

    /// The unique name of this Envoy or client; the host name if not given
    #[arg(long, value_name = "ID", env = "LOCKGATE_NODE_ID")]
    pub node_id: Option<String>,

    /// The name of the group of this Envoy or client (the cluster of the node)
    #[arg(long, value_name = "NAME", default_value = "lockgate")]
    pub node_cluster: String,

    /// The locality of this Envoy or client; unknown parts are empty. With the zone of its node alone, such as /eu-west-1a, Envoy can
    /// prefer the endpoints of this zone, because endpoints in Kubernetes have zones without regions
    #[arg(long, value_name = "REGION/ZONE/SUB_ZONE")]
    pub node_locality: Option<Locality>,

    /// The address of Envoy's admin interface, or `unix:PATH`; every client of this interface can stop Envoy
    #[arg(long, alias = "admin-address", value_name = "HOST:PORT", default_value = "127.0.0.1:9901")]
    pub envoy_admin_address: Address,

    /// With `--envoy-admin-address unix:PATH`: the permissions of the socket, in octal, as for chmod
    #[arg(long, alias = "admin-socket-mode", value_name = "MODE", default_value = "0600", value_parser = values::mode)]
    pub envoy_admin_socket_mode: u32,

    /// mTLS with the controller, with the files tls.crt, tls.key, and ca.crt of this directory; `off`: clear text. With
    /// `--output-file`, Envoy reloads changed files; otherwise, it reads them once. gRPC reloads them every minute
    /// [default: off]
    #[arg(long, value_name = "off|DIR", value_parser = certificates)]
    pub xds_tls: Option<PathBuf>,

    /// The resolved path of the files.
    #[arg(skip)]
    pub files: Option<EnvoyDirectory>,

    /// The settings file: its keys `overload.…` apply without the options below, and `statistics.allOfServices`. The files of
    /// `wasm.modules` must exist if `--output-file` is given, because an Envoy on this machine then reads them
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The maximum number of client connections; further connections are refused. 0 means no limit; 50000 if not given
    #[arg(long, value_name = "NUMBER")]
    pub max_connections: Option<u64>,

    /// The limit of open files that was found. It is part of the node, so that the controller can warn.
    #[arg(skip)]
    open_files: Option<u64>,

    /// The maximum heap of Envoy, such as 512MiB: it releases memory at 95 %, and refuses requests at 98 %. 0 means no limit; if
    /// not given, 80 % of the memory of the container or the machine
    #[arg(long, value_name = "SIZE", value_parser = values::heap)]
    pub max_heap: Option<u64>,

    /// Whether Envoy keeps all statistics of clusters.
    #[arg(skip)]
    all_statistics: bool,

    /// Format of the bootstrap
    #[arg(long, value_enum, default_value_t = BootstrapFormat::Yaml)]
    pub format: BootstrapFormat,

    /// The same as `--format`, as in other commands. Any other word is a file, as for `--output-file`
    #[arg(long, short, value_name = "FORM", value_parser = output)]
    output: Option<Output>,

    /// Write to this file instead of the standard output
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
}

/// Variant of the xDS protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Incremental
    Delta,
    /// State of the world
    Sotw,
    /// No protocol: files that `lockgate export` writes
    Files,
}

/// The value of `--output`, which once was the name of `--output-file`.
#[derive(Debug, Clone)]
enum Output {
    Format(BootstrapFormat),
    File(PathBuf),
}

/// Parses a format, or the name of a file.
fn output(text: &str) -> Result<Output, String> {
    match text {
        "yaml" => Ok(Output::Format(BootstrapFormat::Yaml)),
        "json" => Ok(Output::Format(BootstrapFormat::Json)),
        // A format of another command must not become a file.
        "yml" | "xml" | "text" | "sarif" | "pb" | "pb_text" => {
            Err("expected yaml or json; --output-file FILE writes to a file".to_owned())
        }
        file => Ok(Output::File(file.into())),
    }
}

/// Format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BootstrapFormat {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "the bootstrap is written",
    findings: None,
    failed: "wrong usage, invalid settings, or a file that cannot be read or written",
};

/// Writes the bootstrap, and next to `--output-file` the files with which Envoy watches its certificates.
pub fn run(mut options: BootstrapArgs) -> anyhow::Result<()> {
    resolve(&mut options)?;
    let text = match options.grpc {
        true => serde_json::to_string_pretty(&grpc::bootstrap(&options))? + "\n",
        false => text(&bootstrap(&options), options.format)?,
    };
    match &options.output_file {
        None => match io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("standard output"),
            _ => Ok(()),
        },
        Some(file) => {
            if let (Some(certificates), Some(beside), false) = (&options.xds_tls, file.parent(), options.grpc) {
                for (file, content) in tls::watched_files(certificates, beside) {
                    write(&file, &self::text(&content, BootstrapFormat::Yaml)?)?;
                }
            }
            write(file, &text)
        }
    }
}

impl BootstrapArgs {
    /// Replaces `--output` by the option that it means.
    fn apply_output(&mut self) {
        match self.output.take() {
            Some(Output::Format(format)) => self.format = format,
            Some(Output::File(file)) => self.output_file = self.output_file.take().or(Some(file)),
            None => {}
        }
    }

    /// Lowers the number of client connections to the limit of open files, with a message on standard error.
    fn limit_connections(&mut self, open_files: Option<u64>) {
        self.open_files = open_files;
        let wanted = self.max_connections.unwrap_or_else(|| Overload::default().max_connections.into());
        let Some(most) = open_files.map(limits::connections).filter(|most| wanted > *most) else { return };
        self.max_connections = Some(most);
        let limit = open_files.unwrap_or_default();
        eprintln!(
            "warning: at most {limit} open files: Envoy accepts {most} client connections, not {wanted}; raise the limit of open \
             files of its containers (LimitNOFILE of the container runtime)"
        );
    }
}

/// Determines the values that depend on this machine.
fn resolve(options: &mut BootstrapArgs) -> anyhow::Result<()> {
    options.apply_output();
    options.node_locality = options.node_locality.take().filter(|locality| *locality != Locality::default());
    if options.node_id.is_none() {
        options.node_id = Some(hostname()?);
    }
    if let (Mode::Files, Some(directory)) = (options.mode, &options.dir) {
        options.files = Some(place(directory, "--dir", options.file_format.into(), options.reload)?);
    }
    if let Some(file) = options.config.take() {
        let settings = SettingsArgs::of_file(file).load(Vec::new())?.resolved.settings;
        options.all_statistics = settings.all_service_statistics;
        check_modules(&settings.route.wasm.modules, options.output_file.is_some())?;
        let overload = settings.overload;
        options.max_connections = options.max_connections.or(Some(overload.max_connections.into()));
        options.max_heap = options.max_heap.or(overload.max_heap_bytes);
    }
    options.max_heap = options.max_heap.or_else(limits::heap);
    options.limit_connections(limits::open_files());
    options.xds_tls = options.xds_tls.take().filter(|directory| directory.as_os_str() != OFF);
    // Envoy resolves paths on its own machine, which may differ from this machine.
    if let Some(directory) = &options.xds_tls {
        options.xds_tls = Some(std::path::absolute(directory).context("--xds-tls")?);
    }
    if let Some(file) = &options.output_file {
        options.output_file = Some(std::path::absolute(file).context("--output-file")?);
    }
    Ok(())
}

/// Checks the files of the modules. Envoy would reject the routes that name a faulty one. If it may run on another machine, a fault is only a
/// message on standard error.
fn check_modules(modules: &BTreeMap<String, Module>, is_here: bool) -> anyhow::Result<()> {
    for (name, Module { file, .. }) in modules {
        let fault = match wasm::check(Path::new(file)) {
            Ok(()) => continue,
            Err(fault) => format!("wasm.modules.{name}: {file}: {fault}"),
        };
        anyhow::ensure!(!is_here, fault);
        eprintln!("warning: {fault}; the file must exist where Envoy runs");
    }
    Ok(())
}

/// The value of `--xds-tls` for clear text, as in `lockgate serve`.
const OFF: &str = "off";

/// Parses the directory of the certificates, or [`OFF`].
fn certificates(text: &str) -> Result<PathBuf, String> {
    match text {
        "auto" => Err("expected the directory with the certificate of Envoy: `auto` is for the controller".to_owned()),
        "" => Err("expected a directory, or off".to_owned()),
        directory => Ok(directory.into()),
    }
}

/// Writes a file atomically. A reader sees either the old or the new content.
fn write(file: &Path, content: &str) -> anyhow::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = fs::write(&partial, content).and_then(|()| fs::rename(&partial, file));
    written.inspect_err(|_| drop(fs::remove_file(&partial))).with_context(|| format!("cannot write {}", file.display()))
}

/// Formats `message` as proto3 JSON, or as YAML of the same structure, with the field names of the protos.
pub fn text<M: Message + prost::Name>(message: &M, format: BootstrapFormat) -> anyhow::Result<String> {
    let value = protobuf::to_json(&M::full_name(), &message.encode_to_vec());
    Ok(match format {
        BootstrapFormat::Json => serde_json::to_string_pretty(&value)? + "\n",
        BootstrapFormat::Yaml => serde_saphyr::to_string(&value)?,
    })
}

fn hostname() -> anyhow::Result<String> {
    const FILE: &str = "/proc/sys/kernel/hostname";
    let name = fs::read_to_string(FILE).with_context(|| format!("{FILE}; give --node-id instead"))?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests;
