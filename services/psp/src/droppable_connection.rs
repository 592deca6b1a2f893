//! Connections that a handler can drop without a response.
//!
//! An axum handler must return a response, and a panic becomes a 500. So the handler marks the
//! connection instead: a marked connection fails every write, and the server closes it. The caller
//! sees a closed connection and no status.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Lets a handler drop the connection of its request.
#[derive(Clone, Debug, Default)]
pub struct DropHandle(Arc<AtomicBool>);

impl DropHandle {
    /// Nothing is sent on the connection after this call.
    pub fn drop_connection(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

/// A listener whose connections have a [`DropHandle`].
#[derive(Debug)]
pub struct DroppableListener(TcpListener);

impl DroppableListener {
    pub fn new(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl Listener for DroppableListener {
    type Io = DroppableConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (DroppableConnection, SocketAddr) {
        // The trait's accept, not the socket's: it waits when file descriptors run out.
        let (stream, peer) = Listener::accept(&mut self.0).await;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY not set, responses may be delayed");
        }
        let handle = DropHandle::default();
        (DroppableConnection { stream, handle }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, DroppableListener>> for DropHandle {
    fn connect_info(stream: IncomingStream<'_, DroppableListener>) -> Self {
        stream.io().handle.clone()
    }
}

/// A TCP connection whose writes fail once its [`DropHandle`] was used.
#[derive(Debug)]
pub struct DroppableConnection {
    stream: TcpStream,
    handle: DropHandle,
}

impl AsyncRead for DroppableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for DroppableConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.handle.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.handle.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
