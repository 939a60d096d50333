//! What browsers and directory servers tell of 3-D Secure sessions. They have no key: what they say
//! is believed as far as its operation believes it. One row each, all of them POST.

pub mod verified_results;

use scrip_core::audit::Operation;

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
