//! The flame graph: stacks from bottom to top, as wide as they have samples.
//!
//! I1. It is a function of the tree: siblings stand in the order of their names. I2. Whatever a name contains, it is
//! text.

use std::fmt::Write;

use crate::tree::{Origin, Tree};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 64.0;
/// Narrower frames are left out: nobody sees them, and there are thousands.
const NARROWEST: f64 = 0.2;
/// Of the font, about.
const CHARACTER: f64 = 6.6;

const STYLE: &str = "\
svg{background:#fff;font:11px monospace}text{fill:#111;pointer-events:none}\
rect{stroke:#fff;stroke-width:.5}.o rect{fill:#f0883e}.t rect{fill:#6ea8fe}.n rect{fill:#8fd18f}.x rect{fill:#d0d0d0}\
.key rect{stroke:none}g[data-n]{cursor:pointer}g[data-n]:hover rect{stroke:#111}.title{font-size:15px}";

/// Shows the frame that was clicked at full width, with all below and above it.
const SCRIPT: &str = "\
const W=1180,M=10,C=6.6,all=[...document.querySelectorAll('g[data-n]')];\
const show=z=>{const s=+z.dataset.s,n=+z.dataset.n;for(const g of all){const a=+g.dataset.s,m=+g.dataset.n;\
const around=a<=s&&a+m>=s+n,inside=a>=s&&a+m<=s+n;g.style.display=around||inside?'':'none';if(!around&&!inside)continue;\
const x=around?M:M+(a-s)/n*W,w=around?W:m/n*W,r=g.querySelector('rect'),t=g.querySelector('text'),\
f=g.querySelector('title').textContent,k=f.slice(0,f.lastIndexOf(': ')),c=Math.floor((w-6)/C);\
r.setAttribute('x',x);r.setAttribute('width',w);t.setAttribute('x',x+3);\
t.textContent=c<3?'':k.length>c?k.slice(0,c-2)+'..':k}};\
for(const g of all)g.addEventListener('click',()=>show(g));";

/// The file.
pub(crate) fn render(tree: &Tree, title: &str) -> String {
    let scale = if tree.samples == 0 { 0.0 } else { (WIDTH - 2.0 * MARGIN) / tree.samples as f64 };
    let rows = depth(tree, scale);
    let height = HEAD + rows as f64 * ROW + MARGIN;
    let mut page = String::new();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        page,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"22\">{}</text>",
        escaped(title)
    );
    key(&mut page);
    let mut picture = Picture { page, scale, height, all: tree.samples };
    picture.frame("all", tree, 0, 0);
    picture.page + &format!("<script><![CDATA[{SCRIPT}]]></script>\n</svg>\n")
}

/// What the colours mean.
fn key(page: &mut String) {
    let words = [("o", "ClawRL"), ("t", "libtorch"), ("n", "threads"), ("x", "others")];
    for (at, (class, word)) in words.into_iter().enumerate() {
        let x = MARGIN + 90.0 * at as f64;
        let _ = writeln!(
            page,
            "<g class=\"{class} key\"><rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\"/>\
             <text x=\"{}\" y=\"44\">{word}</text></g>",
            x + 17.0
        );
    }
}

/// Rows of what is wide enough to be seen.
fn depth(tree: &Tree, scale: f64) -> usize {
    let seen = tree.children.values().filter(|child| child.samples as f64 * scale >= NARROWEST);
    1 + seen.map(|child| depth(child, scale)).max().unwrap_or(0)
}

struct Picture {
    page: String,
    /// Width of a sample.
    scale: f64,
    height: f64,
    all: u64,
}

