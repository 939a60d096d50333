//! The directory servers over HTTP: whom the settings connect, what they have told of their cards,
//! and where they come to with results.

pub mod address;
mod client;
mod connected;
mod noting;
mod ranges;
pub mod results;
mod way;

use std::sync::Arc;

use scrip_core::{
    policy::TenantKind,
    threeds::{Asking, DirectoryServers, Link, SchemeRanges, Terms, Unanswered},
    time::Timestamp,
};
use scrip_threeds::code::Scheme;
use zeroize::Zeroizing;

use crate::{
    directory_servers::{
        address::LoopbackUrl,
        connected::{Connected, Serves},
        way::{ForTests, Secured, Simulated},
    },
    listen::tls::Reload,
};

pub use crate::directory_servers::{client::Timing, ranges::Failure, way::SecuredPlan};
pub(crate) use crate::directory_servers::{connected::Peer, ranges::keep_ranges};

/// What the simulator is told of us. It asks nobody for an approval.
const SIMULATED_REFERENCE: &str = "3DS_LOA_SER_SCRP_020200_00000";
const SIMULATED_OPERATOR: &str = "SCRIP-SIMULATED";

/// Whom to connect, and how.
#[derive(Debug)]
pub struct Plan {
    pub terms: Terms,
    pub timing: Timing,
    pub production: Vec<SchemePlan>,
    pub test: Vec<SchemePlan>,
    /// For test tenants, and every scheme that they have no server of.
    pub simulator: Option<LoopbackUrl>,
}

#[derive(Debug, Clone)]
pub struct SchemePlan {
    pub scheme: Scheme,
    pub way: SecuredPlan,
    pub link: Link,
}

/// Every scheme that is connected. What production tenants reach has a type of its own, in which
/// there is no room for the simulator.
#[derive(Debug)]
pub struct Servers {
    terms: Terms,
    production: Vec<Arc<Connected<Secured>>>,
    test: Vec<Arc<Connected<ForTests>>>,
}

impl Servers {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// A file is missing or damaged, or a key is not the certificate's.
    pub fn new(plan: &Plan) -> anyhow::Result<Self> {
        let (mut production, mut test) = (Vec::new(), Vec::new());
        // The order of the schemes is also the one in which a card with two brands prefers them.
        for scheme in Scheme::ALL {
            let timing = plan.timing;
            if let Some(it) = plan.production.iter().find(|it| it.scheme == *scheme) {
                let way = Secured::new(&it.way)?;
                production.push(Arc::new(Connected::new(*scheme, way, it.link.clone(), timing)));
            }
            let (way, link) = match plan.test.iter().find(|it| it.scheme == *scheme) {
                Some(it) => (ForTests::Secured(Secured::new(&it.way)?), it.link.clone()),
                None => match &plan.simulator {
                    Some(url) => {
                        let way = ForTests::Simulated(Simulated::new(url, *scheme));
                        (way, simulated_link(&plan.terms))
                    }
                    None => continue,
                },
            };
            test.push(Arc::new(Connected::new(*scheme, way, link, timing)));
        }
        Ok(Self { terms: plan.terms.clone(), production, test })
    }

    /// Asks a scheme for its card ranges now, and takes them over; how many there are.
    ///
    /// # Errors
    /// Why they stay as they were.
    pub async fn refresh(
        &self,
        kind: TenantKind,
        scheme: Scheme,
        now: Timestamp,
    ) -> Result<usize, Failure> {
        let mut peers = self.peers().into_iter();
        let found = peers.find(|it| it.kind() == kind && it.scheme() == scheme);
        let cause = || Failure::Unanswered(Unanswered::NotSent, "is not connected".to_owned());
        found.ok_or_else(cause)?.refresh(now).await
    }

    /// Everybody who is connected, and for whom.
    pub(crate) fn peers(&self) -> Vec<Arc<dyn Peer>> {
        let production = self.production.iter().map(peer);
        production.chain(self.test.iter().map(peer)).collect()
    }

    /// The files that may change while the server runs.
    pub fn credentials(&self) -> Vec<Arc<dyn Reload>> {
        let of_tests = self.test.iter().filter_map(|it| match &it.way {
            ForTests::Secured(it) => Some(it),
            ForTests::Simulated(_) => None,
        });
        let all = self.production.iter().map(|it| &it.way).chain(of_tests);
        all.map(|it| it.credentials.reloaded()).collect()
    }
}

fn simulated_link(terms: &Terms) -> Link {
    Link {
        reference_number: SIMULATED_REFERENCE.to_owned(),
        operator_id: Some(SIMULATED_OPERATOR.to_owned()),
        results_url: terms.public_url.clone(),
    }
}

impl DirectoryServers for Servers {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn ranges(&self, kind: TenantKind) -> Vec<SchemeRanges> {
        match kind {
            TenantKind::Production => self.production.iter().map(|it| it.told()).collect(),
            TenantKind::Test => self.test.iter().map(|it| it.told()).collect(),
        }
    }

    fn link(&self, kind: TenantKind, scheme: Scheme) -> Option<Link> {
        match kind {
            TenantKind::Production => find(&self.production, scheme).map(|it| it.link.clone()),
            TenantKind::Test => find(&self.test, scheme).map(|it| it.link.clone()),
        }
    }

    fn ask<'a>(
        &'a self,
        kind: TenantKind,
        scheme: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> Asking<'a> {
        Box::pin(async move {
            let missing = Unanswered::NotSent;
            match kind {
                TenantKind::Production => {
                    find(&self.production, scheme).ok_or(missing)?.ask(message).await
                }
                TenantKind::Test => find(&self.test, scheme).ok_or(missing)?.ask(message).await,
            }
        })
    }
}

fn peer<W: Serves>(it: &Arc<Connected<W>>) -> Arc<dyn Peer> {
    Arc::<Connected<W>>::clone(it)
}

fn find<W: Serves>(connected: &[Arc<Connected<W>>], scheme: Scheme) -> Option<&Connected<W>> {
    connected.iter().map(|it| &**it).find(|it| it.scheme() == scheme)
}

/// A kind of tenant, where settings and labels name it.
pub(crate) fn world(kind: TenantKind) -> &'static str {
    match kind {
        TenantKind::Test => "test",
        TenantKind::Production => "production",
    }
}
