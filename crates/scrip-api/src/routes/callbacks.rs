//! What browsers and directory servers tell of 3-D Secure sessions. They have no key: what they say
//! is believed as far as its operation believes it. One row each, all of them POST.

pub mod verified;

use scrip_core::audit::Operation;

use crate::{
    handlers::notifications,
    route::{Outside, Sent},
};

#[rustfmt::skip]
pub(crate) const OUTSIDE: &[Outside] = &[
    Outside { operation: Operation::NotifyMethod, path: "/3ds/sessions/{id}/method-notification", sent: Sent::FORM, refuse: notifications::refused, handler: |it| Box::pin(notifications::method(it)) },
    Outside { operation: Operation::NotifyChallenge, path: "/3ds/sessions/{id}/challenge-notification", sent: Sent::FORM, refuse: notifications::refused, handler: |it| Box::pin(notifications::challenge(it)) },
    Outside { operation: Operation::ReceiveResult, path: "/3ds/sessions/{id}/results/{secret}", sent: Sent::MESSAGE, refuse: |response, _| response, handler: |it| Box::pin(notifications::result(it)) },
];
