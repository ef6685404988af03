//! The validation of clients by the Envoy listeners of Gateways.

use super::{Translator, Update};
use crate::model::{ClientValidation, ListenerId};
use crate::translate::gateway::listener::Gateway;

impl Translator {
    /// Replaces the validation of the clients of an Envoy listener for HTTPS.
    pub(super) fn replace_clients(&mut self, id: &ListenerId, now: Option<ClientValidation>, update: &mut Update) {
        let Some(tls) = self.model.tls_mut(id.as_str()).filter(|tls| tls.clients != now) else { return };
        let before = std::mem::replace(&mut tls.clients, now.clone());
        let secret = |clients: Option<ClientValidation>| clients.map(|clients| clients.authorities);
        self.use_secret(secret(before), secret(now), &mut update.touched);
        update.touched.listeners.insert(id.clone());
    }
}

/// Returns the validation of the clients of an Envoy listener. All listeners on a port have the same configuration.
pub fn clients_of(gateway: &Gateway, id: &ListenerId) -> Option<ClientValidation> {
    gateway.on(id).find_map(|listener| listener.clients.clone())
}
