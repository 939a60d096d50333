//! A result on its way from the issuer to the 3DS server.

use scrip_threeds::message::{Document, Message, RReq, RRes};

use crate::{
    directory::answer::replaced,
    knob::{Reporting, delay},
    outgoing::Failure,
    transaction::Facts,
    world::{World, new_id},
};

/// Hands the result to the address that the 3DS server gave, as often and as well as the knob says.
/// What comes of it is logged: nobody waits for more than the attempt.
pub(crate) async fn report(world: &World, facts: &Facts, result: &RReq, knob: Reporting) {
    let bytes = result.to_json().to_vec();
    match knob {
        Reporting::Never => (),
        Reporting::Normal => send(world, facts, bytes).await,
        Reporting::DelayMs(milliseconds) => {
            tokio::time::sleep(delay(milliseconds)).await;
            send(world, facts, bytes).await;
        }
        Reporting::Twice => {
            send(world, facts, bytes.clone()).await;
            send(world, facts, bytes).await;
        }
        Reporting::Late => {
            tokio::time::sleep(world.timers.late_result).await;
            send(world, facts, bytes).await;
        }
        Reporting::Malformed => {
            let half = bytes.len() / 2;
            send(world, facts, bytes.into_iter().take(half).collect()).await;
        }
        Reporting::WrongTransId => {
            let id = result.server_trans_id.expose();
            send(world, facts, replaced(&bytes, id, new_id().expose())).await;
        }
        Reporting::WrongAcsTransId => {
            let id = result.acs_trans_id.expose();
            send(world, facts, replaced(&bytes, id, new_id().expose())).await;
        }
    }
}

async fn send(world: &World, facts: &Facts, bytes: Vec<u8>) {
    let id = facts.server_trans_id.expose();
    match exchange(world, facts, bytes).await {
        Ok(answer) => {
            tracing::info!(transaction = id, status = answer.results_status.code(), "result told");
        }
        Err(error) => tracing::warn!(transaction = id, %error, "the result was not received"),
    }
}

async fn exchange(world: &World, facts: &Facts, bytes: Vec<u8>) -> Result<RRes, Failure> {
    let answer = world.outgoing.post(facts.server_url.expose(), bytes).await?;
    let answer = Document::read(&answer).map_err(|_| Failure::Answer)?;
    let answer: RRes = answer.read_as(&facts.scene()).map_err(|_| Failure::Answer)?;
    let same = answer.server_trans_id.is_same(&facts.server_trans_id)
        && answer.acs_trans_id.is_same(&facts.acs_trans_id)
        && answer.ds_trans_id.is_same(&facts.ds_trans_id);
    same.then_some(answer).ok_or(Failure::Answer)
}
