//! The findings of the check, their levels, and their rules.

use std::sync::Arc;

use lockgate_route::translate::problem::Reason;

/// A finding in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file as the user named it; `-` is standard input. Empty for an object of the cluster.
    pub file: Arc<str>,
    /// The line, from 1. 0 means that the finding is about the whole file.
    pub line: usize,
    /// The severity.
    pub level: Level,
    /// The rule.
    pub rule: Rule,
    /// The kind of the object, empty if unknown.
    pub kind: String,
    /// The namespace of the object, empty if there is none.
    pub namespace: String,
    /// The name of the object, empty if unknown.
    pub name: String,
    /// The path of the field. Empty if the finding is about the whole object.
    pub field: String,
    /// The fault: lower case, no full stop.
    pub message: String,
    /// The consequence: lower case, no full stop.
    pub consequence: String,
    /// The remedy: sentences.
    pub remedy: String,
}

impl Finding {
    /// Returns whether the finding is about an annotation of ingress-nginx.
    pub fn is_of_nginx(&self) -> bool {
        self.field.starts_with("metadata.annotations[\"nginx.ingress.kubernetes.io/")
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A part of the object is not served, or is served differently than written.
    Error,
    /// The object is served, but possibly not as its owner intended.
    Warning,
    /// Information, not a fault.
    Note,
}

impl Level {
    /// Returns the name, as in the output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// The rule behind a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A problem that the translation reports with this reason.
    Reason(Reason),
    /// A file that cannot be read, or whose content is not text.
    UnreadableFile,
    /// A document that is not YAML.
    InvalidYaml,
    /// An object that the API server would reject.
    InvalidObject,
    /// An object that is in the manifests twice.
    DuplicateObject,
    /// An object of a kind or version that Lockgate does not read.
    UnsupportedKind,
    /// An object whose condition does not hold.
    ConditionNotMet,
    /// An object that other objects refer to, and that is not in the manifests.
    NotInManifests,
    /// An object of the class of another controller.
    NotServed,
    /// An annotation of another ingress controller that Lockgate reads.
    SupportedAnnotation,
    /// An annotation of another ingress controller that changes nothing.
    HarmlessAnnotation,
    /// A part of an Ingress that a migration to Gateway API leaves out.
    NotMigrated,
    /// A part of an Ingress that is served differently after a migration.
    ChangedByMigration,
    /// A fact to know about a migration.
    MigrationNote,
}

impl Rule {
    /// The rules that are not reasons of problems.
    const OWN: [Self; 13] = [
        Self::UnreadableFile,
        Self::InvalidYaml,
        Self::InvalidObject,
        Self::DuplicateObject,
        Self::UnsupportedKind,
        Self::ConditionNotMet,
        Self::NotInManifests,
        Self::NotServed,
        Self::SupportedAnnotation,
        Self::HarmlessAnnotation,
        Self::NotMigrated,
        Self::ChangedByMigration,
        Self::MigrationNote,
    ];

    /// Returns all rules.
    pub fn all() -> impl Iterator<Item = Self> {
        Reason::ALL.into_iter().map(Self::Reason).chain(Self::OWN)
    }

    /// Returns the stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.as_str(),
            Self::UnreadableFile => "UnreadableFile",
            Self::InvalidYaml => "InvalidYaml",
            Self::InvalidObject => "InvalidObject",
            Self::DuplicateObject => "DuplicateObject",
            Self::UnsupportedKind => "UnsupportedKind",
            Self::ConditionNotMet => "ConditionNotMet",
            Self::NotInManifests => "NotInManifests",
            Self::NotServed => "NotServed",
            Self::SupportedAnnotation => "SupportedAnnotation",
            Self::HarmlessAnnotation => "HarmlessAnnotation",
            Self::NotMigrated => "NotMigrated",
            Self::ChangedByMigration => "ChangedByMigration",
            Self::MigrationNote => "MigrationNote",
        }
    }

    /// Returns the usual level of its findings.
    pub fn level(self) -> Level {
        match self {
            Self::Reason(
                Reason::Ambiguous
                | Reason::UnsupportedAnnotation
                | Reason::UnsupportedPolicy
                | Reason::IgnoredField
                | Reason::MultipleDefaultClasses
                | Reason::CertificateExpiring,
            )
            | Self::DuplicateObject
            | Self::ChangedByMigration => Level::Warning,
            Self::Reason(_)
            | Self::UnreadableFile
            | Self::InvalidYaml
            | Self::InvalidObject
            | Self::UnsupportedKind
            | Self::ConditionNotMet
            | Self::NotMigrated => Level::Error,
            Self::NotInManifests
            | Self::NotServed
            | Self::SupportedAnnotation
            | Self::HarmlessAnnotation
            | Self::MigrationNote => Level::Note,
        }
    }

    /// Returns the default remedy of a finding.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Reason(reason) => reason.remedy(),
            Self::UnreadableFile => "Name a file or directory of YAML or JSON in UTF-8 that you may read.",
            Self::InvalidYaml => "Correct the syntax; render templates first, such as with helm template.",
            Self::InvalidObject => "Correct the field; kubectl explain shows what the API server accepts.",
            Self::DuplicateObject => "Remove one of the two objects.",
            Self::UnsupportedKind => "Use a kind and a version that Lockgate reads.",
            Self::ConditionNotMet => "Correct the part of the object that the message names.",
            Self::NotInManifests => {
                "No action is needed if the object exists in the cluster; --complete makes this an error."
            }
            Self::NotServed => "No action is needed if another controller serves the object.",
            Self::SupportedAnnotation => "No action is needed.",
            Self::HarmlessAnnotation => "No action is needed; the annotation can be removed.",
            Self::NotMigrated => "Write an HTTPRoute by hand, or keep the migrated object.",
            Self::ChangedByMigration => "Compare the HTTPRoute with the migrated object before you move traffic.",
            Self::MigrationNote => "No action is needed.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_different_names_and_remedies_that_are_sentences() {
        let names: std::collections::BTreeSet<_> = Rule::all().map(Rule::as_str).collect();
        assert_eq!(names.len(), Rule::all().count());
        assert!(Rule::all().all(|rule| rule.remedy().ends_with('.')));
    }
}
