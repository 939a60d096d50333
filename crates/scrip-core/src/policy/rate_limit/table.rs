//! The table itself, and the figures that an operator may put in its place.

use std::{num::NonZeroU32, time::Duration};

use Action::{Block, Throttle};
use Counter::{
    Address, ApiKey, ApiKeyAndAddress, ApiKeyOrAddress, HostnameAndAddress, ProxyKeyAndAddress,
};

use super::{Action, Counter, Limit, Rate, Scope};
use crate::{audit::Operation, policy::ApplicationKind};

words! {
    /// The rows by name. A setting, a metric and a counter are called by it.
    pub enum Row {
        TestTenant = "test_tenant",
        SearchTokens = "search_tokens",
        ListTokens = "list_tokens",
        CreateTokens = "create_tokens",
        UpdateToken = "update_token",
        DeleteToken = "delete_token",
        AccountUpdater = "account_updater",
        PrivateApplication = "private_application",
        PublicApplication = "public_application",
        ManagementApplication = "management_application",
        KeylessProxy = "keyless_proxy",
        ProxyHostname = "proxy_hostname",
        Address = "address",
        LegacyKey = "legacy_key",
    }
}

impl Row {
    /// Its place in [`Row::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or_default()
    }
}

const LISTS: Scope = Scope::Operations(&[Operation::ListTokens, Operation::ListTokensV1]);
const SEARCHES: Scope = Scope::Operations(&[Operation::SearchTokens, Operation::SearchTokensV1]);
const CREATES: Scope = Scope::Operations(&[Operation::CreateToken, Operation::Tokenize]);
const UPDATES: Scope = Scope::Operations(&[Operation::UpdateToken]);
const DELETES: Scope = Scope::Operations(&[Operation::DeleteToken]);
const PRIVATE: Scope = Scope::Kind(ApplicationKind::Private);
const PUBLIC: Scope = Scope::Kind(ApplicationKind::Public);
const MANAGEMENT: Scope = Scope::Kind(ApplicationKind::Management);

#[rustfmt::skip]
pub const TABLE: &[Limit] = &[
    limit(Row::TestTenant, Scope::TestTenant, ApiKeyAndAddress, 50, 10, Throttle),
    limit(Row::SearchTokens, SEARCHES, ApiKeyAndAddress, 50, 10, Throttle),
    limit(Row::ListTokens, LISTS, ApiKeyAndAddress, 100, 10, Throttle),
    limit(Row::CreateTokens, CREATES, ApiKeyAndAddress, 200, 10, Throttle),
    limit(Row::UpdateToken, UPDATES, ApiKeyAndAddress, 200, 10, Throttle),
    limit(Row::DeleteToken, DELETES, ApiKeyAndAddress, 200, 10, Throttle),
    limit(Row::AccountUpdater, Scope::AccountUpdater, ApiKeyAndAddress, 10, 10, Throttle),
    limit(Row::PrivateApplication, PRIVATE, ApiKeyOrAddress, 2000, 10, Throttle),
    limit(Row::PublicApplication, PUBLIC, ApiKeyAndAddress, 50, 60, Block(seconds(10))),
    limit(Row::ManagementApplication, MANAGEMENT, ApiKey, 200, 60, Block(seconds(60))),
    limit(Row::KeylessProxy, Scope::KeylessProxy, ProxyKeyAndAddress, 50, 10, Throttle),
    limit(Row::ProxyHostname, Scope::ProxyHostname, HostnameAndAddress, 50, 10, Throttle),
    limit(Row::Address, Scope::Any, Address, 2000, 10, Block(seconds(30))),
    limit(Row::LegacyKey, Scope::LegacyKey, ApiKeyAndAddress, 100, 60, Throttle),
];

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn limit(
    row: Row,
    scope: Scope,
    counter: Counter,
    requests: u32,
    window_seconds: u64,
    action: Action,
) -> Limit {
    let requests = match NonZeroU32::new(requests) {
        Some(requests) => requests,
        None => NonZeroU32::MIN,
    };
    Limit { row, scope, counter, rate: Rate { requests, window: seconds(window_seconds), action } }
}

/// The rate of each row as it is in force; nothing where the operator wants none.
#[derive(Debug, Clone)]
pub struct Figures(Vec<Option<Rate>>);

impl Default for Figures {
    /// The table's own.
    fn default() -> Self {
        Self(TABLE.iter().map(|it| Some(it.rate)).collect())
    }
}

impl Figures {
    #[must_use]
    pub fn with(mut self, row: Row, rate: Option<Rate>) -> Self {
        let at = TABLE.iter().position(|it| it.row == row);
        if let Some(place) = at.and_then(|it| self.0.get_mut(it)) {
            *place = rate;
        }
        self
    }

    #[must_use]
    pub fn rate(&self, row: Row) -> Option<Rate> {
        self.rows().find(|(it, _)| it.row == row).map(|(_, rate)| rate)
    }

    /// The rows that are in force.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static Limit, Rate)> {
        TABLE.iter().zip(&self.0).filter_map(|(limit, rate)| Some((limit, (*rate)?)))
    }
}
