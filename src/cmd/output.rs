//! The option `--output` of commands with text output.

use clap::{Args, ValueEnum};

// The struct has no docstring, because clap would use it as the description of the command.

#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Output {
    /// Output format: for people, or for programs
    #[arg(long = "output", short = 'o', value_name = "FORM", value_enum, default_value_t = Form::Text)]
    form: Form,
}

/// Output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

impl Output {
    /// Returns whether the output is JSON.
    pub fn is_json(self) -> bool {
        self.form == Form::Json
    }
}

/// Formats a JSON value for output.
pub fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
