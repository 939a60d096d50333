//! Calls through a proxy: the vault's part before the first byte leaves and after the answer.

pub mod claim_proxy_call;
pub mod decrypt_call_data;
pub mod finish_proxy_call;
pub mod record_rejected_use;
pub mod rehearse_collection;
pub mod start_proxy_call;
pub mod use_tokens;
