//! What can be set when it starts. All of it has a default that suits trying things out.

use std::time::Duration;

use crate::behavior::SimulatedBehavior;

/// How the simulator runs.
#[derive(Debug, Clone)]
pub struct SimulatorSettings {
    /// How browsers and the 3DS server reach it, without a slash at the end. If there is none, the
    /// address it listens on.
    pub base_url: Option<String>,
    pub timers: Timers,
    /// Transactions that are remembered. The oldest goes for the next.
    pub transactions_max: usize,
    /// What the knobs are at the start, and after a reset.
    pub behavior: SimulatedBehavior,
    /// Certificates in PEM that a 3DS server's `https` address is checked against.
    pub trusted_roots: Vec<u8>,
    /// Whom results are sent to.
    pub result_destinations: ResultDestinations,
}

/// Where results may go: whoever reaches the simulator names the address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResultDestinations {
    /// And, by `https`, to whoever the trusted roots vouch for.
    #[default]
    Loopback,
    /// And to this host and port, as they stand in an address.
    LoopbackAndHost(String),
    AnyHost,
}

/// EMV's times, and those that it leaves to the issuer.
#[derive(Debug, Clone)]
pub struct Timers {
    /// From an `ARes` to the first `CReq`. EMV has 30 seconds, which is short for reading a log.
    pub first_creq: Duration,
    /// From one step of the cardholder to the next. EMV has ten minutes.
    pub interaction: Duration,
    /// Until a cardholder who is asked elsewhere has answered.
    pub decoupled: Duration,
    /// The length of one minute of `threeDSRequestorDecMaxTime`, so that it can be waited for.
    pub decoupled_minute: Duration,
    /// For the answer of a 3DS server.
    pub outgoing_timeout: Duration,
    /// How long a silence lasts that a knob asks for, if nobody hangs up before.
    pub silence: Duration,
    /// How long after the browser a result comes that a knob makes late.
    pub late_result: Duration,
    /// How long a transaction is remembered.
    pub transaction_lifetime: Duration,
}

impl Default for SimulatorSettings {
    fn default() -> Self {
        Self {
            base_url: None,
            timers: Timers::default(),
            transactions_max: 10_000,
            behavior: SimulatedBehavior::default(),
            trusted_roots: Vec::new(),
            result_destinations: ResultDestinations::default(),
        }
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            first_creq: Duration::from_secs(300),
            interaction: Duration::from_secs(600),
            decoupled: Duration::from_secs(3),
            decoupled_minute: Duration::from_secs(60),
            outgoing_timeout: Duration::from_secs(10),
            silence: Duration::from_secs(120),
            late_result: Duration::from_secs(5),
            transaction_lifetime: Duration::from_secs(3600),
        }
    }
}

impl Timers {
    /// As EMV says.
    #[must_use]
    pub fn strict() -> Self {
        Self { first_creq: Duration::from_secs(30), ..Self::default() }
    }
}

/// Why it cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(
        "the base URL must be http or https with a host, and without query or slash at the end"
    )]
    BaseUrl,
    #[error("the trusted roots are not certificates in PEM")]
    TrustedRoots,
    #[error("no keys could be made: {0}")]
    Keys(&'static str),
    #[error("a table of the simulator is wrong: {0}")]
    Table(&'static str),
    #[error("the address it listens on is not known: {0}")]
    Listener(#[from] std::io::Error),
}
