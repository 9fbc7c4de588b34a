//! The accepted form of a Postgres URL, for error messages.

use crate::backend::remote::UrlForm;

/// The URL of a Postgres server.
pub(crate) const FORM: UrlForm = UrlForm {
    store: "Postgres",
    expected: "expected `postgres://[user[:password]@]host[:port][,host..][/database]`, with `?connect_timeout=10s&timeout=1s` \
               if need be; percent-encode special characters of the password",
    options: &[
        "connect_timeout",
        "timeout",
        "schema",
        "migrate",
        "listen",
        "host",
        "port",
        "user",
        "password",
        "dbname",
        "options",
        "sslmode",
        "ca",
        "cert",
        "key",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "application_name",
        "mode",
        "session_timeout",
        "pooling",
    ],
};
