//! The callback table: notifications of browsers and directory servers about 3DS sessions. The
//! senders have no API key, so each operation decides how far it trusts a message. All rows are
//! POST.

pub mod verified_results;

use scrip_core::types::Operation;

use crate::{
    handlers::notifications,
    route::{CallbackFormat, CallbackRoute},
};

#[rustfmt::skip]
pub(crate) const CALLBACKS: &[CallbackRoute] = &[
    CallbackRoute { operation: Operation::NotifyMethod, path: "/3ds/sessions/{id}/method-notification", format: CallbackFormat::FORM, render_rejection: notifications::render_rejection, handler: |it| Box::pin(notifications::receive_method_notification(it)) },
    CallbackRoute { operation: Operation::NotifyChallenge, path: "/3ds/sessions/{id}/challenge-notification", format: CallbackFormat::FORM, render_rejection: notifications::render_rejection, handler: |it| Box::pin(notifications::receive_challenge_notification(it)) },
    CallbackRoute { operation: Operation::ReceiveResult, path: "/3ds/sessions/{id}/results/{secret}", format: CallbackFormat::MESSAGE, render_rejection: |response, _| response, handler: |it| Box::pin(notifications::receive_result_message(it)) },
];
