use tempfile::TempDir;
use testkit::smtp_sink::{self, Action, Behaviour, behaviour, mails};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

struct Sink {
    mails: TempDir,
    port: u16,
    _task: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Sink {
    async fn start() -> Self {
        let mails = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = smtp_sink::serve(listener, mails.path().to_owned());
        Sink {
            mails,
            port,
            _task: AbortOnDropHandle::new(tokio::spawn(serve)),
        }
    }

    async fn connect(&self) -> Session {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let mut session = Session(BufReader::new(stream));
        assert_eq!(session.reply_code().await, "220");
        session
    }

    fn texts(&self) -> Vec<String> {
        let mails = mails(self.mails.path()).unwrap();
        mails.into_iter().map(|mail| mail.text).collect()
    }
}

struct Session(BufReader<TcpStream>);

impl Session {
    /// The code of the next reply; empty if the server closed the connection.
    async fn reply_code(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.chars().take(3).collect();
            }
        }
    }

    async fn send(&mut self, line: &str) -> String {
        let line = format!("{line}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.reply_code().await
    }

    async fn expect(&mut self, steps: &[(&str, &str)]) {
        for (line, code) in steps {
            assert_eq!(&self.send(line).await, code, "{line}");
        }
    }

    async fn begin(&mut self) {
        self.expect(&[
            ("MAIL FROM:<a@b.example> SIZE=100", "250"),
            ("RCPT TO:<c@d.example>", "250"),
            ("DATA", "354"),
        ])
        .await;
    }
}

#[tokio::test]
async fn mail_is_stored_below_its_envelope() {
    let sink = Sink::start().await;
    let mut session = sink.connect().await;
    session.expect(&[("EHLO me", "250")]).await;
    session.begin().await;
    // A line that begins with a dot is sent with two dots.
    session
        .expect(&[("Subject: hello\r\n\r\n..hidden\r\nend\r\n.", "250")])
        .await;
    assert_eq!(
        sink.texts(),
        [
            "Return-Path: <a@b.example>\r\nDelivered-To: c@d.example\r\n\
          Subject: hello\r\n\r\n.hidden\r\nend\r\n"
        ]
    );
    // The same mail again is stored again.
    session.begin().await;
    session
        .expect(&[("again\r\n.", "250"), ("QUIT", "221")])
        .await;
    assert_eq!(
        session.reply_code().await,
        "",
        "the server closed the connection"
    );
    assert_eq!(sink.texts().len(), 2);
}

#[tokio::test]
async fn commands_out_of_order_are_rejected() {
    let sink = Sink::start().await;
    let mut session = sink.connect().await;
    session
        .expect(&[
            ("helo me", "250"),
            ("RCPT TO:<c@d.example>", "503"),
            ("DATA", "503"),
            ("MAIL FROM: invalid", "501"),
            ("mail from:<>", "250"),
            ("MAIL FROM:<a@b.example>", "503"),
            ("DATA", "503"),
            ("RSET", "250"),
            ("RCPT TO:<c@d.example>", "503"),
            ("NOOP", "250"),
            ("TURN", "502"),
        ])
        .await;
    assert_eq!(sink.texts().len(), 0);
}

#[tokio::test]
async fn mail_that_is_too_large_does_not_end_the_session() {
    let sink = Sink::start().await;
    let mut session = sink.connect().await;
    session.begin().await;
    let huge = "x\r\n".repeat(400_000);
    session.expect(&[(&format!("{huge}."), "552")]).await;
    session.begin().await;
    session.expect(&[("small\r\n.", "250")]).await;
    assert_eq!(sink.texts().len(), 1);
}

#[tokio::test]
async fn fault_happens_once_if_set_once() {
    let sink = Sink::start().await;
    let set_fault = |action| {
        let behaviour = Behaviour { action, times: 1 };
        behaviour::set(sink.mails.path(), behaviour).unwrap();
    };
    set_fault(Action::LoseReply);
    let mut session = sink.connect().await;
    session.begin().await;
    session.expect(&[("stored\r\n.", "")]).await;
    assert_eq!(sink.texts().len(), 1);

    set_fault(Action::RejectContent(451));
    let mut session = sink.connect().await;
    session.begin().await;
    session.expect(&[("not stored\r\n.", "451")]).await;
    session.begin().await;
    session.expect(&[("stored\r\n.", "250")]).await;
    assert_eq!(sink.texts().len(), 2);

    set_fault(Action::Disconnect);
    session.expect(&[("MAIL FROM:<a@b.example>", "")]).await;
    assert_eq!(sink.texts().len(), 2);
}
