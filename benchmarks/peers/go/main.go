// Reads a log with go-mysql, every row to values and every checksum verified, and prints rows and events.
package main

import (
	"fmt"
	"os"

	"github.com/go-mysql-org/go-mysql/replication"
)

func main() {
	rows, events := 0, 0
	parser := replication.NewBinlogParser()
	parser.SetVerifyChecksum(true)
	err := parser.ParseFile(os.Args[1], 0, func(event *replication.BinlogEvent) error {
		events++
		if change, isRows := event.Event.(*replication.RowsEvent); isRows {
			rows += len(change.Rows)
			switch event.Header.EventType {
			case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1:
				rows -= len(change.Rows) / 2 // a before and an after image each
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(rows, events)
}
