//! The examples `import_worker` and `flash_sale` on real Redis servers. They are apart from the other tests of
//! processes, because they keep the machine busy.

#[path = "../cases/mod.rs"]
mod cases;
mod flash_sale;
mod import;
