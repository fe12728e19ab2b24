//! The pages in a real browser: links lead to attempts and tasks, also folded ones, and nothing is cut off.

use serde_json::json;

use super::driver::Browser;
use super::serving::port;
use crate::place::Place;

/// More tasks than a page shows at once.
const MANY: &str = "
format: 1
suite: many
defaults:
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, idle_millis: 300 } }
tasks:
  - id: write
    template: { word: { from: words } }
    instruction: Write {{ word }} into out.txt.
    checks:
      - file_equals: { path: out.txt, expected: \"{{ word }}\\n\" }
    oracle: { commands: [\"echo {{ word }} > out.txt\"] }
vars:
  words: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x]
";

/// Top and bottom of the selector's first element, as fractions of the screen height.
fn on_screen(browser: &Browser, selector: &str) -> (f64, f64) {
    let script = format!(
        "const place = document.querySelector({selector:?}).getBoundingClientRect(); \
         return [place.top / innerHeight, place.bottom / innerHeight]"
    );
    let place = browser.script(&script);
    (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
}

#[test]
fn links_lead_to_attempts_and_tasks_wherever_they_are() {
    let place = Place::new();
    place.suite("many", MANY);
    place.clawrl(&["run", "many", "--name", "m", "--policy", "noop", "--quiet"]).ends(0);
    let mut live = place.start(&["view", "results"]);
    live.hears("http://127.0.0.1:");
    let site = format!("http://127.0.0.1:{}", port(live.heard()));
    let browser = Browser::new();
    for (width, height) in [(1_280, 800), (400, 800)] {
        browser.look(width, height);
        browser.open(&format!("{site}/"));
        browser.script("document.querySelector('a[href=\"/runs/m/\"]').click()");
        browser.until("document.body?.dataset.ready === 'yes'");
        let sideways = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth";
        assert_eq!(browser.script(sideways), true, "{width}");

        // From a task to its failed attempt far below, twice with the same address.
        for _ in 0..2 {
            browser.script("scrollTo(0, 0)");
            assert!(on_screen(&browser, "#attempt").0 > 1.0, "{width}");
            browser.script("document.querySelector('td.attempts a').click()");
            browser.until("document.querySelector('#attempt h3')?.textContent.startsWith('s0.0 ')");
            browser.until("document.querySelector('#attempt').getBoundingClientRect().top < innerHeight / 3");
            assert!(on_screen(&browser, "#attempt h3").0 >= 0.0, "{width}: nothing covers where it begins");
            assert_eq!(browser.script(sideways), true, "{width}");
        }
        // Back to the task's row.
        browser.script("document.querySelector('#attempt h3 a').click()");
        browser.until("document.querySelector('#t0').getBoundingClientRect().top >= 0");
        assert!(on_screen(&browser, "#t0").1 <= 1.0, "{width}");

        // A folded task by its address.
        assert_eq!(browser.script("return document.querySelector('#t23').closest('details').open"), false);
        browser.open(&format!("{site}/runs/m/#t23"));
        browser.until("document.querySelector('#t23')?.closest('details').open");
        let (top, bottom) = on_screen(&browser, "#t23");
        assert!(top >= 0.0 && bottom <= 1.0, "{width}: {top} to {bottom}");

        // From a task's name to its only attempt.
        browser.script("document.querySelector('#t23 a').click()");
        browser.until("document.querySelector('#attempt h3')?.textContent.startsWith('s23.0 ')");
        assert_eq!(browser.script("return document.querySelectorAll('#rows tr').length"), 1);
        assert_eq!(browser.script("return document.getElementById('count').textContent"), "1 of 24 attempts");
        browser.until("document.querySelector('#attempt').getBoundingClientRect().top < innerHeight / 3");

        // The address of an attempt in a new page.
        browser.open(&format!("{site}/"));
        browser.open(&format!("{site}/runs/m/#s7.0"));
        browser.until("document.querySelector('#attempt h3')?.textContent.startsWith('s7.0 ')");
        browser.until("document.querySelector('#attempt').getBoundingClientRect().top < innerHeight / 3");
        // All resources came from this server.
        let elsewhere = "return performance.getEntriesByType('resource').map(entry => entry.name) \
                         .filter(name => !name.startsWith(location.origin + '/') && !name.startsWith('data:'))";
        assert_eq!(browser.script(elsewhere), json!([]));
    }
    live.signal(rustix::process::Signal::INT);
    live.ended().ends(0);
}
