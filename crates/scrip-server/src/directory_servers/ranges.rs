//! Card ranges of a scheme: fetched at start and then about daily. Ranges stay in force until the
//! next successful fetch.

use std::{sync::Arc, time::Duration};

use scrip_core::{Vault, threeds::DirectoryServerError};
use scrip_threeds::{
    fault::ErrorCode,
    format::{Text, TransId, Version},
    message::{
        Document, Erro, Message, MessageType, PReq, PRes, RANGES_BYTES_MAX, TransactionContext,
    },
    range::CardRanges,
};
use tokio::time::sleep;
use uuid::Uuid;

use crate::directory_servers::{
    client::{self, DirectoryRequest, ExchangeTimeouts, RequestFailure},
    scheme_client::{ConnectedScheme, SchemeClient},
    tenant_kind_name,
    transport::Transport,
};

const PAUSE_MIN: Duration = Duration::from_secs(2);
/// EMV allows a directory server to reject more frequent requests.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);
/// The ranges of a large scheme have many megabytes.
const RESPONSE_TIMEOUT_MIN: Duration = Duration::from_secs(120);

/// Why card ranges were not updated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeFetchError {
    #[error("{1}")]
    NoResponse(DirectoryServerError, String),
    #[error("the directory server rejected the request: too many requests")]
    RateLimited,
    /// The error code of the response.
    #[error("the directory server responded with error {0}")]
    ErrorResponse(String),
    #[error("invalid response: {0}")]
    InvalidResponse(String),
}

/// Fetches the ranges periodically, and more often after a failure. Ends with the runtime.
pub(crate) async fn refresh_periodically(
    vault: Vault,
    connected_scheme: Arc<dyn ConnectedScheme>,
    every: Duration,
) {
    let mut failures = 0_u32;
    loop {
        let (scheme, tenant_type) =
            (connected_scheme.scheme().name(), tenant_kind_name(connected_scheme.kind()));
        let refreshed = connected_scheme.refresh_ranges(vault.clock.now()).await;
        match &refreshed {
            Ok(count) => {
                failures = 0;
                let ranges = if *count == 1 { "range" } else { "ranges" };
                tracing::info!(scheme, tenant_type, "fetched {count} card {ranges} of {scheme}");
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                let (cause, current_ranges) =
                    (failure.to_string(), connected_scheme.ranges().map(|it| it.len()));
                tracing::warn!(
                    scheme,
                    tenant_type,
                    cause,
                    current_ranges,
                    "fetching card ranges failed; the current ranges stay in force"
                );
            }
        }
        let random = random_byte(vault.fill_random).await;
        sleep(next_pause(refreshed.as_ref().err(), failures, every, random)).await;
    }
}

/// Returns a random byte. The first one of a process takes 40 ms, so it is not drawn on a thread that
/// serves requests.
async fn random_byte(fill_random: fn(&mut [u8])) -> u8 {
    let draw = move || {
        let mut bytes = [0; 1];
        fill_random(&mut bytes);
        bytes
    };
    // The task is cancelled only when the runtime ends.
    let [byte] = tokio::task::spawn_blocking(draw).await.unwrap_or_default();
    byte
}

/// Returns the pause before the next fetch. It has a jitter of up to a tenth, so that servers do
/// not send requests at the same time.
fn next_pause(
    failure: Option<&RangeFetchError>,
    failures: u32,
    every: Duration,
    jitter: u8,
) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let jitter_of = |it: Duration| (it / 10).saturating_mul(u32::from(jitter)) / u32::from(u8::MAX);
    match failure {
        // Jitter makes the pause shorter: EMV allows at most one day.
        None => every.saturating_sub(jitter_of(every)),
        Some(RangeFetchError::RateLimited) => PAUSE_MAX.saturating_add(jitter_of(PAUSE_MAX)),
        Some(
            RangeFetchError::NoResponse(..)
            | RangeFetchError::ErrorResponse(_)
            | RangeFetchError::InvalidResponse(_),
        ) => {
            let pause = PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX);
            pause.saturating_sub(jitter_of(pause))
        }
    }
}

/// Fetches the changes since the last fetch, or all ranges if there are no current ranges or the
/// changes do not apply.
pub(crate) async fn fetch_ranges<W: Transport>(
    scheme_client: &SchemeClient<W>,
) -> Result<CardRanges, RangeFetchError> {
    let current = scheme_client.current_ranges();
    let serial = current.as_ref().and_then(|it| it.serial_number().cloned());
    if let Some((current, serial)) = current.zip(serial) {
        match request_ranges(scheme_client, Some(serial)).await? {
            RangeResponse::SerialUnknown => (),
            RangeResponse::Ranges(response) => {
                match run_blocking(move || current.apply_pres(&response)).await? {
                    Ok(ranges) => return Ok(ranges),
                    Err(fault) => {
                        tracing::warn!(%fault, "changes of card ranges do not apply; fetching all \
                                                ranges")
                    }
                }
            }
        }
    }
    match request_ranges(scheme_client, None).await? {
        RangeResponse::SerialUnknown => Err(error_response(ErrorCode::SerialNumberInvalid.code())),
        RangeResponse::Ranges(response) => {
            let ranges = run_blocking(move || CardRanges::from_pres(&response)).await?;
            let ranges = ranges.map_err(|it| RangeFetchError::InvalidResponse(it.to_string()))?;
            // A scheme without ranges cannot be used.
            if ranges.is_empty() {
                return Err(RangeFetchError::InvalidResponse(
                    "it contains no card ranges".to_owned(),
                ));
            }
            Ok(ranges)
        }
    }
}

