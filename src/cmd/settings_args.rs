//! The flags for settings, the settings file, and their merge.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::settings::{self, Log, Origin, Override, Resolved};
use crate::source::file;
use crate::yaml::Node;

// The structs have no docstrings, because clap would use them as the descriptions of the commands.

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct TranslationArgs {
    /// The settings file, see docs/settings.md. Most changed keys apply without a restart (hot reload). Flags take precedence
    /// [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Settings")]
    config: Option<PathBuf>,

    /// Serve Ingresses of the IngressClasses with this `spec.controller`; each installation in a Kubernetes cluster needs a
    /// different name [default: lockgate.dev/ingress-controller]
    #[arg(long, value_name = "NAME", value_parser = scalar("ingress.controllerName"), help_heading = "Objects")]
    controller_name: Option<String>,

    /// Serve Ingresses of the class NAME even without an IngressClass object; may be repeated [default: the IngressClass
    /// objects that name this controller]
    #[arg(long, value_name = "NAME", value_parser = item("ingress.classNames"), help_heading = "Objects")]
    ingress_class: Vec<String>,

    /// Serve Ingresses without a class [default: only if an IngressClass of this controller is the default class]
    #[arg(long, help_heading = "Objects")]
    watch_ingress_without_class: bool,

    /// Whether namespaces may share a host: Strict or InterNamespaceAllowed [default: Strict]
    #[arg(long, value_name = "MODE", value_parser = scalar("namespaceOwnership"), help_heading = "Objects")]
    namespace_ownership: Option<String>,

    /// The default certificate: a Secret for TLS hosts without a certificate, and for clients without a known server name
    /// [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = scalar("tls.defaultSecret"), help_heading = "Objects")]
    default_tls_secret: Option<String>,

    /// Allow Services of type ExternalName as backends [default: no, because users who may write a Service could then reach
    /// every address that Envoy can reach]
    #[arg(long, help_heading = "Objects")]
    enable_external_name_services: bool,
}

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct SettingsArgs {
    #[command(flatten)]
    translation: TranslationArgs,

    /// The addresses in the status of Ingresses: IP addresses and host names, separated by commas [default: the addresses of
    /// --envoy-service]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = item("status.addresses"))]
    #[arg(help_heading = "Objects")]
    status_address: Vec<String>,

    /// The Service in front of Envoy, whose load balancer's address is written into the status of Ingresses
    /// [default: none]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = scalar("status.envoyService"), help_heading = "Objects")]
    envoy_service: Option<String>,

    /// Watch only these namespaces, separated by commas [default: all]
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

    /// Port on which Envoy answers /ready and /stats; 0 disables it [default: 8002]
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

    /// The number of trusted proxies in front of Envoy, which add addresses at the end of x-forwarded-for [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = scalar("http.trustedHops"), help_heading = "Envoy's listeners")]
    trusted_hops: Option<String>,

    /// The address of /healthz, /readyz, /metrics, and /debug/, which answers this machine only [default: 127.0.0.1:18001;
    /// none for `lockgate export`]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("admin.address"), help_heading = "Operation")]
    admin_address: Option<String>,

    /// The address of /metrics [default: the value of `--admin-address`]
    #[arg(long, value_name = "ADDRESS", value_parser = scalar("metrics.address"), help_heading = "Operation")]
    metrics_address: Option<String>,

    /// With `--metrics-address`: serve over TLS, with tls.crt and tls.key of this directory. With ca.crt, clients need a
    /// certificate of this authority. The files are reloaded when they change [default: clear text]
    #[arg(long, value_name = "DIR", value_parser = scalar("metrics.tls"), help_heading = "Operation")]
    metrics_tls: Option<String>,

    #[command(flatten)]
    log: LogArgs,
}

#[allow(missing_docs)]
#[derive(Debug, Clone, Default, Args)]
pub struct LogArgs {
    /// The format of log lines [default: text]
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], help_heading = "Operation")]
    log_format: Option<String>,

    /// The log level: off, error, warn, info, debug, trace, or by target, such as info,lockgate_xds=debug [default: info]
    #[arg(long, value_name = "LEVEL", value_parser = scalar("log.level"), help_heading = "Operation")]
    log_level: Option<String>,
}

/// Settings with their sources, to resolve them again after a change of the file.
#[derive(Debug, Clone)]
pub struct SettingsSource {
    /// The settings at the start.
    pub resolved: Resolved,
    /// The absolute path of the file, and its content.
    pub file: Option<(PathBuf, String)>,
    /// The flags.
    pub overrides: Vec<Override>,
}

impl SettingsSource {
    /// Resolves the settings with `text` as the content of the file. The error contains all faults.
    pub fn with(&self, text: &str) -> Result<Resolved, settings::SettingsFaults> {
        settings::resolve(&self.name(), text, &self.overrides)
    }

