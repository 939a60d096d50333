//! Lists of tokens and of log records.

pub(crate) mod complete_lists;
mod large_tokens;
mod logs;
mod page_bounds;
mod paging;
mod permissions;
mod query_plans;
