//! What can be made to go wrong, while it runs. Only a simulator has this.

use std::{collections::BTreeMap, time::Duration};

use scrip_threeds::{code::Scheme, fault::ErrorCode};
use serde::{Deserialize, Serialize};

/// The knobs of all schemes, or of one.
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

/// How a directory server answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseBehavior {
    #[default]
    Normal,
    /// Takes the message, and says nothing.
    Silence,
    DelayMs(u64),
    /// Half of the answer.
    Malformed,
    /// An answer about another transaction.
    WrongTransId,
    #[serde(rename = "http_500")]
    Http500,
    /// An error message with this code.
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
    /// After the browser was sent back.
    Late,
    Never,
    Malformed,
    WrongTransId,
    /// The right 3DS server, and an access control server that it does not know.
    WrongAcsTransId,
}

/// What the browser brings back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BrowserReturnBehavior {
    #[default]
    Normal,
    Malformed,
    WrongTransId,
    /// An error message, in the field `erro`.
    Erro,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodBehavior {
    #[default]
    Normal,
    /// The page never tells that it has run.
    Hang,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecoupledBehavior {
    #[default]
    Normal,
    /// The cardholder does not answer, and the time runs out.
    Timeout,
}

/// Which ranges there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RangeEdition {
    #[default]
    First,
    /// One range more, one less, one changed.
    Second,
}

/// Waits longer than any client are no use, and hold connections.
const DELAY_MAX: Duration = Duration::from_secs(600);

pub(crate) fn bounded_delay(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).min(DELAY_MAX)
}

/// The knobs as they are now.
#[derive(Debug)]
pub(crate) struct BehaviorTable {
    pub(crate) common: SimulatedBehavior,
    pub(crate) by_scheme: BTreeMap<Scheme, SimulatedBehavior>,
}
