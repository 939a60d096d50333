//! Where lines go: to the end of a file, or to a syslog daemon on this machine.

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

/// A daemon that reads nothing for so long is away.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Facility 13, log audit, and severity 6, informational, of RFC 5424; time and host are left to
/// whoever takes it, and the line has its own time.
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

    /// All of these, or it is not known which.
    pub(super) fn write(&mut self, lines: &[String]) -> io::Result<()> {
        let taken = match &self.target {
            AuditSinkTarget::File(path) => append(&mut self.file, path, lines),
            AuditSinkTarget::Syslog(path) => send(&mut self.socket, path, lines),
        };
        if taken.is_err() {
            // Opened again, and looked at again, the next time.
            (self.file, self.socket) = (None, None);
        }
        taken
    }
}

/// Synced: a position that is written down must not be ahead of the file.
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

/// Whether nobody has moved it away since.
fn is_same_file(file: &File, path: &Path) -> bool {
    let same = |(one, other): (fs::Metadata, fs::Metadata)| {
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    };
    file.metadata().ok().zip(fs::metadata(path).ok()).is_some_and(same)
}

/// A line that was begun and never ended is ended: what follows is another one.
fn open_at_line_start(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
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