impl Picture {
    /// A frame and what is above it, from a position in samples on.
    fn frame(&mut self, name: &str, tree: &Tree, row: usize, start: u64) {
        let width = tree.samples as f64 * self.scale;
        if row > 0 && width < NARROWEST {
            return;
        }
        let x = MARGIN + start as f64 * self.scale;
        let y = self.height - MARGIN - (row + 1) as f64 * ROW;
        let class = match tree.origin {
            Origin::Ours => 'o',
            Origin::Tensors => 't',
            Origin::Thread => 'n',
            Origin::Other => 'x',
        };
        let percent = 100.0 * tree.samples as f64 / self.all.max(1) as f64;
        let _ = writeln!(
            self.page,
            "<g class=\"{class}\" data-s=\"{start}\" data-n=\"{n}\"><title>{full}: {n} samples, {percent:.2} %</title>\
             <rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{ROW}\"/>\
             <text x=\"{text_x:.2}\" y=\"{text_y:.1}\">{short}</text></g>",
            n = tree.samples,
            full = escaped(name),
            text_x = x + 3.0,
            text_y = y + 12.5,
            short = escaped(&fitting(name, width)),
        );
        let mut at = start;
        for (name, child) in &tree.children {
            self.frame(name, child, row + 1, at);
            at += child.samples;
        }
    }
}

/// As much of a name as a frame has room for.
fn fitting(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    if room < 3 {
        String::new()
    } else if name.chars().count() <= room {
        name.to_owned()
    } else {
        name.chars().take(room - 2).chain("..".chars()).collect()
    }
}

/// Text between tags. What XML has no way to write becomes a question mark.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            control if control.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&control) => {
                escaped.push('?')
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Frame;

    fn tree(stacks: &[(&[&str], u64)]) -> Tree {
        let mut tree = Tree::default();
        for (names, samples) in stacks {
            let frame = |(at, name): (usize, &&str)| Frame {
                name: (*name).into(),
                origin: if at == 0 { Origin::Thread } else { Origin::Ours },
            };
            let stack: Vec<Frame> = names.iter().enumerate().map(frame).collect();
            tree.add(&stack, *samples);
        }
        tree
    }

    /// Title, start and samples of every frame.
    fn frames(svg: &str) -> Vec<(String, String, String)> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let frames = document.descendants().filter(|node| node.has_attribute("data-n"));
        let of = |node: roxmltree::Node<'_, '_>| {
            let title = node.children().find(|child| child.has_tag_name("title")).unwrap();
            let attribute = |name| node.attribute(name).unwrap().to_owned();
            (title.text().unwrap().to_owned(), attribute("data-s"), attribute("data-n"))
        };
        frames.map(of).collect()
    }

    #[test]
    fn frames_are_as_wide_as_their_samples() {
        let svg = render(&tree(&[(&["main", "b"], 1), (&["main", "a", "c"], 2), (&["engine"], 1)]), "t");
        let found = frames(&svg);
        let expected = [
            ("all: 4 samples, 100.00 %", "0", "4"),
            ("engine: 1 samples, 25.00 %", "0", "1"),
            ("main: 3 samples, 75.00 %", "1", "3"),
            ("a: 2 samples, 50.00 %", "1", "2"),
            ("c: 2 samples, 50.00 %", "1", "2"),
            ("b: 1 samples, 25.00 %", "3", "1"),
        ];
        assert_eq!(found, expected.map(|(title, s, n)| (title.to_owned(), s.to_owned(), n.to_owned())));
    }

    #[test]
    fn names_are_text() {
        let name = "<a as b<'c>>::d & \"e\" \u{1} ]]>";
        let svg = render(&tree(&[(&["main", name], 1)]), "a & <b>");
        let titles: Vec<String> = frames(&svg).into_iter().map(|(title, ..)| title).collect();
        assert_eq!(titles[2], "<a as b<'c>>::d & \"e\" ? ]]>: 1 samples, 100.00 %");
    }

    #[test]
    fn nothing_is_an_empty_graph() {
        assert_eq!(frames(&render(&Tree::default(), "t")).len(), 1);
    }

    #[test]
    fn what_nobody_sees_is_left_out() {
        let svg = render(&tree(&[(&["main"], 100_000), (&["rare"], 1)]), "t");
        assert_eq!(frames(&svg).len(), 2);
    }
}
