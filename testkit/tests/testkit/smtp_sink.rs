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

    async fn connect(&self) -> Dialogue {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let mut dialogue = Dialogue(BufReader::new(stream));
        assert_eq!(dialogue.answer().await, "220");
        dialogue
    }

    fn texts(&self) -> Vec<String> {
        let mails = mails(self.mails.path()).unwrap();
        mails.into_iter().map(|mail| mail.text).collect()
    }
}

struct Dialogue(BufReader<TcpStream>);

impl Dialogue {
    /// The code of the next answer; empty when the server has hung up.
    async fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.chars().take(3).collect();
            }
        }
    }

    async fn say(&mut self, line: &str) -> String {
        let line = format!("{line}\r\n");
        self.0.write_all(line.as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn expect(&mut self, steps: &[(&str, &str)]) {
        for (line, code) in steps {
            assert_eq!(&self.say(line).await, code, "{line}");
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
async fn a_mail_is_kept_as_it_was_sent_below_its_envelope() {
    let sink = Sink::start().await;
    let mut dialogue = sink.connect().await;
    dialogue.expect(&[("EHLO me", "250")]).await;
    dialogue.begin().await;
    // A line that begins with a dot is sent with two.
    dialogue
        .expect(&[("Subject: hello\r\n\r\n..hidden\r\nend\r\n.", "250")])
        .await;
    assert_eq!(
        sink.texts(),
        [
            "Return-Path: <a@b.example>\r\nDelivered-To: c@d.example\r\n\
          Subject: hello\r\n\r\n.hidden\r\nend\r\n"
        ]
    );
    // The same again is another mail: it has no memory.
    dialogue.begin().await;
    dialogue
        .expect(&[("again\r\n.", "250"), ("QUIT", "221")])
        .await;
    assert_eq!(dialogue.answer().await, "", "it has hung up");
    assert_eq!(sink.texts().len(), 2);
}

#[tokio::test]
async fn commands_are_taken_in_their_order_only() {
    let sink = Sink::start().await;
    let mut dialogue = sink.connect().await;
    dialogue
        .expect(&[
            ("helo me", "250"),
            ("RCPT TO:<c@d.example>", "503"),
            ("DATA", "503"),
            ("MAIL FROM: nobody", "501"),
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
async fn what_is_too_large_is_refused_and_the_dialogue_goes_on() {
    let sink = Sink::start().await;
    let mut dialogue = sink.connect().await;
    dialogue.begin().await;
    let huge = "x\r\n".repeat(400_000);
    dialogue.expect(&[(&format!("{huge}."), "552")]).await;
    dialogue.begin().await;
    dialogue.expect(&[("small\r\n.", "250")]).await;
    assert_eq!(sink.texts().len(), 1);
}

#[tokio::test]
async fn it_misbehaves_as_told_and_then_no_more() {
    let sink = Sink::start().await;
    let told = |action| {
        let behaviour = Behaviour { action, times: 1 };
        behaviour::set(sink.mails.path(), behaviour).unwrap();
    };
    told(Action::LoseReply);
    let mut dialogue = sink.connect().await;
    dialogue.begin().await;
    dialogue.expect(&[("kept\r\n.", "")]).await;
    assert_eq!(sink.texts().len(), 1);

    told(Action::RejectContent(451));
    let mut dialogue = sink.connect().await;
    dialogue.begin().await;
    dialogue.expect(&[("not kept\r\n.", "451")]).await;
    dialogue.begin().await;
    dialogue.expect(&[("kept\r\n.", "250")]).await;
    assert_eq!(sink.texts().len(), 2);

    told(Action::Disconnect);
    dialogue.expect(&[("MAIL FROM:<a@b.example>", "")]).await;
    assert_eq!(sink.texts().len(), 2);
}
