//! Reads a log with mysql_common, every row to values and every checksum computed and compared, and prints rows and
//! events; before them, with the argument "values", each row image: the table, and its values as n:number, s:bytes in
//! hex, - for NULL, or ? for documents.

use std::{env, error::Error, fs::File, hint::black_box, io::BufReader};

use mysql_common::binlog::{
    consts::{BinlogChecksumAlg, BinlogVersion},
    events::EventData,
    value::BinlogValue,
    BinlogFile,
};
use mysql_common::value::Value;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("s:{digits}")
}

fn text(value: &BinlogValue) -> String {
    match value {
        BinlogValue::Value(Value::NULL) => "-".into(),
        BinlogValue::Value(Value::Bytes(bytes)) => hex(bytes),
        BinlogValue::Value(Value::Int(number)) => format!("n:{number}"),
        BinlogValue::Value(Value::UInt(number)) => format!("n:{number}"),
        BinlogValue::Value(Value::Float(number)) => format!("n:{number}"),
        BinlogValue::Value(Value::Double(number)) => format!("n:{number}"),
        BinlogValue::Value(Value::Date(y, m, d, h, i, s, us)) => {
            hex(format!("{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}.{us:06}").as_bytes())
        }
        BinlogValue::Value(Value::Time(negative, d, h, i, s, us)) => {
            let sign = if *negative { "-" } else { "" };
            hex(format!("{sign}{}:{i:02}:{s:02}.{us:06}", d * 24 + u32::from(*h)).as_bytes())
        }
        _ => "?".into(),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: decode LOG [values]")?;
    let shows_values = env::args().nth(2).is_some_and(|word| word == "values");
    let mut log = BinlogFile::new(
        BinlogVersion::Version4,
        BufReader::with_capacity(1 << 20, File::open(path)?),
    )?;
    let (mut rows, mut events) = (0u64, 0u64);
    while let Some(event) = log.next() {
        let event = event?;
        events += 1;
        if let Some(checksum) = event.checksum() {
            if event.calc_checksum(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32) != u32::from_le_bytes(checksum) {
                return Err(format!("event {events}: wrong checksum").into());
            }
        }
        if let Some(EventData::RowsEvent(change)) = event.read_data()? {
            let table = log
                .reader()
                .get_tme(change.table_id())
                .ok_or("rows without a table map")?;
            for row in change.rows(table) {
                let (before, after) = row?;
                for mut image in before.into_iter().chain(after) {
                    if shows_values {
                        let mut line = table.table_name().to_string();
                        for column in 0..image.len() {
                            let value = image.as_ref(column).map_or("-".into(), text);
                            line = format!("{line}\t{value}");
                        }
                        println!("{line}");
                    }
                    for column in 0..image.len() {
                        match image.take(column) {
                            Some(BinlogValue::Jsonb(document)) => drop(black_box(document.parse()?)), // to a tree
                            value => drop(black_box(value)),
                        }
                    }
                }
                rows += 1;
            }
        }
    }
    println!("{rows} {events}");
    Ok(())
}
