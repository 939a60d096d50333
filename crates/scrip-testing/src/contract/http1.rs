//! Reads the requests and responses of one connection from its bytes.

use std::collections::HashMap;

use crate::contract::Exchange;

/// A head and the bytes after it.
struct HttpMessage<'a> {
    first_line: &'a str,
    headers: HashMap<String, String>,
    rest: &'a [u8],
}

/// A body and the bytes after it.
type BodyAndRest<'a> = (Vec<u8>, &'a [u8]);

/// Returns every request with a complete response. Bytes of other protocols than plain HTTP/1.1
/// contain none.
pub fn parse_exchanges(mut sent: &[u8], mut received: &[u8]) -> Vec<Exchange> {
    let mut parsed = Vec::new();
    while let Some(request) = read_head(sent) {
        let mut line = request.first_line.split(' ');
        let (Some(method), Some(path), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (line.next(), line.next(), line.next(), line.next())
        else {
            break;
        };
        let Some((status, headers, body, remaining)) = read_response(received, method) else {
            break;
        };
        received = remaining;
        let body = String::from_utf8_lossy(&body).into_owned();
        let (method, path) = (method.to_owned(), path.to_owned());
        parsed.push(Exchange { method, path, status, headers, body });
        // A response can arrive before the end of its request. Then it is the last one.
        let Some((_, remaining)) = sized_body(&request, Some(0)) else { break };
        sent = remaining;
    }
    parsed
}

type ParsedResponse<'a> = (u16, HashMap<String, String>, Vec<u8>, &'a [u8]);

/// Reads the next final response. Informational responses (status below 200) are skipped.
fn read_response<'a>(mut received: &'a [u8], method: &str) -> Option<ParsedResponse<'a>> {
    loop {
        let message = read_head(received)?;
        let status = message.first_line.split(' ').nth(1)?.parse().ok()?;
        if status < 200 {
            received = message.rest;
            continue;
        }
        let is_empty = method == "HEAD" || [204, 304].contains(&status);
        let (body, rest) =
            if is_empty { (Vec::new(), message.rest) } else { sized_body(&message, None)? };
        return Some((status, message.headers, body, rest));
    }
}

fn read_head(bytes: &[u8]) -> Option<HttpMessage<'_>> {
    let head_length = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, rest) = (bytes.get(..head_length)?, bytes.get(head_length + 4..)?);
    // A head with control characters is not HTTP. A server rejects it before routing.
    if head.iter().any(|it| it.is_ascii_control() && !b"\t\r\n".contains(it)) {
        return None;
    }
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let first_line = lines.next()?;
    let parse_header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some(HttpMessage { first_line, headers: lines.filter_map(parse_header).collect(), rest })
}

/// Reads a body. `default_length` is the length of a body without a Content-Length, `None` for a
/// body up to the end of the connection.
fn sized_body<'a>(
    message: &HttpMessage<'a>,
    default_length: Option<usize>,
) -> Option<BodyAndRest<'a>> {
    if message.headers.get("transfer-encoding").is_some_and(|it| it == "chunked") {
        return read_chunked(message.rest);
    }
    let length = message.headers.get("content-length").and_then(|it| it.parse().ok());
    let length = length.or(default_length).unwrap_or(message.rest.len());
    Some((message.rest.get(..length)?.to_vec(), message.rest.get(length..)?))
}

fn read_chunked(mut rest: &[u8]) -> Option<BodyAndRest<'_>> {
    let mut body = Vec::new();
    loop {
        let line_length = rest.windows(2).position(|it| it == b"\r\n")?;
        let size = std::str::from_utf8(rest.get(..line_length)?).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let chunk = rest.get(line_length + 2..)?;
        body.extend_from_slice(chunk.get(..size)?);
        rest = chunk.get(size + 2..)?;
        if size == 0 {
            return Some((body, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_exchanges(sent: &str, received: &str) -> Vec<(String, String, u16, String)> {
        let all = parse_exchanges(sent.as_bytes(), received.as_bytes());
        all.into_iter().map(|it| (it.method, it.path, it.status, it.body)).collect()
    }

    fn exchange(
        method: &str,
        path: &str,
        status: u16,
        body: &str,
    ) -> (String, String, u16, String) {
        (method.to_owned(), path.to_owned(), status, body.to_owned())
    }

    #[test]
    fn http1_requests_on_one_connection_are_paired_with_their_responses() {
        let sent = "POST /a?b=c HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /d HTTP/1.1\r\n\r\n\
            HEAD /e HTTP/1.1\r\n\r\nDELETE /f HTTP/1.1\r\n\r\n";
        let received = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nxy\
            HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nuv\r\n1\r\nw\r\n0\r\n\r\n\
            HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let expected = [
            exchange("POST", "/a?b=c", 201, "xy"),
            exchange("GET", "/d", 200, "uvw"),
            exchange("HEAD", "/e", 200, ""),
            exchange("DELETE", "/f", 204, ""),
        ];
        assert_eq!(read_exchanges(sent, received), expected);
    }

    #[test]
    fn http1_reader_accepts_a_response_sent_before_the_request_ends() {
        let sent = "POST /a HTTP/1.1\r\nContent-Length: 300\r\n\r\nabc";
        let received = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\n\r\nto the end";
        assert_eq!(read_exchanges(sent, received), [exchange("POST", "/a", 413, "to the end")]);
    }

    #[test]
    fn http1_reader_ignores_partial_responses_and_other_protocols() {
        let partial_response = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nxy";
        assert!(read_exchanges("GET /a HTTP/1.1\r\n\r\n", partial_response).is_empty());
        assert!(read_exchanges("GET /a HTTP/1.1\r\n\r\n", "").is_empty());
        assert!(parse_exchanges(b"\x16\x03\x01\x02\x00", b"\x16\x03").is_empty());
        let bad_request_response = "HTTP/1.1 400 Bad Request\r\n\r\n";
        assert!(read_exchanges("nonsense\r\n\r\n", bad_request_response).is_empty());
        assert!(
            read_exchanges("GET /a HTTP/1.1\r\nX: \0\r\n\r\n", bad_request_response).is_empty()
        );
    }
}
