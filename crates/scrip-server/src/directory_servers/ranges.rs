//! The card ranges of a scheme: asked for at the start and then every day or so, and in force until
//! the next answer, however long that takes.

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
/// EMV lets a directory server refuse whoever asks more often.
const PAUSE_MAX: Duration = Duration::from_secs(60 * 60);
/// The ranges of a large scheme are many megabytes.
const RESPONSE_TIMEOUT_MIN: Duration = Duration::from_secs(120);

/// Why the ranges stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeFetchError {
    #[error("{1}")]
    NoResponse(DirectoryServerError, String),
    #[error("it was asked too often")]
    RateLimited,
    /// With this code.
    #[error("it answered by the error {0}")]
    ErrorResponse(String),
    #[error("its answer is not believed: {0}")]
    InvalidResponse(String),
}

/// Asks as often as it should, and more often as long as it fails; ends with the runtime.
pub(crate) async fn refresh_periodically(
    vault: Vault,
    connected_scheme: Arc<dyn ConnectedScheme>,
    every: Duration,
) {
    let mut failures = 0_u32;
    loop {
        let (scheme, harness) =
            (connected_scheme.scheme().name(), tenant_kind_name(connected_scheme.kind()));
        let refreshed = connected_scheme.refresh_ranges(vault.clock.now()).await;
        match &refreshed {
            Ok(count) => {
                failures = 0;
                tracing::info!(scheme, harness, "card ranges of {scheme}: {count}");
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                let (cause, held) =
                    (failure.to_string(), connected_scheme.ranges().map(|it| it.len()));
                tracing::warn!(scheme, harness, cause, held, "card ranges could not be fetched");
            }
        }
        let mut random = [0; 1];
        (vault.fill_random)(&mut random);
        let [random] = random;
        sleep(next_pause(refreshed.as_ref().err(), failures, every, random)).await;
    }
}

/// Moved by up to a tenth, so that many servers do not all ask at once.
fn next_pause(
    failure: Option<&RangeFetchError>,
    failures: u32,
    every: Duration,
    jitter: u8,
) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let tenth = |it: Duration| (it / 10).saturating_mul(u32::from(jitter)) / u32::from(u8::MAX);
    match failure {
        // Rather sooner than the day that EMV allows.
        None => every.saturating_sub(tenth(every)),
        Some(RangeFetchError::RateLimited) => PAUSE_MAX.saturating_add(tenth(PAUSE_MAX)),
        Some(
            RangeFetchError::NoResponse(..)
            | RangeFetchError::ErrorResponse(_)
            | RangeFetchError::InvalidResponse(_),
        ) => {
            let pause = PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX);
            pause.saturating_sub(tenth(pause))
        }
    }
}

/// What it says now: what has changed since it was last asked, or everything when there is nothing
/// to begin from, or what has changed does not fit.
pub(crate) async fn fetch_ranges<W: Transport>(
    scheme_client: &SchemeClient<W>,
) -> Result<CardRanges, RangeFetchError> {
    let known = scheme_client.current_ranges();
    let serial = known.as_ref().and_then(|it| it.serial_number().cloned());
    if let Some((known, serial)) = known.zip(serial) {
        match request_ranges(scheme_client, Some(serial)).await? {
            RangeResponse::SerialUnknown => (),
            RangeResponse::Ranges(response) => {
                match run_blocking(move || known.apply_pres(&response)).await? {
                    Ok(next) => return Ok(next),
                    Err(fault) => {
                        tracing::warn!(%fault, "changes do not fit; asking for everything")
                    }
                }
            }
        }
    }
    match request_ranges(scheme_client, None).await? {
        RangeResponse::SerialUnknown => Err(error_response(ErrorCode::SerialNumberInvalid.code())),
        RangeResponse::Ranges(response) => {
            let next = run_blocking(move || CardRanges::from_pres(&response)).await?;
            let next = next.map_err(|it| RangeFetchError::InvalidResponse(it.to_string()))?;
            // A scheme without cards has nothing to be connected for.
            if next.is_empty() {
                return Err(RangeFetchError::InvalidResponse("it has no ranges".to_owned()));
            }
            Ok(next)
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
    let link = &scheme_client.connection;
    let unfit =
        |_| RangeFetchError::InvalidResponse("our own settings do not fit a message".to_owned());
    let id = TransId::parse(&Uuid::new_v4().to_string()).map_err(unfit)?;
    let operator_id = link.operator_id.as_deref().map(Text::parse).transpose();
    let message = PReq {
        message_version: Version::V220,
        server_trans_id: id.clone(),
        server_ref_number: Text::parse(&link.reference_number).map_err(unfit)?,
        server_operator_id: operator_id.map_err(unfit)?,
        serial_number,
        extensions: None,
    };
    let question =
        DirectoryRequest { message: message.to_json(), response_bytes_max: RANGES_BYTES_MAX };
    let ExchangeTimeouts { connect, response } = scheme_client.timeouts;
    let timing = ExchangeTimeouts { connect, response: response.max(RESPONSE_TIMEOUT_MIN) };
    let response = client::send_request(&scheme_client.transport, question, timing).await;
    let response = response.map_err(|RequestFailure { error: unanswered, cause }| {
        RangeFetchError::NoResponse(unanswered, cause)
    })?;
    run_blocking(move || parse_response(&response, &id)).await?
}

/// Many megabytes take their time, which is not taken from requests.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RangeFetchError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RangeFetchError::InvalidResponse("reading it ended by a panic".to_owned()))
}

fn parse_response(response: &[u8], id: &TransId) -> Result<RangeResponse, RangeFetchError> {
    let unbelieved = |it: scrip_threeds::fault::Fault| {
        RangeFetchError::InvalidResponse(format!("{} {}", it.code.name(), it.elements.join(",")))
    };
    let document = Document::parse_within(response, RANGES_BYTES_MAX).map_err(unbelieved)?;
    let harness = TransactionContext::for_version(Version::V220);
    if document.message_type() == MessageType::Erro {
        let error: Erro = document.parse_as(&harness).map_err(unbelieved)?;
        return match error.known_code() {
            Some(ErrorCode::SerialNumberInvalid) => Ok(RangeResponse::SerialUnknown),
            Some(ErrorCode::SentLimitExceeded) => Err(RangeFetchError::RateLimited),
            Some(_) | None => Err(error_response(error.code.expose())),
        };
    }
    let response: PRes = document.parse_as(&harness).map_err(unbelieved)?;
    if !response.server_trans_id.eq_ignore_case(id) {
        return Err(RangeFetchError::InvalidResponse("it answers another question".to_owned()));
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
    fn rate_limited_scheme_is_not_asked_again_within_an_hour() {
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
