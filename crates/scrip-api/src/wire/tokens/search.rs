//! Token searches: request bodies and query languages.
//!
//! A query consists of terms, `field:value` or `field:"a value"`, joined with AND. Any other syntax
//! is rejected with the violated rule.

use scrip_core::{
    listing::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PageRequest},
    operations::tokens::{ListTokensQuery, OffsetPageQuery, TokenFilter},
    types::{Plaintext, id::TokenId},
};
use scrip_seal::Fingerprint;

use crate::wire::{
    ParseError,
    json::JsonFields,
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

/// Search by cursor: one term, optionally with a container.
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

/// Search by page number: one term, or several metadata terms.
pub(crate) fn parse_v1(body: Plaintext) -> Result<OffsetPageQuery, ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let terms = parse_query_terms(&mut fields);
    let number = fields.count("page", usize::MAX, "must be 1 or more").into_option();
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
    let parse = |it: String| {
        parse_terms(&it).map_err(|rule| vec![scrip_core::FieldError::new("query", rule)])
    };
    fields.parse(query, parse).into_option()
}

type Container = scrip_core::types::Container;

fn parse_cursor_terms(terms: Vec<Term>) -> Result<(TokenFilter, Option<Container>), ParseError> {
    const TERMS_RULE: RuleText = "must have one term for type, fingerprint, data or \
                                  metadata.<name>, and at most one for container";
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
                return Err(invalid_query("an id cannot be searched for; use GET /tokens/{id}"));
            }
            field_name => match metadata_name(field_name) {
                Some(name) => TokenFilter::Metadata { name: name.to_owned(), value },
                None => return Err(invalid_query(TERMS_RULE)),
            },
        };
        if filter.replace(term).is_some() {
            return Err(invalid_query(TERMS_RULE));
        }
    }
    Ok((filter.ok_or_else(|| invalid_query(TERMS_RULE))?, container))
}

fn parse_numbered_terms(terms: Vec<Term>, page: PageRequest) -> Result<OffsetPageQuery, RuleText> {
    let mut request = OffsetPageQuery { page, ..OffsetPageQuery::default() };
    let is_single_term = terms.len() == 1;
    for Term { field, value } in terms {
        match (field.as_str(), metadata_name(&field)) {
            (_, Some(name)) => request.metadata.push((name.to_owned(), value)),
            ("id" | "data", None) if !is_single_term => {
                return Err("only metadata terms can be joined with AND");
            }
            ("id", None) => request.ids = Some(TokenId::parse(&value).into_iter().collect()),
            ("data", None) => request.data = Some(value),
            (
                "type" | "fingerprint" | "container" | "created_by" | "created_at" | "modified_by"
                | "modified_at",
                None,
            ) => {
                return Err("type, fingerprint, container, created_by, created_at, modified_by \
                            and modified_at can no longer be searched for");
            }
            (_, None) => return Err("each term must be for id, data or metadata.<name>"),
        }
    }
    Ok(request)
}

fn metadata_name(field: &str) -> Option<&str> {
    field.strip_prefix("metadata.").filter(|it| !it.is_empty())
}

/// Parses at least one term.
fn parse_terms(query: &str) -> Result<Vec<Term>, RuleText> {
    if query.len() > QUERY_BYTES_MAX {
        return Err("must have at most 4096 bytes");
    }
    let mut terms = Vec::new();
    let mut remaining = query.trim();
    if remaining.is_empty() {
        return Err("must have a term, such as metadata.name:value");
    }
    loop {
        let (term, text_after) = parse_term(remaining)?;
        terms.push(term);
        let text_after = text_after.trim_start();
        if text_after.is_empty() {
            return Ok(terms);
        }
        remaining = parse_and(text_after)?;
    }
}

