//! Common parts of HTML pages about runs.

/// Common style: light and dark, in the reader's own font.
pub const PAGE_STYLE: &str = "\
:root{color-scheme:light dark;--a:#1f6feb;--b:#d97706;--soft:#8884}\
body{font:15px/1.5 system-ui,sans-serif;margin:0}main{max-width:800px;margin:0 auto;padding:24px}\
h1{font-size:24px}h2{font-size:17px;margin:28px 0 0}.big{font-size:18px}.key{margin:0;font-size:13px}\
.key .a{color:var(--a)}.key .b{color:var(--b)}.key span{margin-right:14px}\
svg{width:100%;height:auto}svg text{font-size:12px;fill:currentColor}.grid{stroke:var(--soft)}\
polyline{fill:none;stroke-width:2}polyline.a,.bar.a{stroke:var(--a)}polyline.b,.bar.b{stroke:var(--b)}\
circle.a{fill:var(--a)}circle.b{fill:var(--b)}\
table{border-collapse:collapse;margin-top:8px}th,td{text-align:left;padding:2px 14px 2px 0}\
td+td,th+th{text-align:right}.facts td,.facts th{text-align:left;vertical-align:top}\
pre{overflow:auto;background:var(--soft);padding:12px}";

/// Text as it may stand between tags and in attributes between double quotes.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
