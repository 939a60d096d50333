//! Client of one connected scheme for one kind of tenants: card ranges, requests and metrics.

use std::{future::Future, pin::Pin, sync::Arc};

use arc_swap::ArcSwapOption;
use scrip_api::{
    labels,
    metrics::{Counters, Label},
};
use scrip_core::{
    Timestamp,
    threeds::{DirectoryServerError, SchemeConnection, SchemeRanges},
    types::{
        TenantKind,
        metrics::{Counter, Gauge, Histogram, MICROS_BOUNDS},
    },
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX, range::CardRanges};
use zeroize::Zeroizing;

use crate::{
    clock::ticks,
    directory_servers::{
        client::{self, DirectoryRequest, ExchangeTimeouts, RequestFailure},
        ranges::{RangeFetchError, RangeSource},
        transport::{TenantTransport, Transport, tenant_kind_name},
    },
};

labels! {
    /// Outcome of a request.
    pub(crate) enum ExchangeOutcome {
        Succeeded "succeeded",
        NotSent "not_sent",
        TimedOut "timed_out",
        Failed "failed",
    }
}

/// Metrics of one scheme.
#[derive(Debug)]
pub(crate) struct SchemeMetrics {
    /// Authentication requests.
    pub(crate) requests: Counters<ExchangeOutcome>,
    /// Durations of authentication requests.
    pub(crate) micros: Histogram<16>,
    /// Time of the last fetch of card ranges, in milliseconds of the vault's clock; 0 before the
    /// first fetch.
    pub(crate) ranges_fetched_at: Gauge,
    /// Failed fetches of card ranges.
    pub(crate) range_failures: Counter,
}

#[derive(Debug)]
pub(crate) struct SchemeClient<W> {
    scheme: Scheme,
    pub(super) transport: W,
    pub(super) connection: SchemeConnection,
    timeouts: ExchangeTimeouts,
    ranges: ArcSwapOption<CardRanges>,
    metrics: SchemeMetrics,
}

pub(crate) type RefreshFuture<'a> =
    Pin<Box<dyn Future<Output = Result<usize, RangeFetchError>> + Send + 'a>>;

/// A connected scheme, independent of its transport.
pub(crate) trait ConnectedScheme: Send + Sync {
    fn kind(&self) -> TenantKind;
    fn scheme(&self) -> Scheme;
    fn metrics(&self) -> &SchemeMetrics;
    fn ranges(&self) -> Option<Arc<CardRanges>>;

    /// Fetches the card ranges, puts them in force and returns their number.
    fn refresh_ranges(&self, now: Timestamp) -> RefreshFuture<'_>;
}

impl<W: Transport> SchemeClient<W> {
    pub(crate) fn new(
        scheme: Scheme,
        transport: W,
        connection: SchemeConnection,
        timeouts: ExchangeTimeouts,
    ) -> Self {
        let metrics = SchemeMetrics {
            requests: Counters::default(),
            micros: Histogram::new(MICROS_BOUNDS),
            ranges_fetched_at: Gauge::default(),
            range_failures: Counter::default(),
        };
        Self { scheme, transport, connection, timeouts, ranges: ArcSwapOption::empty(), metrics }
    }

    fn range_source(&self) -> RangeSource<'_, W> {
        RangeSource {
            transport: &self.transport,
            connection: &self.connection,
            timeouts: self.timeouts,
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

    /// Sends an authentication request, once.
    pub(crate) async fn send_authentication(
        &self,
        message: Zeroizing<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>, DirectoryServerError> {
        let request = DirectoryRequest { message, response_bytes_max: MESSAGE_BYTES_MAX };
        let started = ticks();
        let response = client::send_request(&self.transport, request, self.timeouts).await;
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
        response.map_err(|RequestFailure { error, cause }| {
            let (scheme, tenant_type) = (self.scheme.name(), tenant_kind_name(W::KIND));
            tracing::warn!(
                scheme,
                tenant_type,
                outcome = outcome.as_str(),
                cause,
                "request to a directory server failed"
            );
            error
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
            let result = self.range_source().fetch(self.current_ranges()).await;
            let ranges = result.inspect_err(|_| self.metrics.range_failures.increment())?;
            let count = ranges.len();
            self.ranges.store(Some(Arc::new(ranges)));
            self.metrics.ranges_fetched_at.set(u64::try_from(now.unix_ms).unwrap_or_default());
            Ok(count)
        })
    }
}
