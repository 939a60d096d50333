//! Headers of proxied messages: which ones are forwarded, and expressions in their values.

pub mod encrypted;
pub mod expression;
mod hop_by_hop;
pub mod request;
pub mod response;

pub use self::{
    encrypted::parse_encrypted_header,
    expression::{
        ComputedHeaders, HeaderInputs, evaluate_headers, find_computed_headers,
        has_header_expressions, reads_hidden_values,
    },
    request::{check_connection_header, forward_request_headers},
    response::{ResponseOrigin, filter_replayed_headers, forward_response_headers},
};

#[cfg(test)]
mod tests;
