//! Turns the results of the translation into findings with places.

mod unserved;

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::objects::{
    ENVOY_GATEWAY, FOREIGN_POLICIES, ForeignPolicy, Kind, Object, ObjectId, ObjectKey, Objects,
};
use lockgate_route::settings::Settings;
use lockgate_route::translate::gateway::foreign_policies::SERVED_WITHOUT;
use lockgate_route::translate::problem::{Cause, Problem, Reason};
use lockgate_route::translate::verdict::Status;
use lockgate_route::translate::{Input, ORPHANED, Translator, Verdict};

use super::annotations;
use super::assumed::Assumed;
use super::finding::{Finding, Level, Rule};
use super::invalid::Invalid;
use super::manifests::{ManifestPlace, Manifests};
use super::{Scope, id_of, kinds};

/// Collects the findings of one check.
pub struct FindingCollector<'a> {
    manifests: &'a Manifests,
    objects: &'a Objects,
    settings: &'a Settings,
    translator: &'a Translator,
    scope: &'a Scope,
    /// The findings about objects of the manifests. Their lines are not known yet.
    drafts: Vec<(ManifestPlace, Finding)>,
    /// The findings about objects of the cluster.
    elsewhere: Vec<Finding>,
}

impl<'a> FindingCollector<'a> {
    /// Creates a collection without findings.
    pub fn new(
        manifests: &'a Manifests,
        objects: &'a Objects,
        settings: &'a Settings,
        translator: &'a Translator,
        scope: &'a Scope,
    ) -> Self {
        Self { manifests, objects, settings, translator, scope, drafts: Vec::new(), elsewhere: Vec::new() }
    }

    /// Adds a problem. Annotations of other controllers are reported one by one, by [`Self::annotations`].
    pub fn problem(&mut self, problem: &Problem) {
        let Some(id) = id_of(&problem.object) else { return };
        let is_ours = self.manifests.place(id.kind, &id.key).is_some();
        if is_ours && problem.field == annotations::FIELD {
            return;
        }
        if problem.reason == Reason::ListenerNotValid && problem.field.is_empty() && self.has_faulty_listener(problem) {
            return;
        }
        let (field, rule) = (problem.field.clone(), Rule::Reason(problem.reason));
        let message = self.unread(problem).unwrap_or_else(|| problem.message.to_string());
        let finding = finding(&id, field, rule, &message, &problem.consequence);
        if problem.consequence == SERVED_WITHOUT {
            return self.add(&id, Finding { level: Level::Warning, ..finding });
        }
        if self.is_local_address(problem) {
            let remedy =
                "No action is needed for `lockgate serve --manifests`, with Envoy on the same machine.".to_owned();
            let consequence = "the API server rejects the address".to_owned();
            return self.add(&id, Finding { level: Level::Note, consequence, remedy, ..finding });
        }
        let has_unknown_default = matches!(self.scope, Scope::Part) && self.settings.tls.default_secret.is_none();
        if has_unknown_default && problem.message.cause() == Some(&Cause::NoDefaultCertificate) {
            let message = "no Secret is named".to_owned();
            let consequence = format!("{} unless the controller has a default certificate", finding.consequence);
            let remedy =
                "Set secretName. If the controller has a default certificate, check with --default-tls-secret.";
            let remedy = remedy.to_owned();
            return self.add(&id, Finding { level: Level::Warning, message, consequence, remedy, ..finding });
        }
        match self.missing(&id, problem) {
            Some(missing) => {
                let (rule, message) = (Rule::NotInManifests, format!("{missing} is not in the manifests"));
                let (level, remedy) = (rule.level(), rule.remedy().to_owned());
                let consequence = format!("{} unless it exists", finding.consequence);
                self.add(&id, Finding { rule, level, message, consequence, remedy, ..finding });
            }
            None => self.add(&id, finding),
        }
    }

    /// Returns the message about an object that exists in the manifests, and that the translation cannot use: with the reason,
    /// instead of its absence.
    fn unread(&self, problem: &Problem) -> Option<String> {
        let (kind, key) = absent(problem)?;
        let reason = self.manifests.why_unread(kind, key)?;
        Some(format!("{} \"{key}\" {reason}", kind.as_str()))
    }

    /// Returns whether a problem of a whole Gateway only lists its faulty listeners, which have problems of their own.
    fn has_faulty_listener(&self, problem: &Problem) -> bool {
        let is_listener = |one: &Problem| one.object == problem.object && one.field.starts_with("spec.listeners[");
        problem.message.cause() == Some(&Cause::FaultyListeners)
            && self.translator.problems().iter().any(|one| is_listener(one))
    }

