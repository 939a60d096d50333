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
pub struct Deprecated {
    pub(crate) feature: &'static str,
    #[serde(deserialize_with = "read_date")]
    pub(crate) since: Date,
    #[serde(deserialize_with = "read_date")]
    pub(crate) shutdown: Date,
    /// What to do instead, as one would tell somebody.
    pub(crate) instead: &'static str,
    pub(crate) standing: Standing,
}

/// What has become of it here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "'de: 'static"))]
pub(crate) enum Standing {
    /// It works until the operator switches it off.
    Kept(Former),
    /// Its path is remembered, and is 410.
    Removed(Former),
    /// The request is a 400 that says which rule it broke.
    Refused,
    /// An attribute that nobody reads.
    Ignored,
    /// Part of something larger that is not here yet.
    Unbuilt,
    /// Scrip began after its end.
    Never,
}

/// An operation of ours, and what has taken its place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub(crate) struct Former {
    #[serde(deserialize_with = "read_operation")]
    pub(crate) operation: Operation,
    pub(crate) successor: Successor,
}

/// Where the successor is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Successor {
    At(&'static str),
    /// In the place of the last segment of the path that was asked for.
    Beside(&'static str),
}

/// The file beside this one, read once. The texts borrow from it.
pub(crate) static TABLE: LazyLock<Vec<Deprecated>> =
    LazyLock::new(|| serde_json::from_str(FILE).expect("the embedded table is well formed"));

const FILE: &str = include_str!("deprecation/table.json");

fn read_date<'de, D: Deserializer<'de>>(from: D) -> Result<Date, D::Error> {
    <&str>::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn read_operation<'de, D: Deserializer<'de>>(from: D) -> Result<Operation, D::Error> {
    let name = <&str>::deserialize(from)?;
    Operation::parse(name).ok_or_else(|| D::Error::custom(format!("{name} is no operation")))
}

impl Deprecated {
    pub(crate) fn former(&self) -> Option<&Former> {
        match &self.standing {
            Standing::Kept(former) | Standing::Removed(former) => Some(former),
            Standing::Refused | Standing::Ignored | Standing::Unbuilt | Standing::Never => None,
        }
    }

    /// The detail of a 410.
    pub(crate) fn gone(&self) -> String {
        let kept = matches!(self.standing, Standing::Kept(_));
        let state = if kept { "is switched off on this server" } else { "is no longer there" };
        format!("{} {state}: {}", self.feature, self.instead)
    }
}

impl Former {
    /// Where the successor is of what was asked for at this path.
    pub(crate) fn successor(&self, path: &str) -> Option<String> {
        match self.successor {
            Successor::At(successor) => Some(successor.to_owned()),
            Successor::Beside(name) => {
                path.rsplit_once('/').map(|(parent, _)| format!("{parent}/{name}"))
            }
        }
    }
}

/// The row of an operation that is deprecated.
pub(crate) fn of(operation: Operation) -> Option<&'static Deprecated> {
    TABLE.iter().find(|it| it.former().is_some_and(|it| it.operation == operation))
}

/// Asked when the caller is known to have the permission: a key that is not known learns nothing of
/// how a server is set up, and one that was never let in is told so, not sent to migrate. Before
/// anything is read or claimed, so that what is switched off leaves no trace and replays nothing.
pub(crate) fn admit(
    operation: Operation,
    switched_off: &[Operation],
) -> Result<(), &'static Deprecated> {
    match of(operation) {
        None => Ok(()),
        Some(Deprecated { standing: Standing::Kept(_), .. })
            if !switched_off.contains(&operation) =>
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
struct Mark {
    former: &'static Former,
    deprecation: HeaderValue,
    sunset: HeaderValue,
    /// Nothing when it depends on the path that is asked for.
    link: Option<HeaderValue>,
}

static MARKS: LazyLock<Vec<Mark>> = LazyLock::new(|| TABLE.iter().filter_map(Mark::of).collect());

impl Mark {
    fn of(row: &'static Deprecated) -> Option<Self> {
        let former = row.former()?;
        let begin = |day: Date| Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp());
        let since = format!("@{}", begin(row.since)?.as_second());
        let sunset = DateTimePrinter::new().timestamp_to_rfc9110_string(&begin(row.shutdown)?);
        Some(Self {
            former,
            deprecation: HeaderValue::try_from(since).ok()?,
            sunset: HeaderValue::try_from(sunset.ok()?).ok()?,
            link: match former.successor {
                Successor::At(path) => link(path),
                Successor::Beside(_) => None,
            },
        })
    }
}

/// The path is ours, or was read as one: no angle bracket can be in it.
fn link(path: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{path}>; rel=\"successor-version\"")).ok()
}

