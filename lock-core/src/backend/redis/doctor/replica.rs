//! The report of a primary about one of its replicas.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(super) place: String,
    pub(super) is_online: bool,
    /// The seconds since the replica last reported.
    pub(super) lag: u64,
}

impl Replica {
    /// Reads a line `slave0:ip=10.0.0.2,port=6379,state=online,offset=7,lag=0`.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (number, fields) = line.strip_prefix("slave")?.split_once(':')?;
        number.parse::<u32>().ok()?;
        let field = |name: &str| {
            let mut fields = fields.trim().split(',').filter_map(|field| field.split_once('='));
            fields.find(|(found, _)| *found == name).map(|(_, value)| value)
        };
        Some(Self {
            place: format!("{}:{}", field("ip")?, field("port")?),
            is_online: field("state") == Some("online"),
            lag: field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0),
        })
    }
}
