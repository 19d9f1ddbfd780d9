//! What the tests share: clusters in memory, recorded incidents, the real control plane, the plugins as processes with a
//! clean environment, terminals, and a proxy that makes faults. Everything here panics when it cannot do its work: a test
//! that cannot run has failed.
#![expect(clippy::unwrap_used, reason = "a broken test environment is a failed test")]

#[cfg(unix)]
pub mod bench;
pub mod incidents;
mod machines;
pub mod memory;
mod plane;
mod process;
mod proxy;
#[cfg(unix)]
mod pty;

use std::time::{Duration, Instant};

pub use incidents::Plugin;
pub use machines::Downstream;
pub use memory::Memory;
pub use plane::{Audit, ControlPlane, World, binary};
pub use process::{Output, Program};
pub use proxy::{Fault, FaultProxy, Gate, Match, Seen};
#[cfg(unix)]
pub use pty::Pty;

/// Waits until the condition holds, looking every 50 ms.
///
/// # Panics
/// When it does not within the limit.
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < limit, "after {limit:?} still not: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
