//! The directory servers over HTTP: whom the settings connect, what they have told of their cards,
//! and where they come to with results.

pub mod address;
mod client;
mod ranges;
pub mod results;
mod scheme_client;
mod transport;
mod write_tracking_stream;

use std::sync::Arc;

use scrip_core::{
    policy::TenantKind,
    threeds::{
        DirectoryServerError, DirectoryServerFuture, DirectoryServers, SchemeConnection,
        SchemeRanges, ThreeDsSettings,
    },
    time::Timestamp,
};
use scrip_threeds::code::Scheme;
use zeroize::Zeroizing;

use crate::{
    directory_servers::{
        address::LoopbackUrl,
        scheme_client::{SchemeClient, TenantTransport},
        transport::{MutualTlsTransport, SimulatorTransport, TestTenantTransport},
    },
    listen::tls::ReloadFiles,
};

pub use crate::directory_servers::{
    client::ExchangeTimeouts, ranges::RangeFetchError, transport::MutualTlsPlan,
};
pub(crate) use crate::directory_servers::{
    ranges::refresh_periodically, scheme_client::ConnectedScheme,
};

/// What the simulator is told of us. It asks nobody for an approval.
const SIMULATOR_REFERENCE_NUMBER: &str = "3DS_LOA_SER_SCRP_020200_00000";
const SIMULATOR_OPERATOR_ID: &str = "SCRIP-SIMULATED";

/// Whom to connect, and how.
#[derive(Debug)]
pub struct DirectoryServersPlan {
    pub settings: ThreeDsSettings,
    pub timeouts: ExchangeTimeouts,
    pub production: Vec<SchemePlan>,
    pub test: Vec<SchemePlan>,
    /// For test tenants, and every scheme that they have no server of.
    pub simulator: Option<LoopbackUrl>,
}

#[derive(Debug, Clone)]
pub struct SchemePlan {
    pub scheme: Scheme,
    pub transport: MutualTlsPlan,
    pub connection: SchemeConnection,
}

/// Every scheme that is connected. What production tenants reach has a type of its own, in which
/// there is no room for the simulator.
#[derive(Debug)]
pub struct HttpDirectoryServers {
    settings: ThreeDsSettings,
    production: Vec<Arc<SchemeClient<MutualTlsTransport>>>,
    test: Vec<Arc<SchemeClient<TestTenantTransport>>>,
}

impl HttpDirectoryServers {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// A file is missing or damaged, or a key is not the certificate's.
    pub fn new(plan: &DirectoryServersPlan) -> anyhow::Result<Self> {
        let (mut production, mut test) = (Vec::new(), Vec::new());
        // The order of the schemes is also the one in which a card with two brands prefers them.
        for scheme in Scheme::ALL {
            let timing = plan.timeouts;
            if let Some(it) = plan.production.iter().find(|it| it.scheme == *scheme) {
                let transport = MutualTlsTransport::new(&it.transport)?;
                production.push(Arc::new(SchemeClient::new(
                    *scheme,
                    transport,
                    it.connection.clone(),
                    timing,
                )));
            }
            let (transport, link) = match plan.test.iter().find(|it| it.scheme == *scheme) {
                Some(it) => (
                    TestTenantTransport::MutualTls(MutualTlsTransport::new(&it.transport)?),
                    it.connection.clone(),
                ),
                None => match &plan.simulator {
                    Some(url) => {
                        let transport =
                            TestTenantTransport::Simulator(SimulatorTransport::new(url, *scheme));
                        (transport, simulator_connection(&plan.settings))
                    }
                    None => continue,
                },
            };
            test.push(Arc::new(SchemeClient::new(*scheme, transport, link, timing)));
        }
        Ok(Self { settings: plan.settings.clone(), production, test })
    }

    /// Asks a scheme for its card ranges now, and takes them over; how many there are.
    ///
    /// # Errors
    /// Why they stay as they were.
    pub async fn refresh_ranges(
        &self,
        kind: TenantKind,
        scheme: Scheme,
        now: Timestamp,
    ) -> Result<usize, RangeFetchError> {
        let mut peers = self.connected_schemes().into_iter();
        let found = peers.find(|it| it.kind() == kind && it.scheme() == scheme);
        let cause = || {
            RangeFetchError::NoResponse(
                DirectoryServerError::NotSent,
                "is not connected".to_owned(),
            )
        };
        found.ok_or_else(cause)?.refresh_ranges(now).await
    }

    /// Everybody who is connected, and for whom.
    pub(crate) fn connected_schemes(&self) -> Vec<Arc<dyn ConnectedScheme>> {
        let production = self.production.iter().map(as_connected_scheme);
        production.chain(self.test.iter().map(as_connected_scheme)).collect()
    }

    /// The files that may change while the server runs.
    pub fn credentials(&self) -> Vec<Arc<dyn ReloadFiles>> {
        let of_tests = self.test.iter().filter_map(|it| match &it.transport {
            TestTenantTransport::MutualTls(it) => Some(it),
            TestTenantTransport::Simulator(_) => None,
        });
        let all = self.production.iter().map(|it| &it.transport).chain(of_tests);
        all.map(|it| it.credentials.as_reload_files()).collect()
    }
}

fn simulator_connection(settings: &ThreeDsSettings) -> SchemeConnection {
    SchemeConnection {
        reference_number: SIMULATOR_REFERENCE_NUMBER.to_owned(),
        operator_id: Some(SIMULATOR_OPERATOR_ID.to_owned()),
        results_url: settings.public_url.clone(),
    }
}

impl DirectoryServers for HttpDirectoryServers {
    fn settings(&self) -> &ThreeDsSettings {
        &self.settings
    }

    fn ranges(&self, kind: TenantKind) -> Vec<SchemeRanges> {
        match kind {
            TenantKind::Production => self.production.iter().map(|it| it.scheme_ranges()).collect(),
            TenantKind::Test => self.test.iter().map(|it| it.scheme_ranges()).collect(),
        }
    }

    fn connection(&self, kind: TenantKind, scheme: Scheme) -> Option<SchemeConnection> {
        match kind {
            TenantKind::Production => {
                find_client(&self.production, scheme).map(|it| it.connection.clone())
            }
            TenantKind::Test => find_client(&self.test, scheme).map(|it| it.connection.clone()),
        }
    }

    fn send_message<'a>(
        &'a self,
        kind: TenantKind,
        scheme: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a> {
        Box::pin(async move {
            let missing = DirectoryServerError::NotSent;
            match kind {
                TenantKind::Production => {
                    find_client(&self.production, scheme)
                        .ok_or(missing)?
                        .send_authentication(message)
                        .await
                }
                TenantKind::Test => {
                    find_client(&self.test, scheme)
                        .ok_or(missing)?
                        .send_authentication(message)
                        .await
                }
            }
        })
    }
}

fn as_connected_scheme<W: TenantTransport>(it: &Arc<SchemeClient<W>>) -> Arc<dyn ConnectedScheme> {
    Arc::<SchemeClient<W>>::clone(it)
}

fn find_client<W: TenantTransport>(
    clients: &[Arc<SchemeClient<W>>],
    scheme: Scheme,
) -> Option<&SchemeClient<W>> {
    clients.iter().map(|it| &**it).find(|it| it.scheme() == scheme)
}

/// A kind of tenant, where settings and labels name it.
pub(crate) fn tenant_kind_name(kind: TenantKind) -> &'static str {
    match kind {
        TenantKind::Test => "test",
        TenantKind::Production => "production",
    }
}
