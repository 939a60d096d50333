//! A server with keys that spend a guessing budget, and numbers of one group.

use scrip_core::{
    policy::TenantSettings,
    types::{
        ApplicationKind::Private,
        Permission::{TokenCreate, TokenIntentCreate, TokenRead, TokenSearch, TokenUpdate},
        TenantKind,
    },
};
use serde_json::{Value, json};

use crate::harness::server::{TenantApiKeys, TestServer};

pub(crate) fn luhn_sum(number: &str) -> u32 {
    let weigh = |(at, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    number.bytes().rev().enumerate().map(weigh).sum()
}

/// Card numbers that look the same to a masked reader.
pub(crate) fn lookalikes(first: &str, count: usize) -> Vec<String> {
    let numbers = (0..1_000_000_u32).map(|it| format!("{first}{it:06}1111"));
    numbers.filter(|it| luhn_sum(it).is_multiple_of(10)).take(count).collect()
}

pub(crate) fn card(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}})
}

pub(crate) struct GuessingBudgetHarness {
    pub(crate) server: TestServer,
    pub(crate) keys: TenantApiKeys,
    /// The key of a backend with plain permissions: it sees masks.
    pub(crate) masked: String,
}

impl GuessingBudgetHarness {
    pub(crate) fn new(kind: TenantKind) -> Self {
        Self::with_settings(kind, TenantSettings::default())
    }

    pub(crate) fn with_settings(kind: TenantKind, settings: TenantSettings) -> Self {
        let server = TestServer::start();
        let keys = server.create_tenant_of_kind(kind, settings);
        let all = [TokenCreate, TokenRead, TokenUpdate, TokenSearch, TokenIntentCreate];
        let masked = server.key_with_permissions(&keys.tenant, Private, &all);
        Self { server, keys, masked }
    }

    pub(crate) fn create_and_get_fingerprint(&self, key: &str, number: &str) -> Value {
        self.server.create_token_ok(key, &card(number))["fingerprint"].clone()
    }

    pub(crate) fn spend_budget(&self, key: &str, numbers: &[String]) {
        for number in numbers {
            let fingerprint = self.create_and_get_fingerprint(key, number);
            assert!(fingerprint.is_string(), "no fingerprint before the budget is exhausted");
        }
    }

    pub(crate) fn flush_counts(&self) {
        let vault = &self.server.app.vault;
        let flushed = vault.guess_ledger.flush(&*vault.store, vault.clock.now());
        self.server.runtime.block_on(flushed).unwrap();
    }
}
