//! One scheme that is connected, for one kind of tenants: its ranges, and what came of asking it.

use std::{future::Future, pin::Pin, sync::Arc};

use arc_swap::ArcSwapOption;
use scrip_api::{labels, metrics::Counters};
use scrip_core::{
    metrics::{Counter, Gauge, Histogram, MICROS_BOUNDS},
    policy::TenantKind,
    threeds::{DirectoryServerError, SchemeConnection, SchemeRanges},
    time::Timestamp,
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX, range::CardRanges};
use zeroize::Zeroizing;

use crate::{
    directory_servers::{
        client::{self, DirectoryRequest, ExchangeTimeouts, RequestFailure},
        ranges::{self, RangeFetchError},
        tenant_kind_name,
        transport::{MutualTlsTransport, TestTenantTransport, Transport},
    },
    process::clock::ticks,
};

labels! {
    /// What came of asking.
    pub(crate) enum ExchangeOutcome {
        Succeeded "answered",
        NotSent "not_sent",
        TimedOut "timed_out",
        Failed "broken",
    }
}

/// What is counted of one scheme.
#[derive(Debug)]
pub(crate) struct SchemeMetrics {
    /// Authentications; questions for ranges are told by the two below.
    pub(crate) requests: Counters<ExchangeOutcome>,
    pub(crate) micros: Histogram<16>,
    /// Milliseconds of the vault's clock; 0 before the first time.
    pub(crate) ranges_fetched_at: Gauge,
    pub(crate) range_failures: Counter,
}

#[derive(Debug)]
pub(crate) struct SchemeClient<W> {
    scheme: Scheme,
    pub(super) transport: W,
    pub(super) connection: SchemeConnection,
    pub(super) timeouts: ExchangeTimeouts,
    ranges: ArcSwapOption<CardRanges>,
    metrics: SchemeMetrics,
}

/// For whom a way is.
pub(crate) trait TenantTransport: Transport {
    const KIND: TenantKind;
}

impl TenantTransport for MutualTlsTransport {
    const KIND: TenantKind = TenantKind::Production;
}

impl TenantTransport for TestTenantTransport {
    const KIND: TenantKind = TenantKind::Test;
}

pub(crate) type RefreshFuture<'a> =
    Pin<Box<dyn Future<Output = Result<usize, RangeFetchError>> + Send + 'a>>;

/// One of them, whatever the way to it.
pub(crate) trait ConnectedScheme: Send + Sync {
    fn kind(&self) -> TenantKind;
    fn scheme(&self) -> Scheme;
    fn metrics(&self) -> &SchemeMetrics;
    fn ranges(&self) -> Option<Arc<CardRanges>>;

    /// Asks for the ranges and takes them over; how many there are.
    fn refresh_ranges(&self, now: Timestamp) -> RefreshFuture<'_>;
}

impl<W: Transport> SchemeClient<W> {
    pub(crate) fn new(
        scheme: Scheme,
        transport: W,
        connection: SchemeConnection,
        timeouts: ExchangeTimeouts,
    ) -> Self {
        let counts = SchemeMetrics {
            requests: Counters::default(),
            micros: Histogram::new(MICROS_BOUNDS),
            ranges_fetched_at: Gauge::default(),
            range_failures: Counter::default(),
        };
        Self {
            scheme,
            transport,
            connection,
            timeouts,
            ranges: ArcSwapOption::empty(),
            metrics: counts,
        }
    }

    pub(crate) fn current_ranges(&self) -> Option<Arc<CardRanges>> {
        self.ranges.load_full()
    }
}

impl<W: TenantTransport> SchemeClient<W> {
    pub(crate) fn scheme_ranges(&self) -> SchemeRanges {
        SchemeRanges { scheme: self.scheme, ranges: self.current_ranges() }
    }

    /// Sends an authentication, once.
    pub(crate) async fn send_authentication(
        &self,
        message: Zeroizing<Vec<u8>>,
    ) -> Result<Vec<u8>, DirectoryServerError> {
        let question = DirectoryRequest { message, response_bytes_max: MESSAGE_BYTES_MAX };
        let started = ticks();
        let response = client::send_request(&self.transport, question, self.timeouts).await;
        let duration = ticks().saturating_sub(started);
        self.metrics.micros.record(duration.as_micros().try_into().unwrap_or(u64::MAX));
        let outcome = match &response {
            Ok(_) => ExchangeOutcome::Succeeded,
            Err(RequestFailure { error: DirectoryServerError::NotSent, .. }) => {
                ExchangeOutcome::NotSent
            }
            Err(RequestFailure { error: DirectoryServerError::TimedOut, .. }) => {
                ExchangeOutcome::TimedOut
            }
            Err(RequestFailure { error: DirectoryServerError::Broken, .. }) => {
                ExchangeOutcome::Failed
            }
        };
        self.metrics.requests.increment(outcome);
        response.map_err(|RequestFailure { error: unanswered, cause }| {
            let (scheme, harness) = (self.scheme.name(), tenant_kind_name(W::KIND));
            tracing::warn!(
                scheme,
                harness,
                ?unanswered,
                cause,
                "a directory server did not answer"
            );
            unanswered
        })
    }
}

impl<W: TenantTransport> ConnectedScheme for SchemeClient<W> {
    fn kind(&self) -> TenantKind {
        W::KIND
    }

    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn metrics(&self) -> &SchemeMetrics {
        &self.metrics
    }

    fn ranges(&self) -> Option<Arc<CardRanges>> {
        self.current_ranges()
    }

    fn refresh_ranges(&self, now: Timestamp) -> RefreshFuture<'_> {
        Box::pin(async move {
            let fetched = ranges::fetch_ranges(self).await;
            let next = fetched.inspect_err(|_| self.metrics.range_failures.increment())?;
            let count = next.len();
            self.ranges.store(Some(Arc::new(next)));
            self.metrics.ranges_fetched_at.set(u64::try_from(now.unix_ms).unwrap_or_default());
            Ok(count)
        })
    }
}
