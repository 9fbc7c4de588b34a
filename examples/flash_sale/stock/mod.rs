//! The stock, in a database that defends itself: it takes no order of a late holder.

mod database;
mod postgres;
mod sqlite;

pub(crate) use database::{Count, Order, Result, Stock, Taken};
