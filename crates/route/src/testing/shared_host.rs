//! A host that many Ingresses share, and a loop that translates and builds it.

use super::model::Shared as _;
use super::objects::*;
use crate::envoy::{Builder, Change, Forms};
use crate::model::{Host, VirtualHostRoutes};
use crate::objects::{Kind, Object, Objects};
use crate::settings::Settings;
use crate::translate::{ChangedInputs, Input, Translator};

/// Returns the host that all Ingresses share.
pub fn host() -> Host {
    Host::Exact("shop.example.com".into())
}

/// Returns the Ingress `number`, with one or two paths of the shared host.
pub fn sharing(number: usize, paths: usize) -> IngressBuilder {
    let service = format!("team-{number}:80");
    let path = |builder: IngressBuilder, at: usize| builder.path("Prefix", &format!("/team-{number}/{at}"), &service);
    (0..paths).fold(ingress(&format!("team-{number}")).host("shop.example.com"), path)
}

/// A translator, a builder, and their objects.
pub struct Loop {
    pub objects: Objects,
    pub settings: Settings,
    pub translator: Translator,
    pub builder: Builder,
}

/// The served form of routes: a scope for each host.
pub const FORMS: Forms = Forms { vhds: false, rds: false, no_scopes: false };

impl Loop {
    pub fn new(objects: Objects, settings: Settings) -> Self {
        let mut this = Self { objects, settings, translator: Translator::default(), builder: Builder::default() };
        this.update(&ChangedInputs::everything(), true);
        this
    }

    fn update(&mut self, changed: &ChangedInputs, first: bool) {
        let update = self.translator.update(&self.objects, &self.settings, changed);
        let (model, touched, settings) = (self.translator.model(), &update.touched, &self.settings);
        self.builder.update(Change { model, touched, settings, settings_changed: first }, FORMS);
    }

    /// Applies an Ingress, and builds the resources that it changes.
    pub fn apply(&mut self, builder: IngressBuilder) {
        let object: Object = builder.into();
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::INGRESS, object.meta().key.clone()));
        self.objects.apply(object);
        self.update(&changed, false);
    }

    /// Returns the virtual host of the shared host.
    pub fn virtual_host(&self) -> &VirtualHostRoutes {
        &self.translator.model().http()[&host()]
    }
}

/// Creates a host that `count` Ingresses share.
pub fn shared(count: usize) -> Loop {
    let with_service = |world: World, number: usize| world.with(service(&format!("team-{number}")).port("http", 80));
    let world = (0..count).fold(world(), with_service);
    let world = (0..count).fold(world, |world, number| world.with(sharing(number, 1)));
    Loop::new(objects(&world.objects), world.settings)
}