    /// Returns whether the problem is an address of the own machine. `lockgate serve --manifests` serves these addresses, and they occur
    /// in its manifests alone: the API server rejects them.
    fn is_local_address(&self, problem: &Problem) -> bool {
        matches!(self.scope, Scope::Part) && problem.message.cause() == Some(&Cause::Loopback)
    }

    /// Returns the object whose absence is the problem, if that object may exist outside of the manifests.
    fn missing(&self, id: &ObjectId, problem: &Problem) -> Option<String> {
        if let Some((kind, key)) = absent(problem) {
            let is_outside = self.scope.is_unknown(kind) && !self.manifests.has_unread(kind, key);
            return is_outside.then(|| format!("{} \"{key}\"", kind.as_str()));
        }
        match problem.message.cause() {
            Some(Cause::NoDefaultCertificate) => {
                let (namespace, name) = self.settings.tls.default_secret.as_ref()?;
                let exists = self.objects.of_kind(Kind::SECRET).contains_key(&ObjectKey::new(namespace, name));
                let is_outside = self.scope.is_unknown(Kind::SECRET) && !exists;
                is_outside.then(|| format!("the default Secret \"{namespace}/{name}\""))
            }
            Some(Cause::HostNotGranted { is_granted, .. }) if self.scope.is_unknown(Kind::HOST_GRANT) => {
                self.missing_grant(id, *is_granted)
            }
            Some(Cause::NotPermitted(namespace)) => {
                let is_outside =
                    self.scope.is_unknown(Kind::REFERENCE_GRANT) && !self.manifests.has_namespace(namespace);
                is_outside.then(|| format!("a ReferenceGrant of namespace {:?}", &**namespace))
            }
            Some(Cause::NotDelegated(namespace)) => {
                let is_outside =
                    self.scope.is_unknown(Kind::TLS_CERTIFICATE_DELEGATION) && !self.manifests.has_namespace(namespace);
                is_outside.then(|| format!("a TLSCertificateDelegation of namespace {:?}", &**namespace))
            }
            _ if problem.reason == Reason::RouteNotAttached => self.missing_namespace(id),
            _ => None,
        }
    }

    /// Returns the missing object that could permit a host to an object.
    fn missing_grant(&self, id: &ObjectId, is_granted: bool) -> Option<String> {
        if !is_granted {
            return Some("a HostGrant for the host".to_owned());
        }
        // A HostGrant of the manifests may select the namespace by labels that are not in the manifests.
        let namespace = ObjectKey { namespace: "".into(), name: id.key.namespace.clone() };
        let are_labels_read = self.translator.is_dependency(&Input::new(Kind::NAMESPACE, namespace.clone()));
        if !are_labels_read {
            return None;
        }
        self.unknown_namespace(namespace)
    }

    /// Returns a namespace whose labels a listener reads, and that is not in the manifests.
    fn missing_namespace(&self, id: &ObjectId) -> Option<String> {
        let namespaces = self.translator.inputs(id).filter(|input| input.kind() == Kind::NAMESPACE);
        namespaces.map(|input| input.key().clone()).find_map(|key| self.unknown_namespace(key))
    }

    fn unknown_namespace(&self, key: ObjectKey) -> Option<String> {
        let is_known = self.objects.of_kind(Kind::NAMESPACE).contains_key(&key);
        let is_outside = !is_known && self.scope.is_unknown(Kind::NAMESPACE);
        is_outside.then(|| format!("Namespace \"{}\"", key.name))
    }

    /// Adds the conditions that do not hold, of objects without problems.
    pub fn verdicts(&mut self) {
        let problems = self.translator.problems().iter();
        let known: BTreeSet<ObjectId> = problems.filter_map(|problem| id_of(&problem.object)).collect();
        for (id, verdicts) in self.translator.verdicts() {
            // The condition `Conflicted` is good if it is false.
            let is_fault = |verdict: &&Verdict| verdict.status == Status::False && verdict.condition != "Conflicted";
            for verdict in verdicts.iter().filter(is_fault).filter(|_| !known.contains(id)) {
                let of_parent = verdict.parent.map(|parent| format!("spec.parentRefs[{parent}]"));
                let of_listener = verdict.listener.as_ref().map(|name| format!("spec.listeners[{name:?}]"));
                let field = of_parent.or(of_listener).unwrap_or_default();
                let message = format!("{}: {}", verdict.reason, verdict.message);
                let consequence = format!("the condition {} is False", verdict.condition);
                // The manifests of a team contain the objects that a root of another team includes.
                let is_included_elsewhere = verdict.reason == ORPHANED && self.scope.is_unknown(Kind::HTTP_PROXY);
                let (rule, message, consequence) = match is_included_elsewhere {
                    true => (Rule::NotServed, "no root in the manifests includes it", "not checked further"),
                    false => (Rule::ConditionNotMet, &*message, &*consequence),
                };
                if self.manifests.place(id.kind, &id.key).is_some() {
                    self.add(id, finding(id, field, rule, message, consequence));
                }
            }
        }
    }

