//! Searches on the wire: their bodies and their query languages.
//!
//! A query is made of terms, `field:value` or `field:"a value"`, joined with AND. What else one
//! might write is refused with the rule that it breaks.

use scrip_core::{
    id::TokenId,
    listing::{
        NumberedAsked, PageAsked, TokenFilter, TokensAsked,
        page::{PAGE_SIZE, PAGE_SIZE_MAX},
    },
    token::Plain,
};
use scrip_seal::Fingerprint;

use crate::wire::{
    ParseError,
    fields::Fields,
    query::invalid,
    tokens::list::{parse_container, parse_cursor, parse_type},
};

const QUERY_BYTES_MAX: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
}

type Rule = &'static str;

/// By cursor: one term, perhaps with a container.
pub(crate) fn parse(body: Plain) -> Result<TokensAsked, ParseError> {
    let mut fields = Fields::of(body)?;
    let terms = read_terms(&mut fields);
    let start = fields.text("start").given();
    let size = read_size(&mut fields);
    let terms = fields.finish_with(terms)?;
    let (filter, container) = by_cursor(terms)?;
    let start = start.as_deref().map(parse_cursor).transpose()?;
    Ok(TokensAsked { container, filter, start, size })
}

/// By page number: one term, or several about metadata.
pub(crate) fn parse_v1(body: Plain) -> Result<NumberedAsked, ParseError> {
    let mut fields = Fields::of(body)?;
    let terms = read_terms(&mut fields);
    let number = fields.count("page", usize::MAX, "must be a number of 1 or more").given();
    let size = read_size(&mut fields);
    let terms = fields.finish_with(terms)?;
    let page = PageAsked { number: number.unwrap_or(1), size };
    by_number(terms, page).map_err(refused)
}

fn refused(rule: Rule) -> ParseError {
    invalid("query", rule)
}

fn read_size(fields: &mut Fields) -> usize {
    fields.count("size", PAGE_SIZE_MAX, "must be from 1 to 100").given().unwrap_or(PAGE_SIZE)
}

fn read_terms(fields: &mut Fields) -> Option<Vec<Term>> {
    let query = fields.required_text("query");
    let terms = |it: String| {
        terms(&it).map_err(|rule| vec![scrip_core::error::FieldError::new("query", rule)])
    };
    fields.parse(query, terms).given()
}

type Container = scrip_core::token::Container;

fn by_cursor(terms: Vec<Term>) -> Result<(TokenFilter, Option<Container>), ParseError> {
    const ONE: Rule = "must have one term about type, fingerprint, data or metadata.<name>, and \
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
                return Err(refused("an id cannot be searched for; a token is at /tokens/{id}"));
            }
            other => match metadata_name(other) {
                Some(name) => TokenFilter::Metadata { name: name.to_owned(), value },
                None => return Err(refused(ONE)),
            },
        };
        if filter.replace(term).is_some() {
            return Err(refused(ONE));
        }
    }
    Ok((filter.ok_or_else(|| refused(ONE))?, container))
}

