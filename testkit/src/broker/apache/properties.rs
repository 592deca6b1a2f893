//! The settings of one node.

use std::path::Path;

use crate::ports;

/// Where one node listens.
pub(super) struct Ports {
    pub(super) broker: u16,
    controller: u16,
}

impl Ports {
    pub(super) fn free() -> anyhow::Result<Self> {
        Ok(Self {
            broker: ports::free()?,
            controller: ports::free()?,
        })
    }
}

/// The settings of the node at `index`. Every partition has a copy on each of up to three nodes, and a write needs all
/// copies but one: the cluster goes on without one node.
pub(super) fn server(data: &Path, nodes: &[Ports], index: usize) -> String {
    let Ports { broker, controller } = nodes[index];
    let copies = nodes.len().min(3);
    let in_sync = copies.saturating_sub(1).max(1);
    format!(
        "process.roles=broker,controller
node.id={}
{}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={}
auto.create.topics.enable=false
# A new group is served immediately. In production the delay lets its members join first.
group.initial.rebalance.delay.ms=0
# Tests kill members, and the group must notice soon.
group.min.session.timeout.ms=1000
# The same for nodes.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
default.replication.factor={copies}
min.insync.replicas={in_sync}
offsets.topic.num.partitions=4
offsets.topic.replication.factor={copies}
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
",
        index + 1,
        quorum(nodes),
        data.display()
    )
}

/// A single node finds itself; the nodes of a cluster know each other from the start.
fn quorum(nodes: &[Ports]) -> String {
    if let [only] = nodes {
        return format!(
            "controller.quorum.bootstrap.servers=127.0.0.1:{}",
            only.controller
        );
    }
    let voters = (1..).zip(nodes);
    let voters = voters.map(|(id, node)| format!("{id}@127.0.0.1:{}", node.controller));
    format!(
        "controller.quorum.voters={}",
        voters.collect::<Vec<_>>().join(",")
    )
}

/// Warnings and errors only, on standard output, which the supervisor writes to the log.
pub(super) const LOG4J: &str = "appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(nodes: usize) -> Vec<String> {
        let ports: Vec<Ports> = (1..=nodes as u16)
            .map(|id| Ports {
                broker: 9_000 + id,
                controller: 9_100 + id,
            })
            .collect();
        let text = server(Path::new("/data"), &ports, nodes - 1);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn cluster_keeps_three_copies_and_writes_to_two() {
        let cluster = lines(3);
        for line in [
            "node.id=3",
            "controller.quorum.voters=1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103",
            "default.replication.factor=3",
            "min.insync.replicas=2",
            "offsets.topic.replication.factor=3",
        ] {
            assert!(cluster.contains(&line.to_owned()), "{line}: {cluster:#?}");
        }
    }

    #[test]
    fn single_node_keeps_one_copy() {
        let single = lines(1);
        for line in [
            "controller.quorum.bootstrap.servers=127.0.0.1:9101",
            "default.replication.factor=1",
            "min.insync.replicas=1",
        ] {
            assert!(single.contains(&line.to_owned()), "{line}: {single:#?}");
        }
    }
}
