//! Ctrl-C and SIGTERM. Before the first write they end the run at once; from then on the call in flight is finished
//! first. A second one ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::session::Failure;
use crate::exit::Exit;

/// Listens from now on. Must be made inside the runtime.
#[derive(Clone, Debug)]
pub(super) struct Interrupt {
    raised: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Interrupt {
    pub(super) fn listen() -> Self {
        let interrupt = Self { raised: Arc::new(AtomicBool::new(false)), notify: Arc::new(Notify::new()) };
        let ours = interrupt.clone();
        tokio::spawn(async move {
            signal().await;
            ours.raised.store(true, Ordering::SeqCst);
            ours.notify.notify_waiters();
            signal().await;
            crate::ui::show_cursor();
            // The second one asks for exactly this.
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        interrupt
    }

    /// One that a test raises.
    #[cfg(test)]
    pub(super) fn of(raised: Arc<AtomicBool>) -> Self {
        Self { raised, notify: Arc::new(Notify::new()) }
    }

    /// Whether it was pressed.
    pub(super) fn raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// Resolves when it is pressed.
    pub(super) async fn pressed(&self) {
        let notified = self.notify.notified();
        if !self.raised() {
            notified.await;
        }
    }

    /// Work that changes nothing, given up when interrupted.
    ///
    /// # Errors
    /// When interrupted (exit code 130), or the work's own.
    pub(super) async fn give_up<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.pressed() => Err(Failure::new(Exit::Interrupted, "interrupted; nothing was changed")),
            result = work => result,
        }
    }
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
