//! The stock, in a database that refuses the orders of a late holder.

mod database;
mod postgres;
mod sqlite;

pub(crate) use database::{Count, Order, Result, Stock, Taken};
