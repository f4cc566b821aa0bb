//! Reads a log with mysql_common, every row to values and every checksum computed and compared, and prints rows and
//! events.

use std::{env, error::Error, fs::File, hint::black_box, io::BufReader};

use mysql_common::binlog::{
    consts::{BinlogChecksumAlg, BinlogVersion},
    events::EventData,
    value::BinlogValue,
    BinlogFile,
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: decode LOG")?;
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
