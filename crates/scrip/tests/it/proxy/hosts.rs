//! Proxies that a host name selects, and the rate limits of keyless calls.

use scrip_core::policy::{
    TenantKind,
    rate_limit::{EffectiveRates, RateLimitName},
};
use serde_json::json;

use crate::{
    limits::harness::default_rate,
    proxy::harness::{CreatedProxy, PROXY, ProxyHarness, StatedDelivery},
};
