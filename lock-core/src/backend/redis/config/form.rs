//! The accepted forms of a Redis URL, for error messages.

use crate::backend::remote::UrlForm;

/// The forms and the options of the URL of a Redis server, of its sentinels, or of a Cluster.
pub(crate) const FORM: UrlForm = UrlForm {
    store: "Redis",
    expected: "expected `redis[s]://[user:password@]host[:port][/db]`, `redis[s]+sentinel://host,host,host/primary`, \
               `redis[s]+cluster://host,host,host` or `unix://[user:password@]/path/to.sock`, with \
               `?connect_timeout=10s&timeout=500ms` if need be; percent-encode special characters of the password",
    options: &[
        "connect_timeout",
        "timeout",
        "client_name",
        "db",
        "ca",
        "cert",
        "key",
        "sentinel_user",
        "sentinel_password",
        "durability",
        "min_replicas",
    ],
};
