//! Databases that are migrated once per process and copied for each test.
//!
//! A migration commits and waits for the disk many times; a copy does so once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::database::{self, server_for_test};

/// A template's name; set once its migration has succeeded.
type Template = Arc<OnceCell<String>>;

/// By server and label.
static TEMPLATES: Mutex<BTreeMap<(String, String), Template>> = Mutex::new(BTreeMap::new());

/// Creates a migrated database for one test, as [`database::create_for_test`] creates an empty one. `label` names
/// the template.
pub async fn copy_for_test<F, M>(label: &str, migrate: M) -> anyhow::Result<String>
where
    M: FnOnce(String) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let server = server_for_test()?;
    let name = database::name_for_test(label);
    copy(&server, label, &name, migrate).await?;
    database::url(&server, &name)
}

/// Creates the database `name` as a copy of the template `label`. The first call in this process
/// creates the template and migrates it; a template of another process could be out of date.
pub async fn copy<F, M>(server: &str, label: &str, name: &str, migrate: M) -> anyhow::Result<()>
where
    M: FnOnce(String) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let template = Arc::clone(
        TEMPLATES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry((server.to_owned(), label.to_owned()))
            .or_default(),
    );
    let template = template.get_or_try_init(async || {
        let name = format!("template-{label}-{}", Uuid::new_v4().simple());
        database::create(server, &name).await?;
        migrate(database::url(server, &name)?).await?;
        anyhow::Ok(name)
    });
    let template = template.await.context("cannot create a template")?;
    database::copy(server, template, name).await
}
