//! Compares the examples of the OpenAPI document with rendered responses.
