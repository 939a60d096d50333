//! What browsers and directory servers tell of 3-D Secure sessions. They have no key: what they say
//! is believed as far as its operation believes it. One row each, all of them POST.

use std::sync::Arc;

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    response::Response,
};
use bytes::Bytes;
use hyper::http::request::Parts;
use scrip_core::{audit::Operation, caller::Origin, directory::Directory, rate_limit::Network};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use zeroize::Zeroizing;

use crate::{
    app::App,
    handlers::notifications,
    middleware::{
        body::read_keyless_body,
        throttle,
        trace::{self, TraceId},
        watch::Watch,
    },
    pipeline::{check_content_type, client, path_ids},
    problem::Problem,
    routes::{Handling, names},
};

pub(crate) struct Outside {
    pub(crate) operation: Operation,
    pub(crate) path: &'static str,
    pub(crate) sent: Sent,
    pub(crate) handler: fn(Heard) -> Handling,
}

/// What is posted, and in what language it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// By a page, for a person to see what comes of it.
    Form,
    /// By a directory server.
    Message,
}

impl Sent {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Form => "application/x-www-form-urlencoded",
            Self::Message => "application/json",
        }
    }

    /// Directory servers may send chunks.
    pub(crate) fn needs_length(self) -> bool {
        match self {
            Self::Form => true,
            Self::Message => false,
        }
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Form => 64 * 1024,
            Self::Message => MESSAGE_BYTES_MAX,
        }
    }

    fn refuse(self, problem: &Problem, trace: &TraceId) -> Response {
        let response = problem.response(trace);
        match self {
            Self::Form => notifications::refused(response, problem),
            Self::Message => response,
        }
    }
}

#[rustfmt::skip]
pub(crate) const OUTSIDE: &[Outside] = &[
    Outside { operation: Operation::NotifyMethod, path: "/3ds/sessions/{id}/method-notification", sent: Sent::Form, handler: notifications::method },
    Outside { operation: Operation::NotifyChallenge, path: "/3ds/sessions/{id}/challenge-notification", sent: Sent::Form, handler: notifications::challenge },
    Outside { operation: Operation::ReceiveResult, path: "/3ds/sessions/{id}/results/{secret}", sent: Sent::Message, handler: notifications::result },
];

/// What a handler is given.
pub(crate) struct Heard {
    pub(crate) app: Arc<App>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) origin: Origin,
    pub(crate) id: String,
    pub(crate) secret: Zeroizing<String>,
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
}

/// One request at one of these.
pub(crate) async fn run(app: &Arc<App>, row: &'static Outside, request: Request) -> Response {
    let trace = trace::of(&request);
    let (mut head, mut body) = request.into_parts();
    let watch = Watch::begin(app, row.operation, ("POST", row.path), (&trace, &head.headers));
    let hearing = hear(app, row, (&mut head, &mut body), &trace);
    let answered = watch.over(app, hearing).await;
    let response = answered.unwrap_or_else(|problem| row.sent.refuse(&problem, &trace));
    watch.end(app, &trace, response.status().as_u16());
    response
}

/// Counted before anything is read or looked up.
async fn hear(
    app: &Arc<App>,
    row: &'static Outside,
    (head, body): (&mut Parts, &mut Body),
    trace: &TraceId,
) -> Result<Response, Problem> {
    let address = client(&head.extensions);
    throttle::stranger(app, address).await?;
    check_content_type(Some(row.sent.content_type()), &head.headers)?;
    // A browser announces the length of a form; a body without it only holds memory open.
    if row.sent.needs_length() && body.size_hint().exact().is_none() {
        return Err(Problem::LengthRequired);
    }
    let mut reservation = app.keyless_body_memory.begin_keyless(Network::of(address));
    let body = read_keyless_body(app, body, row.sent.bytes_max(), &mut reservation).await?;
    let directory = app.directory.load_full().ok_or(Problem::Sealed)?;
    let (id, secret) = path_ids(names(row.path), head).await;
    let heard = Heard {
        app: Arc::clone(app),
        directory,
        origin: Origin { trace: Arc::clone(&trace.0), address },
        id,
        secret: Zeroizing::new(secret),
        query: head.uri.query().map(str::to_owned),
        body,
    };
    let answered = (row.handler)(heard).await;
    drop(reservation);
    answered
}
