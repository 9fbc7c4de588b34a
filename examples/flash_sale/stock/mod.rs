//! The stock, in a database that protects itself: it refuses orders of a late holder.

mod database;
mod postgres;
mod sqlite;

pub(crate) use database::{Count, Order, Result, Stock, Taken};
