//! Compiled proxies: compiled after a change, outside of the async workers.

use std::sync::Arc;

use scrip_core::{
    Error,
    policy::{
        Proxy, ProxyLookup,
        proxy::{ProxyDetails, ProxyProgram},
    },
};

use crate::app::{App, long_evaluation};

/// The program of a proxy. If it is not compiled yet, it is compiled in a slot for long evaluations.
/// Errors: the settings cannot be opened, or too many evaluations wait for a slot.
pub(crate) fn compile_in_slot(proxy: &Proxy) -> Result<&Arc<ProxyProgram>, Error> {
    let tenant = proxy.tenant().id;
    proxy.program(|compile| long_evaluation::run_in_slot_of(tenant, compile))
}

impl App {
    /// Compiles a proxy that was written, so that its first call need not wait.
    /// Errors: the settings cannot be opened.
    pub(crate) fn compile_proxy(&self, written: &ProxyDetails) -> Result<(), Error> {
        let directory = self.directory.load();
        let lookup =
            directory.as_ref().map(|it| it.find_proxy_by_key(written.secrets.key.expose()));
        let Some(Some(ProxyLookup::Found(proxy))) = lookup else { return Ok(()) };
        match compile_in_slot(proxy) {
            // The first call compiles it.
            Err(Error::Unavailable(_)) => Ok(()),
            result => result.map(drop),
        }
    }
}
