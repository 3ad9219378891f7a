//! Draining: the end of a server that still has requests.
//!
//! In: a signal. Out: when to take nothing new, and when to wait no longer for what runs. Held: whether it has begun.

use std::net::SocketAddr;
use std::time::Duration;

use axum_server::Handle;
use tokio_util::sync::CancellationToken;

/// Whether the server drains.
#[derive(Clone, Debug, Default)]
pub struct Drain {
    begun: CancellationToken,
    /// How long what runs may take.
    within: Duration,
}

impl Drain {
    /// Not yet; what runs then may take so long.
    pub fn new(within: Duration) -> Self {
        Drain { within, ..Drain::default() }
    }

    /// From now on.
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Whether it drains.
    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits until it drains, and until what then runs on the server has had its time.
    pub(crate) async fn ends(self, server: &Handle<SocketAddr>) {
        self.begun.cancelled().await;
        server.graceful_shutdown(None);
        tokio::time::sleep(self.within).await;
    }
}

/// Waits for SIGTERM, or for ^C.
///
/// # Errors
/// If the system sends no signals.
pub async fn signalled() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            _ = terminate.recv() => Ok(()),
            interrupt = tokio::signal::ctrl_c() => interrupt,
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
