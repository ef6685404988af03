//! The flags for settings, the settings file, and how the two become one.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::settings::{self, Log, Node, Origin, Override, Resolved};
use crate::source::file;

// No docstrings on the structs: clap would take it for the description of the command that it is a part of.

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct TranslationArgs {
    /// The settings file, see docs/settings.md; it is watched, and a change of most keys holds without a restart. Flags win
    /// over it [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,

    /// What `spec.controller` of the IngressClasses says whose Ingresses are served: another name for each installation
    /// in one Kubernetes cluster [default: lockgate.dev/ingress-controller]
    #[arg(long, value_name = "NAME", value_parser = scalar("ingress.controllerName"), help_heading = "Objects")]
    controller_name: Option<String>,

    /// Serve Ingresses of the class NAME even without an IngressClass object; may be given several times [default:
    /// the IngressClass objects that name this controller]
    #[arg(long, value_name = "NAME", value_parser = item("ingress.classNames"), help_heading = "Objects")]
    ingress_class: Vec<String>,

    /// Serve Ingresses that name no class at all [default: only if an IngressClass of ours is the default class]
    #[arg(long, help_heading = "Objects")]
    watch_ingress_without_class: bool,

    /// Whether namespaces may share a host: Strict or InterNamespaceAllowed [default: Strict]
    #[arg(long, value_name = "MODE", value_parser = scalar("namespaceOwnership"), help_heading = "Objects")]
    namespace_ownership: Option<String>,

    /// The Secret for TLS hosts that name none, and for clients that send no known server name [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = scalar("tls.defaultSecret"), help_heading = "Objects")]
    default_tls_secret: Option<String>,

    /// Take Services of type ExternalName as backends [default: no, for whoever may write a Service could then reach
    /// whatever Envoy can reach]
    #[arg(long, help_heading = "Objects")]
    enable_external_name_services: bool,
}

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct SettingsArgs {
    #[command(flatten)]
    translation: TranslationArgs,

    /// What is written into the status of Ingresses: IP addresses and host names with commas between them [default:
    /// what --envoy-service has]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = item("status.addresses"))]
    #[arg(help_heading = "Objects")]
    status_address: Vec<String>,

    /// The Service in front of Envoy, whose load balancer's address is written into the status of Ingresses
    /// [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = scalar("status.envoyService"), help_heading = "Objects")]
    envoy_service: Option<String>,

    /// Watch only these namespaces, names with commas between them [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = item("watch.namespaces"))]
    #[arg(help_heading = "Objects")]
    watch_namespaces: Vec<String>,

    /// Port on which Envoy serves plain HTTP [default: 8080]
    #[arg(long, value_name = "PORT", value_parser = scalar("listeners.http.port"), help_heading = "Envoy's listeners")]
    http_port: Option<String>,

    /// Port on which Envoy serves HTTPS [default: 8443]
    #[arg(long, value_name = "PORT", value_parser = scalar("listeners.https.port"))]
    #[arg(help_heading = "Envoy's listeners")]
    https_port: Option<String>,

    /// Port on which Envoy answers /ready and /stats; 0 for none [default: 8002]
    #[arg(long, value_name = "PORT", value_parser = scalar("listeners.stats.port"))]
    #[arg(help_heading = "Envoy's listeners")]
    stats_port: Option<String>,

    /// Listen on IPv4 only: for nodes whose kernel has no IPv6 [default: both]
    #[arg(long, help_heading = "Envoy's listeners")]
    disable_ipv6: bool,

    /// Envoy's access log, on its standard output [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json", "off"], help_heading = "Envoy's listeners")]
    access_log: Option<String>,

    /// Time limit of a connection attempt to a backend; an annotation on the Service overrides it [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = scalar("timeouts.connect"), help_heading = "Envoy's listeners")]
    connect_timeout: Option<String>,

    /// Time limit of a whole response, or `off`; an annotation on the Ingress overrides it [default: off]
    #[arg(long, value_name = "TIME", value_parser = scalar("timeouts.response"), help_heading = "Envoy's listeners")]
    response_timeout: Option<String>,

    /// Trusted proxies in front of Envoy: how many addresses from the end of x-forwarded-for are theirs [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = scalar("http.trustedHops"), help_heading = "Envoy's listeners")]
    trusted_hops: Option<String>,

    /// Where /healthz, /readyz, /metrics and /debug/ are; /debug/ answers this machine only [default: 127.0.0.1:18001; of
    /// `lockgate export` nowhere]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("admin.address"), help_heading = "Operation")]
    admin_address: Option<String>,

    /// Where /metrics is, instead of `--admin-address` [default: there]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("metrics.address"), help_heading = "Operation")]
    metrics_address: Option<String>,

    /// With `--metrics-address`: served by TLS, with the files tls.crt and tls.key of this directory; with ca.crt, to clients
    /// with a certificate of it alone. Taken up anew when they change [default: clear text]
    #[arg(long, value_name = "DIR", value_parser = scalar("metrics.tls"), help_heading = "Operation")]
    metrics_tls: Option<String>,

    #[command(flatten)]
    log: LogArgs,
}

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct LogArgs {
    /// How log lines are written [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], help_heading = "Operation")]
    log_format: Option<String>,

    /// What is logged: off, error, warn, info, debug, trace, or by target, such as info,lockgate_xds=debug [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = scalar("log.level"), help_heading = "Operation")]
    log_level: Option<String>,
}

