//! The deciding tests named in a plan.

use std::collections::HashSet;
use std::sync::Arc;

use clawrl_core::{Boundary, Fault, FixtureContent, TestNames, TestSpec};
use clawrl_workspace::FixtureReader;

use crate::prepare::as_file;
use crate::resolution::ExpectedTests;

impl ExpectedTests {
    /// Reads them. A test that the fix makes pass need not have passed before, even if it is listed as such elsewhere.
    ///
    /// # Errors
    /// A permanent [`Fault`] when a file is gone, or differs from the plan.
    pub(crate) async fn read(spec: &TestSpec, fixtures: &Arc<FixtureReader>) -> Result<Self, Fault> {
        let fail_to_pass = names(&spec.fail_to_pass, fixtures).await?;
        let mut pass_to_pass = names(&spec.pass_to_pass, fixtures).await?;
        let fixed: HashSet<&String> = fail_to_pass.iter().collect();
        pass_to_pass.retain(|name| !fixed.contains(name));
        Ok(Self { fail_to_pass, pass_to_pass })
    }
}

async fn names(names: &TestNames, fixtures: &Arc<FixtureReader>) -> Result<Vec<String>, Fault> {
    let (path, sha256) = match names {
        TestNames::Inline(names) => return Ok(names.clone()),
        TestNames::Host { path, sha256 } => (path, sha256),
    };
    let content = FixtureContent::Host { path: path.clone(), sha256: sha256.clone() };
    let read = fixtures.read(vec![as_file(&content)]).await?;
    let bytes = read.first().map(|file| file.content.as_ref()).unwrap_or_default();
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("{} is not a JSON list of names: {error}", path.display());
        Fault::permanent(Boundary::Grader, "test-names", message)
    })
}
