//! The rows of objects: the findings of the check with the written settings, judged by what Contour does with the same object.

use std::collections::BTreeMap;

use lockgate_route::objects::http_proxy::{ExtensionService, HttpProxy};
use lockgate_route::objects::{Kind, Object, ObjectId, ObjectKey};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::Reason;
use lockgate_route::translate::verdict::Severity;
use lockgate_route::translate::{Input, ORPHANED, Selection, dialect_of};

use super::deviations;
use super::faults::{cost, judge};
use super::row::{ReportRow, Verdict};
use crate::check::{Finding, Level, Manifests, Rule, Scope, Translated, check, locate, translated};

/// The class that Contour serves without `ingress.classNames`.
const CLASS: &str = "contour";

/// The prefix of the annotations that Contour reads on Services.
const PREFIX: &str = "projectcontour.io/";

/// The kinds of the report.
const KINDS: [Kind; 5] =
    [Kind::INGRESS, Kind::HTTP_PROXY, Kind::TLS_CERTIFICATE_DELEGATION, Kind::EXTENSION_SERVICE, Kind::SERVICE];

/// Compares the objects of `manifests`. `now` is the time in seconds since the Unix epoch, for the certificates.
pub fn rows(manifests: &Manifests, settings: &Settings, scope: &Scope, classes: &[String], now: i64) -> Vec<ReportRow> {
    let translated = translated(manifests, settings, scope, |_| {});
    let mut by_object = BTreeMap::<(String, String, String), Vec<Finding>>::new();
    for finding in check(manifests, settings, scope, now) {
        let object = (finding.kind.clone(), finding.namespace.clone(), finding.name.clone());
        by_object.entry(object).or_default().push(finding);
    }
    let mut comparison = Comparison {
        translated: &translated,
        classes,
        losers: losers(&translated, manifests.objects()),
        rows: Vec::new(),
        unplaced: Vec::new(),
    };
    for object in manifests.objects().iter().filter(|object| is_compared(object)) {
        let id = object.id();
        let key = &id.key;
        let identity = (id.kind.as_str().to_owned(), key.namespace.to_string(), key.name.to_string());
        comparison.object(object, &by_object.remove(&identity).unwrap_or_default());
    }
    let Comparison { mut rows, unplaced, .. } = comparison;
    // All at once: each document with such a row is parsed once more.
    rows.extend(locate(manifests, unplaced).iter().map(|finding| {
        let verdict = verdict(finding.rule);
        ReportRow::of_finding(finding, verdict, finding.message.clone(), &finding.remedy)
    }));
    // Files and objects that cannot be read, and kinds of Contour without a counterpart.
    for ((kind, ..), findings) in by_object {
        let is_ours = |known: &&Kind| known.as_str() == kind && **known != Kind::SERVICE;
        let is_relevant = kind.is_empty() || kind == "ContourDeployment" || KINDS.iter().any(|known| is_ours(&known));
        let of_level = |finding: &&Finding| finding.level < Level::Note || kind == "ContourDeployment";
        let remedy = |finding: &Finding| match kind == "ContourDeployment" {
            true => "Set the values of the Helm chart instead (docs/install.md).".to_owned(),
            false => finding.remedy.clone(),
        };
        let findings = findings.iter().filter(|_| is_relevant).filter(of_level);
        rows.extend(findings.map(|one| ReportRow::of_finding(one, Verdict::Attention, told(one), &remedy(one))));
    }
    rows
}

/// The rule of a finding that stands for a row with this verdict until it has a place.
fn rule(verdict: Verdict) -> Rule {
    match verdict {
        Verdict::Attention => Rule::NotMigrated,
        Verdict::Better => Rule::ChangedByMigration,
        Verdict::Same => Rule::MigrationNote,
    }
}

/// The verdict behind such a rule.
fn verdict(rule: Rule) -> Verdict {
    match rule {
        Rule::MigrationNote => Verdict::Same,
        Rule::ChangedByMigration => Verdict::Better,
        _ => Verdict::Attention,
    }
}

