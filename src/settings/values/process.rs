//! Values of the controller process.

use std::path::{Path, PathBuf};

use lockgate_xds::identity::Pattern;
use serde_json::{Value as Json, json};

use super::Scalar;
use crate::settings::XdsTls;
use crate::telemetry;

/// The source of the certificates between Envoy and the controller.
pub struct Certificates;

impl Scalar for Certificates {
    type Value = XdsTls;
    const NAME: &'static str = "`auto`, `off` or directory";

    fn parse(text: &str) -> Result<XdsTls, String> {
        match text {
            "auto" => Ok(XdsTls::Auto),
            // Another YAML tool may have rewritten `off` as a boolean.
            "off" | "false" => Ok(XdsTls::Off),
            // Without a slash, a misspelled word would be a directory. The flag adds the slash.
            _ if text.contains('/') && !text.contains('\0') => Ok(XdsTls::Directory(PathBuf::from(text))),
            _ => Err("expected auto, off, or the path of a directory that contains a /, such as /etc/lockgate/xds"
                .to_owned()),
        }
    }

    fn show(value: &XdsTls) -> Json {
        match value {
            XdsTls::Auto => "auto".into(),
            XdsTls::Off => "off".into(),
            XdsTls::Directory(directory) => Path::to_string_lossy(directory).into(),
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [{"enum": ["auto", "off", false]}, {"type": "string", "pattern": "/"}]})
    }
}

/// A name in a certificate, or a pattern of names.
pub struct Identity;

impl Scalar for Identity {
    type Value = Pattern;
    const NAME: &'static str = "name in a certificate";

    fn parse(text: &str) -> Result<Pattern, String> {
        Pattern::parse(text)
    }

    fn show(value: &Pattern) -> Json {
        value.to_string().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "pattern": "^[!-+\\--~]+$"})
    }
}

/// A directory with a key pair.
pub struct Directory;

impl Scalar for Directory {
    type Value = PathBuf;
    const NAME: &'static str = "directory";

    fn parse(text: &str) -> Result<PathBuf, String> {
        match text.is_empty() || text.contains('\0') {
            true => Err("expected the path of a directory, such as /etc/lockgate/metrics".to_owned()),
            false => Ok(PathBuf::from(text)),
        }
    }

    fn show(value: &PathBuf) -> Json {
        value.to_string_lossy().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// A file with the template of pods.
pub struct TemplateFile;

impl Scalar for TemplateFile {
    type Value = PathBuf;
    const NAME: &'static str = "file";

    fn parse(text: &str) -> Result<PathBuf, String> {
        match text.is_empty() || text.contains('\0') {
            true => Err("expected the path of a file, such as /etc/lockgate/fleet/pod.yaml".to_owned()),
            false => Ok(PathBuf::from(text)),
        }
    }

    fn show(value: &PathBuf) -> Json {
        value.to_string_lossy().into()
    }

    fn schema() -> Json {
        json!({"type": "string", "minLength": 1})
    }
}

/// The log filter.
pub struct LogFilter;

impl Scalar for LogFilter {
    type Value = String;
    const NAME: &'static str = "filter";

    fn parse(text: &str) -> Result<String, String> {
        // Another YAML tool may have rewritten `off` as a boolean.
        let text = if text == "false" { "off" } else { text.trim() };
        telemetry::check_filter(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"anyOf": [{"type": "string", "minLength": 1}, {"enum": [false]}]})
    }
}
