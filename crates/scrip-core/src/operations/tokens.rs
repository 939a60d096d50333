//! Operations on tokens.

pub mod create_token;
pub mod cursor_page;
pub mod delete_token;
pub mod detokenize;
pub mod expire_token;
pub mod get_token;
pub mod list_tokens;
pub mod list_tokens_v1;
pub mod offset_page;
pub mod search_tokens;
pub mod search_tokens_v1;
pub mod tokenize;
pub mod update_token;

pub use self::{
    cursor_page::{ListTokensQuery, TokenFilter},
    offset_page::OffsetPageQuery,
};
