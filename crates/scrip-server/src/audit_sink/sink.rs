//! Targets of the audit sink: a file (append), or a syslog daemon on this machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt},
        net::UnixDatagram,
    },
    path::Path,
    time::Duration,
};

use crate::config::AuditSinkTarget;

/// A daemon that reads nothing for this long counts as unavailable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// RFC 5424: facility 13 (log audit), severity 6 (informational). Time and host are nil; the JSON
/// line contains the time.
const SYSLOG_HEAD: &str = "<110>1 - - scrip - audit - ";

#[derive(Debug)]
pub(super) struct LineSink {
    target: AuditSinkTarget,
    file: Option<File>,
    socket: Option<UnixDatagram>,
}

impl LineSink {
    pub(super) fn new(target: AuditSinkTarget) -> Self {
        Self { target, file: None, socket: None }
    }

    /// Writes all lines. After an error, the number of written lines is unknown.
    pub(super) fn write(&mut self, lines: &[String]) -> io::Result<()> {
        let result = match &self.target {
            AuditSinkTarget::File(path) => append(&mut self.file, path, lines),
            AuditSinkTarget::Syslog(path) => send(&mut self.socket, path, lines),
        };
        if result.is_err() {
            // Reopen the target for the next write.
            (self.file, self.socket) = (None, None);
        }
        result
    }
}

/// Syncs the file: a saved position must never be ahead of the file.
fn append(open_file: &mut Option<File>, path: &Path, lines: &[String]) -> io::Result<()> {
    let mut file = match open_file.take().filter(|it| is_same_file(it, path)) {
        Some(file) => file,
        None => open_at_line_start(path)?,
    };
    let mut text = lines.join("\n");
    text.push('\n');
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    *open_file = Some(file);
    Ok(())
}

/// Returns whether the path still names this file (false after log rotation).
fn is_same_file(file: &File, path: &Path) -> bool {
    let is_same = |(open_metadata, path_metadata): (fs::Metadata, fs::Metadata)| {
        (open_metadata.dev(), open_metadata.ino()) == (path_metadata.dev(), path_metadata.ino())
    };
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(is_same)
}

/// Opens the file for appending. If the last line is incomplete, ends it first.
fn open_at_line_start(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last_byte = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last_byte)?;
        if last_byte != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn send(open_socket: &mut Option<UnixDatagram>, path: &Path, lines: &[String]) -> io::Result<()> {
    let socket = match open_socket.take() {
        Some(socket) => socket,
        None => {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
            socket.connect(path)?;
            socket
        }
    };
    for line in lines {
        socket.send(format!("{SYSLOG_HEAD}{line}").as_bytes())?;
    }
    *open_socket = Some(socket);
    Ok(())
}
