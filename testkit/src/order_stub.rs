//! An order service in memory, correct or with one flaw, for tests of the checks that must find it.

// A panic here fails the test, as it should.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Every request creates an order, regardless of its key.
    NeverReplays,
    /// A key replays its response, regardless of the body.
    IgnoresBody,
    /// All tenants share one space of keys.
    SharesKeys,
}

type Keys = Arc<Mutex<HashMap<String, (serde_json::Value, String)>>>;

struct Request {
    line: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

/// Serves on a free port until the runtime ends; returns the base URL.
pub async fn start(flaw: Flaw) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let keys = Keys::default();
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, flaw, Arc::clone(&keys)));
        }
    });
    url
}

async fn serve(stream: TcpStream, flaw: Flaw, keys: Keys) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read(&mut stream).await?;
        let (head, body) = respond(&request, flaw, &keys);
        let response = format!(
            "HTTP/1.1 {head}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(response.as_bytes()).await?;
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_lowercase(), value.trim().to_owned()))
    };
    let headers: HashMap<String, String> = lines[1..].iter().filter_map(header).collect();
    let length = headers
        .get("content-length")
        .map_or(0, |value| value.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Request {
        line: lines.swap_remove(0),
        headers,
        body,
    })
}

fn respond(request: &Request, flaw: Flaw, keys: &Keys) -> (String, String) {
    const JSON: &str = "content-type: application/json\r\n";
    if request.line.starts_with("GET ") {
        let id = request.line.split(['/', ' ']).nth(3).unwrap();
        return (
            format!("200 OK\r\n{JSON}"),
            format!(r#"{{"order_id":"{id}","status":"shipped"}}"#),
        );
    }
    let key = request
        .headers
        .get("idempotency-key")
        .map(|key| key.trim_matches('"'));
    let Some(key) = key.filter(|key| (1..=255).contains(&key.len()) && !key.contains(' ')) else {
        return problem("400 Bad Request", "malformed");
    };
    let tenant = request.headers.get("authorization").unwrap();
    let scope = if flaw == Flaw::SharesKeys {
        key.to_owned()
    } else {
        format!("{tenant} {key}")
    };
    let content: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let mut keys = keys.lock().unwrap();
    match keys.get(&scope).filter(|_| flaw != Flaw::NeverReplays) {
        Some((first, _)) if *first != content && flaw != Flaw::IgnoresBody => {
            problem("422 Unprocessable Content", "key_reused")
        }
        Some((_, body)) => (
            format!("201 Created\r\n{JSON}idempotent-replayed: true\r\n"),
            body.clone(),
        ),
        None => {
            let body = format!(r#"{{"order_id":"{}","status":"placed"}}"#, Uuid::new_v4());
            keys.insert(scope, (content, body.clone()));
            (format!("201 Created\r\n{JSON}"), body)
        }
    }
}

fn problem(status: &str, code: &str) -> (String, String) {
    let head = format!("{status}\r\ncontent-type: application/problem+json\r\n");
    (head, format!(r#"{{"code":"{code}","retryable":false}}"#))
}