    /// Returns the name of the file, for messages.
    pub fn name(&self) -> String {
        self.file.as_ref().map(|(path, _)| path.display().to_string()).unwrap_or_default()
    }

    /// Returns the name of a key for messages: its flag, or its place in the file.
    pub fn named(&self, key: &'static str) -> String {
        let origin = self.resolved.origins.get(key).copied().unwrap_or_default();
        match origin {
            Origin::Flag(flag) => flag.to_owned(),
            Origin::File(_) => format!("{}: {key}", origin.within(&self.name())),
            Origin::Default => key.to_owned(),
        }
    }

    /// Logs the values of the file that flags override.
    pub fn warn_of_hidden(&self) {
        warn_of_hidden(&self.resolved, &Resolved::default());
    }
}

/// Logs the values of the file of `resolved` that flags override, unless `before` has the same overrides.
pub fn warn_of_hidden(resolved: &Resolved, before: &Resolved) {
    for (key, hidden) in &resolved.hidden {
        if before.hidden.get(key).is_some_and(|before| before.value == hidden.value) {
            continue;
        }
        if let Some(Origin::Flag(flag)) = resolved.origins.get(key) {
            tracing::warn!(key, in_file = hidden.written(), "{flag} overrides the value in the settings file");
        }
    }
}

impl TranslationArgs {
    /// Reads the settings file, if there is one, and applies these flags. The error contains all faults, one per line.
    pub fn load(&self) -> anyhow::Result<SettingsSource> {
        self.load_with(self.overrides())
    }

    /// Reads the settings file, if there is one, and applies `overrides`.
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

    /// Returns the settings of the flags.
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
    /// Reads the settings file, if there is one, and applies these flags and `others`. The error contains all faults,
    /// one per line.
    pub fn load(&self, others: Vec<Override>) -> anyhow::Result<SettingsSource> {
        self.translation.load_with(self.overrides().chain(others))
    }

    /// Returns arguments with this settings file and no flags.
    pub fn of_file(file: PathBuf) -> Self {
        Self { translation: TranslationArgs { config: Some(file), ..TranslationArgs::default() }, ..Self::default() }
    }

    /// Sets the settings file, if there is one.
    pub fn with_file(mut self, file: Option<PathBuf>) -> Self {
        self.translation.config = file.or(self.translation.config);
        self
    }

    /// Returns the path of the settings file, as given by the user.
    pub fn file(&self) -> Option<&Path> {
        self.translation.config.as_deref()
    }

    /// Returns the settings of the flags.
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
    /// Resolves these flags without a settings file.
    pub fn resolve(&self) -> anyhow::Result<Log> {
        let overrides: Vec<Override> = self.overrides().collect();
        let resolved = settings::resolve("", "", &overrides).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        Ok(resolved.settings.process.log)
    }

    /// Returns the settings of the flags.
    fn overrides(&self) -> impl Iterator<Item = Override> {
        texts([("log.format", "--log-format", &self.log_format), ("log.level", "--log-level", &self.log_level)])
    }
}

/// Returns the settings of flags with a value, by key and flag.
pub(super) fn texts<const N: usize>(
    flags: [(&'static str, &'static str, &Option<String>); N],
) -> impl Iterator<Item = Override> {
    let given = flags.map(|(key, flag, text)| Some(Override { key, flag, value: Node::text(text.as_ref()?) }));
    given.into_iter().flatten()
}

/// Returns the setting overrides of flags that take lists. A flag with an empty list is not set.
pub(super) fn lists_of<const N: usize>(
    flags: [(&'static str, &'static str, &Vec<String>); N],
) -> impl Iterator<Item = Override> {
    let given = flags.into_iter().filter(|(.., list)| !list.is_empty());
    given.map(|(key, flag, list)| Override { key, flag, value: Node::texts(list) })
}

/// Returns the settings of flags without a value, by key and flag.
fn switches<const N: usize>(
    flags: [(&'static str, &'static str, bool, &'static str); N],
) -> impl Iterator<Item = Override> {
    let given = flags.into_iter().filter(|(.., on, _)| *on);
    given.map(|(key, flag, _, value)| Override { key, flag, value: Node::text(value) })
}

/// Returns a parser that checks the value of a flag like the value of the key in the settings file.
pub(super) fn scalar(key: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| settings::check_value(key, &Node::text(text)).map(|()| text.to_owned())
}

/// Returns a parser that checks one value of a flag like an item of the list in the settings file.
pub(super) fn item(key: &'static str) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync {
    move |text| settings::check_value(key, &Node::texts([&text.to_owned()])).map(|()| text.to_owned())
}
