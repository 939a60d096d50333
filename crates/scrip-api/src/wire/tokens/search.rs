//! Searches on the wire: their bodies and their query languages.
//!
//! A query is made of terms, `field:value` or `field:"a value"`, joined with AND. What else one
//! might write is refused with the rule that it breaks.

use scrip_core::{
    id::TokenId,
    listing::{
        ListTokensQuery, OffsetPageQuery, PageRequest, TokenFilter,
        page::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX},
    },
    token::Plaintext,
};
use scrip_seal::Fingerprint;

use crate::wire::{
    ParseError,
    fields::JsonFields,
    query::invalid_parameter,
    tokens::list::{parse_container, parse_cursor, parse_type},
};

const QUERY_BYTES_MAX: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
}

type RuleText = &'static str;

/// By cursor: one term, perhaps with a container.
pub(crate) fn parse(body: Plaintext) -> Result<ListTokensQuery, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let terms = parse_query_terms(&mut fields);
    let start = fields.text("start").into_option();
    let size = parse_size(&mut fields);
    let terms = fields.finish_with(terms)?;
    let (filter, container) = parse_cursor_terms(terms)?;
    let start = start.as_deref().map(parse_cursor).transpose()?;
    Ok(ListTokensQuery { container, filter, start, size })
}

/// By page number: one term, or several about metadata.
pub(crate) fn parse_v1(body: Plaintext) -> Result<OffsetPageQuery, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let terms = parse_query_terms(&mut fields);
    let number = fields.count("page", usize::MAX, "must be a number of 1 or more").into_option();
    let size = parse_size(&mut fields);
    let terms = fields.finish_with(terms)?;
    let page = PageRequest { number: number.unwrap_or(1), size };
    parse_numbered_terms(terms, page).map_err(invalid_query)
}

fn invalid_query(rule: RuleText) -> ParseError {
    invalid_parameter("query", rule)
}

fn parse_size(fields: &mut JsonFields) -> usize {
    fields
        .count("size", PAGE_SIZE_MAX, "must be from 1 to 100")
        .into_option()
        .unwrap_or(PAGE_SIZE_DEFAULT)
}

fn parse_query_terms(fields: &mut JsonFields) -> Option<Vec<Term>> {
    let query = fields.required_text("query");
    let terms = |it: String| {
        parse_terms(&it).map_err(|rule| vec![scrip_core::error::FieldError::new("query", rule)])
    };
    fields.parse(query, terms).into_option()
}

type Container = scrip_core::token::Container;

fn parse_cursor_terms(terms: Vec<Term>) -> Result<(TokenFilter, Option<Container>), ParseError> {
    const ONE: RuleText = "must have one term about type, fingerprint, data or metadata.<name>, and \
                       at most one about container";
    let (mut filter, mut container) = (None, None);
    for Term { field, value } in terms {
        let term = match field.as_str() {
            "container" if container.is_none() => {
                container = Some(parse_container("query", &value)?);
                continue;
            }
            "type" => TokenFilter::Type(parse_type("query", &value)?),
            "fingerprint" => TokenFilter::Fingerprint(Fingerprint::parse(&value)),
            "data" => TokenFilter::Data(value),
            "id" => {
                return Err(invalid_query(
                    "an id cannot be searched for; a token is at /tokens/{id}",
                ));
            }
            other => match metadata_name(other) {
                Some(name) => TokenFilter::Metadata { name: name.to_owned(), value },
                None => return Err(invalid_query(ONE)),
            },
        };
        if filter.replace(term).is_some() {
            return Err(invalid_query(ONE));
        }
    }
    Ok((filter.ok_or_else(|| invalid_query(ONE))?, container))
}

fn parse_numbered_terms(terms: Vec<Term>, page: PageRequest) -> Result<OffsetPageQuery, RuleText> {
    let mut request = OffsetPageQuery { page, ..OffsetPageQuery::default() };
    let single = terms.len() == 1;
    for Term { field, value } in terms {
        match (field.as_str(), metadata_name(&field)) {
            (_, Some(name)) => request.metadata.push((name.to_owned(), value)),
            ("id" | "data", None) if !single => {
                return Err("only terms about metadata can be joined with AND");
            }
            ("id", None) => request.ids = Some(TokenId::parse(&value).into_iter().collect()),
            ("data", None) => request.data = Some(value),
            (
                "type" | "fingerprint" | "container" | "created_by" | "created_at" | "modified_by"
                | "modified_at",
                None,
            ) => {
                return Err("type, fingerprint, container, created_by, created_at, modified_by \
                            and modified_at cannot be searched for any more");
            }
            (_, None) => return Err("each term must be about id, data or metadata.<name>"),
        }
    }
    Ok(request)
}