/// Settings with what is needed to find out later what they have become.
#[derive(Debug, Clone)]
pub struct SettingsSource {
    /// What holds at the start.
    pub resolved: Resolved,
    /// The file, absolute, and what it held.
    pub file: Option<(PathBuf, String)>,
    /// The flags.
    pub overrides: Vec<Override>,
}

impl SettingsSource {
    /// The settings with `text` in the file. Errors: all that is wrong.
    pub fn with(&self, text: &str) -> Result<Resolved, settings::Faults> {
        settings::resolve(&self.name(), text, &self.overrides)
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.file.as_ref().map(|(path, _)| path.display().to_string()).unwrap_or_default()
    }

    /// The value of the key `key` as messages name it: by the flag or by the place in the file that it comes from.
    pub fn named(&self, key: &'static str) -> String {
        let origin = self.resolved.origins.get(key).copied().unwrap_or_default();
        match origin {
            Origin::Flag(flag) => flag.to_owned(),
            Origin::File(_) => format!("{}: {key}", origin.within(&self.name())),
            Origin::Default => key.to_owned(),
        }
    }

    /// Tells the log which values of the file do not hold since a flag says something else.
    pub fn warn_of_hidden(&self) {
        warn_of_hidden(&self.resolved, &Resolved::default());
    }
}

/// Tells the log which values of the file of `resolved` do not hold since a flag says something else, unless `told` has
/// the same ones.
pub fn warn_of_hidden(resolved: &Resolved, told: &Resolved) {
    for (key, hidden) in &resolved.hidden {
        if told.hidden.get(key).is_some_and(|told| told.value == hidden.value) {
            continue;
        }
        if let Some(Origin::Flag(flag)) = resolved.origins.get(key) {
            tracing::warn!(
                key,
                in_file = hidden.written(),
                "{flag} wins over the settings file, which says something else"
            );
        }
    }
}

impl TranslationArgs {
    /// Reads the file, if there is one, and what these flags say. Errors: all that is wrong, a line each.
    pub fn load(&self) -> anyhow::Result<SettingsSource> {
        self.load_with(self.overrides())
    }

    /// Reads the file, and what `overrides` say.
    fn load_with(&self, overrides: impl Iterator<Item = Override>) -> anyhow::Result<SettingsSource> {
        let file = match &self.config {
            None => None,
            Some(path) => {
                let cannot = || format!("--config {}", path.display());
                let text = file::read(path).map_err(anyhow::Error::msg).with_context(cannot)?;
                Some((std::path::absolute(path).with_context(cannot)?, text))
            }
        };
        let mut source = SettingsSource { resolved: Resolved::default(), file, overrides: overrides.collect() };
        let text = source.file.as_ref().map_or("", |(_, text)| text);
        source.resolved = source.with(text).map_err(|faults| match self.config {
            Some(_) => anyhow::anyhow!("--config: the settings are not valid\n{faults}"),
            None => anyhow::anyhow!("{faults}"),
        })?;
        Ok(source)
    }

    /// What the flags say.
    fn overrides(&self) -> impl Iterator<Item = Override> {
        let flags = [
            ("ingress.controllerName", "--controller-name", &self.controller_name),
            ("namespaceOwnership", "--namespace-ownership", &self.namespace_ownership),
            ("tls.defaultSecret", "--default-tls-secret", &self.default_tls_secret),
        ];
        let lists = [("ingress.classNames", "--ingress-class", &self.ingress_class)];
        let on = [
            ("ingress.withoutClass", "--watch-ingress-without-class", self.watch_ingress_without_class, "true"),
            ("externalNames.allow", "--enable-external-name-services", self.enable_external_name_services, "true"),
        ];
        texts(flags).chain(lists_of(lists)).chain(switches(on))
    }
}

