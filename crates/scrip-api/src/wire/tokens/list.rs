//! Lists of tokens: query parameters and pages.

#[cfg(test)]
mod tests;

use axum::response::Response;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use scrip_core::{
    card::TokenType,
    idempotency::{RenderedResponse, response::TokenSpan},
    listing::{CursorPage, CursorRequest, PAGE_SIZE_DEFAULT, Page},
    operations::tokens::{ListTokensQuery, OffsetPageQuery, TokenFilter},
    token::TokenView,
    types::{Container, id::TokenId},
};
use scrip_seal::{Fingerprint, Sealed};
use serde::Serialize;

use crate::wire::{
    ParseError,
    query::{PageBody, QueryParameters, invalid_parameter, pagination_of},
    response,
    tokens::{token::TYPE_RULE, token_response},
};

/// Maximum length of a cursor. A cursor is a sealed container path and row number, which is much
/// shorter.
const CURSOR_CHARS_MAX: usize = 1024;
const IDS_MAX: usize = 1000;
/// Maximum number of metadata filters: the maximum number of entries of a token.
const METADATA_MAX: usize = 50;

/// Parses the start and size of a page with a cursor.
pub(crate) fn parse_page(query: &QueryParameters<'_>) -> Result<CursorRequest, ParseError> {
    Ok(CursorRequest {
        start: query.one("start")?.map(parse_cursor).transpose()?,
        size: query.size()?.unwrap_or(PAGE_SIZE_DEFAULT),
    })
}

/// Parses the query of a list by cursor.
pub(crate) fn parse_query(query: &QueryParameters<'_>) -> Result<ListTokensQuery, ParseError> {
    Ok(ListTokensQuery {
        container: parse_container_filter(query)?,
        filter: parse_filter(query)?,
        start: query.one("start")?.map(parse_cursor).transpose()?,
        size: query.size()?.unwrap_or(PAGE_SIZE_DEFAULT),
    })
}

fn parse_container_filter(query: &QueryParameters<'_>) -> Result<Option<Container>, ParseError> {
    query.one("container")?.map(|it| parse_container("container", it)).transpose()
}

fn parse_filter(query: &QueryParameters<'_>) -> Result<TokenFilter, ParseError> {
    let mut filters = Vec::new();
    if let Some(text) = query.one("type")? {
        filters.push(TokenFilter::Type(parse_type("type", text)?));
    }
    if let Some(text) = query.one("fingerprint")? {
        filters.push(TokenFilter::Fingerprint(Fingerprint::parse(text)));
    }
    let mut metadata = query.metadata()?.into_iter();
    if let Some((name, value)) = metadata.next() {
        filters.push(TokenFilter::Metadata { name, value });
    }
    if metadata.next().is_some() {
        return Err(invalid_parameter("metadata", "must have at most one entry"));
    }
    let filter = filters.pop();
    if !filters.is_empty() {
        let rule = "type, fingerprint and metadata cannot be combined with each other";
        return Err(invalid_parameter("type", rule));
    }
    Ok(filter.unwrap_or(TokenFilter::All))
}

pub(crate) fn parse_type(field: &'static str, text: &str) -> Result<TokenType, ParseError> {
    TokenType::parse(text).ok_or_else(|| invalid_parameter(field, TYPE_RULE))
}

pub(crate) fn parse_container(field: &'static str, text: &str) -> Result<Container, ParseError> {
    Container::parse(text).map_err(|rule| invalid_parameter(field, rule))
}

pub(crate) fn parse_cursor(text: &str) -> Result<Sealed, ParseError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok().filter(|_| text.len() <= CURSOR_CHARS_MAX);
    let rule = "must be the next of an earlier page of the same list";
    bytes.map(Sealed::from_stored).ok_or_else(|| invalid_parameter("start", rule))
}

/// Parses the query of a list by page number.
pub(crate) fn parse_v1_query(query: &QueryParameters<'_>) -> Result<OffsetPageQuery, ParseError> {
    let id_texts: Vec<_> = query.all("id").chain(query.all("ids")).collect();
    if id_texts.len() > IDS_MAX {
        return Err(invalid_parameter("id", "must have at most 1000 values"));
    }
    // Text that is not a valid id matches no token.
    let mut ids: Vec<_> = id_texts.iter().filter_map(|it| TokenId::parse(it).ok()).collect();
    ids.sort_unstable();
    ids.dedup();
    let ids = (!id_texts.is_empty()).then_some(ids);
    let mut metadata: Vec<(String, String)> = Vec::new();
    let metadata_filters = query.metadata()?;
    if metadata_filters.len() > METADATA_MAX {
        return Err(invalid_parameter("metadata", "must have at most 50 entries"));
    }
    for (name, value) in metadata_filters {
        // The first value of a repeated name counts.
        if !metadata.iter().any(|(it, _)| it.to_lowercase() == name.to_lowercase()) {
            metadata.push((name, value));
        }
    }
    let fingerprint = query.one("fingerprint")?.map(Fingerprint::parse);
    // Text that is not a fingerprint matches no token either.
    let ids = if let Some(None) = fingerprint { Some(Vec::new()) } else { ids };
    Ok(OffsetPageQuery {
        ids,
        container: parse_container_filter(query)?,
        token_type: query.one("type")?.map(|it| parse_type("type", it)).transpose()?,
        fingerprint: fingerprint.flatten(),
        data: None,
        metadata,
        page: query.page()?,
    })
}

#[derive(Serialize)]
pub(crate) struct CursorPagination {
    pub(crate) page_size: usize,
    /// Null on the last page: the iterators of clients require it.
    pub(crate) next: Option<String>,
}

pub(crate) fn render_page(page: CursorPage<TokenView>) -> Response {
    render_tokens(&cursor_pagination(&page), page.items)
}

/// Renders a page with a cursor.
pub(crate) fn cursor_page_body<'a, T, U>(
    page: &'a CursorPage<T>,
    render: impl Fn(&'a T) -> U,
) -> PageBody<U, CursorPagination> {
    PageBody { pagination: cursor_pagination(page), data: page.items.iter().map(render).collect() }
}

fn cursor_pagination<T>(page: &CursorPage<T>) -> CursorPagination {
    let next = page.next.as_ref().map(|it| URL_SAFE_NO_PAD.encode(it.as_bytes()));
    CursorPagination { page_size: page.size, next }
}

pub(crate) fn render_v1_page(page: Page<TokenView>) -> Response {
    render_tokens(&pagination_of(&page), page.items)
}

fn render_tokens(pagination: &impl Serialize, views: Vec<TokenView>) -> Response {
    let pagination = response::render(200, pagination).body;
    let mut body = format!("{{\"pagination\":{pagination},\"data\":[");
    let mut tokens = Vec::with_capacity(views.len());
    for (index, view) in views.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        let start = body.len();
        body.push_str(&token_response::render_token(view).body);
        tokens.push(TokenSpan { write_index: index, start, end: body.len() });
    }
    body.push_str("]}");
    token_response::with_tokens(RenderedResponse { status: 200, body, tokens }, views)
}
