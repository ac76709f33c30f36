// SPDX-License-Identifier: Apache-2.0

//! The words of tests/e2e/client_words.py.

use std::io::{BufRead, Write};

use base64::engine::general_purpose::STANDARD;
use base64::Engine;

pub type Rows = Vec<Vec<String>>;

/// An answer 'error NAME MESSAGE'.
#[derive(Debug)]
pub struct Failed {
    pub name: String,
    pub message: String,
}

impl Failed {
    pub fn new(name: &str, message: &str) -> Failed {
        Failed { name: name.to_string(), message: message.to_string() }
    }
}

pub struct Record {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

pub enum Where {
    Beginning,
    Offset(i64),
    Time(i64),
}

pub fn number<T: std::str::FromStr>(text: &str) -> Result<T, Failed> {
    text.parse().map_err(|_| Failed::new("BAD_WORD", text))
}

fn plain(text: &str) -> Result<Vec<u8>, Failed> {
    STANDARD.decode(text).map_err(|_| Failed::new("BAD_WORD", text))
}

fn unpack(text: &str) -> Result<Option<Vec<u8>>, Failed> {
    if text == "-" {
        return Ok(None);
    }
    plain(&text[1..]).map(Some)
}

fn pack(data: &Option<Vec<u8>>) -> String {
    match data {
        None => "-".to_string(),
        Some(data) => format!("={}", STANDARD.encode(data)),
    }
}

pub fn configs(text: &str) -> Vec<(String, String)> {
    text.split(',').filter_map(|item| item.split_once('=')).map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub fn offsets(text: &str) -> Result<Vec<(i32, i64)>, Failed> {
    let mut out = vec![];
    for item in text.split(',') {
        let (partition, offset) = item.split_once(':').ok_or(Failed::new("BAD_WORD", item))?;
        out.push((number(partition)?, number(offset)?));
    }
    Ok(out)
}

pub fn read_where(text: &str) -> Result<Where, Failed> {
    match text.split_once(':') {
        Some(("offset", at)) => Ok(Where::Offset(number(at)?)),
        Some(("time", at)) => Ok(Where::Time(number(at)?)),
        _ if text == "beginning" => Ok(Where::Beginning),
        _ => Err(Failed::new("BAD_WORD", text)),
    }
}

fn read_record(line: &str) -> Result<Record, Failed> {
    let fields: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
    let [partition, timestamp, key, value, items] = fields[..] else { return Err(Failed::new("BAD_WORD", line)) };
    let mut headers = vec![];
    for item in items.split(',').filter(|item| !item.is_empty()) {
        let (name, data) = item.split_once(':').ok_or(Failed::new("BAD_WORD", item))?;
        headers.push((String::from_utf8_lossy(&plain(name)?).into_owned(), unpack(data)?));
    }
    Ok(Record {
        partition: number(partition)?,
        offset: -1,
        timestamp: number(timestamp)?,
        key: unpack(key)?,
        value: unpack(value)?,
        headers,
    })
}

pub fn record_rows(records: &[Record]) -> Rows {
    let row = |r: &Record| {
        let headers: Vec<String> = r.headers.iter().map(|(name, data)| format!("{}:{}", STANDARD.encode(name), pack(data))).collect();
        vec![r.partition.to_string(), r.offset.to_string(), r.timestamp.to_string(), pack(&r.key), pack(&r.value), headers.join(",")]
    };
    records.iter().map(row).collect()
}

pub fn serve(mut answer: impl FnMut(&[&str], &[Record]) -> Result<Rows, Failed>) {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    while input.read_line(&mut line).unwrap_or(0) > 0 {
        let args: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        let mut records = vec![];
        let mut bad = None;
        if args[0] == "produce" {
            for _ in 0..number(args[3]).unwrap_or(0) {
                let mut row = String::new();
                let _ = input.read_line(&mut row);
                match read_record(&row) {
                    Ok(record) => records.push(record),
                    Err(failed) => bad = Some(failed),
                }
            }
        }
        let answered = match bad {
            Some(failed) => Err(failed),
            None => answer(&args, &records),
        };
        let mut text = String::new();
        match answered {
            Ok(rows) => {
                for row in rows {
                    text += &(row.join("\t").replace('\n', " ") + "\n");
                }
                text += "ok\n";
            }
            Err(failed) => text += &format!("error\t{}\t{}\n", failed.name, failed.message.replace(['\n', '\t'], " ")),
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
        line.clear();
    }
}
