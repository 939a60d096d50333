//! What is told without a key, described.

use serde_json::{Value, json};

use crate::{
    openapi::{common, parameters, problems, responses},
    route::{Outside, Sent},
    wire::described::Description,
};

/// Whatever is sent, it may arrive late, too often, or while nobody can look.
const PROBLEMS: [u16; 7] = [400, 408, 413, 415, 429, 500, 503];

pub(super) fn described(row: &Outside, described: &Description) -> Value {
    let mut operation = common(described, row.operation.as_str(), &["Nobody needs a key for it."]);
    let mut responses = responses(described);
    let length = row.sent.needs_length().then_some(411);
    let statuses = PROBLEMS.into_iter().chain(length).chain(described.problems.iter().copied());
    for status in statuses {
        let problem = match row.sent {
            Sent::Form => problems::as_page(status),
            Sent::Message => problems::named(status),
        };
        responses.insert(status.to_string(), problem);
    }
    let mut put = |name: &str, value: Value| operation.insert(name.to_owned(), value);
    put("parameters", parameters(described).into());
    if let Some(body) = &described.body {
        let (content_type, schema) = (row.sent.content_type(), body.clone().into_value());
        let body = json!({"required": true, "content": {content_type: {"schema": schema}}});
        put("requestBody", body);
    }
    put("responses", responses.into());
    put("security", json!([]));
    operation.into()
}
