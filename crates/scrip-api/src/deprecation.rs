//! Deprecated features of the API: the table, the response headers, and the rejection of disabled
//! operations.
//!
//! The table is the file `deprecation/table.json`.

#[cfg(test)]
mod page;

use std::sync::LazyLock;

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue, LINK},
};
use jiff::{civil::Date, fmt::rfc2822::DateTimePrinter, tz::TimeZone};
use scrip_core::types::Operation;
use serde::{Deserialize, Deserializer, de::Error};

/// One row of the table. The dates are those of the public API; days begin at midnight UTC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeprecatedFeature {
    pub(crate) feature: &'static str,
    #[serde(deserialize_with = "deserialize_date")]
    pub(crate) since: Date,
    #[serde(deserialize_with = "deserialize_date")]
    pub(crate) shutdown: Date,
    /// The clause that names the replacement; it completes a sentence.
    pub(crate) replacement: &'static str,
    pub(crate) status: DeprecationStatus,
}

/// How this server treats the feature.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "'de: 'static"))]
pub(crate) enum DeprecationStatus {
    /// Works until the operator switches it off.
    Active(DeprecatedOperation),
    /// The path responds with 410.
    Removed(DeprecatedOperation),
    /// The request is rejected with 400, and the detail states the violated rule.
    Rejected,
    /// The attribute is ignored.
    Ignored,
    /// Belongs to a feature that is not implemented yet.
    NotImplemented,
    /// Shut down before the first version of Scrip.
    NeverOffered,
}

/// A deprecated operation and its successor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct DeprecatedOperation {
    #[serde(deserialize_with = "deserialize_operation")]
    pub(crate) operation: Operation,
    pub(crate) successor: Successor,
}

/// The path of the successor.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Successor {
    Path(&'static str),
    /// Replaces the last segment of the request's path.
    Sibling(&'static str),
}

/// The embedded file, parsed once. The texts borrow from it.
pub(crate) static TABLE: LazyLock<Vec<DeprecatedFeature>> =
    LazyLock::new(|| serde_json::from_str(TABLE_JSON).expect("the embedded table is well formed"));

const TABLE_JSON: &str = include_str!("deprecation/table.json");

fn deserialize_date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Date, D::Error> {
    <&str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

fn deserialize_operation<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Operation, D::Error> {
    let name = <&str>::deserialize(deserializer)?;
    Operation::parse(name).ok_or_else(|| D::Error::custom(format!("{name} is not an operation")))
}

impl DeprecatedFeature {
    pub(crate) fn deprecated_operation(&self) -> Option<&DeprecatedOperation> {
        match &self.status {
            DeprecationStatus::Active(it) | DeprecationStatus::Removed(it) => Some(it),
            DeprecationStatus::Rejected
            | DeprecationStatus::Ignored
            | DeprecationStatus::NotImplemented
            | DeprecationStatus::NeverOffered => None,
        }
    }

    /// The detail of a 410.
    pub(crate) fn gone_detail(&self) -> String {
        let is_active = matches!(self.status, DeprecationStatus::Active(_));
        let state = if is_active { "is switched off on this server" } else { "was removed" };
        format!("{} {state}: {}", self.feature, self.replacement)
    }
}

impl DeprecatedOperation {
    /// Returns the path of the successor of a request to this path.
    pub(crate) fn successor_of(&self, path: &str) -> Option<String> {
        match self.successor {
            Successor::Path(successor) => Some(successor.to_owned()),
            Successor::Sibling(name) => {
                path.rsplit_once('/').map(|(parent, _)| format!("{parent}/{name}"))
            }
        }
    }
}

/// Finds the row of a deprecated operation.
pub(crate) fn find_by_operation(operation: Operation) -> Option<&'static DeprecatedFeature> {
    TABLE.iter().find(|it| it.deprecated_operation().is_some_and(|it| it.operation == operation))
}

/// Rejects a disabled or removed operation. Called after the permission check: an unknown key
/// learns nothing about the configuration, and a caller without permission gets 403 instead of a
/// hint to migrate. Called before the body is read and the idempotency key is claimed, so a
/// disabled operation stores and replays nothing.
pub(crate) fn check_enabled(
    operation: Operation,
    disabled_operations: &[Operation],
) -> Result<(), &'static DeprecatedFeature> {
    match find_by_operation(operation) {
        None => Ok(()),
        Some(DeprecatedFeature { status: DeprecationStatus::Active(_), .. })
            if !disabled_operations.contains(&operation) =>
        {
            Ok(())
        }
        Some(row) => Err(row),
    }
}