fn by_number(terms: Vec<Term>, page: PageAsked) -> Result<NumberedAsked, Rule> {
    let mut asked = NumberedAsked { page, ..NumberedAsked::default() };
    let single = terms.len() == 1;
    for Term { field, value } in terms {
        match (field.as_str(), metadata_name(&field)) {
            (_, Some(name)) => asked.metadata.push((name.to_owned(), value)),
            ("id" | "data", None) if !single => {
                return Err("only terms about metadata can be joined with AND");
            }
            ("id", None) => asked.ids = Some(TokenId::parse(&value).into_iter().collect()),
            ("data", None) => asked.data = Some(value),
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
    Ok(asked)
}

fn metadata_name(field: &str) -> Option<&str> {
    field.strip_prefix("metadata.").filter(|it| !it.is_empty())
}

/// At least one term.
fn terms(query: &str) -> Result<Vec<Term>, Rule> {
    if query.len() > QUERY_BYTES_MAX {
        return Err("must have at most 4096 bytes");
    }
    let mut terms = Vec::new();
    let mut rest = query.trim();
    if rest.is_empty() {
        return Err("must have a term, such as metadata.name:value");
    }
    loop {
        let (term, after) = read_term(rest)?;
        terms.push(term);
        let after = after.trim_start();
        if after.is_empty() {
            return Ok(terms);
        }
        rest = read_and(after)?;
    }
}

fn read_and(text: &str) -> Result<&str, Rule> {
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

const NEGATION: Rule = "negation is not supported";
const PARENTHESES: Rule = "parentheses are not supported";

fn read_term(text: &str) -> Result<(Term, &str), Rule> {
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
        Some(quoted) => read_quoted(quoted)?,
        None => read_bare(rest)?,
    };
    if value.is_empty() {
        return Err("a term must have a value behind the colon");
    }
    Ok((Term { field: field.to_owned(), value }, rest))
}

/// Up to the closing quote. A backslash takes the next character as it is.
fn read_quoted(text: &str) -> Result<(String, &str), Rule> {
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
fn read_bare(text: &str) -> Result<(String, &str), Rule> {
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
    fn check(query: &str, expected: &[(&str, &str)]) {
        let terms = terms(query).unwrap();
        let read: Vec<_> = terms.iter().map(|it| (it.field.as_str(), it.value.as_str())).collect();
        assert_eq!(read, expected, "{query}");
    }

    #[test]
    fn limit_of_queries_is_in_the_document() {
        let queries = ["TokenSearch.query", "NumberedTokenSearch.query"];
        crate::openapi::tests::assert_limit_usize(&queries, "maxLength", QUERY_BYTES_MAX);
    }

    #[test]
    fn queries() {
        check("id:a", &[("id", "a")]);
        check(r#"data:"4242 4242""#, &[("data", "4242 4242")]);
        check(r#"data:"say \"hi\" \\ ""#, &[("data", r#"say "hi" \ "#)]);
        check("metadata.a:b AND metadata.c:d", &[("metadata.a", "b"), ("metadata.c", "d")]);
        check("  metadata.a:b   AND\tmetadata.c:d ", &[("metadata.a", "b"), ("metadata.c", "d")]);
        check("metadata.url:http://x", &[("metadata.url", "http://x")]);
        check(r#"metadata.a:"x AND y:z""#, &[("metadata.a", "x AND y:z")]);
        check("data:日本", &[("data", "日本")]);
    }

    #[track_caller]
    fn refuse(query: &str, rule: &str) {
        let refused = terms(query).unwrap_err();
        assert!(refused.contains(rule), "{query}: {refused}");
    }

    #[test]
    fn refused_queries() {
        refuse("", "must have a term");
        refuse("   ", "must have a term");
        refuse("word", "must be made of terms");
        refuse(":a", "must be made of terms");
        refuse("a b:c", "must be made of terms");
        refuse("data:", "must have a value");
        refuse(r#"data:"""#, "must have a value");
        refuse(r#"data:"a"#, "not closed");
        refuse(r#"data:"a"b"#, "must end its term");
        refuse(r#"data:a"b""#, "must begin its value");
        refuse("data:a data:b", "joined with AND");
        refuse("data:a AND", "must follow AND");
        refuse("data:a OR data:b", "OR is not supported");
        refuse("data:a || data:b", "OR is not supported");
        refuse("NOT data:a", "negation");
        refuse("-data:a", "negation");
        refuse("!data:a", "negation");
        refuse("data:a NOT data:b", "negation");
        refuse("data:a AND -data:b", "negation");
        refuse("(data:a)", "parentheses");
        refuse("data:(a b)", "parentheses");
        refuse("data:a AND (data:b)", "parentheses");
        refuse("data:42*", "wildcards");
        refuse("data:a~1", "wildcards");
        refuse("data:[a TO b]", "ranges");
        refuse("data:>5", "ranges");
        refuse(&format!("data:{}", "a".repeat(5000)), "at most 4096");
    }

    #[track_caller]
    fn refuse_number(query: &str, rule: &str) {
        let refused = by_number(terms(query).unwrap(), PageAsked::default()).unwrap_err();
        assert!(refused.contains(rule), "{query}: {refused}");
    }

    #[test]
    fn by_number_refuses_what_was_removed() {
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
            refuse_number(query, "any more");
        }
        refuse_number("id:abc AND metadata.a:b", "only terms about metadata");
        refuse_number("metadata.a:b AND data:c", "only terms about metadata");
        refuse_number("id:abc AND id:def", "only terms about metadata");
        refuse_number("color:red", "must be about id, data or metadata");
        refuse_number("metadata.:a", "must be about id, data or metadata");
        let both = by_number(terms("metadata.a:b AND metadata.c:d").unwrap(), PageAsked::default());
        assert_eq!(both.unwrap().metadata.len(), 2);
    }

    #[test]
    fn by_cursor_takes_one_term_and_a_container() {
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
            assert!(by_cursor(terms(query).unwrap()).is_err(), "{query}");
        }
        for query in [
            "data:a",
            "type:card",
            "fingerprint:abc",
            "metadata.a:b AND container:/pci/",
            r#"container:"/pci/" AND data:a"#,
        ] {
            assert!(by_cursor(terms(query).unwrap()).is_ok(), "{query}");
        }
    }
}
