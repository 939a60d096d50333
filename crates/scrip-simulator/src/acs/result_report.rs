//! Sends the result of a challenge to the 3DS server.

use scrip_threeds::message::{Document, Message, RReq, RRes};

use crate::{
    behavior::{ResultBehavior, bounded_delay, replace_id},
    outgoing_client::OutgoingError,
    state::{SimulatorState, new_id},
    transaction::TransactionDetails,
};

/// Posts the result to the address that the 3DS server gave, as `behavior` says. Logs the outcome;
/// the caller waits only for the attempt.
pub(super) async fn send_result(
    state: &SimulatorState,
    details: &TransactionDetails,
    result: &RReq,
    behavior: ResultBehavior,
) {
    let bytes = result.to_json().to_vec();
    match behavior {
        ResultBehavior::Never => (),
        ResultBehavior::Normal => post_result(state, details, bytes).await,
        ResultBehavior::DelayMs(milliseconds) => {
            tokio::time::sleep(bounded_delay(milliseconds)).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Twice => {
            post_result(state, details, bytes.clone()).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Late => {
            tokio::time::sleep(state.timers.late_result).await;
            post_result(state, details, bytes).await;
        }
        ResultBehavior::Malformed => {
            let half = bytes.len() / 2;
            post_result(state, details, bytes.into_iter().take(half).collect()).await;
        }
        ResultBehavior::WrongTransId => {
            let id = result.server_trans_id.expose();
            post_result(state, details, replace_id(&bytes, id, new_id().expose())).await;
        }
        ResultBehavior::WrongAcsTransId => {
            let id = result.acs_trans_id.expose();
            post_result(state, details, replace_id(&bytes, id, new_id().expose())).await;
        }
    }
}

async fn post_result(state: &SimulatorState, details: &TransactionDetails, bytes: Vec<u8>) {
    let id = details.server_trans_id.expose();
    match exchange_result(state, details, bytes).await {
        Ok(rres) => {
            tracing::info!(
                transaction = id,
                status = rres.results_status.code(),
                "result delivered to the 3DS server"
            );
        }
        Err(error) => tracing::warn!(transaction = id, %error, "result delivery failed"),
    }
}

async fn exchange_result(
    state: &SimulatorState,
    details: &TransactionDetails,
    bytes: Vec<u8>,
) -> Result<RRes, OutgoingError> {
    let response = state.outgoing_client.post(details.server_url.expose(), bytes).await?;
    let response = Document::parse(&response).map_err(|_| OutgoingError::InvalidResponse)?;
    let response: RRes = response
        .parse_as(&details.transaction_context())
        .map_err(|_| OutgoingError::InvalidResponse)?;
    let is_same_transaction = response.server_trans_id.eq_ignore_case(&details.server_trans_id)
        && response.acs_trans_id.eq_ignore_case(&details.acs_trans_id)
        && response.ds_trans_id.eq_ignore_case(&details.ds_trans_id);
    is_same_transaction.then_some(response).ok_or(OutgoingError::InvalidResponse)
}
