//! What the interface has given up: one table, how an answer tells of it, and who is refused.
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
use scrip_core::audit::Operation;
use serde::{Deserialize, Deserializer, de::Error};

/// One row of the interface's table. The days are the interface's, and begin in UTC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeprecatedFeature {
    pub(crate) feature: &'static str,
    #[serde(deserialize_with = "deserialize_date")]
    pub(crate) since: Date,
    #[serde(deserialize_with = "deserialize_date")]
    pub(crate) shutdown: Date,
    /// What to do instead, as one would tell somebody.
    pub(crate) replacement: &'static str,
    pub(crate) status: DeprecationStatus,
}

/// What has become of it here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "'de: 'static"))]
pub(crate) enum DeprecationStatus {
    /// It works until the operator switches it off.
    Active(DeprecatedOperation),
    /// Its path is remembered, and is 410.
    Removed(DeprecatedOperation),
    /// The request is a 400 that says which rule it broke.
    Rejected,
    /// An attribute that nobody reads.
    Ignored,
    /// Part of something larger that is not here yet.
    NotImplemented,
    /// Scrip began after its end.
    NeverOffered,
}

/// An operation of ours, and what has taken its place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct DeprecatedOperation {
    #[serde(deserialize_with = "deserialize_operation")]
    pub(crate) operation: Operation,
    pub(crate) successor: Successor,
}

/// Where the successor is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Successor {
    Path(&'static str),
    /// In the place of the last segment of the path that was asked for.
    Sibling(&'static str),
}

/// The file beside this one, read once. The texts borrow from it.
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
    Operation::parse(name).ok_or_else(|| D::Error::custom(format!("{name} is no operation")))
}

impl DeprecatedFeature {
    pub(crate) fn deprecated_operation(&self) -> Option<&DeprecatedOperation> {
        match &self.status {
            DeprecationStatus::Active(former) | DeprecationStatus::Removed(former) => Some(former),
            DeprecationStatus::Rejected
            | DeprecationStatus::Ignored
            | DeprecationStatus::NotImplemented
            | DeprecationStatus::NeverOffered => None,
        }
    }

    /// The detail of a 410.
    pub(crate) fn gone_detail(&self) -> String {
        let stored = matches!(self.status, DeprecationStatus::Active(_));
        let state = if stored { "is switched off on this server" } else { "is no longer there" };
        format!("{} {state}: {}", self.feature, self.replacement)
    }
}

impl DeprecatedOperation {
    /// Where the successor is of what was asked for at this path.
    pub(crate) fn successor_of(&self, path: &str) -> Option<String> {
        match self.successor {
            Successor::Path(successor) => Some(successor.to_owned()),
            Successor::Sibling(name) => {
                path.rsplit_once('/').map(|(parent, _)| format!("{parent}/{name}"))
            }
        }
    }
}

/// The row of an operation that is deprecated.
pub(crate) fn find_by_operation(operation: Operation) -> Option<&'static DeprecatedFeature> {
    TABLE.iter().find(|it| it.deprecated_operation().is_some_and(|it| it.operation == operation))
}

/// Asked when the caller is known to have the permission: a key that is not known learns nothing of
/// how a server is set up, and one that was never let in is told so, not sent to migrate. Before
/// anything is read or claimed, so that what is switched off leaves no trace and replays nothing.
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

/// What every answer of a deprecated operation carries, made once.
struct DeprecationHeaders {
    deprecated_operation: &'static DeprecatedOperation,
    deprecation: HeaderValue,
    sunset: HeaderValue,
    /// Nothing when it depends on the path that is asked for.
    link: Option<HeaderValue>,
}

static OPERATION_HEADERS: LazyLock<Vec<DeprecationHeaders>> =
    LazyLock::new(|| TABLE.iter().filter_map(DeprecationHeaders::for_feature).collect());

impl DeprecationHeaders {
    fn for_feature(row: &'static DeprecatedFeature) -> Option<Self> {
        let former = row.deprecated_operation()?;
        let begin = |day: Date| Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp());
        let since = format!("@{}", begin(row.since)?.as_second());
        let sunset = DateTimePrinter::new().timestamp_to_rfc9110_string(&begin(row.shutdown)?);
        Some(Self {
            deprecated_operation: former,
            deprecation: HeaderValue::try_from(since).ok()?,
            sunset: HeaderValue::try_from(sunset.ok()?).ok()?,
            link: match former.successor {
                Successor::Path(path) => successor_link(path),
                Successor::Sibling(_) => None,
            },
        })
    }
}

/// The path is ours, or was read as one: no angle bracket can be in it.
fn successor_link(path: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{path}>; rel=\"successor-version\"")).ok()
}

