//! Fetches the card ranges of a scheme from its directory server.

use std::{sync::Arc, time::Duration};

use scrip_core::threeds::{DirectoryServerError, SchemeConnection};
use scrip_threeds::{
    fault::ErrorCode,
    format::{Text, TransId, Version},
    message::{
        Document, Erro, Message, MessageType, PReq, PRes, RANGES_BYTES_MAX, TransactionContext,
    },
    range::CardRanges,
};
use uuid::Uuid;

use crate::directory_servers::{
    client::{self, DirectoryRequest, ExchangeTimeouts, RequestFailure},
    transport::Transport,
};

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

/// The directory server from which the ranges of a scheme are fetched.
pub(super) struct RangeSource<'a, W> {
    pub(super) transport: &'a W,
    pub(super) connection: &'a SchemeConnection,
    pub(super) timeouts: ExchangeTimeouts,
}

impl<W: Transport> RangeSource<'_, W> {
    /// Fetches the changes since the last fetch, or all ranges if there are no current ranges or the
    /// changes do not apply.
    pub(super) async fn fetch(
        &self,
        current: Option<Arc<CardRanges>>,
    ) -> Result<CardRanges, RangeFetchError> {
        let serial = current.as_ref().and_then(|it| it.serial_number().cloned());
        if let Some((current, serial)) = current.zip(serial) {
            match self.request_ranges(Some(serial)).await? {
                RangeResponse::SerialUnknown => (),
                RangeResponse::Ranges(response) => {
                    match run_blocking(move || current.apply_pres(&response)).await? {
                        Ok(ranges) => return Ok(ranges),
                        Err(fault) => {
                            tracing::warn!(
                                %fault,
                                "changes of card ranges do not apply; fetching all ranges"
                            )
                        }
                    }
                }
            }
        }
        match self.request_ranges(None).await? {
            RangeResponse::SerialUnknown => {
                Err(error_response(ErrorCode::SerialNumberInvalid.code()))
            }
            RangeResponse::Ranges(response) => {
                let ranges = run_blocking(move || CardRanges::from_pres(&response)).await?;
                let ranges =
                    ranges.map_err(|it| RangeFetchError::InvalidResponse(it.to_string()))?;
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

    async fn request_ranges(
        &self,
        serial_number: Option<Text<1, 20>>,
    ) -> Result<RangeResponse, RangeFetchError> {
        let connection = self.connection;
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
            server_ref_number: Text::parse(&connection.reference_number)
                .map_err(invalid_settings)?,
            server_operator_id: operator_id.map_err(invalid_settings)?,
            serial_number,
            extensions: None,
        };
        let request =
            DirectoryRequest { message: message.to_json(), response_bytes_max: RANGES_BYTES_MAX };
        let ExchangeTimeouts { connect, response } = self.timeouts;
        let timeouts = ExchangeTimeouts { connect, response: response.max(RESPONSE_TIMEOUT_MIN) };
        let response = client::send_request(self.transport, request, timeouts).await;
        let response = response
            .map_err(|RequestFailure { error, cause }| RangeFetchError::NoResponse(error, cause))?;
        run_blocking(move || parse_response(&response, &id)).await?
    }
}

enum RangeResponse {
    Ranges(Box<PRes>),
    SerialUnknown,
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
