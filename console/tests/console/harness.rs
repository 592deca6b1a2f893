//! A console, alone or with the system that it watches.

use std::sync::Arc;

use console::{Console, Controls, Listeners, Options, trace_env};
use endpoints::operator::Token;
use endpoints::{Endpoints, PerService, Service};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use testkit::polling::eventually_some;
use testkit::system::{System, SystemOptions};

pub(crate) const TOKEN: &str = "testtoken1";
/// Leases and timeouts of payment. Shorter ones would expire on a busy machine.
const PAYMENT_ENV: [(&str, &str); 3] = [
    ("LEASE_MS", "2000"),
    ("PSP_TIMEOUT_MS", "1500"),
    ("RETRY_MAX_MS", "1000"),
];
/// The messages of a killed consumer wait this long for the next one.
const SESSION: (&str, &str) = ("KAFKA_SESSION_TIMEOUT_MS", "4000");

pub(crate) struct Harness {
    console: Console,
    pub(crate) system: Option<Arc<System>>,
    http: reqwest::Client,
}

impl Harness {
    /// A console without a system to watch.
    pub(crate) async fn alone() -> Self {
        let listeners = Listeners::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        Self::serve(listeners, nowhere(), Controls::Containers(None), None)
    }

    /// A system on free ports with its console.
    pub(crate) async fn start() -> Self {
        let listeners = Listeners::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let mut options = SystemOptions {
            network_cuts: true,
            ..SystemOptions::for_test()
        };
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let spans = trace_env(&listeners.spans_url().unwrap());
        for service in Service::ALL {
            let env = options.env.get_mut(service);
            env.extend(spans.iter().cloned());
            env.extend(service.uses_kafka().then(|| pair(SESSION)));
        }
        options.env.payment.extend(PAYMENT_ENV.map(pair));
        let system = Arc::new(System::start(options).await.unwrap());
        let controls = Controls::Processes(Arc::clone(&system));
        Self::serve(listeners, system.endpoints(), controls, Some(system))
    }

    fn serve(
        listeners: Listeners,
        endpoints: Endpoints,
        controls: Controls,
        system: Option<Arc<System>>,
    ) -> Self {
        let options = Options {
            endpoints,
            controls,
            token: Token::from(TOKEN.to_owned()),
            jaeger_url: None,
            hosts: Vec::new(),
            forward_spans_to: None,
        };
        Self {
            console: Console::start(listeners, options).unwrap(),
            system,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.console.address()
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://{}{path}", self.address());
        self.http.request(method, url)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        response.json().await.unwrap()
    }

    pub(crate) async fn send(&self, path: &str, body: &Value) -> Response {
        let request = self.request(Method::POST, path).json(body);
        request
            .header("x-console-token", TOKEN)
            .send()
            .await
            .unwrap()
    }

    /// An action that must succeed.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let response = self.send(path, body).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn place(&self, mode: &str) -> Value {
        self.post("/api/orders", &json!({ "mode": mode })).await
    }

    pub(crate) async fn state(&self) -> Value {
        self.get("/api/state").await
    }

    /// Polls the timeline until it has the status.
    pub(crate) async fn timeline_when(&self, order: &str, status: &str) -> Value {
        let path = format!("/api/orders/{order}");
        eventually_some(&format!("{order} is {status}"), async || {
            let timeline = self.get(&path).await;
            (timeline["status"] == status).then_some(timeline)
        })
        .await
    }

    pub(crate) async fn stop(self) {
        self.console.stop().await;
        if let Some(system) = self.system {
            let system = Arc::into_inner(system).expect("the console no longer uses the system");
            system.stop().await.unwrap();
        }
    }
}

/// Addresses at which nothing listens.
fn nowhere() -> Endpoints {
    let url = "http://127.0.0.1:1".to_owned();
    Endpoints {
        urls: PerService::from_fn(|_| vec![url.clone()]),
        operator_urls: PerService::from_fn(|_| vec![url.clone()]),
        operator_token: Token::demo(),
        database_urls: PerService::from_fn(|_| "postgres://none@127.0.0.1:1/none".to_owned()),
        brokers: "127.0.0.1:1".to_owned(),
        topic: "none".to_owned(),
        smtp: String::new(),
        mails_dir: Default::default(),
        prefix: String::new(),
        state_dir: Default::default(),
        pids: Default::default(),
        lab_pid: 0,
    }
}
