//! Rate limits: the table of limits, and the counters that apply to a request.
//!
//! This module does not count. It lists the counters of a request, each with its rate. Every
//! counter must have capacity left, so the lowest rate decides.

pub mod counters;
mod request;
mod rule;
mod sliding_window_log;
mod table;

pub use self::{
    request::{
        ClientNetwork, CounterCheck, CounterDigest, CounterKey, RateLimitCaller, RateLimitRequest,
        RateLimitTarget, address_check, counter_checks,
    },
    rule::{CounterGrouping, LimitAction, Rate, RateLimitName, RateLimitRule, RateLimitScope},
    table::{EffectiveRates, RATE_LIMITS},
};
