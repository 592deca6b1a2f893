//! The services of the system, and values that exist once per service.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A service of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// Takes orders and owns their state.
    Order,
    /// Charges and refunds through the provider.
    Payment,
    /// Decides whether an order ships.
    Fulfilment,
    /// Sends a receipt for each captured payment.
    Receipt,
    /// The mock payment provider.
    Psp,
}

impl Service {
    /// Every service in start order: a service comes before those that call it.
    pub const ALL: [Service; 5] = [
        Service::Psp,
        Service::Payment,
        Service::Fulfilment,
        Service::Receipt,
        Service::Order,
    ];

    /// The name of the binary, of the database (after the prefix) and of the first process.
    pub fn name(self) -> &'static str {
        match self {
            Service::Order => "order",
            Service::Payment => "payment",
            Service::Fulfilment => "fulfilment",
            Service::Receipt => "receipt",
            Service::Psp => "psp",
        }
    }

    /// The port that `lab up` uses and the documentation names.
    pub fn demo_port(self) -> u16 {
        match self {
            Service::Order => 8081,
            Service::Payment => 8082,
            Service::Fulfilment => 8083,
            Service::Receipt => 8084,
            Service::Psp => 8090,
        }
    }

    /// The port of its operator listener with `lab up`, which is also its default.
    pub fn operator_demo_port(self) -> u16 {
        match self {
            Service::Order => 9081,
            Service::Payment => 9082,
            Service::Fulfilment => 9083,
            Service::Receipt => 9084,
            Service::Psp => 9085,
        }
    }

    /// Whether the service supports `migrate --demo-data`: principals in order and payment, stock in
    /// fulfilment.
    pub fn has_demo_data(self) -> bool {
        matches!(
            self,
            Service::Order | Service::Payment | Service::Fulfilment
        )
    }

    /// Whether the service uses the topic. Only the provider does not.
    pub fn uses_kafka(self) -> bool {
        self != Service::Psp
    }
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// One value for each service. Unlike in a map, a lookup cannot fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerService<T> {
    /// The order service's value.
    pub order: T,
    /// The payment service's value.
    pub payment: T,
    /// The fulfilment service's value.
    pub fulfilment: T,
    /// The receipt service's value.
    pub receipt: T,
    /// The mock provider's value.
    pub psp: T,
}

impl<T> PerService<T> {
    /// Calls `make` once per service.
    pub fn from_fn(mut make: impl FnMut(Service) -> T) -> Self {
        PerService {
            order: make(Service::Order),
            payment: make(Service::Payment),
            fulfilment: make(Service::Fulfilment),
            receipt: make(Service::Receipt),
            psp: make(Service::Psp),
        }
    }

    /// The value of one service.
    pub fn get(&self, service: Service) -> &T {
        match service {
            Service::Order => &self.order,
            Service::Payment => &self.payment,
            Service::Fulfilment => &self.fulfilment,
            Service::Receipt => &self.receipt,
            Service::Psp => &self.psp,
        }
    }

    /// The value of one service, to change it.
    pub fn get_mut(&mut self, service: Service) -> &mut T {
        match service {
            Service::Order => &mut self.order,
            Service::Payment => &mut self.payment,
            Service::Fulfilment => &mut self.fulfilment,
            Service::Receipt => &mut self.receipt,
            Service::Psp => &mut self.psp,
        }
    }
}
