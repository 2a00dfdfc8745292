//! GIN on the host: queue, proxy, ledger, signals. Listed in data-path order.
pub mod abort;
