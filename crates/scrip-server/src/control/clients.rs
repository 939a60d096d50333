//! Serves the clients of the control sockets.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};
use zeroize::Zeroizing;

use crate::control::{
    handler::ControlHandler,
    protocol::{ControlRequest, ControlResponse, LINE_BYTES_MAX},
    status::ServerStatus,
};

const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that has sent nothing for this long gets the status.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

/// Serves the clients of both sockets.
#[derive(Clone)]
pub(super) struct ControlClients {
    pub(super) handler: ControlHandler,
    pub(super) build_status: Arc<dyn Fn() -> ServerStatus + Send + Sync>,
}

impl ControlClients {
    /// Reads a request and sends the response.
    pub(super) async fn serve(&self, mut stream: UnixStream) {
        let Ok(peer) = stream.peer_cred() else { return };
        let request = match timeout(REQUEST_TIMEOUT, read_request(&mut stream)).await {
            Ok(Ok(request)) => request,
            Ok(Err(_)) => {
                let text = "the request is not valid; the server runs another version of scrip";
                return send_line(stream, &ControlResponse::Error(text.to_owned())).await;
            }
            Err(_) => ControlRequest::Status {},
        };
        if matches!(request, ControlRequest::Status {}) {
            return send_line(stream, &(self.build_status)()).await;
        }
        let response = self.handler.handle(request, peer.uid()).await;
        send_line(stream, &response).await;
    }
}

/// The status if the client closes its side without a request.
async fn read_request(stream: &mut UnixStream) -> anyhow::Result<ControlRequest> {
    let mut line = Zeroizing::new(String::new());
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).await?;
    if line.is_empty() {
        return Ok(ControlRequest::Status {});
    }
    Ok(serde_json::from_str(&line)?)
}

async fn send_line(mut stream: UnixStream, response: &impl Serialize) {
    let Ok(line) = serde_json::to_vec(response) else { return };
    let mut line = Zeroizing::new(line);
    line.push(b'\n');
    drop(timeout(WRITE_TIMEOUT, stream.write_all(&line)).await);
}
