//! Rate limits: the table of limits, and the counters that apply to a request.
//!
//! This module does not count. It lists the counters of a request, each with its rate. Every
//! counter must have capacity left, so the lowest rate decides.

pub mod counters;
mod sliding_window_log;
mod table;

pub use self::table::{
    ClientNetwork, CounterCheck, CounterDigest, CounterGrouping, CounterKey, EffectiveRates,
    LimitAction, RATE_LIMITS, Rate, RateLimitCaller, RateLimitName, RateLimitRequest,
    RateLimitRule, RateLimitScope, RateLimitTarget, address_check, counter_checks,
};
