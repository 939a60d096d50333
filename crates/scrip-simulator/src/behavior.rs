//! Simulated failures, which can be changed while the simulator runs.

use std::{collections::BTreeMap, time::Duration};

use scrip_threeds::{code::Scheme, fault::ErrorCode};
use serde::{Deserialize, Serialize};

/// The behavior of one scheme or of all schemes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimulatedBehavior {
    pub preq: ResponseBehavior,
    pub areq: ResponseBehavior,
    pub rreq: ResultBehavior,
    pub cres: BrowserReturnBehavior,
    pub method: MethodBehavior,
    pub decoupled: DecoupledBehavior,
    pub ranges: RangeEdition,
}

/// How a directory server responds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseBehavior {
    #[default]
    Normal,
    /// Processes the message and sends no response.
    Silence,
    DelayMs(u64),
    /// The first half of the response.
    Malformed,
    /// A response about another transaction.
    WrongTransId,
    #[serde(rename = "http_500")]
    Http500,
    /// An `Erro` with this code.
    Erro(ErrorCode),
}

/// How a result is reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultBehavior {
    #[default]
    Normal,
    DelayMs(u64),
    Twice,
    /// After the browser returned.
    Late,
    Never,
    Malformed,
    WrongTransId,
    /// The correct `threeDSServerTransID` with an unknown `acsTransID`.
    WrongAcsTransId,
}

/// How the browser returns from a challenge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrowserReturnBehavior {
    #[default]
    Normal,
    Malformed,
    WrongTransId,
    /// An `Erro`, in the form field `erro`.
    Erro,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodBehavior {
    #[default]
    Normal,
    /// The page never posts its notification.
    Hang,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecoupledBehavior {
    #[default]
    Normal,
    /// The cardholder does not respond, and the time runs out.
    Timeout,
}

/// Which edition of the card ranges is active.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RangeEdition {
    #[default]
    First,
    /// One range is added, one deleted and one changed.
    Second,
}

/// Longer delays are useless, because clients time out earlier, and occupy connections.
const DELAY_MAX: Duration = Duration::from_secs(600);

pub(crate) fn bounded_delay(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(DELAY_MAX)
}

/// Makes a message one about another transaction.
pub(crate) fn replace_id(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replace(old, new).into_bytes()
}

/// The current behavior.
#[derive(Debug)]
pub(crate) struct BehaviorTable {
    pub(crate) common: SimulatedBehavior,
    pub(crate) by_scheme: BTreeMap<Scheme, SimulatedBehavior>,
}
