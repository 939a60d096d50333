//! Stopping a server the way a service manager does.

use std::{
    process::{Child, Command, ExitStatus},
    time::Duration,
};

pub(crate) fn terminate(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill can be run").success());
}

/// Nothing when it still runs after that long.
pub(crate) fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while waited < most {
        if let Some(status) = child.try_wait().expect("it is ours to wait for") {
            return Some(status);
        }
        std::thread::sleep(step);
        waited += step;
    }
    None
}