    /// Adds the annotations of other ingress controllers, one by one.
    pub fn annotations(&mut self) {
        let of_annotations = self.translator.problems().iter().filter(|one| one.reason == Reason::InvalidAnnotation);
        let invalid: BTreeSet<(ObjectId, &str)> =
            of_annotations.filter_map(|one| Some((id_of(&one.object)?, one.field.as_str()))).collect();
        let annotated: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.info().foreign_annotations).collect();
        for object in self.of_manifests(&annotated) {
            let id = object.id();
            let is_used = self.translator.serves(&id)
                || id.kind == Kind::SERVICE && self.translator.is_dependency(&Input::new(id.kind, id.key.clone()));
            if !is_used {
                continue;
            }
            for annotation in annotations::of(object.meta(), id.kind, self.settings) {
                let field = format!("metadata.annotations[{:?}]", annotation.name);
                if annotation.rule == Rule::SupportedAnnotation && invalid.contains(&(id.clone(), field.as_str())) {
                    continue;
                }
                let finding = finding(&id, field, annotation.rule, &annotation.message, &annotation.consequence);
                let remedy = annotation.remedy.unwrap_or(finding.remedy);
                self.add(&id, Finding { level: annotation.level, remedy, ..finding });
            }
        }
    }

    /// Adds the policies of Envoy Gateway without a target that is served here. A target may be outside of the manifests.
    pub fn foreign_policies(&mut self) {
        if !self.scope.is_unknown(Kind::HTTP_ROUTE) {
            return;
        }
        for policy in self.of_manifests(&FOREIGN_POLICIES).into_iter().filter_map(Object::get::<ForeignPolicy>) {
            let id = policy.kind.id(policy.meta.key.clone());
            let has_target = self.translator.has_served_target(&id, self.objects);
            let unused = kinds::of_another_controller(ENVOY_GATEWAY, policy.kind.as_str(), policy.restricts);
            if let Some((level, message, remedy)) = unused.filter(|_| !has_target) {
                let finding = finding(&id, String::new(), Rule::UnsupportedKind, &message, "not applied");
                self.add(&id, Finding { level, remedy, ..finding });
            }
        }
    }

    /// Adds the references to assumed objects: one for each of these objects.
    pub fn assumed(&mut self, assumed: &Assumed) {
        let mut by_object = BTreeMap::<&ObjectId, Vec<(&ObjectId, &str)>>::new();
        for (from, field, to) in &assumed.references {
            by_object.entry(to).or_default().push((from, field));
        }
        for (to, from) in by_object {
            let Some((first, field)) = from.first() else { continue };
            let others = match from.len() {
                1 => String::new(),
                count => format!(" ({count} references)"),
            };
            let message = format!("{} \"{}\" is not in the manifests{others}", to.kind.as_str(), to.key);
            let (mut consequence, remedy) = assumption(to.kind);
            let remedy = remedy.map(str::to_owned).or_else(|| self.namesake(to).map(other_namespace));
            if to.kind == Kind::SERVICE && from.iter().all(|(id, field)| self.has_faulty_port(id, field)) {
                consequence = "checked as if it existed";
            }
            let finding = finding(first, (*field).to_owned(), Rule::NotInManifests, &message, consequence);
            let remedy = remedy.unwrap_or(finding.remedy);
            self.add(first, Finding { remedy, ..finding });
        }
    }

    /// Returns the Service of the manifests with the name of `missing` in another namespace, if one of the two is the namespace of
    /// objects without one. Charts often set the namespace of some objects only.
    fn namesake(&self, missing: &ObjectId) -> Option<&'a ObjectKey> {
        let of_kind = self.objects.of_kind(missing.kind).keys();
        let unnamed = self.manifests.namespace();
        let is_namesake = |key: &&ObjectKey| {
            key.name == missing.key.name
                && key.namespace != missing.key.namespace
                && [&*key.namespace, &*missing.key.namespace].contains(&unnamed)
                && self.manifests.place(missing.kind, key).is_some()
        };
        of_kind.filter(|_| missing.kind == Kind::SERVICE).find(is_namesake)
    }

    /// Returns whether the port of the backend whose name is at `field` has a problem.
    fn has_faulty_port(&self, id: &ObjectId, field: &str) -> bool {
        let port = field.strip_suffix(".name").map(|backend| format!("{backend}.port"));
        let mut problems = self.translator.problems().iter();
        problems.any(|problem| Some(&problem.field) == port.as_ref() && id_of(&problem.object).as_ref() == Some(id))
    }

    /// Adds the faults for which the API server would reject objects, unless a finding about the same field tells more.
    pub fn invalid(&mut self) {
        let mut by_place = BTreeMap::<&ManifestPlace, Vec<&Invalid>>::new();
        self.manifests.invalid().iter().for_each(|one| by_place.entry(&one.place).or_default().push(one));
        for (place, finding) in self.drafts.iter_mut().filter(|(_, finding)| finding.level < Level::Note) {
            let Some(faults) = by_place.get_mut(place).filter(|_| matches!(finding.rule, Rule::Reason(_))) else {
                continue;
            };
            let before = faults.len();
            faults.retain(|invalid| !invalid.is_told_by(&finding.field));
            if faults.len() < before {
                finding.level = Level::Error;
            }
        }
        let others = by_place.into_values().flatten();
        self.drafts.extend(others.map(|invalid| (invalid.place.clone(), invalid.finding.clone())));
    }

    /// Returns the objects of the manifests of these kinds, as they are checked.
    fn of_manifests(&self, kinds: &[Kind]) -> Vec<&'a Object> {
        let of_kind = |kind: &Kind| self.objects.of_kind(*kind).values();
        let is_ours = |object: &&Object| self.manifests.place(object.kind(), &object.meta().key).is_some();
        kinds.iter().flat_map(of_kind).filter(is_ours).collect()
    }

    fn add(&mut self, id: &ObjectId, finding: Finding) {
        match self.manifests.place(id.kind, &id.key) {
            Some(place) => self.drafts.push((place.clone(), finding)),
            None if matches!(self.scope, Scope::Against { .. }) => self.elsewhere.push(finding),
            // An object of the settings, or an assumed one.
            None => {}
        }
    }

    /// Returns all findings, sorted by file and line.
    pub fn into_findings(mut self) -> Vec<Finding> {
        self.manifests.locate(&mut self.drafts);
        let located = self.drafts.into_iter().map(|(_, finding)| finding);
        let mut findings: Vec<Finding> = located.chain(self.elsewhere).collect();
        findings.extend(self.manifests.unexplained().cloned());
        findings.sort();
        findings.dedup();
        findings
    }
}

