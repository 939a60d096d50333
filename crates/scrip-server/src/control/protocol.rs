//! The protocol of the control socket: one line of JSON for the request, one for the response.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::storage::unlock::shares::{ShareCount, ShareText};

pub(crate) const SOCKET_FILE: &str = "scrip.sock";
pub(crate) const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A rotation after a compromise returns all API keys of the vault.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A rotation waits for several sources, and for the store.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// A request of an operator's command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    Status {},
    ListMethods {},
    AddMethod {
        kind: String,
        label: String,
        parameters: Map<String, Value>,
    },
    AddShares {
        label: String,
        count: ShareCount,
    },
    ConfirmShares {
        method: String,
        shares: Vec<ShareText>,
    },
    RemoveMethod {
        id: String,
    },
    RotateVault {
        count: Option<ShareCount>,
        #[serde(default)]
        compromised: bool,
    },
    ConfirmRotation {
        shares: Vec<ShareText>,
    },
    EnterShare {
        share: ShareText,
    },
}

/// The response to every request except the status.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlResponse {
    Result(Value),
    Error(String),
}

/// Sends a request to the server that uses this data directory.
///
/// # Errors
/// No server answers, or it rejects the request.
pub fn send_request<T: DeserializeOwned>(
    data_dir: &Path,
    request: &ControlRequest,
) -> anyhow::Result<T> {
    let socket = data_dir.join(SOCKET_FILE);
    let stream = UnixStream::connect(&socket).with_context(|| {
        format!("no server answers at {}; this command needs a running server", socket.display())
    })?;
    let line = exchange(stream, request).context("the server did not answer")?;
    let response = serde_json::from_str(&line);
    match response.map_err(|_| anyhow::anyhow!("the server runs another version of scrip"))? {
        ControlResponse::Result(value) => Ok(serde_json::from_value(value)?),
        ControlResponse::Error(message) => bail!(message),
    }
}

/// Sends a line and reads one.
pub(crate) fn exchange(
    stream: UnixStream,
    request: &ControlRequest,
) -> anyhow::Result<Zeroizing<String>> {
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    let mut request = Zeroizing::new(serde_json::to_vec(request)?);
    request.push(b'\n');
    // A server of an earlier version sends its status and closes the socket.
    drop((&stream).write_all(&request));
    let mut line = Zeroizing::new(String::new());
    BufReader::new(stream.take(RESPONSE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}