impl SettingsArgs {
    /// Reads the file, if there is one, and what these flags and `others` say. Errors: all that is wrong, a line each.
    pub fn load(&self, others: Vec<Override>) -> anyhow::Result<SettingsSource> {
        self.translation.load_with(self.overrides().chain(others))
    }

    /// The settings of `file` alone.
    pub fn of_file(file: PathBuf) -> Self {
        Self { translation: TranslationArgs { config: Some(file), ..TranslationArgs::default() }, ..Self::default() }
    }

    /// These flags with `file` as the settings file, if there is one.
    pub fn with_file(mut self, file: Option<PathBuf>) -> Self {
        self.translation.config = file.or(self.translation.config);
        self
    }

    /// The file as the user named it.
    pub fn file(&self) -> Option<&Path> {
        self.translation.config.as_deref()
    }

    /// What the flags say.
    fn overrides(&self) -> impl Iterator<Item = Override> {
        let flags = [
            ("status.envoyService", "--envoy-service", &self.envoy_service),
            ("listeners.http.port", "--http-port", &self.http_port),
            ("listeners.https.port", "--https-port", &self.https_port),
            ("listeners.stats.port", "--stats-port", &self.stats_port),
            ("accessLog.format", "--access-log", &self.access_log),
            ("timeouts.connect", "--connect-timeout", &self.connect_timeout),
            ("timeouts.response", "--response-timeout", &self.response_timeout),
            ("http.trustedHops", "--trusted-hops", &self.trusted_hops),
            ("admin.address", "--admin-address", &self.admin_address),
            ("metrics.address", "--metrics-address", &self.metrics_address),
            ("metrics.tls", "--metrics-tls", &self.metrics_tls),
        ];
        let lists = [
            ("status.addresses", "--status-address", &self.status_address),
            ("watch.namespaces", "--watch-namespaces", &self.watch_namespaces),
        ];
        let switches = switches([("listeners.ipv6", "--disable-ipv6", self.disable_ipv6, "false")]);
        let own = texts(flags).chain(lists_of(lists)).chain(switches);
        self.translation.overrides().chain(own).chain(self.log.overrides())
    }
}

impl LogArgs {
    /// What these flags come to without a file.
    pub fn resolve(&self) -> anyhow::Result<Log> {
        let overrides: Vec<Override> = self.overrides().collect();
        let resolved = settings::resolve("", "", &overrides).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        Ok(resolved.settings.process.log)
    }

    /// What the flags say.
    fn overrides(&self) -> impl Iterator<Item = Override> {
        texts([("log.format", "--log-format", &self.log_format), ("log.level", "--log-level", &self.log_level)])
    }
}

/// What flags say that have a text, by key and flag.
pub(super) fn texts<const N: usize>(
    flags: [(&'static str, &'static str, &Option<String>); N],
) -> impl Iterator<Item = Override> {
    let given = flags.map(|(key, flag, text)| Some(Override { key, flag, value: Node::text(text.as_ref()?) }));
    given.into_iter().flatten()
}

/// The settings of flags that have a list, by key and flag. An empty list is a flag that is not given.
pub(super) fn lists_of<const N: usize>(
    flags: [(&'static str, &'static str, &Vec<String>); N],
) -> impl Iterator<Item = Override> {
    let given = flags.into_iter().filter(|(.., list)| !list.is_empty());
    given.map(|(key, flag, list)| Override { key, flag, value: Node::texts(list) })
}

/// The settings of flags without a value that are given, by key and flag.
fn switches<const N: usize>(
    flags: [(&'static str, &'static str, bool, &'static str); N],
) -> impl Iterator<Item = Override> {
    let given = flags.into_iter().filter(|(.., on, _)| *on);
    given.map(|(key, flag, _, value)| Override { key, flag, value: Node::text(value) })
}

/// Checks a flag's value as the file's key `key` would be.
pub(super) fn scalar(key: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| settings::check_value(key, &Node::text(text)).map(|()| text.to_owned())
}

/// Checks one of a flag's values as an item of the list `key` would be.
pub(super) fn item(key: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| settings::check_value(key, &Node::texts([&text.to_owned()])).map(|()| text.to_owned())
}
