//! Directory servers over HTTP: connected schemes, their card ranges, and the client
//! certificates that are accepted with results.

pub mod address;
mod client;
pub mod client_cert;
pub(crate) mod range_refresh;
mod ranges;
mod scheme_client;
mod transport;

use std::sync::Arc;

use scrip_core::{
    Timestamp,
    threeds::{
        DirectoryServerError, DirectoryServerFuture, DirectoryServers, SchemeConnection,
        SchemeRanges, ThreeDsSettings,
    },
    types::TenantKind,
};
use scrip_threeds::code::Scheme;
use zeroize::Zeroizing;

use crate::{
    directory_servers::{
        address::LoopbackUrl,
        scheme_client::SchemeClient,
        transport::{MutualTlsTransport, SimulatorTransport, TenantTransport, TestTenantTransport},
    },
    tls::ReloadFiles,
};

pub use crate::directory_servers::{
    client::ExchangeTimeouts, ranges::RangeFetchError, transport::MutualTlsSettings,
};
pub(crate) use crate::directory_servers::{
    scheme_client::ConnectedScheme, transport::tenant_kind_name,
};

/// Reference number sent to the simulator, which requires no `EMVCo` approval.
const SIMULATOR_REFERENCE_NUMBER: &str = "3DS_LOA_SER_SCRP_020200_00000";
const SIMULATOR_OPERATOR_ID: &str = "SCRIP-SIMULATED";

/// Settings of all connected schemes.
#[derive(Debug)]
pub struct DirectoryServersSettings {
    pub threeds: ThreeDsSettings,
    pub timeouts: ExchangeTimeouts,
    pub production: Vec<SchemeClientSettings>,
    pub test: Vec<SchemeClientSettings>,
    /// Simulator for test tenants; it replaces every scheme without a test connection.
    pub simulator: Option<LoopbackUrl>,
}

/// Settings of the client of one scheme.
#[derive(Debug, Clone)]
pub struct SchemeClientSettings {
    pub scheme: Scheme,
    pub transport: MutualTlsSettings,
    pub connection: SchemeConnection,
}

/// All connected schemes. Connections of production tenants have their own type, which cannot
/// contain the simulator.
#[derive(Debug)]
pub struct HttpDirectoryServers {
    settings: ThreeDsSettings,
    production: Vec<Arc<SchemeClient<MutualTlsTransport>>>,
    test: Vec<Arc<SchemeClient<TestTenantTransport>>>,
}

impl HttpDirectoryServers {
    /// Creates the clients without connecting.
    /// Errors: a file is missing or damaged, or a key does not match its certificate.
    pub fn new(settings: &DirectoryServersSettings) -> anyhow::Result<Self> {
        let (mut production, mut test) = (Vec::new(), Vec::new());
        // The order of schemes is also the order of preference for a card with two brands.
        for scheme in Scheme::ALL {
            let timeouts = settings.timeouts;
            if let Some(it) = settings.production.iter().find(|it| it.scheme == *scheme) {
                let transport = MutualTlsTransport::new(&it.transport)?;
                production.push(Arc::new(SchemeClient::new(
                    *scheme,
                    transport,
                    it.connection.clone(),
                    timeouts,
                )));
            }
            let (transport, connection) = match settings.test.iter().find(|it| it.scheme == *scheme)
            {
                Some(it) => (
                    TestTenantTransport::MutualTls(MutualTlsTransport::new(&it.transport)?),
                    it.connection.clone(),
                ),
                None => match &settings.simulator {
                    Some(url) => {
                        let transport =
                            TestTenantTransport::Simulator(SimulatorTransport::new(url, *scheme));
                        (transport, simulator_connection(&settings.threeds))
                    }
                    None => continue,
                },
            };
            test.push(Arc::new(SchemeClient::new(*scheme, transport, connection, timeouts)));
        }
        Ok(Self { settings: settings.threeds.clone(), production, test })
    }

    /// Fetches the card ranges of a scheme now and returns their number.
    /// Errors: the fetch failed; the current ranges stay in force.
    pub async fn refresh_ranges(
        &self,
        kind: TenantKind,
        scheme: Scheme,
        now: Timestamp,
    ) -> Result<usize, RangeFetchError> {
        let mut schemes = self.connected_schemes().into_iter();
        let connected_scheme = schemes.find(|it| it.kind() == kind && it.scheme() == scheme);
        let not_connected = || {
            RangeFetchError::NoResponse(
                DirectoryServerError::NotSent,
                "the scheme is not connected".to_owned(),
            )
        };
        connected_scheme.ok_or_else(not_connected)?.refresh_ranges(now).await
    }

    /// All connected schemes, for both kinds of tenants.
    pub(crate) fn connected_schemes(&self) -> Vec<Arc<dyn ConnectedScheme>> {
        let production = self.production.iter().map(to_connected_scheme);
        production.chain(self.test.iter().map(to_connected_scheme)).collect()
    }

    /// Certificate files that are reloaded while the server runs.
    pub fn credentials(&self) -> Vec<Arc<dyn ReloadFiles>> {
        let test_transports = self.test.iter().filter_map(|it| match &it.transport {
            TestTenantTransport::MutualTls(it) => Some(it),
            TestTenantTransport::Simulator(_) => None,
        });
        let transports = self.production.iter().map(|it| &it.transport).chain(test_transports);
        transports.map(|it| it.credentials.to_reload_files()).collect()
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
            let not_connected = DirectoryServerError::NotSent;
            match kind {
                TenantKind::Production => {
                    find_client(&self.production, scheme)
                        .ok_or(not_connected)?
                        .send_authentication(message)
                        .await
                }
                TenantKind::Test => {
                    find_client(&self.test, scheme)
                        .ok_or(not_connected)?
                        .send_authentication(message)
                        .await
                }
            }
        })
    }
}

fn to_connected_scheme<W: TenantTransport>(it: &Arc<SchemeClient<W>>) -> Arc<dyn ConnectedScheme> {
    Arc::<SchemeClient<W>>::clone(it)
}

fn find_client<W: TenantTransport>(
    clients: &[Arc<SchemeClient<W>>],
    scheme: Scheme,
) -> Option<&SchemeClient<W>> {
    clients.iter().map(|it| &**it).find(|it| it.scheme() == scheme)
}