fn metadata_name(field: &str) -> Option<&str> {
    field.strip_prefix("metadata.").filter(|it| !it.is_empty())
}

/// At least one term.
fn parse_terms(query: &str) -> Result<Vec<Term>, RuleText> {
    if query.len() > QUERY_BYTES_MAX {
        return Err("must have at most 4096 bytes");
    }
    let mut terms = Vec::new();
    let mut rest = query.trim();
    if rest.is_empty() {
        return Err("must have a term, such as metadata.name:value");
    }
    loop {
        let (term, after) = parse_term(rest)?;
        terms.push(term);
        let after = after.trim_start();
        if after.is_empty() {
            return Ok(terms);
        }
        rest = parse_and(after)?;
    }
}

fn parse_and(text: &str) -> Result<&str, RuleText> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word {
        "AND" | "and" | "&&" if rest.trim().is_empty() => Err("a term must follow AND"),
        "AND" | "and" | "&&" => Ok(rest.trim_start()),
        "OR" | "or" | "||" => Err("OR is not supported: ask twice"),
        "NOT" | "not" => Err(NEGATION),
        _ if word.starts_with([')', '(']) => Err(PARENTHESES),
        _ => Err("terms must be joined with AND; a value with spaces stands between quotes"),
    }
}

const NEGATION: RuleText = "negation is not supported";
const PARENTHESES: RuleText = "parentheses are not supported";

fn parse_term(text: &str) -> Result<(Term, &str), RuleText> {
    if text.starts_with(['-', '!']) || ["NOT ", "not "].iter().any(|it| text.starts_with(it)) {
        return Err(NEGATION);
    }
    if text.starts_with(['(', ')']) {
        return Err(PARENTHESES);
    }
    let needed = "must be made of terms, such as metadata.name:value";
    let (field, rest) = text.split_once(':').ok_or(needed)?;
    if field.is_empty() || field.contains(|it: char| it.is_whitespace() || "\"()".contains(it)) {
        return Err(needed);
    }
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => parse_bare(rest)?,
    };
    if value.is_empty() {
        return Err("a term must have a value behind the colon");
    }
    Ok((Term { field: field.to_owned(), value }, rest))
}

/// Up to the closing quote. A backslash takes the next character as it is.
fn parse_quoted(text: &str) -> Result<(String, &str), RuleText> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, it)) = chars.next() {
        match it {
            '"' => {
                let rest = text.get(at.saturating_add(1)..).unwrap_or_default();
                if rest.starts_with(|it: char| !it.is_whitespace()) {
                    return Err("a closing quote must end its term");
                }
                return Ok((value, rest));
            }
            '\\' => value.extend(chars.next().map(|(_, it)| it)),
            _ => value.push(it),
        }
    }
    Err("a quote is not closed")
}