/// Returns the roots that lose their host to an older root, by host.
fn losers(translated: &Translated, objects: &[Object]) -> BTreeMap<String, Vec<ObjectKey>> {
    let mut losers = BTreeMap::<String, Vec<ObjectKey>>::new();
    let problems = translated.translator.problems().iter();
    let mut duplicates = problems.filter(|problem| problem.reason == Reason::DuplicateVhost).peekable();
    if duplicates.peek().is_none() {
        return losers;
    }
    let hosts: BTreeMap<ObjectKey, &str> =
        objects.iter().filter_map(|object| Some((object.meta().key.clone(), host(object)?))).collect();
    for problem in duplicates {
        let key = ObjectKey { namespace: problem.object.namespace.clone(), name: problem.object.name.clone() };
        if let Some(host) = hosts.get(&key) {
            losers.entry((*host).to_owned()).or_default().push(key);
        }
    }
    losers
}

/// Returns whether the report has a row for the object. A Service without annotations of Contour has none.
fn is_compared(object: &Object) -> bool {
    let has_annotations = || object.meta().annotations.keys().any(|name| name.starts_with(PREFIX));
    KINDS.contains(&object.kind()) && (object.kind() != Kind::SERVICE || has_annotations())
}

/// Returns the fault and its consequence.
fn told(finding: &Finding) -> String {
    format!("{}; {}", finding.message, finding.consequence)
}

struct Comparison<'a> {
    translated: &'a Translated,
    classes: &'a [String],
    /// The roots that lose their host, by host.
    losers: BTreeMap<String, Vec<ObjectKey>>,
    /// The rows of findings, which have places.
    rows: Vec<ReportRow>,
    /// The other rows, as findings. Their files and lines are not known yet.
    unplaced: Vec<(ObjectId, Finding)>,
}

