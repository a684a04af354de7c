//! [`Page`]: an HTML document that needs no other file, readable on a phone and in print.

use super::text::escape;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page(String);

impl Page {
    /// Begins a page; the title is its heading, too.
    pub fn new(title: &str) -> Page {
        let title = escape(title);
        Page(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
             <body><h1>{title}</h1>\n"
        ))
    }

    /// Adds a paragraph of plain text.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p>{}</p>", escape(text));
    }

    /// Adds a paragraph of plain text about something that went wrong.
    pub fn warning(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p class=\"miss\">{}</p>", escape(text));
    }

    /// Adds a heading, to which `#name` links.
    pub fn heading(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "<h2 id=\"{}\">{}</h2>", escape(name), escape(text));
    }

    /// Adds HTML.
    pub fn html(&mut self, html: &str) {
        self.0.push_str(html);
    }

    /// Adds HTML that readers unfold; it is unfolded in print.
    pub fn folded(&mut self, summary: &str, html: &str) {
        let _ = writeln!(
            self.0,
            "<details><summary>{}</summary>{html}</details>",
            escape(summary)
        );
    }

    /// Returns the document.
    pub fn finish(self) -> String {
        self.0 + "</body></html>\n"
    }
}

/// Rows of texts for a page. Wide ones can be scrolled sideways by themselves, so that the page cannot.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    out: String,
}

/// A column of a [`Table`]: its heading and how it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Column(pub &'static str, pub Shown);

/// How a column of a [`Table`] is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shown {
    /// Aligned to the right.
    Number,
    /// Aligned to the left.
    Text,
    /// A number that narrow screens leave out.
    Wide,
}

impl Column {
    fn class(self) -> &'static str {
        match self.1 {
            Shown::Number => "",
            Shown::Text => " class=\"text\"",
            Shown::Wide => " class=\"wide\"",
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Table {
        let mut out = "<div class=\"scroll\"><table><thead><tr>".to_string();
        for column in columns {
            let _ = write!(out, "<th{}>{}</th>", column.class(), escape(column.0));
        }
        out.push_str("</tr></thead><tbody>\n");
        Table {
            columns: columns.to_vec(),
            out,
        }
    }

    /// Adds a row of HTML cells, one per column; a missed one is marked.
    pub fn row(&mut self, cells: &[String], is_miss: bool) {
        self.out
            .push_str(if is_miss { "<tr class=\"miss\">" } else { "<tr>" });
        for (cell, column) in cells.iter().zip(&self.columns) {
            let _ = write!(self.out, "<td{}>{cell}</td>", column.class());
        }
        self.out.push_str("</tr>\n");
    }

    /// Returns the table as HTML.
    pub fn finish(self) -> String {
        self.out + "</tbody></table></div>\n"
    }
}
