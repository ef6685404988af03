//! The option `--output` of commands that print something for people.

use clap::{Args, ValueEnum};

// No docstring on the struct: clap would take it for the description of the command that it is a part of.

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
    /// Whether JSON is wanted.
    pub fn is_json(self) -> bool {
        self.form == Form::Json
    }
}

/// A JSON value, as it is printed.
pub fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
