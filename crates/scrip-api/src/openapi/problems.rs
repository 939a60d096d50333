//! Problems, described: which statuses follow from a row, and what they say.

use scrip_core::caller::Needs;
use scrip_threeds::fault::Component;
use serde_json::{Map, Value, json};

use crate::{
    route::BodyKind,
    wire::schema::{
        Attribute, Schema, always, answer, list, map, one_of, sometimes, text, uuid, whole,
    },
};

/// Status, name, and when.
const PROBLEMS: &[(u16, &str, &str)] = &[
    (
        400,
        "BadRequest",
        "Malformed JSON, an attribute, parameter or expression that is not valid, or a header that was sent twice.",
    ),
    (401, "Unauthorized", "The key is missing or not known here."),
    (403, "Forbidden", "The key is known, but no permission or rule allows this."),
    (404, "NotFound", "There is no such thing in this tenant."),
    (408, "RequestTimeout", "The body did not arrive in time."),
    (
        409,
        "Conflict",
        "Something else holds it: an id or a nonce that was used before, or a request with the same idempotency key in flight.",
    ),
    (410, "Gone", "It was here once. The detail says what to use instead."),
    (411, "LengthRequired", "The Content-Length header is missing."),
    (413, "ContentTooLarge", "The body is larger than this server accepts."),
    (415, "UnsupportedMediaType", "The content type is not the one that this operation reads."),
    (
        422,
        "Unprocessable",
        "Understood, and not possible as things are: there is no room for more, more to look through than is allowed, or a public key or access session used an idempotency key for a second, different request.",
    ),
    (
        424,
        "FailedDependency",
        "A directory server, an access control server or the connection to them failed, or no scheme takes the card. After a `service_status` of 502 or 504 a new session is needed.",
    ),
    (
        429,
        "TooManyRequests",
        "More requests than a limit allows. The detail names it, and the headers say how long to wait. A spent search budget has no such headers.",
    ),
    (500, "InternalError", "Our fault. Safe to try again with the same idempotency key."),
    (
        503,
        "Unavailable",
        "Sealed, overloaded, or the storage is away. Safe to try again with the same idempotency key.",
    ),
];

/// What can go wrong at any route of this kind.
pub(super) fn of_row(needs: Needs, body: BodyKind) -> Vec<u16> {
    let mut statuses = vec![400, 401, 429, 500, 503];
    match needs {
        Needs::Key => (),
        Needs::Kind(_) | Needs::Permission(_) => statuses.push(403),
    }
    match body {
        BodyKind::None => (),
        BodyKind::Unread => statuses.extend([409, 422]),
        BodyKind::Question => statuses.extend([408, 413, 415]),
        BodyKind::Json | BodyKind::MergePatch => statuses.extend([408, 409, 413, 415, 422]),
    }
    statuses
}

/// A reference to the response with this status.
pub(super) fn named(status: u16) -> Value {
    let name = PROBLEMS.iter().find(|it| it.0 == status).map_or("Undescribed", |it| it.1);
    json!({"$ref": format!("#/components/responses/{name}")})
}

/// The same, written out.
pub(super) fn spelled_out(status: u16) -> Value {
    PROBLEMS.iter().find(|it| it.0 == status).map(response).unwrap_or_default()
}

/// The same for a person: a page with a line of text.
pub(super) fn as_page(status: u16) -> Value {
    let mut response = spelled_out(status);
    if let Some(response) = response.as_object_mut() {
        response.insert("content".to_owned(), json!({"text/html": {"schema": {"type": "string"}}}));
    }
    response
}

pub(super) fn responses() -> Map<String, Value> {
    // What is deprecated is gone, and forms need a length: both spell their answers out.
    let shared = PROBLEMS.iter().filter(|it| ![410, 411].contains(&it.0));
    shared.map(|it| (it.1.to_owned(), response(it))).collect()
}

fn response((status, _, about): &(u16, &str, &str)) -> Value {
    let schema = match status {
        400 => "InvalidProblem",
        424 => "ServiceProblem",
        _ => "Problem",
    };
    let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
    let mut headers = json!({"BT-TRACE-ID": {"$ref": "#/components/headers/TraceId"}});
    let sent: &[(&str, &str)] = match status {
        429 => &[
            ("Retry-After", "RetryAfter"),
            ("RateLimit-Limit", "RateLimitLimit"),
            ("RateLimit-Remaining", "RateLimitRemaining"),
            ("RateLimit-Reset", "RateLimitReset"),
            ("X-RateLimit-Reset", "XRateLimitReset"),
        ],
        503 => &[("Retry-After", "RetryAfter")],
        _ => &[],
    };
    for (name, component) in sent {
        if let Some(headers) = headers.as_object_mut() {
            let header = json!({"$ref": format!("#/components/headers/{component}")});
            headers.insert((*name).to_owned(), header);
        }
    }
    let content = json!({"application/problem+json": {"schema": schema}});
    json!({"description": about, "headers": headers, "content": content})
}

pub(super) fn components() -> Vec<(&'static str, Schema)> {
    let problem = || {
        [
            always("type", text().with("const", "about:blank")),
            always("title", text().about("What the status is called.")),
            always("status", whole().between(400, 599)),
            always("detail", text().about("What went wrong, in words for people.")),
            always("instance", text().about("The trace id.")),
        ]
    };
    let errors = map(list(text()).with("minItems", 1))
        .about("What is wrong with each attribute, by its path, such as `data.number`.");
    let invalid = answer(problem().into_iter().chain([sometimes("errors", errors)]));
    let body = |status: u16, title: &str, detail: &str| {
        json!({
            "type": "about:blank", "title": title, "status": status, "detail": detail,
            "instance": "0af7651916cd43dd8448eb211c80319c",
        })
    };
    let mut wrong = body(400, "Bad Request", "the request is not valid");
    if let Some(object) = wrong.as_object_mut() {
        object.insert("errors".to_owned(), json!({"data.number": ["must be 12 to 19 digits"]}));
    }
    let mut failed = body(424, "3DS Service Error", "The directory server did not answer in time");
    if let Some(object) = failed.as_object_mut() {
        object.insert(
            "error".to_owned(),
            json!({
                "service_status": "504", "session_id": "7c5d2b8e-4f10-4c1e-9a57-2e6b8d3f0a94",
                "error_source": "Directory Server",
                "message": "The directory server did not answer in time",
                "detail": "What became of the request is unknown: create a new session",
            }),
        );
        let reason = ["Cardholder Account Number is not in a range belonging to Issuer."];
        let errors = json!({"The card was not supported by any card schemes": reason});
        object.insert("errors".to_owned(), errors);
    }
    let missing = body(404, "Not Found", "there is no such thing in this tenant");
    vec![
        ("Problem", answer(problem()).examples([missing])),
        ("InvalidProblem", invalid.examples([wrong])),
        ("ServiceProblem", answer(problem().into_iter().chain(service())).examples([failed])),
    ]
}

/// Beside the problem: who failed, and how.
fn service() -> [Attribute; 2] {
    let error = answer([
        always("service_status", text().about("The failure in the words of HTTP, such as `504`.")),
        sometimes("session_id", uuid()),
        always("error_source", one_of(Component::ALL.iter().map(|it| it.name()))),
        always("message", text()),
        always("detail", text()),
    ]);
    let errors = map(list(text()).with("minItems", 1));
    [
        always("error", error),
        sometimes("errors", errors.about("There when no scheme takes the card.")),
    ]
}
