//! What `lab load` and `lab bench` measure: the limit of bare SQL, CPU time and memory of every process, and
//! when the orders arrived where.

pub(crate) mod percentiles;
pub(crate) mod pgbench;
pub(crate) mod scratch_database;
pub(crate) mod shipping;
pub(crate) mod usage;
