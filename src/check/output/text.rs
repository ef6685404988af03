//! Findings for people: one line each, in the form that editors and CI systems recognize.

use std::fmt::Write as _;

use super::super::finding::{Finding, Level};
use crate::telemetry::printable;

/// Whether the text has colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// For terminals.
    On,
    /// For files and pipes.
    Off,
}

/// Returns a line for each finding: `FILE:LINE: error: Ingress shop/cart spec.rules[0].host: MESSAGE; CONSEQUENCE. Remedy: …`.
pub fn text(findings: &[Finding], colors: Colors) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{}", line(finding, colors));
    }
    text
}

fn line(finding: &Finding, colors: Colors) -> String {
    let Finding { file, line, level, rule: _, kind, namespace, name, field, message, consequence, remedy } = finding;
    let paint = |code: &str, text: &str| match colors {
        Colors::On => format!("\x1b[{code}m{text}\x1b[0m"),
        Colors::Off => text.to_owned(),
    };
    let file = printable(if file.is_empty() { "(cluster)" } else { file });
    let place = if *line > 0 { format!("{file}:{line}:") } else { format!("{file}:") };
    let color = match level {
        Level::Error => "1;31",
        Level::Warning => "1;33",
        Level::Note => "1;36",
    };
    let object = match (kind.as_str(), namespace.as_str(), name.as_str()) {
        ("", ..) => String::new(),
        (kind, _, "") => kind.to_owned(),
        (kind, "", name) => format!("{kind} {name}"),
        (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
    };
    let about: Vec<&str> = [object.as_str(), field].into_iter().filter(|text| !text.is_empty()).collect();
    let about = if about.is_empty() { String::new() } else { format!(" {}:", printable(&about.join(" "))) };
    let fault = printable(&format!("{message}; {consequence}."));
    let remedy = printable(remedy);
    format!(
        "{} {}{about} {fault} {} {remedy}",
        paint("1", &place),
        paint(color, &format!("{}:", level.as_str())),
        paint("2", "Remedy:")
    )
}

#[cfg(test)]
pub mod tests {
    use lockgate_route::translate::Reason;

    use super::*;
    use crate::check::finding::Rule;

    /// A finding with all texts.
    pub fn finding() -> Finding {
        Finding {
            file: "shop.yaml".into(),
            line: 7,
            level: Level::Error,
            rule: Rule::Reason(Reason::HostNotValid),
            kind: "Ingress".into(),
            namespace: "shop".into(),
            name: "cart".into(),
            field: "spec.rules[0].host".into(),
            message: "host \"a b\" is not a DNS name".into(),
            consequence: "rule left out".into(),
            remedy: "Write a DNS name.".into(),
        }
    }

    #[test]
    fn a_finding_is_one_line() {
        assert_eq!(
            line(&finding(), Colors::Off),
            "shop.yaml:7: error: Ingress shop/cart spec.rules[0].host: host \"a b\" is not a DNS name; rule left out. \
             Remedy: Write a DNS name."
        );
        let of_file = Finding { line: 0, kind: String::new(), field: String::new(), ..finding() };
        assert!(line(&of_file, Colors::Off).starts_with("shop.yaml: error: host \"a b\""));
        let of_cluster = Finding { file: "".into(), line: 0, ..finding() };
        assert!(line(&of_cluster, Colors::Off).starts_with("(cluster): error: Ingress shop/cart"));
    }

    #[test]
    fn names_cannot_forge_lines_or_colors() {
        let forged = Finding { name: "a\n::error::\x1b[31m".into(), ..finding() };
        let printed = text(&[forged], Colors::Off);
        assert_eq!(printed.lines().count(), 1);
        assert!(printed.contains("shop/a\\n::error::\\u{1b}[31m"), "{printed}");
    }

    #[test]
    fn colors_are_for_terminals() {
        let colored = line(&finding(), Colors::On);
        assert!(colored.contains("\x1b[1;31merror:\x1b[0m"), "{colored}");
        assert!(!line(&finding(), Colors::Off).contains('\x1b'));
    }
}
