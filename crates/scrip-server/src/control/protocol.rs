//! The protocol of the control socket: one line of JSON for the request, one for the response.

use std::{
    fmt::Display,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::Uid,
};
use scrip_operator::secret_text::SecretText;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{config::Settings, dual_control::requests::ApprovalTicket, unlock::shares::ShareCount};

pub(crate) const SOCKET_FILE: &str = "scrip.sock";
pub(crate) const LINE_BYTES_MAX: u64 = 64 * 1024;
/// A rotation after a compromise returns all API keys of the vault.
const RESPONSE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A rotation waits for several sources, and for the store.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a request is sent that the server did not receive in time.
const ATTEMPTS_MAX: u32 = 5;

/// An action for a running server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// The name in `ACTIONS`.
    pub action: String,
    /// The input as JSON.
    pub input: SecretText,
    /// The database in the settings of the command: a server on another one must not run the action.
    pub database: Option<String>,
    /// The operating-system user as the command sees it, with the user who ran `sudo`. Only root and
    /// the server's user are trusted with it.
    pub os_user: Option<String>,
}

/// A request of an operator's command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlRequest {
    Status {},
    RunAction(ActionRequest),
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
        shares: Vec<SecretText>,
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
        /// The id from the answer to the start.
        rotation: String,
        shares: Vec<SecretText>,
    },
    EnterShare {
        share: SecretText,
    },
    /// The state of dual control.
    DualControl {},
    SwitchOn {},
    SwitchOff {},
    /// Stores a request for an action of a command, or finds it.
    RequestApproval {
        action: String,
    },
    /// As [`ControlRequest::RequestApproval`], and uses the approval if there is one.
    UseApproval {
        action: String,
    },
    ListApprovals {},
    /// The action is the one that was shown to the operator.
    Approve {
        id: String,
        action: String,
    },
    Reject {
        id: String,
        action: String,
    },
}

/// The response to every request except the status.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlResponse {
    Result(Value),
    /// Nothing was changed: a second operator must approve the request first.
    Waiting(ApprovalTicket),
    /// Nothing was changed: this server cannot run the action, but the command may.
    Unable(String),
    Error(String),
}

/// Where a command finds the server.
#[derive(Debug, Clone)]
pub struct ControlAddress {
    /// The socket in the data directory, for the server's user.
    private: PathBuf,
    /// The socket for the operators of `server.control_group`.
    shared: Option<PathBuf>,
}

impl Settings {
    pub fn control_address(&self) -> ControlAddress {
        ControlAddress {
            private: self.storage.data_dir.join(SOCKET_FILE),
            shared: self.server.control_socket.clone(),
        }
    }
}

impl ControlAddress {
    fn connect(&self) -> Result<UnixStream, ServerNotFound> {
        let attempt = |path: &Path, error| SocketAttempt { path: path.to_owned(), error };
        let private = match UnixStream::connect(&self.private).and_then(check_server) {
            Ok(stream) => return Ok(stream),
            Err(error) => attempt(&self.private, error),
        };
        let Some(shared) = &self.shared else { return Err(ServerNotFound(vec![private])) };
        UnixStream::connect(shared)
            .map_err(|error| ServerNotFound(vec![private, attempt(shared, error)]))
    }
}

/// No server answers at the sockets of a [`ControlAddress`].
#[derive(Debug)]
pub struct ServerNotFound(Vec<SocketAttempt>);

#[derive(Debug)]
struct SocketAttempt {
    path: PathBuf,
    error: io::Error,
}

/// Short texts for the usual reasons.
const REASONS: [(io::ErrorKind, &str); 3] = [
    (io::ErrorKind::NotFound, "the socket does not exist"),
    (io::ErrorKind::ConnectionRefused, "connection refused"),
    (io::ErrorKind::PermissionDenied, "permission denied"),
];

impl ServerNotFound {
    /// Whether a server may run that this user may not use.
    pub fn is_denied(&self) -> bool {
        let last = self.0.last();
        last.is_some_and(|it| it.error.kind() == io::ErrorKind::PermissionDenied)
    }

    fn write_attempts(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, SocketAttempt { path, error }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { " and " };
            write!(f, "{separator}{} (", path.display())?;
            let reason = match REASONS.iter().find(|(kind, _)| *kind == error.kind()) {
                Some((_, text)) => (*text).to_owned(),
                None => error.to_string(),
            };
            write!(f, "{reason})")?;
        }
        Ok(())
    }
}

impl Display for ServerNotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.is_denied() {
            true => "this user may not use the control socket of the server: tried ",
            false => "no server answers: tried ",
        })?;
        self.write_attempts(f)
    }
}