impl Comparison<'_> {
    /// Adds the rows of an object with its findings.
    fn object(&mut self, object: &Object, findings: &[Finding]) {
        let id = object.id();
        if let Some(class) = self.foreign_class(object) {
            return self.add(&id, "", Verdict::Same, format!("{class}: neither controller serves it"), "");
        }
        let rows: Vec<ReportRow> = findings.iter().filter_map(|finding| self.finding(&id, object, finding)).collect();
        let deviations = match (object.get::<HttpProxy>(), object.get::<ExtensionService>()) {
            (Some(proxy), _) => deviations::of_proxy(proxy),
            (_, Some(service)) => deviations::of_extension_service(service),
            _ => Vec::new(),
        };
        let before = self.unplaced.len();
        for deviation in deviations {
            self.add(&id, &deviation.field, deviation.verdict, deviation.message, deviation.remedy);
        }
        self.winner(object);
        if rows.is_empty() && self.unplaced.len() == before {
            let is_used = self.translated.translator.is_dependency(&Input::new(id.kind, id.key.clone()));
            let message = match id.kind == Kind::SERVICE && !is_used {
                true => "no object of the input uses it".to_owned(),
                false => same(id.kind, findings),
            };
            self.add(&id, "", Verdict::Same, message, "");
        }
        self.rows.extend(rows);
    }

    /// Returns the class of an object that Contour does not serve.
    fn foreign_class(&self, object: &Object) -> Option<String> {
        let Selection::Class { named } = dialect_of(object.kind())?.selection else { return None };
        let classes = self.classes;
        match named(object) {
            Some(class) if classes.is_empty() && class == CLASS => None,
            Some(class) if classes.iter().any(|served| served == class) => None,
            Some(class) => Some(format!("class {class:?}")),
            None if classes.is_empty() => None,
            None => Some("no class".to_owned()),
        }
    }

    /// Returns the row of a finding. Notes have none.
    fn finding(&self, id: &ObjectId, object: &Object, finding: &Finding) -> Option<ReportRow> {
        let attention = || Some(ReportRow::of_finding(finding, Verdict::Attention, told(finding), &finding.remedy));
        let is_of_contour = finding.field.contains(PREFIX);
        match finding.rule {
            // Contour does not read the annotations of other controllers either.
            Rule::Reason(Reason::UnsupportedAnnotation) if !is_of_contour => None,
            Rule::SupportedAnnotation if finding.field.contains("nginx.ingress.kubernetes.io/") => {
                let message = "Lockgate reads this annotation of ingress-nginx, and Contour does not".to_owned();
                let remedy = "Remove the annotation, unless its effect is intended.";
                Some(ReportRow::of_finding(finding, Verdict::Attention, message, remedy))
            }
            Rule::NotServed if finding.level == Level::Warning => None,
            Rule::ConditionNotMet if finding.message.starts_with(ORPHANED) => self.fault(object, finding, ORPHANED),
            _ if finding.level == Level::Note => None,
            Rule::Reason(_) if id.kind == Kind::HTTP_PROXY => match self.situation(id, finding) {
                Some(reason) => self.fault(object, finding, reason).or_else(attention),
                None => attention(),
            },
            _ => attention(),
        }
    }

    /// Returns the row of a fault whose consequence with Contour is known.
    fn fault(&self, object: &Object, finding: &Finding, reason: &str) -> Option<ReportRow> {
        let spec = object.get::<HttpProxy>().map(|proxy| &proxy.spec);
        let count = spec.map_or(0, |spec| spec.routes.len() + spec.includes.len());
        let (verdict, contour) = judge(cost(reason, &finding.field)?, count);
        let message = format!("{}; {contour}", told(finding));
        Some(ReportRow::of_finding(finding, verdict, message, &finding.remedy))
    }

    /// Returns the reason of a fault in the status of its HTTPProxy, which is more precise than that of the finding. A warning has one
    /// only if Contour has the same, or the same setting.
    fn situation(&self, id: &ObjectId, finding: &Finding) -> Option<&'static str> {
        const WARNINGS: [&str; 2] = ["CertificateNamesDiffer", "ShadowedRoute"];
        let field = if finding.field.is_empty() { String::new() } else { format!("{}: ", finding.field) };
        let message = format!("{field}{}", told(finding));
        let verdicts = self.translated.translator.verdicts().get(id)?;
        let verdict = verdicts.iter().find(|verdict| verdict.detail.is_some() && *verdict.message == *message)?;
        let is_error = verdict.detail.is_some_and(|detail| detail.severity == Severity::Error);
        let is_of_settings = finding.field.ends_with(".permitInsecure");
        (is_error || is_of_settings || WARNINGS.contains(&verdict.reason)).then_some(verdict.reason)
    }

    /// Adds the row of the root that serves a host of several roots.
    fn winner(&mut self, object: &Object) {
        let id = object.id();
        let Some((host, losers)) = host(object).and_then(|host| Some((host, self.losers.get(host)?))) else { return };
        let Some(other) = losers.first().filter(|_| !losers.contains(&id.key)) else { return };
        let message = format!(
            "Lockgate serves host {host:?} with this object, the older one; Contour serves neither it nor HTTPProxy {other}"
        );
        self.add(&id, "spec.virtualhost.fqdn", Verdict::Better, message, "");
    }

    /// Adds a row about an object.
    fn add(&mut self, id: &ObjectId, field: &str, verdict: Verdict, message: String, remedy: &str) {
        let finding = Finding {
            file: "".into(),
            line: 0,
            level: Level::Note,
            rule: rule(verdict),
            kind: id.kind.as_str().to_owned(),
            namespace: id.key.namespace.to_string(),
            name: id.key.name.to_string(),
            field: field.to_owned(),
            message,
            consequence: String::new(),
            remedy: remedy.to_owned(),
        };
        self.unplaced.push((id.clone(), finding));
    }
}

/// Returns the host of a root.
fn host(object: &Object) -> Option<&str> {
    Some(&object.get::<HttpProxy>()?.spec.virtualhost.as_ref()?.fqdn)
}

/// Describes an object without deviations. Objects that the input lacks are named.
fn same(kind: Kind, findings: &[Finding]) -> String {
    let effect = match kind {
        kind if kind == Kind::SERVICE => "the annotations have the same effect",
        kind if kind == Kind::EXTENSION_SERVICE || kind == Kind::TLS_CERTIFICATE_DELEGATION => "it has the same effect",
        _ => "served as by Contour",
    };
    let is_orphan = |finding: &&Finding| finding.rule == Rule::NotServed && finding.level == Level::Note;
    if let Some(orphan) = findings.iter().find(is_orphan) {
        return format!("not compared: {}", orphan.message);
    }
    let mut missing: Vec<&str> =
        findings.iter().filter(|one| one.rule == Rule::NotInManifests).map(|one| one.message.as_str()).collect();
    missing.dedup();
    match missing.as_slice() {
        [] => effect.to_owned(),
        [one] => format!("{effect}, if the input is not complete: {one}"),
        [one, others @ ..] => format!("{effect}, if the input is not complete: {one}, and {} more", others.len()),
    }
}
