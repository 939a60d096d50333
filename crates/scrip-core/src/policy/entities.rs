//! The list of all policy entities.

use crate::policy::{
    access_session::ACCESS_SESSION,
    application::{API_KEY, APPLICATION},
    entity::Entity,
    proxy::record::PROXY,
    tenant::{client_key::CLIENT_KEY, record::TENANT},
    webhook::record::WEBHOOK,
};

/// Every entity. A row comes after those that it refers to.
pub const ENTITIES: [&Entity; 7] =
    [&TENANT, &APPLICATION, &API_KEY, &PROXY, &WEBHOOK, &CLIENT_KEY, &ACCESS_SESSION];