/// Only the server's user and root can connect to the socket in the data directory. A socket of
/// another user is not the one of the server: a person could have put it into a directory in which
/// the command is run, to get a share.
fn check_server(stream: UnixStream) -> io::Result<UnixStream> {
    let own = Uid::effective();
    let peer = getsockopt(&stream, PeerCredentials)?;
    match own.is_root() || peer.uid() == own.as_raw() {
        true => Ok(stream),
        false => Err(io::Error::other("the control socket belongs to another user")),
    }
}

/// The result of a request, or the approval that it waits for.
#[derive(Debug)]
pub enum ControlAnswer<T> {
    Done(T),
    Waiting(ApprovalTicket),
    NoServer(ServerNotFound),
    /// The server is sealed, or runs another version of the program.
    Unable(String),
}

/// Sends a request that needs no approval.
/// Errors: no server answers, or it rejects the request.
pub fn send_request<T: DeserializeOwned>(
    address: &ControlAddress,
    request: &ControlRequest,
) -> anyhow::Result<T> {
    match try_request(address, request)? {
        ControlAnswer::Done(value) => Ok(value),
        ControlAnswer::Waiting(it) => bail!("request {} waits for an approval", it.id),
        ControlAnswer::NoServer(it) if it.is_denied() => bail!("{it}"),
        ControlAnswer::NoServer(it) => bail!("{it}; this command needs a running server"),
        ControlAnswer::Unable(reason) => bail!(reason),
    }
}

/// The server answered a request with an error.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct RequestRefusal(String);

/// Sends a request.
/// Errors: the server rejects the request, or does not answer.
pub fn try_request<T: DeserializeOwned>(
    address: &ControlAddress,
    request: &ControlRequest,
) -> anyhow::Result<ControlAnswer<T>> {
    let mut attempts = 0;
    let line = loop {
        attempts += 1;
        let stream = match address.connect() {
            Ok(stream) => stream,
            Err(not_found) => return Ok(ControlAnswer::NoServer(not_found)),
        };
        let line = exchange(stream, request).context("the server did not answer")?;
        if attempts == ATTEMPTS_MAX || !is_status_of_this_version(&line) {
            break line;
        }
    };
    let Ok(response) = serde_json::from_str(&line) else {
        return Ok(ControlAnswer::Unable("the server runs another version of scrip".to_owned()));
    };
    match response {
        ControlResponse::Result(value) => Ok(ControlAnswer::Done(serde_json::from_value(value)?)),
        ControlResponse::Waiting(ticket) => Ok(ControlAnswer::Waiting(ticket)),
        ControlResponse::Unable(reason) => Ok(ControlAnswer::Unable(reason)),
        ControlResponse::Error(message) => Err(RequestRefusal(message).into()),
    }
}

/// A server sends its status instead if the request arrives too late, which can happen on a busy
/// machine. It has not executed the request then.
fn is_status_of_this_version(line: &str) -> bool {
    #[derive(Deserialize)]
    struct StatusVersion {
        version: String,
    }
    serde_json::from_str(line)
        .is_ok_and(|it: StatusVersion| it.version == env!("CARGO_PKG_VERSION"))
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

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use serde_json::json;

    use super::*;

    fn find_server(private: PathBuf, shared: Option<PathBuf>) -> String {
        let address = ControlAddress { private, shared };
        let error = send_request::<Value>(&address, &ControlRequest::ListMethods {}).unwrap_err();
        error.to_string()
    }

    #[test]
    fn missing_server_error_names_each_tried_socket_and_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let (private, shared) = (folder.path().join("scrip.sock"), folder.path().join("shared"));
        let missing = format!("{} (the socket does not exist)", private.display());
        let text = find_server(private.clone(), None);
        assert_eq!(
            text,
            format!("no server answers: tried {missing}; this command needs a running server")
        );
        // A killed server leaves its socket.
        drop(UnixListener::bind(&shared).unwrap());
        let text = find_server(private, Some(shared.clone()));
        let refused = format!("{} (connection refused)", shared.display());
        assert!(text.contains(&format!("tried {missing} and {refused};")), "{text}");
    }

    #[test]
    fn request_that_arrives_too_late_is_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("scrip.sock");
        let listener = UnixListener::bind(&private).unwrap();
        let status = json!({"version": env!("CARGO_PKG_VERSION"), "pid": 1}).to_string();
        let result = serde_json::to_string(&ControlResponse::Result(json!(7))).unwrap();
        let serve = move || {
            for line in [status, result] {
                let (mut stream, _) = listener.accept().unwrap();
                writeln!(stream, "{line}").unwrap();
            }
        };
        let server = thread::Builder::new().name("control server".to_owned()).spawn(serve).unwrap();
        let address = ControlAddress { private, shared: None };
        let number: u32 = send_request(&address, &ControlRequest::ListMethods {}).unwrap();
        assert_eq!(number, 7);
        server.join().unwrap();
    }
}