fn parse_and(text: &str) -> Result<&str, RuleText> {
    let (operator, remaining) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match operator {
        "AND" | "and" | "&&" if remaining.trim().is_empty() => Err("a term must follow AND"),
        "AND" | "and" | "&&" => Ok(remaining.trim_start()),
        "OR" | "or" | "||" => Err("OR is not supported; send two requests"),
        "NOT" | "not" => Err(NEGATION),
        _ if operator.starts_with([')', '(']) => Err(PARENTHESES),
        _ => Err("terms must be joined with AND; quote a value that contains spaces"),
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
    let terms_rule = "must consist of terms, such as metadata.name:value";
    let (field, remaining) = text.split_once(':').ok_or(terms_rule)?;
    if field.is_empty() || field.contains(|it: char| it.is_whitespace() || "\"()".contains(it)) {
        return Err(terms_rule);
    }
    let (value, remaining) = match remaining.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => parse_unquoted(remaining)?,
    };
    if value.is_empty() {
        return Err("a term must have a value after the colon");
    }
    Ok((Term { field: field.to_owned(), value }, remaining))
}

/// Reads to the closing quote. A backslash escapes the next character.
fn parse_quoted(text: &str) -> Result<(String, &str), RuleText> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((position, it)) = chars.next() {
        match it {
            '"' => {
                let remaining = text.get(position.saturating_add(1)..).unwrap_or_default();
                if remaining.starts_with(|it: char| !it.is_whitespace()) {
                    return Err("a closing quote must end its term");
                }
                return Ok((value, remaining));
            }
            '\\' => value.extend(chars.next().map(|(_, it)| it)),
            _ => value.push(it),
        }
    }
    Err("a quote is not closed")
}

/// Reads to the next space. A value with the syntax of other query languages must be quoted, so
/// that it is not mistaken for a supported feature.
fn parse_unquoted(text: &str) -> Result<(String, &str), RuleText> {
    let value_end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (value, remaining) = text.split_at(value_end);
    if value.contains(['*', '?', '~']) {
        return Err("wildcards are not supported; quote a value with these characters");
    }
    if value.starts_with(['[', '{', '<', '>']) {
        return Err("ranges are not supported; quote a value with these characters");
    }
    if value.contains(['(', ')']) {
        return Err(PARENTHESES);
    }
    if value.contains('"') {
        return Err("a quote must begin its value");
    }
    Ok((value.to_owned(), remaining))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_parsed(query: &str, expected: &[(&str, &str)]) {
        let terms = parse_terms(query).unwrap();
        let parsed: Vec<_> =
            terms.iter().map(|it| (it.field.as_str(), it.value.as_str())).collect();
        assert_eq!(parsed, expected, "{query}");
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
        let violated_rule = parse_terms(query).unwrap_err();
        assert!(violated_rule.contains(rule), "{query}: {violated_rule}");
    }

    #[test]
    fn invalid_queries_are_rejected_with_their_rule() {
        check_rejected("", "must have a term");
        check_rejected("   ", "must have a term");
        check_rejected("word", "must consist of terms");
        check_rejected(":a", "must consist of terms");
        check_rejected("a b:c", "must consist of terms");
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
        let violated_rule =
            parse_numbered_terms(parse_terms(query).unwrap(), PageRequest::default()).unwrap_err();
        assert!(violated_rule.contains(rule), "{query}: {violated_rule}");
    }

    #[test]
    fn numbered_search_rejects_removed_fields_and_mixed_terms() {
        let removed_fields = [
            "type:card",
            "fingerprint:a",
            "container:/a/",
            "created_by:a",
            "created_at:a",
            "modified_by:a",
            "modified_at:a",
        ];
        for query in removed_fields {
            check_numbered_rejected(query, "can no longer be searched for");
        }
        check_numbered_rejected("id:abc AND metadata.a:b", "only metadata terms");
        check_numbered_rejected("metadata.a:b AND data:c", "only metadata terms");
        check_numbered_rejected("id:abc AND id:def", "only metadata terms");
        check_numbered_rejected("color:red", "must be for id, data or metadata");
        check_numbered_rejected("metadata.:a", "must be for id, data or metadata");
        let metadata_search = parse_numbered_terms(
            parse_terms("metadata.a:b AND metadata.c:d").unwrap(),
            PageRequest::default(),
        );
        assert_eq!(metadata_search.unwrap().metadata.len(), 2);
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
