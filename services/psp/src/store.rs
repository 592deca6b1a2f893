//! SQL, and nothing else: free functions over a connection that the caller owns.

pub mod charges;
pub mod requests;