/// RFC 9745.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// RFC 8594.
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The headers of every response of a deprecated operation, rendered once.
struct DeprecationHeaders {
    deprecated_operation: &'static DeprecatedOperation,
    deprecation: HeaderValue,
    sunset: HeaderValue,
    /// `None` if the link depends on the path of the request.
    link: Option<HeaderValue>,
}

static OPERATION_HEADERS: LazyLock<Vec<DeprecationHeaders>> =
    LazyLock::new(|| TABLE.iter().filter_map(DeprecationHeaders::for_feature).collect());

impl DeprecationHeaders {
    fn for_feature(feature: &'static DeprecatedFeature) -> Option<Self> {
        let deprecated_operation = feature.deprecated_operation()?;
        let start_of_day = |day: Date| Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp());
        let since = format!("@{}", start_of_day(feature.since)?.as_second());
        let sunset =
            DateTimePrinter::new().timestamp_to_rfc9110_string(&start_of_day(feature.shutdown)?);
        Some(Self {
            deprecated_operation,
            deprecation: HeaderValue::try_from(since).ok()?,
            sunset: HeaderValue::try_from(sunset.ok()?).ok()?,
            link: match deprecated_operation.successor {
                Successor::Path(path) => successor_link(path),
                Successor::Sibling(_) => None,
            },
        })
    }
}

/// The path comes from the table or was parsed from a URI, so it contains no angle bracket.
fn successor_link(path: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{path}>; rel=\"successor-version\"")).ok()
}

/// Adds the deprecation headers to a response of any status. `path` is the path of the request.
pub(crate) fn add_headers(operation: Operation, path: &str, headers: &mut HeaderMap) {
    let Some(deprecation_headers) =
        OPERATION_HEADERS.iter().find(|it| it.deprecated_operation.operation == operation)
    else {
        return;
    };
    headers.insert(DEPRECATION, deprecation_headers.deprecation.clone());
    headers.insert(SUNSET, deprecation_headers.sunset.clone());
    let link_for_path =
        || successor_link(&deprecation_headers.deprecated_operation.successor_of(path)?);
    // Appends, because the response can have other links.
    if let Some(link) = deprecation_headers.link.clone().or_else(link_for_path) {
        headers.append(LINK, link);
    }
}