enum RangeResponse {
    Ranges(Box<PRes>),
    SerialUnknown,
}

async fn request_ranges<W: Transport>(
    scheme_client: &SchemeClient<W>,
    serial_number: Option<Text<1, 20>>,
) -> Result<RangeResponse, RangeFetchError> {
    let connection = &scheme_client.connection;
    let invalid_settings = |_| {
        RangeFetchError::InvalidResponse(
            "the settings of this scheme do not form a valid message".to_owned(),
        )
    };
    let id = TransId::parse(&Uuid::new_v4().to_string()).map_err(invalid_settings)?;
    let operator_id = connection.operator_id.as_deref().map(Text::parse).transpose();
    let message = PReq {
        message_version: Version::V220,
        server_trans_id: id.clone(),
        server_ref_number: Text::parse(&connection.reference_number).map_err(invalid_settings)?,
        server_operator_id: operator_id.map_err(invalid_settings)?,
        serial_number,
        extensions: None,
    };
    let request =
        DirectoryRequest { message: message.to_json(), response_bytes_max: RANGES_BYTES_MAX };
    let ExchangeTimeouts { connect, response } = scheme_client.timeouts;
    let timeouts = ExchangeTimeouts { connect, response: response.max(RESPONSE_TIMEOUT_MIN) };
    let response = client::send_request(&scheme_client.transport, request, timeouts).await;
    let response = response
        .map_err(|RequestFailure { error, cause }| RangeFetchError::NoResponse(error, cause))?;
    run_blocking(move || parse_response(&response, &id)).await?
}

/// Runs `work` on a thread that serves no request: processing many megabytes takes long.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RangeFetchError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|_| {
        RangeFetchError::InvalidResponse("processing the response panicked".to_owned())
    })
}

fn parse_response(response: &[u8], id: &TransId) -> Result<RangeResponse, RangeFetchError> {
    let invalid_response = |it: scrip_threeds::fault::Fault| {
        RangeFetchError::InvalidResponse(format!("{} {}", it.code.name(), it.elements.join(",")))
    };
    let document = Document::parse_within(response, RANGES_BYTES_MAX).map_err(invalid_response)?;
    let context = TransactionContext::for_version(Version::V220);
    if document.message_type() == MessageType::Erro {
        let error: Erro = document.parse_as(&context).map_err(invalid_response)?;
        return match error.known_code() {
            Some(ErrorCode::SerialNumberInvalid) => Ok(RangeResponse::SerialUnknown),
            Some(ErrorCode::SentLimitExceeded) => Err(RangeFetchError::RateLimited),
            Some(_) | None => Err(error_response(error.code.expose())),
        };
    }
    let response: PRes = document.parse_as(&context).map_err(invalid_response)?;
    if !response.server_trans_id.eq_ignore_case(id) {
        return Err(RangeFetchError::InvalidResponse("it belongs to another request".to_owned()));
    }
    Ok(RangeResponse::Ranges(Box::new(response)))
}

fn error_response(code: &str) -> RangeFetchError {
    RangeFetchError::ErrorResponse(code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn retry_pause_grows_up_to_a_maximum() {
        let failure = RangeFetchError::ErrorResponse("404".to_owned());
        let seconds =
            |failures, random| next_pause(Some(&failure), failures, DAY, random).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 11, 12, 99].map(|it| seconds(it, 0)),
            [2., 4., 8., 2048., 3600., 3600.]
        );
        assert_eq!([1, 2, 99].map(|it| seconds(it, u8::MAX)), [1.8, 3.6, 3240.]);
    }

    #[test]
    fn rate_limited_scheme_receives_no_request_within_an_hour() {
        for random in [0, 100, u8::MAX] {
            let pause = next_pause(Some(&RangeFetchError::RateLimited), 1, DAY, random);
            assert!((PAUSE_MAX..=PAUSE_MAX * 11 / 10).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn ranges_are_refreshed_before_they_reach_their_maximum_age() {
        for random in [0, 100, u8::MAX] {
            let pause = next_pause(None, 0, DAY, random);
            assert!((DAY * 9 / 10..=DAY).contains(&pause), "{pause:?}");
        }
    }
}
