//! The card ranges of a scheme: asked for at the start and then every day or so, and in force until
//! the next answer, however long that takes.

use std::{sync::Arc, time::Duration};

use scrip_core::{Vault, threeds::Unanswered};
use scrip_threeds::{
    fault::ErrorCode,
    format::{Text, TransId, Version},
    message::{Document, Erro, Message, MessageType, PReq, PRes, RANGES_BYTES_MAX, Scene},
    range::CardRanges,
};
use tokio::time::sleep;
use uuid::Uuid;

use crate::directory_servers::{
    client::{self, Failed, Question, Timing},
    connected::{Connected, Peer},
    way::Way,
    world,
};

const PAUSE_FIRST: Duration = Duration::from_secs(2);
/// EMV lets a directory server refuse whoever asks more often.
const PAUSE_MOST: Duration = Duration::from_secs(60 * 60);
/// The ranges of a large scheme are many megabytes.
const ANSWER_DEADLINE_LEAST: Duration = Duration::from_secs(120);

/// Why the ranges stay as they were.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("{1}")]
    Unanswered(Unanswered, String),
    #[error("it was asked too often")]
    TooOften,
    /// With this code.
    #[error("it answered by the error {0}")]
    Refused(String),
    #[error("its answer is not believed: {0}")]
    Unbelieved(String),
}

/// Asks as often as it should, and more often as long as it fails; ends with the runtime.
pub(crate) async fn keep_ranges(vault: Vault, peer: Arc<dyn Peer>, every: Duration) {
    let mut failures = 0_u32;
    loop {
        let (scheme, world) = (peer.scheme().name(), world(peer.kind()));
        let refreshed = peer.refresh(vault.clock.now()).await;
        match &refreshed {
            Ok(count) => {
                failures = 0;
                tracing::info!(scheme, world, "card ranges of {scheme}: {count}");
            }
            Err(failure) => {
                failures = failures.saturating_add(1);
                let (cause, held) = (failure.to_string(), peer.ranges().map(|it| it.len()));
                tracing::warn!(scheme, world, cause, held, "card ranges could not be fetched");
            }
        }
        let mut chance = [0; 1];
        (vault.chance)(&mut chance);
        let [chance] = chance;
        sleep(pause(refreshed.as_ref().err(), failures, every, chance)).await;
    }
}

/// Moved by up to a tenth, so that many servers do not all ask at once.
fn pause(failure: Option<&Failure>, failures: u32, every: Duration, chance: u8) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    let tenth = |it: Duration| (it / 10).saturating_mul(u32::from(chance)) / u32::from(u8::MAX);
    match failure {
        // Rather sooner than the day that EMV allows.
        None => every.saturating_sub(tenth(every)),
        Some(Failure::TooOften) => PAUSE_MOST.saturating_add(tenth(PAUSE_MOST)),
        Some(Failure::Unanswered(..) | Failure::Refused(_) | Failure::Unbelieved(_)) => {
            let pause = PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MOST);
            pause.saturating_sub(tenth(pause))
        }
    }
}

/// What it says now: what has changed since it was last asked, or everything when there is nothing
/// to begin from, or what has changed does not fit.
pub(crate) async fn fetch<W: Way>(peer: &Connected<W>) -> Result<CardRanges, Failure> {
    let known = peer.held();
    let serial = known.as_ref().and_then(|it| it.serial_number().cloned());
    if let Some((known, serial)) = known.zip(serial) {
        match ask(peer, Some(serial)).await? {
            Told::SerialUnknown => (),
            Told::Ranges(answer) => match apart(move || known.changed(&answer)).await? {
                Ok(next) => return Ok(next),
                Err(fault) => tracing::warn!(%fault, "changes do not fit; asking for everything"),
            },
        }
    }
    match ask(peer, None).await? {
        Told::SerialUnknown => Err(refused(ErrorCode::SerialNumberInvalid.code())),
        Told::Ranges(answer) => {
            let next = apart(move || CardRanges::of(&answer)).await?;
            let next = next.map_err(|it| Failure::Unbelieved(it.to_string()))?;
            // A scheme without cards has nothing to be connected for.
            if next.is_empty() {
                return Err(Failure::Unbelieved("it has no ranges".to_owned()));
            }
            Ok(next)
        }
    }
}

enum Told {
    Ranges(Box<PRes>),
    SerialUnknown,
}

async fn ask<W: Way>(
    peer: &Connected<W>,
    serial_number: Option<Text<1, 20>>,
) -> Result<Told, Failure> {
    let link = &peer.link;
    let unfit = |_| Failure::Unbelieved("our own settings do not fit a message".to_owned());
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
    let question = Question { message: message.to_json(), answer_bytes_max: RANGES_BYTES_MAX };
    let Timing { connect, answer } = peer.timing;
    let timing = Timing { connect, answer: answer.max(ANSWER_DEADLINE_LEAST) };
    let answered = client::ask(&peer.way, question, timing).await;
    let answer =
        answered.map_err(|Failed { unanswered, cause }| Failure::Unanswered(unanswered, cause))?;
    apart(move || read(&answer, &id)).await?
}

/// Many megabytes take their time, which is not taken from requests.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Failure::Unbelieved("reading it ended by a panic".to_owned()))
}

fn read(answer: &[u8], id: &TransId) -> Result<Told, Failure> {
    let unbelieved = |it: scrip_threeds::fault::Fault| {
        Failure::Unbelieved(format!("{} {}", it.code.name(), it.names.join(",")))
    };
    let document = Document::within(answer, RANGES_BYTES_MAX).map_err(unbelieved)?;
    let scene = Scene::of(Version::V220);
    if document.kind() == MessageType::Erro {
        let error: Erro = document.read_as(&scene).map_err(unbelieved)?;
        return match error.known_code() {
            Some(ErrorCode::SerialNumberInvalid) => Ok(Told::SerialUnknown),
            Some(ErrorCode::SentLimitExceeded) => Err(Failure::TooOften),
            Some(_) | None => Err(refused(error.code.expose())),
        };
    }
    let answer: PRes = document.read_as(&scene).map_err(unbelieved)?;
    if !answer.server_trans_id.is_same(id) {
        return Err(Failure::Unbelieved("it answers another question".to_owned()));
    }
    Ok(Told::Ranges(Box::new(answer)))
}

fn refused(code: &str) -> Failure {
    Failure::Refused(code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn pauses_grow_and_have_an_end() {
        let failure = Failure::Refused("404".to_owned());
        let seconds = |failures, chance| pause(Some(&failure), failures, DAY, chance).as_secs_f64();
        assert_eq!(
            [1, 2, 3, 11, 12, 99].map(|it| seconds(it, 0)),
            [2., 4., 8., 2048., 3600., 3600.]
        );
        assert_eq!([1, 2, 99].map(|it| seconds(it, u8::MAX)), [1.8, 3.6, 3240.]);
    }

    #[test]
    fn who_asked_too_often_waits_an_hour_at_least() {
        for chance in [0, 100, u8::MAX] {
            let pause = pause(Some(&Failure::TooOften), 1, DAY, chance);
            assert!((PAUSE_MOST..=PAUSE_MOST * 11 / 10).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn ranges_are_never_older_than_they_may_be() {
        for chance in [0, 100, u8::MAX] {
            let pause = pause(None, 0, DAY, chance);
            assert!((DAY * 9 / 10..=DAY).contains(&pause), "{pause:?}");
        }
    }
}