/// Operations that an operator can switch off: deprecated ones that still work.
pub fn switchable_operations() -> impl Iterator<Item = Operation> {
    let active = TABLE.iter().filter(|it| matches!(it.status, DeprecationStatus::Active(_)));
    active.filter_map(DeprecatedFeature::deprecated_operation).map(|it| it.operation)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes::ROUTES;

    fn headers_for(operation: Operation, path: &str) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        add_headers(operation, path, &mut headers);
        let to_text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        headers.iter().map(to_text).collect()
    }

    #[track_caller]
    fn check(operation: Operation, path: &str, expected: [&str; 3]) {
        let names = ["deprecation", "sunset", "link"];
        let expected = names.into_iter().zip(expected).map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(headers_for(operation, path), expected.collect::<Vec<_>>());
    }

    #[test]
    fn deprecated_operation_responds_with_deprecation_sunset_and_link() {
        let january_dates = ["@1735862400", "Sat, 01 Mar 2025 00:00:00 GMT"];
        let [since, shutdown] = january_dates;
        let list_link = r#"</v2/tokens>; rel="successor-version""#;
        check(Operation::ListTokensV1, "/tokens", [since, shutdown, list_link]);
        let search_link = r#"</v2/tokens/search>; rel="successor-version""#;
        check(Operation::SearchTokensV1, "/tokens/search", [since, shutdown, search_link]);
        let keys_link = r#"</applications/7/keys>; rel="successor-version""#;
        let april_headers = ["@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", keys_link];
        check(Operation::RegenerateApplicationKey, "/applications/7/regenerate", april_headers);
        for operation in [Operation::ListTokens, Operation::SearchTokens, Operation::CreateToken] {
            assert!(headers_for(operation, "/tokens").is_empty(), "{operation:?}");
        }
    }

    #[test]
    fn existing_link_header_is_preserved() {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, HeaderValue::from_static("</next>; rel=\"next\""));
        add_headers(Operation::ListTokensV1, "/tokens", &mut headers);
        assert_eq!(headers.get_all(LINK).iter().count(), 2);
    }

    #[test]
    fn each_deprecated_operation_has_headers_and_exactly_one_row() {
        let deprecated: Vec<_> =
            TABLE.iter().filter_map(DeprecatedFeature::deprecated_operation).collect();
        assert_eq!(OPERATION_HEADERS.len(), deprecated.len());
        let names: BTreeSet<_> = deprecated.iter().map(|it| it.operation.as_str()).collect();
        assert_eq!(names.len(), deprecated.len());
    }

    /// RFC 9745: a sunset must not be before the deprecation.
    #[test]
    fn shutdown_is_never_before_deprecation() {
        for row in TABLE.iter() {
            assert!(row.since <= row.shutdown, "{}", row.feature);
        }
    }

    #[test]
    fn deprecated_operations_have_routes() {
        assert_eq!(TABLE.len(), 9);
        for deprecated in TABLE.iter().filter_map(DeprecatedFeature::deprecated_operation) {
            let is_route = ROUTES.iter().any(|it| it.operation == deprecated.operation);
            assert!(is_route, "{:?} has no route", deprecated.operation);
        }
    }

    #[test]
    fn unknown_operations_dates_and_attributes_are_rejected() {
        let replace = |from: &str, to: &str| TABLE_JSON.replacen(from, to, 1);
        let parse = |text: String| serde_json::from_str::<Vec<DeprecatedFeature>>(text.leak());
        assert!(parse(TABLE_JSON.to_owned()).is_ok());
        for (from, to) in [
            ("list_tokens_v1", "list_tokens_v0"),
            ("2025-03-01", "2025-02-29"),
            ("\"not_implemented\"", "\"planned\""),
            ("\"since\"", "\"from\""),
        ] {
            assert!(TABLE_JSON.contains(from) && parse(replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn successors_are_existing_routes() {
        for route in ROUTES {
            let Some(deprecated) = find_by_operation(route.operation)
                .and_then(DeprecatedFeature::deprecated_operation)
            else {
                continue;
            };
            let successor = deprecated.successor_of(route.path).unwrap();
            assert!(ROUTES.iter().any(|it| it.path == successor), "{successor} is not a route");
        }
    }

    #[track_caller]
    fn check_rejection(operation: Operation, switched_off: &[Operation], expected: Option<&str>) {
        let detail =
            check_enabled(operation, switched_off).err().map(DeprecatedFeature::gone_detail);
        assert_eq!(detail.as_deref(), expected);
    }

    #[test]
    fn disabled_and_removed_operations_are_rejected_with_their_replacement() {
        let (list, search) = (Operation::ListTokensV1, Operation::SearchTokensV1);
        for operation in [list, search, Operation::ListTokens, Operation::CreateToken] {
            check_rejection(operation, &[], None);
        }
        let list_detail = "List Tokens v1 is switched off on this server: \
                       use List Tokens v2, GET /v2/tokens";
        check_rejection(list, &[list], Some(list_detail));
        check_rejection(search, &[list], None);
        let search_detail = "Search Tokens v1 is switched off on this server: \
                         use Search Tokens v2, POST /v2/tokens/search";
        check_rejection(search, &[list, search], Some(search_detail));
        check_rejection(Operation::CreateToken, &[Operation::CreateToken], None);
        let removed_detail = "Regeneration of an application's key was removed: create another key \
                    at /applications/{id}/keys, and delete the old one when no client uses it";
        check_rejection(Operation::RegenerateApplicationKey, &[], Some(removed_detail));
    }
}