/// Up to the next space. What other query languages would read as more than a value must stand
/// between quotes, so that nobody takes it for a feature.
fn parse_bare(text: &str) -> Result<(String, &str), RuleText> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (value, rest) = text.split_at(end);
    if value.contains(['*', '?', '~']) {
        return Err("wildcards are not supported; such a value stands between quotes");
    }
    if value.starts_with(['[', '{', '<', '>']) {
        return Err("ranges are not supported; such a value stands between quotes");
    }
    if value.contains(['(', ')']) {
        return Err(PARENTHESES);
    }
    if value.contains('"') {
        return Err("a quote must begin its value");
    }
    Ok((value.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_parsed(query: &str, expected: &[(&str, &str)]) {
        let terms = parse_terms(query).unwrap();
        let read: Vec<_> = terms.iter().map(|it| (it.field.as_str(), it.value.as_str())).collect();
        assert_eq!(read, expected, "{query}");
    }

    #[test]
    fn documented_query_length_limit_matches_the_code() {
        let queries = ["TokenSearch.query", "NumberedTokenSearch.query"];
        crate::openapi::tests::assert_limit_usize(&queries, "maxLength", QUERY_BYTES_MAX);
    }

    #[test]
    fn queries_are_parsed_into_terms() {
        check_parsed("id:a", &[("id", "a")]);
        check_parsed(r#"data:"4242 4242""#, &[("data", "4242 4242")]);
        check_parsed(r#"data:"say \"hi\" \\ ""#, &[("data", r#"say "hi" \ "#)]);
        check_parsed("metadata.a:b AND metadata.c:d", &[("metadata.a", "b"), ("metadata.c", "d")]);
        check_parsed(
            "  metadata.a:b   AND\tmetadata.c:d ",
            &[("metadata.a", "b"), ("metadata.c", "d")],
        );
        check_parsed("metadata.url:http://x", &[("metadata.url", "http://x")]);
        check_parsed(r#"metadata.a:"x AND y:z""#, &[("metadata.a", "x AND y:z")]);
        check_parsed("data:日本", &[("data", "日本")]);
    }

    #[track_caller]
    fn check_rejected(query: &str, rule: &str) {
        let rejected = parse_terms(query).unwrap_err();
        assert!(rejected.contains(rule), "{query}: {rejected}");
    }

    #[test]
    fn invalid_queries_are_rejected_with_their_rule() {
        check_rejected("", "must have a term");
        check_rejected("   ", "must have a term");
        check_rejected("word", "must be made of terms");
        check_rejected(":a", "must be made of terms");
        check_rejected("a b:c", "must be made of terms");
        check_rejected("data:", "must have a value");
        check_rejected(r#"data:"""#, "must have a value");
        check_rejected(r#"data:"a"#, "not closed");
        check_rejected(r#"data:"a"b"#, "must end its term");
        check_rejected(r#"data:a"b""#, "must begin its value");
        check_rejected("data:a data:b", "joined with AND");
        check_rejected("data:a AND", "must follow AND");
        check_rejected("data:a OR data:b", "OR is not supported");
        check_rejected("data:a || data:b", "OR is not supported");
        check_rejected("NOT data:a", "negation");
        check_rejected("-data:a", "negation");
        check_rejected("!data:a", "negation");
        check_rejected("data:a NOT data:b", "negation");
        check_rejected("data:a AND -data:b", "negation");
        check_rejected("(data:a)", "parentheses");
        check_rejected("data:(a b)", "parentheses");
        check_rejected("data:a AND (data:b)", "parentheses");
        check_rejected("data:42*", "wildcards");
        check_rejected("data:a~1", "wildcards");
        check_rejected("data:[a TO b]", "ranges");
        check_rejected("data:>5", "ranges");
        check_rejected(&format!("data:{}", "a".repeat(5000)), "at most 4096");
    }

    #[track_caller]
    fn check_numbered_rejected(query: &str, rule: &str) {
        let rejected =
            parse_numbered_terms(parse_terms(query).unwrap(), PageRequest::default()).unwrap_err();
        assert!(rejected.contains(rule), "{query}: {rejected}");
    }

    #[test]
    fn numbered_search_rejects_removed_fields_and_mixed_terms() {
        let removed = [
            "type:card",
            "fingerprint:a",
            "container:/a/",
            "created_by:a",
            "created_at:a",
            "modified_by:a",
            "modified_at:a",
        ];
        for query in removed {
            check_numbered_rejected(query, "any more");
        }
        check_numbered_rejected("id:abc AND metadata.a:b", "only terms about metadata");
        check_numbered_rejected("metadata.a:b AND data:c", "only terms about metadata");
        check_numbered_rejected("id:abc AND id:def", "only terms about metadata");
        check_numbered_rejected("color:red", "must be about id, data or metadata");
        check_numbered_rejected("metadata.:a", "must be about id, data or metadata");
        let both = parse_numbered_terms(
            parse_terms("metadata.a:b AND metadata.c:d").unwrap(),
            PageRequest::default(),
        );
        assert_eq!(both.unwrap().metadata.len(), 2);
    }

    #[test]
    fn cursor_search_accepts_one_term_and_one_container() {
        for query in [
            "container:/pci/",
            "data:a AND data:b",
            "metadata.a:b AND metadata.c:d",
            "data:a AND container:/a/ AND container:/b/",
            "id:abc",
            "color:red",
            "type:nothing",
            "data:a AND container:pci",
        ] {
            assert!(parse_cursor_terms(parse_terms(query).unwrap()).is_err(), "{query}");
        }
        for query in [
            "data:a",
            "type:card",
            "fingerprint:abc",
            "metadata.a:b AND container:/pci/",
            r#"container:"/pci/" AND data:a"#,
        ] {
            assert!(parse_cursor_terms(parse_terms(query).unwrap()).is_ok(), "{query}");
        }
    }
}