/// Tells in an answer, whatever its status, that its operation is deprecated. The path is that of
/// the request.
pub(crate) fn mark(operation: Operation, path: &str, headers: &mut HeaderMap) {
    let Some(mark) = MARKS.iter().find(|it| it.former.operation == operation) else { return };
    headers.insert(DEPRECATION, mark.deprecation.clone());
    headers.insert(SUNSET, mark.sunset.clone());
    let of_path = || link(&mark.former.successor(path)?);
    // There may be other links.
    if let Some(link) = mark.link.clone().or_else(of_path) {
        headers.append(LINK, link);
    }
}

/// Operations that an operator can switch off: those that are deprecated and still work.
pub fn switchable() -> impl Iterator<Item = Operation> {
    let kept = TABLE.iter().filter(|it| matches!(it.standing, Standing::Kept(_)));
    kept.filter_map(Deprecated::former).map(|it| it.operation)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::routes::ROUTES;

    fn marked(operation: Operation, path: &str) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        mark(operation, path, &mut headers);
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        headers.iter().map(text).collect()
    }

    #[track_caller]
    fn check(operation: Operation, path: &str, expected: [&str; 3]) {
        let names = ["deprecation", "sunset", "link"];
        let expected = names.into_iter().zip(expected).map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(marked(operation, path), expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_answer_tells_since_when_until_when_and_what_instead() {
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
            assert!(marked(operation, "/tokens").is_empty(), "{operation:?}");
        }
    }

    #[test]
    fn a_link_of_the_answer_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, HeaderValue::from_static("</next>; rel=\"next\""));
        mark(Operation::ListTokensV1, "/tokens", &mut headers);
        assert_eq!(headers.get_all(LINK).iter().count(), 2);
    }

    #[test]
    fn every_operation_of_the_table_has_its_headers_and_one_row() {
        let formers: Vec<_> = TABLE.iter().filter_map(Deprecated::former).collect();
        assert_eq!(MARKS.len(), formers.len());
        let names: BTreeSet<_> = formers.iter().map(|it| it.operation.as_str()).collect();
        assert_eq!(names.len(), formers.len());
    }

    /// RFC 9745 wants no sunset before the deprecation.
    #[test]
    fn nothing_ends_before_it_is_deprecated() {
        for row in TABLE.iter() {
            assert!(row.since <= row.shutdown, "{}", row.feature);
        }
    }

    #[test]
    fn deprecated_operations_have_routes() {
        assert_eq!(TABLE.len(), 9);
        for former in TABLE.iter().filter_map(Deprecated::former) {
            let is_route = ROUTES.iter().any(|it| it.operation == former.operation);
            assert!(is_route, "{:?} has no route", former.operation);
        }
    }

    #[test]
    fn unknown_operations_dates_and_attributes_are_rejected() {
        let row = |from: &str, to: &str| FILE.replacen(from, to, 1);
        let read = |text: String| serde_json::from_str::<Vec<Deprecated>>(text.leak());
        assert!(read(FILE.to_owned()).is_ok());
        for (from, to) in [
            ("list_tokens_v1", "list_tokens_v0"),
            ("2025-03-01", "2025-02-29"),
            ("\"unbuilt\"", "\"planned\""),
            ("\"since\"", "\"from\""),
        ] {
            assert!(FILE.contains(from) && read(row(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn successors_are_routes() {
        for route in ROUTES {
            let Some(former) = of(route.operation).and_then(Deprecated::former) else { continue };
            let successor = former.successor(route.path).unwrap();
            assert!(ROUTES.iter().any(|it| it.path == successor), "{successor} is not there");
        }
    }

    #[track_caller]
    fn refused(operation: Operation, switched_off: &[Operation], expected: Option<&str>) {
        let detail = admit(operation, switched_off).err().map(Deprecated::gone);
        assert_eq!(detail.as_deref(), expected);
    }

    #[test]
    fn who_is_refused_and_what_they_are_told() {
        let (list, search) = (Operation::ListTokensV1, Operation::SearchTokensV1);
        for operation in [list, search, Operation::ListTokens, Operation::CreateToken] {
            refused(operation, &[], None);
        }
        let no_list = "List Tokens v1 is switched off on this server: \
                       use List Tokens v2, GET /v2/tokens";
        refused(list, &[list], Some(no_list));
        refused(search, &[list], None);
        let no_search = "Search Tokens v1 is switched off on this server: \
                         use Search Tokens v2, POST /v2/tokens/search";
        refused(search, &[list, search], Some(no_search));
        refused(Operation::CreateToken, &[Operation::CreateToken], None);
        let gone = "Regeneration of an application's key is no longer there: create another key \
                    at /applications/{id}/keys, and delete the old one when nobody uses it";
        refused(Operation::RegenerateApplicationKey, &[], Some(gone));
    }
}
