//! The actions, one file for each subject. [`ACTIONS`] lists them.

pub mod access_session;
pub mod application;
pub mod key;
pub mod key_find;
pub mod key_rotation;
pub mod proxy_host;
pub mod rotate_tenant;
pub mod tenant;
#[cfg(test)]
mod tests;
pub mod webhook;

use crate::{
    action::{Action, ActionSpec, PreparedAction},
    actions::{
        access_session::{ListAccessSessions, RevokeAccessSession},
        application::{CreateApplication, DeleteApplication, ListApplications},
        key::{CreateKey, DeleteKey, ImportKey, ListKeys},
        key_find::FindKey,
        key_rotation::{PauseKeyRotation, ResumeKeyRotation, ShowKeyRotation},
        proxy_host::{AddProxyHost, ListProxyHosts, RemoveProxyHost},
        rotate_tenant::RotateTenantKey,
        tenant::{
            CreateTenant, DeleteTenant, ListTenants, RestoreTenant, SetTenantQuotas, ShowTenant,
            ShowTenantQuotas,
        },
        webhook::{EnableWebhook, ListDeliveries, ListWebhooks, ReplayDeliveries},
    },
};

/// One row of [`ACTIONS`].
#[derive(Debug, Clone, Copy)]
pub struct ActionRow {
    pub spec: ActionSpec,
    parse: fn(&str) -> serde_json::Result<Box<dyn PreparedAction>>,
}

impl ActionRow {
    const fn of<A: Action>() -> Self {
        Self { spec: A::SPEC, parse: |text| Ok(Box::new(serde_json::from_str::<A>(text)?)) }
    }

    /// Reads the input of the action.
    /// Errors: the input has another form, because another version of the program wrote it.
    pub fn parse(&self, input: &str) -> serde_json::Result<Box<dyn PreparedAction>> {
        (self.parse)(input)
    }
}

/// Every action that a running server executes.
pub const ACTIONS: &[ActionRow] = &[
    ActionRow::of::<ListAccessSessions>(),
    ActionRow::of::<RevokeAccessSession>(),
    ActionRow::of::<CreateApplication>(),
    ActionRow::of::<ListApplications>(),
    ActionRow::of::<DeleteApplication>(),
    ActionRow::of::<CreateKey>(),
    ActionRow::of::<ListKeys>(),
    ActionRow::of::<FindKey>(),
    ActionRow::of::<DeleteKey>(),
    ActionRow::of::<ImportKey>(),
    ActionRow::of::<RotateTenantKey>(),
    ActionRow::of::<ShowKeyRotation>(),
    ActionRow::of::<PauseKeyRotation>(),
    ActionRow::of::<ResumeKeyRotation>(),
    ActionRow::of::<AddProxyHost>(),
    ActionRow::of::<RemoveProxyHost>(),
    ActionRow::of::<ListProxyHosts>(),
    ActionRow::of::<CreateTenant>(),
    ActionRow::of::<ListTenants>(),
    ActionRow::of::<ShowTenant>(),
    ActionRow::of::<DeleteTenant>(),
    ActionRow::of::<RestoreTenant>(),
    ActionRow::of::<ShowTenantQuotas>(),
    ActionRow::of::<SetTenantQuotas>(),
    ActionRow::of::<ListWebhooks>(),
    ActionRow::of::<ListDeliveries>(),
    ActionRow::of::<ReplayDeliveries>(),
    ActionRow::of::<EnableWebhook>(),
];

/// Finds an action by the words of its command.
pub fn find_action(name: &str) -> Option<&'static ActionRow> {
    ACTIONS.iter().find(|it| it.spec.name == name)
}