/// Returns the remedy for a missing Service with a namesake in another namespace.
fn other_namespace(namesake: &ObjectKey) -> String {
    format!(
        "Service \"{namesake}\" is in the manifests. To use it, set the same namespace in both objects; --namespace sets the \
         namespace of objects without one."
    )
}

/// Describes the assumption about an object of `kind`, and the remedy if it is wrong.
fn assumption(kind: Kind) -> (&'static str, Option<&'static str>) {
    match kind {
        kind if kind == Kind::SERVICE => ("checked as if it had the port", None),
        kind if kind == Kind::GATEWAY => ("checked as if it allowed the route", None),
        kind if kind == Kind::GATEWAY_CLASS => (
            "checked as if Lockgate served this class",
            Some("No action is needed if it does; otherwise, set spec.gatewayClassName to a class of Lockgate."),
        ),
        _ => (
            "checked as if Lockgate served this class",
            Some("No action is needed if it does; otherwise, set spec.ingressClassName to a class of Lockgate."),
        ),
    }
}

/// Creates a finding without a place.
fn finding(id: &ObjectId, field: String, rule: Rule, message: &str, consequence: &str) -> Finding {
    Finding {
        file: "".into(),
        line: 0,
        level: rule.level(),
        rule,
        kind: id.kind.as_str().to_owned(),
        namespace: id.key.namespace.to_string(),
        name: id.key.name.to_string(),
        field,
        message: message.trim_end().to_owned(),
        consequence: consequence.to_owned(),
        remedy: rule.remedy().to_owned(),
    }
}

/// Returns the object whose absence is the problem.
fn absent(problem: &Problem) -> Option<(Kind, &ObjectKey)> {
    match problem.message.cause()? {
        Cause::Missing(id) => Some((id.kind, &id.key)),
        Cause::MissingService(key, _) => Some((Kind::SERVICE, key)),
        _ => None,
    }
}
