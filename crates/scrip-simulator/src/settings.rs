//! Settings of the simulator. All have defaults that suit manual testing.

use std::time::Duration;

use crate::behavior::SimulatedBehavior;

/// How the simulator runs.
#[derive(Debug, Clone)]
pub struct SimulatorSettings {
    /// The URL at which browsers and the 3DS server reach the simulator, without a trailing slash.
    /// Default: the listen address.
    pub base_url: Option<String>,
    pub timers: Timers,
    /// The capacity for transactions. A new transaction evicts the oldest.
    pub transactions_max: usize,
    /// The behavior at the start and after a reset.
    pub behavior: SimulatedBehavior,
    /// PEM certificates that verify the `https` address of a 3DS server.
    pub trusted_roots: Vec<u8>,
    /// The hosts to which results are sent.
    pub result_destinations: ResultDestinations,
}

/// The hosts to which results may be sent. A limit is needed because any client of the simulator
/// chooses the address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResultDestinations {
    /// Loopback, and `https` hosts with a certificate of the trusted roots.
    #[default]
    Loopback,
    /// The same, and this host and port, written as in a URL.
    LoopbackAndHost(String),
    AnyHost,
}

/// The timeouts of EMV, and those that EMV leaves to the issuer.
#[derive(Debug, Clone)]
pub struct Timers {
    /// From an `ARes` to the first `CReq`. EMV specifies 30 seconds, which is short for manual
    /// testing.
    pub first_creq: Duration,
    /// From one step of the cardholder to the next. EMV specifies ten minutes.
    pub interaction: Duration,
    /// Until the cardholder responds to a decoupled authentication.
    pub decoupled: Duration,
    /// The simulated length of one minute of `threeDSRequestorDecMaxTime`, so that tests can wait
    /// for it.
    pub decoupled_minute: Duration,
    /// For the response of a 3DS server.
    pub outgoing_timeout: Duration,
    /// The duration of a simulated silence, unless the client disconnects earlier.
    pub silence: Duration,
    /// The time between the browser's return and a simulated late result.
    pub late_result: Duration,
    /// How long a transaction is stored.
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
    /// The timeouts of EMV.
    pub fn strict() -> Self {
        Self { first_creq: Duration::from_secs(30), ..Self::default() }
    }
}

/// Why the simulator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the base URL must be http or https with a host, without a query or a trailing slash")]
    BaseUrl,
    #[error("the trusted roots are not PEM certificates")]
    TrustedRoots,
    #[error("key generation failed: {0}")]
    Keys(&'static str),
    #[error("invalid built-in table: {0}")]
    Table(&'static str),
    #[error("cannot read the listen address: {0}")]
    Listener(#[from] std::io::Error),
}
