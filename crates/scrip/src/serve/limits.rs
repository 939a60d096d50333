//! Limits for clients, from the settings.

use std::{sync::Arc, time::Duration};

use scrip_api::app::{
    App,
    body_memory::BodyMemory,
    limits::{MinimumRate, RequestLimits},
    response_memory::ResponseMemory,
};
use scrip_core::types::Operation;
use scrip_server::{
    config::{DeprecatedSettings, ServerSettings, Settings, Switch},
    connections::ConnectionLimits,
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;

/// Maximum time from the response of a directory server until the response is stored.
const RESULT_WRITE_TIME_MAX: Duration = Duration::from_secs(5);

fn body_memory(settings: &Settings) -> (Arc<BodyMemory>, Arc<BodyMemory>) {
    let (server, call_bytes_max) = (&settings.server, settings.proxy.body_max.get());
    let share = server.body_memory_network_share.get();
    let body_bytes_max = server.body_bytes_max.get().max(call_bytes_max);
    let keyed = BodyMemory::with_body_size(body_bytes_max, server.body_memory_bytes.get(), share);
    let keyless_bytes = server.keyless_body_memory_bytes.get();
    let keyless_body_max = MESSAGE_BYTES_MAX.max(call_bytes_max);
    (keyed, BodyMemory::with_body_size(keyless_body_max, keyless_bytes, share))
}

/// Applies the limits for clients.
pub(super) fn apply_limits(app: &mut App, settings: &Settings) {
    app.settings.limits = request_limits(&settings.server);
    (app.memory.bodies, app.memory.keyless_bodies) = body_memory(settings);
    let server = &settings.server;
    let share = server.response_memory_network_share.get();
    app.memory.responses = ResponseMemory::new(server.response_memory_bytes.get(), share);
    app.settings.disabled_operations = disabled_operations(&settings.deprecated);
    app.settings.trusted_proxies = settings.limits.trusted_proxies();
}

fn minimum_rate(server: &ServerSettings, bytes_per_second: u32) -> MinimumRate {
    MinimumRate { bytes_per_second, window: server.rate_window_seconds.seconds() }
}

fn request_limits(server: &ServerSettings) -> RequestLimits {
    RequestLimits {
        body_bytes_max: server.body_bytes_max.get(),
        body_deadline: server.body_deadline_seconds.seconds(),
        keyless_body_deadline: server.keyless_body_deadline_seconds.seconds(),
        request_rate: minimum_rate(server, server.request_bytes_per_second_min.number()),
    }
}

pub(super) fn connection_limits(settings: &Settings) -> ConnectionLimits {
    let server = &settings.server;
    ConnectionLimits {
        connections_network_share: server.connections_network_share.get(),
        first_byte_deadline: server.first_byte_deadline_seconds.seconds(),
        response_rate: minimum_rate(server, server.response_bytes_per_second_min.number()),
        header_deadline: server.header_deadline_seconds.seconds(),
        connections_max: server.connections_max.get(),
        drain_deadline: server.drain_deadline_seconds.seconds(),
        authentication_deadline: settings
            .authentication_time_max()
            .saturating_add(RESULT_WRITE_TIME_MAX),
        ..ConnectionLimits::default()
    }
}

fn disabled_operations(settings: &DeprecatedSettings) -> Vec<Operation> {
    // Destructured, so that a new setting cannot be missed here.
    let DeprecatedSettings { list_tokens_v1, search_tokens_v1 } = settings;
    let switches =
        [(list_tokens_v1, Operation::ListTokensV1), (search_tokens_v1, Operation::SearchTokensV1)];
    let disabled = switches.into_iter().filter(|(switch, _)| **switch == Switch::Off);
    disabled.map(|(_, operation)| operation).collect()
}

#[cfg(test)]
mod tests {
    use scrip_server::config::Environment;

    use super::*;

    #[test]
    fn each_deprecation_setting_disables_its_own_operation() {
        let disabled_by = |names: &[&'static str]| {
            let flags: Vec<_> = names.iter().map(|it| (*it, "off".to_owned())).collect();
            let settings = Settings::without_file(&flags, &Environment::default()).unwrap();
            let operations = disabled_operations(&settings.deprecated);
            operations
                .into_iter()
                .map(|it| format!("deprecated.{}", it.as_str()))
                .collect::<Vec<_>>()
        };
        let (list, search) = ("deprecated.list_tokens_v1", "deprecated.search_tokens_v1");
        assert!(disabled_by(&[]).is_empty());
        assert_eq!(disabled_by(&[list]), [list]);
        assert_eq!(disabled_by(&[search]), [search]);
        assert_eq!(disabled_by(&[list, search]), [list, search]);
    }
}