/// Tells in an answer, whatever its status, that its operation is deprecated. The path is that of
/// the request.
pub(crate) fn add_headers(operation: Operation, path: &str, headers: &mut HeaderMap) {
    let Some(mark) =
        OPERATION_HEADERS.iter().find(|it| it.deprecated_operation.operation == operation)
    else {
        return;
    };
    headers.insert(DEPRECATION, mark.deprecation.clone());
    headers.insert(SUNSET, mark.sunset.clone());
    let of_path = || successor_link(&mark.deprecated_operation.successor_of(path)?);
    // There may be other links.
    if let Some(link) = mark.link.clone().or_else(of_path) {
        headers.append(LINK, link);
    }
}

/// Operations that an operator can switch off: those that are deprecated and still work.
pub fn switchable_operations() -> impl Iterator<Item = Operation> {
    let stored = TABLE.iter().filter(|it| matches!(it.status, DeprecationStatus::Active(_)));
    stored.filter_map(DeprecatedFeature::deprecated_operation).map(|it| it.operation)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes::ROUTES;

    fn headers_of(operation: Operation, path: &str) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        add_headers(operation, path, &mut headers);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        headers.iter().map(text).collect()
    }

    #[track_caller]
    fn check(operation: Operation, path: &str, expected: [&str; 3]) {
        let names = ["deprecation", "sunset", "link"];
        let expected = names.into_iter().zip(expected).map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(headers_of(operation, path), expected.collect::<Vec<_>>());
    }

    #[test]
    fn deprecated_operation_responds_with_deprecation_sunset_and_link() {
        let january = ["@1735862400", "Sat, 01 Mar 2025 00:00:00 GMT"];
        let [since, until] = january;
        let list = r#"</v2/tokens>; rel="successor-version""#;
        check(Operation::ListTokensV1, "/tokens", [since, until, list]);
        let search = r#"</v2/tokens/search>; rel="successor-version""#;
        check(Operation::SearchTokensV1, "/tokens/search", [since, until, search]);
        let keys = r#"</applications/7/keys>; rel="successor-version""#;
        let april = ["@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", keys];
        check(Operation::RegenerateApplicationKey, "/applications/7/regenerate", april);
        for operation in [Operation::ListTokens, Operation::SearchTokens, Operation::CreateToken] {
            assert!(headers_of(operation, "/tokens").is_empty(), "{operation:?}");
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
        let formers: Vec<_> =
            TABLE.iter().filter_map(DeprecatedFeature::deprecated_operation).collect();
        assert_eq!(OPERATION_HEADERS.len(), formers.len());
        let names: BTreeSet<_> = formers.iter().map(|it| it.operation.as_str()).collect();
        assert_eq!(names.len(), formers.len());
    }

    /// RFC 9745 wants no sunset before the deprecation.
    #[test]
    fn shutdown_is_never_before_deprecation() {
        for row in TABLE.iter() {
            assert!(row.since <= row.shutdown, "{}", row.feature);
        }
    }

    #[test]
    fn deprecated_operations_have_routes() {
        assert_eq!(TABLE.len(), 9);
        for former in TABLE.iter().filter_map(DeprecatedFeature::deprecated_operation) {
            let is_route = ROUTES.iter().any(|it| it.operation == former.operation);
            assert!(is_route, "{:?} has no route", former.operation);
        }
    }

    #[test]
    fn unknown_operations_dates_and_attributes_are_rejected() {
        let row = |from: &str, to: &str| TABLE_JSON.replacen(from, to, 1);
        let read = |text: String| serde_json::from_str::<Vec<DeprecatedFeature>>(text.leak());
        assert!(read(TABLE_JSON.to_owned()).is_ok());
        for (from, to) in [
            ("list_tokens_v1", "list_tokens_v0"),
            ("2025-03-01", "2025-02-29"),
            ("\"unbuilt\"", "\"planned\""),
            ("\"since\"", "\"from\""),
        ] {
            assert!(TABLE_JSON.contains(from) && read(row(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn successors_are_existing_routes() {
        for route in ROUTES {
            let Some(former) = find_by_operation(route.operation)
                .and_then(DeprecatedFeature::deprecated_operation)
            else {
                continue;
            };
            let successor = former.successor_of(route.path).unwrap();
            assert!(ROUTES.iter().any(|it| it.path == successor), "{successor} is not there");
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
        let no_list = "List Tokens v1 is switched off on this server: \
                       use List Tokens v2, GET /v2/tokens";
        check_rejection(list, &[list], Some(no_list));
        check_rejection(search, &[list], None);
        let no_search = "Search Tokens v1 is switched off on this server: \
                         use Search Tokens v2, POST /v2/tokens/search";
        check_rejection(search, &[list, search], Some(no_search));
        check_rejection(Operation::CreateToken, &[Operation::CreateToken], None);
        let gone = "Regeneration of an application's key is no longer there: create another key \
                    at /applications/{id}/keys, and delete the old one when nobody uses it";
        check_rejection(Operation::RegenerateApplicationKey, &[], Some(gone));
    }
}
