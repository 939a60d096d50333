//! The results of the proxy measurements.

use crate::{
    harness::results::MeasurementResult,
    measurements::proxy::slow_destinations::SlowDestinationsResult,
};

/// Measurements at one number of connections.
#[derive(Debug)]
pub(super) struct ProxyRound {
    pub(super) nginx: [MeasurementResult; 2],
    pub(super) with_token: MeasurementResult,
    pub(super) without_expression: MeasurementResult,
}

#[derive(Debug)]
pub(crate) struct ProxyResults {
    /// In the order of the numbers of connections.
    pub(super) rounds: Vec<ProxyRound>,
    /// A durable commit of one row.
    pub(super) commit: MeasurementResult,
    pub(super) slow: SlowDestinationsResult,
}
